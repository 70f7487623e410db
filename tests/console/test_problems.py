"""What is wrong now, from metrics and from what the cluster says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from penstock.broker import vitals
from penstock.client.admin import LogDir, TransactionDescription
from penstock.client.metadata import PartitionInfo, TopicInfo
from penstock.client.scrapes import parse
from penstock.client.types import TopicPartition
from penstock.console import problems
from penstock.console.monitoring import PREFIXES
from penstock.console.problems import (
    LEASE,
    OWNERSHIP,
    STORE,
    Behind,
    Problem,
    Uncleanable,
    behind,
    of_brokers,
    of_cleaner,
    of_disks,
    of_groups,
    of_stores,
    of_topics,
    of_transactions,
)
from tests.docs.monitoring import RULES, metrics_of

EXPRESSIONS = {name: expression for name, expression, *_ in RULES}
_LEASE_SECONDS = 9


def _of_age(task: str) -> Callable[[float], Sequence[Problem]]:
    def found(seconds: float) -> Sequence[Problem]:
        lines = f'penstock_success_age_seconds{{task="{task}"}} {seconds}\npenstock_lease_seconds {_LEASE_SECONDS}\n'
        return [*of_brokers({1: parse(lines)}, [], {}), *of_stores({1: parse(lines)}, {})]

    return found


def _of_stalls(prefix: str) -> Callable[[float], Sequence[Problem]]:
    def found(seconds: float) -> Sequence[Problem]:
        samples = parse(f'{prefix}_stalled_seconds{{group="g",topic="t"}} {seconds}\n')
        return of_groups(behind([samples], prefix, "_age_seconds").values(), queues=False)

    return found


def _of_failing_writes(seconds: float) -> Sequence[Problem]:
    return of_brokers({1: parse(f'penstock_coordinator_writes_failing_seconds{{topic="t"}} {seconds}\n')}, [], {})


def _of_open_transaction(seconds: float) -> Sequence[Problem]:
    start_ms = 10_000_000 - int(seconds * 1000)
    return of_transactions([TransactionDescription("x", 1, "Ongoing", 7, 0, 60_000, start_ms, [])], 10_000_000)


BOUNDS: dict[str, Callable[[float], Sequence[Problem]]] = {
    "PenstockGroupStuck": _of_stalls("penstock_group"),
    "PenstockQueueStuck": _of_stalls("penstock_share_group"),
    "PenstockTaskStopped": _of_age("retention"),
    "PenstockLeaseLate": _of_age(LEASE),
    "PenstockCatalogUnreachable": _of_age(OWNERSHIP),
    "PenstockStoreStalled": _of_age(STORE),
    "PenstockCoordinatorCannotWrite": _of_failing_writes,
    "PenstockTransactionHangs": _of_open_transaction,
}
"""What the console says of a value beside the bound of an alert."""
OTHERWISE = {"PenstockDiskNearlyFull", "PenstockLogUncleanable", "PenstockPartitionsOffline"}
"""Alerts whose problems the console reads from Kafka's protocol, or from a view."""
ALERTS_ALONE = {
    "PenstockAuthenticationFails",
    "PenstockConnectionsRefused",
    "PenstockDeadLettersFail",
    "PenstockEventLoopLate",
    "PenstockFewFileDescriptors",
}


@pytest.mark.parametrize("alert", BOUNDS)
def test_a_problem_is_one_from_the_bound_of_its_alert_on(alert: str) -> None:
    bound = float(re.findall(r"[\d.]+", EXPRESSIONS[alert])[-1])
    if "penstock_lease_seconds" in EXPRESSIONS[alert]:
        bound *= _LEASE_SECONDS
    assert BOUNDS[alert](bound) == []
    assert len(BOUNDS[alert](bound * 1.01)) == 1


def test_of_a_disk_the_console_and_the_alert_think_alike() -> None:
    bound = float(EXPRESSIONS["PenstockDiskNearlyFull"].rpartition("<")[2])
    assert of_disks([LogDir(0, "/data", 1000, int(1000 * bound), {})]) == []
    assert len(of_disks([LogDir(0, "/data", 1000, int(1000 * bound) - 1, {})])) == 1


def test_every_alert_is_a_problem_or_known_to_be_an_alert_alone() -> None:
    assert {*BOUNDS} | OTHERWISE | ALERTS_ALONE == {*EXPRESSIONS}


@pytest.mark.parametrize("alert", sorted({*BOUNDS} - {"PenstockTransactionHangs"}))
def test_the_overview_reads_what_alerts_are_about(alert: str) -> None:
    assert [name for name in metrics_of(EXPRESSIONS[alert]) if not name.startswith(PREFIXES)] == []


def test_tasks_have_the_names_that_brokers_give_them() -> None:
    assert (OWNERSHIP, LEASE, STORE) == (vitals.OWNERSHIP, vitals.LEASE, vitals.STORE)
    assert problems.UNTIMED == vitals.UNTIMED


def test_groups_are_summed_over_topics_and_brokers() -> None:
    one = parse(
        """penstock_group_lag_records_sum{group="g",topic="a"} 5
penstock_group_lag_records_sum{group="g",topic="b"} 6
penstock_group_lag_age_seconds{group="g",topic="a"} 9
penstock_group_commit_age_seconds{group="g",topic="a"} 400
penstock_group_lag_records_max{group="g",topic="a"} 5
penstock_group_stalled_seconds{group="g",topic="a"} 0
penstock_group_stalled_seconds{group="g",topic="b"} 7
"""
    )
    two = parse('penstock_group_lag_records_sum{group="h\\"",topic="a"} 50\n')
    found = behind([one, two], "penstock_group", "_commit_age_seconds")
    assert list(found.values()) == [Behind("g", 11.0, 9.0, 400.0, 7.0, "b"), Behind('h"', 50.0)]


def test_a_group_is_stuck_when_one_of_its_partitions_is() -> None:
    groups = [
        Behind("hangs", 1, 400, 2, 400, "orders"),
        Behind("was idle before this record", 1, 0.1, 4000, 0.1, "orders"),
        Behind("done", 0, 0, 4000),
        Behind("new", 5),
    ]
    (problem,) = of_groups(groups, queues=False)
    assert (problem.link, problem.command) == ("/groups/hangs", ("group", "describe", "hangs"))
    words = "without a commit for 6 min 40 s in some partition of orders."
    assert problem.text == f"Group hangs is 1 record behind, {words}"
    (problem,) = of_groups(groups, queues=True)
    assert problem.command == ("share", "inspect", "hangs")
    assert "without a completed record for 6 min 40 s" in problem.text


def test_tasks_that_stopped_and_leases_that_are_late_are_told_apart() -> None:
    samples = parse(
        """penstock_success_age_seconds{task="compaction"} 2000
penstock_success_age_seconds{task="checkpoints"} 2000
penstock_success_age_seconds{task="ownership of the catalog"} 31
penstock_success_age_seconds{task="renewal of the lease"} 5
penstock_success_age_seconds{task="retention"} 25
penstock_success_age_seconds{task="expiry of producers"} 9999
penstock_coordinator_writes_failing_seconds{topic="__consumer_offsets"} 40
penstock_lease_seconds 9
"""
    )
    folders = [LogDir(1, "/data", 1000, 500, {})]
    found = of_brokers({1: samples}, folders, {1: "http://a:1"})
    texts = [problem.text for problem in found]
    assert len(texts) == 5
    assert "compaction has not succeeded for 33 min" in texts[0]
    assert found[0].command == ("cleaner",)
    assert found[1].command == ("doctor", "--data", "/data")
    assert texts[2] == "Broker 1 has not reached the database with its catalog for 31 s."
    assert texts[3] == "Broker 1: its lease of 9.0 s is late; it was last renewed 5.0 s ago."
    assert "__consumer_offsets" in texts[4]
    several = of_brokers({1: samples}, folders, {1: "http://a:1", 2: "http://b:1"})
    assert several[0].command == ("cleaner", "--monitoring", "http://a:1")


def test_a_store_that_takes_nothing_is_told_from_one_that_is_idle_or_slow() -> None:
    def store(backlog: int, age: float) -> str:
        return f'penstock_store_backlog_bytes {backlog}\npenstock_success_age_seconds{{task="{STORE}"}} {age}\n'

    brokers = {1: parse(store(4096, 90)), 2: parse(store(0, 0)), 3: parse(store(4096, 2)), 4: parse("other 1\n")}
    stopped, slow = of_stores(brokers, {1: 3.0, 3: 0.5})
    assert stopped.text == "Broker 1: no commit to its store for 1 min 30 s, and 4.0 KiB wait."
    assert (stopped.urgent, slow.urgent) == (True, False)
    assert slow.text.startswith("Broker 3:")


def test_a_log_that_is_not_compacted_any_more_is_named_with_the_reason() -> None:
    (problem,) = of_cleaner([Uncleanable(1, "users", 3, "a batch is corrupt")], {1: "http://a:1"})
    assert problem.text == "Broker 1: users-3 cannot be compacted any more: a batch is corrupt"
    assert (problem.link, problem.command, problem.urgent) == ("/topics/users", ("cleaner",), True)


def test_a_transaction_that_hangs_is_aborted_by_its_name() -> None:
    def open_since(start_ms: int) -> TransactionDescription:
        return TransactionDescription("loader", 1, "Ongoing", 7, 0, 60_000, start_ms, [])

    now_ms = 10_000_000
    (problem,) = of_transactions([open_since(now_ms - 1_000_000), open_since(now_ms - 5), open_since(-1)], now_ms)
    assert problem.command == ("txn", "abort", "loader")
    assert "open for 16 min 40 s" in problem.text


def test_of_a_disk_with_little_left_the_largest_topic_is_named_and_what_would_halve_it() -> None:
    sizes = {
        TopicPartition("logs", 0): 600,
        TopicPartition("logs", 1): 100,
        TopicPartition("orders", 0): 50,
        TopicPartition("__consumer_offsets", 0): 9_000,
    }
    full = LogDir(0, "/full", 10_000, 50, sizes)
    found = of_disks([full, LogDir(0, "/free", 1000, 500, {}), LogDir(0, "/unknown", -1, -1, {})])
    (problem,) = found
    assert problem.command == ("config", "set", "topic", "logs", "retention.bytes=300")
    assert problem.link == "/topics/logs/configs"
    assert "/full" in problem.text
    assert "700 B" in problem.advice
    (empty,) = of_disks([LogDir(0, "/full", 1000, 50, {})])
    assert empty.command == ("doctor", "--data", "/full")


def test_partitions_without_leader_or_replicas_are_problems() -> None:
    def topic(name: str, leader: int, isr: list[int]) -> TopicInfo:
        return TopicInfo(name, b"", False, {0: PartitionInfo(0, leader, 0, [1, 2], isr, [], 0)})

    found = of_topics([topic("dead", -1, []), topic("thin", 1, [1]), topic("fine", 1, [1, 2])])
    assert [(problem.link, problem.urgent) for problem in found] == [("/topics/dead", True), ("/topics/thin", False)]
