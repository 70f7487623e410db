"""What is wrong now, from metrics and from what the cluster says of itself."""

from __future__ import annotations

from penstock.client.admin import LogDir, TransactionDescription
from penstock.client.metadata import PartitionInfo, TopicInfo
from penstock.client.scrapes import parse
from penstock.client.types import TopicPartition
from penstock.console.problems import (
    Behind,
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


def test_groups_are_summed_over_topics_and_brokers() -> None:
    one = parse(
        """penstock_group_lag_records_sum{group="g",topic="a"} 5
penstock_group_lag_records_sum{group="g",topic="b"} 6
penstock_group_lag_age_seconds{group="g",topic="a"} 9
penstock_group_commit_age_seconds{group="g",topic="a"} 400
penstock_group_lag_records_max{group="g",topic="a"} 5
"""
    )
    two = parse('penstock_group_lag_records_sum{group="h\\"",topic="a"} 50\n')
    found = behind([one, two], "penstock_group", "_commit_age_seconds")
    assert list(found.values()) == [Behind("g", 11.0, 9.0, 400.0), Behind('h"', 50.0)]


def test_a_group_that_is_behind_and_finishes_nothing_is_stuck() -> None:
    groups = [Behind("s", 1, 400, 400), Behind("busy", 5, 400, 2), Behind("done", 0, 0, 4000), Behind("new", 5)]
    (problem,) = of_groups(groups, queues=False)
    assert (problem.link, problem.command) == ("/groups/s", ("group", "describe", "s"))
    assert problem.text == "Group s is 1 record behind and has committed nothing for 6 min 40 s."
    assert of_groups(groups, queues=True)[0].command == ("share", "inspect", "s")


def test_tasks_that_stopped_and_leases_that_are_late_are_told_apart() -> None:
    samples = parse(
        """penstock_success_age_seconds{task="compaction"} 2000
penstock_success_age_seconds{task="checkpoints"} 2000
penstock_success_age_seconds{task="ownership of the catalog"} 25
penstock_success_age_seconds{task="renewal of the lease"} 25
penstock_success_age_seconds{task="retention"} 25
penstock_success_age_seconds{task="expiry of producers"} 9999
penstock_coordinator_writes_failing_seconds{topic="__consumer_offsets"} 40
"""
    )
    folders = [LogDir(1, "/data", 1000, 500, {})]
    found = of_brokers({1: samples}, folders, {1: "http://a:1"})
    texts = [problem.text for problem in found]
    assert len(texts) == 5
    assert "compaction has not succeeded for 33 min" in texts[0]
    assert found[0].command == ("cleaner",)
    assert found[1].command == ("doctor", "--data", "/data")
    assert ["its lease is late" in text for text in texts] == [False, False, True, True, False]
    assert "__consumer_offsets" in texts[4]
    several = of_brokers({1: samples}, folders, {1: "http://a:1", 2: "http://b:1"})
    assert several[0].command == ("cleaner", "--monitoring", "http://a:1")


def test_a_store_that_takes_nothing_is_told_from_one_that_is_idle_or_slow() -> None:
    def store(backlog: int, age: float) -> str:
        return f"penstock_store_backlog_bytes {backlog}\npenstock_store_commit_age_seconds {age}\n"

    brokers = {1: parse(store(4096, 90)), 2: parse(store(0, 900)), 3: parse(store(4096, 2)), 4: parse("other 1\n")}
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
