"""The count of a run: what passes on Apache Kafka, what of it passes here, and why the rest does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table

from .catalog import group_of, method_of
from .jvm import Outcome

DID_NOT_RUN = "did not run"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One test that passes on Apache Kafka, and what it did here."""

    test: str
    group: str
    passed: bool
    tries: int
    seconds: float
    reason: str = ""


def verdicts(methods: Iterable[str], on_kafka: Iterable[str], final: dict[str, tuple[Outcome, int]]) -> list[Verdict]:
    """One for each test of `methods` that passes on Apache Kafka."""
    chosen = set(methods)
    found = []
    for test in sorted(on_kafka):
        if method_of(test) not in chosen:
            continue
        outcome, attempt = final.get(test) or final.get(method_of(test)) or (Outcome(test, "FAIL", 0, DID_NOT_RUN), 1)
        passed = outcome.status == "PASS"
        found.append(Verdict(test, group_of(test), passed, attempt, outcome.seconds, outcome.reason))
    return found


def table(found: list[Verdict], server: str) -> Table:
    """One row per group; the last column counts the passed tests that needed a second try."""
    shown = Table(title=f"Apache Kafka's own tests on {server}")
    shown.add_column("group")
    for heading in ("pass on Apache Kafka", "passed", "failed", "passed at the second try"):
        shown.add_column(heading, justify="right")
    rows: dict[str, Counter[str]] = {}
    for verdict in found:
        for name in (verdict.group, "all"):
            row = rows.setdefault(name, Counter())
            row["tests"] += 1
            row["passed" if verdict.passed else "failed"] += 1
            row["second"] += verdict.passed and verdict.tries == 2
    for name in sorted(rows, key=lambda name: (name == "all", name)):
        row = rows[name]
        shown.add_row(name, *(str(row[column]) for column in ("tests", "passed", "failed", "second")))
    return shown
