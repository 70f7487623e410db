"""What is wrong now, from metrics and from what the cluster says of itself."""

from __future__ import annotations

from penstock.client.admin import LogDir
from penstock.client.metadata import PartitionInfo, TopicInfo
from penstock.console.problems import Behind, behind, labels_of, of_brokers, of_disks, of_groups, of_topics


def test_labels_are_read_with_their_escapes() -> None:
    assert labels_of('m{group="a\\"b,c",topic="t"}') == {"group": 'a"b,c', "topic": "t"}


def test_groups_are_summed_over_topics_and_brokers_and_put_in_order() -> None:
    one = {
        'penstock_group_lag_records_sum{group="g",topic="a"}': 5.0,
        'penstock_group_lag_records_sum{group="g",topic="b"}': 6.0,
        'penstock_group_lag_age_seconds{group="g",topic="a"}': 9.0,
        'penstock_group_commit_age_seconds{group="g",topic="a"}': 400.0,
        'penstock_group_lag_records_max{group="g",topic="a"}': 5.0,
    }
    two = {'penstock_group_lag_records_sum{group="h",topic="a"}': 50.0}
    assert behind([one, two], "penstock_group", "_commit_age_seconds") == [
        Behind("h", 50.0),
        Behind("g", 11.0, 9.0, 400.0),
    ]


def test_a_group_that_is_behind_and_finishes_nothing_is_stuck() -> None:
    groups = [Behind("s", 5, 400, 400), Behind("busy", 5, 400, 2), Behind("done", 0, 0, 4000), Behind("new", 5)]
    (problem,) = of_groups(groups, queues=False)
    assert (problem.link, problem.command) == ("/groups/s", ("group", "describe", "s"))
    assert "5 records behind" in problem.text
    assert of_groups(groups, queues=True)[0].command == ("share", "inspect", "s")


def test_tasks_that_stopped_and_leases_that_are_late_are_told_apart() -> None:
    found = of_brokers(
        {
            1: {
                'penstock_success_age_seconds{task="compaction"}': 2000.0,
                'penstock_success_age_seconds{task="ownership of the catalog"}': 25.0,
                'penstock_success_age_seconds{task="retention"}': 25.0,
                'penstock_success_age_seconds{task="expiry of producers"}': 9999.0,
                'penstock_coordinator_writes_failing_seconds{topic="__consumer_offsets"}': 40.0,
                "penstock_transaction_oldest_open_seconds": 1000.0,
            }
        }
    )
    texts = [problem.text for problem in found]
    assert len(texts) == 4
    assert "compaction has not succeeded for 33 min" in texts[0]
    assert "its lease is late" in texts[1]
    assert "__consumer_offsets" in texts[2]
    assert (found[3].link, found[3].urgent) == ("/transactions", False)


def test_a_disk_with_little_left_is_a_problem() -> None:
    folders = [LogDir(0, "/full", 1000, 50, {}), LogDir(0, "/free", 1000, 500, {}), LogDir(0, "/unknown", -1, -1, {})]
    (problem,) = of_disks(folders)
    assert "/full" in problem.text


def test_partitions_without_leader_or_replicas_are_problems() -> None:
    def topic(name: str, leader: int, isr: list[int]) -> TopicInfo:
        return TopicInfo(name, b"", False, {0: PartitionInfo(0, leader, 0, [1, 2], isr, [], 0)})

    found = of_topics([topic("dead", -1, []), topic("thin", 1, [1]), topic("fine", 1, [1, 2])])
    assert [(problem.link, problem.urgent) for problem in found] == [("/topics/dead", True), ("/topics/thin", False)]
