"""Which tests judge the mutants of which package: those without processes, clients and long random walks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    not_mutated: tuple[str, ...] = ()


PACKAGES = {
    "wire": Package(("tests/wire",)),
    "records": Package(("tests/records",)),
    "log": Package(
        ("tests/log",),
        (
            "tests/log/cleaner/test_process.py",
            "tests/log/cleaner/test_background.py",
            "tests/log/test_kafka_dump_log.py",
        ),
    ),
    "coordination": Package(("tests/coordination",)),
    "groups": Package(("tests/groups",)),
    "queues": Package(
        ("tests/queues",),
        ("tests/queues/test_queue_histories.py", "tests/queues/test_kafka_tools.py", "tests/queues/test_confluent.py"),
    ),
    "transactions": Package(
        ("tests/transactions",),
        (
            "tests/transactions/test_exactly_once.py",
            "tests/transactions/test_power_cuts.py",
            "tests/transactions/test_crashes.py",
            "tests/transactions/test_kafka_tools.py",
            "tests/transactions/test_clients.py",
        ),
    ),
    "security": Package(
        ("tests/security",), ("tests/security/test_scram_java.py", "tests/security/test_names_java.py")
    ),
}
