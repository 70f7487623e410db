"""What follows from the windows of a queue: strips, workers, retries, and where the queue is going."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.client.admin.groups import MemberDescription
from penstock.client.types import TopicPartition
from penstock.console.windows import Window, named, obstacles, outlook, read, retries, strip, workers
from tests.cli.test_share_advice import ADVICE


def cell(offset: int, state: str, count: int = 1, member: str = "", left: int = 0, records: int = 1) -> Any:
    known = {"offset": offset, "state": state, "deliveryCount": count, "memberId": member, "remainingMs": left}
    return {**known, "count": records}


def window(*records: Any, members: Any = (), topic: str = "t", partition: int = 0) -> Any:
    """A window of such records, with counts as the broker makes them."""
    found: dict[tuple[str, int], Any] = {}
    for each in records:
        key = each["state"], each["deliveryCount"]
        known = found.setdefault(key, {"state": key[0], "deliveryCount": key[1], "count": 0, "nextMs": None})
        known["count"] += each["count"]
        if each["state"] == "DELAYED":
            known["nextMs"] = min(each["remainingMs"], known["nextMs"] or each["remainingMs"])
    shown = {"topic": topic, "partition": partition, "deliveryCountLimit": 5, "records": list(records)}
    more = {"counts": list(found.values()), "oldest": records[0] if records else None, "members": list(members)}
    assert Window.__required_keys__ | {"records"} > shown.keys() | more.keys()
    return shown | more


def view(
    member: str,
    held: int = 0,
    oldest: int | None = None,
    last: int | None = None,
    rate: float = 1.5,
    ends: int | None = None,
) -> Any:
    return {
        "memberId": member,
        "heldRecords": held,
        "oldestHeldMs": oldest,
        "nextLockEndMs": ends,
        "deliveriesPerSecond": rate,
        "acknowledgementsPerSecond": rate / 2,
        "lastAcknowledgementMs": last,
    }


def test_windows_of_all_brokers_are_put_in_order() -> None:
    views = [[window(partition=1)], "refused", [window(topic="a"), window(partition=0)]]
    assert [(each["topic"], each["partition"]) for each in read(views)] == [("a", 0), ("t", 0), ("t", 1)]


def test_records_that_look_alike_are_drawn_as_one_run() -> None:
    records = [
        cell(0, "ACQUIRED", 1, "m", 900),
        cell(1, "ACQUIRED", 1, "m", 800),
        cell(2, "ACKNOWLEDGED", 1, records=3),
        cell(5, "AVAILABLE", 3),
    ]
    drawn: Any = strip(window(*records), {"m": "packer-1"})
    runs = [(run["first"], run["length"], run["mark"]) for run in drawn["runs"]]
    assert runs == [(0, 2, ""), (2, 3, ""), (5, 1, "3")]
    assert drawn["runs"][0]["words"] == "acquired, by packer-1, 1 s left, delivery 1 of 5"
    assert drawn["counts"] == {"available": 1, "acquired": 2, "acknowledged": 3}


def test_a_strip_is_drawn_up_to_a_bound_and_counted_whole() -> None:
    drawn: Any = strip(window(cell(0, "ACKNOWLEDGED", records=3_999), cell(3_999, "ACQUIRED", records=6_000)), {})
    assert [(run["state"], run["length"]) for run in drawn["runs"]] == [("acknowledged", 3_999), ("acquired", 1)]
    assert drawn["counts"] == {"acquired": 6_000, "acknowledged": 3_999}


def test_windows_that_the_broker_left_without_records_have_counts_alone() -> None:
    shown = window(cell(0, "ACQUIRED", records=9))
    del shown["records"]
    assert strip(shown, {}) == {"runs": [], "counts": {"acquired": 9}}


def test_partitions_are_named_by_topic() -> None:
    assert named([TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]) == "a:0,2;b:1"
    assert named([]) == "none"


def test_a_worker_is_shown_over_all_its_partitions() -> None:
    here = MemberDescription("m", "packer-1", "/10.0.0.1", assignment=[TopicPartition("t", 0), TopicPartition("t", 1)])
    idle = MemberDescription("n", "packer-2", "10.0.0.2")
    shown = [
        window(cell(0, "ACQUIRED", 1, "m", 900), members=[view("m", 1, oldest=4_000, last=9_000, ends=900)]),
        window(
            cell(0, "ACQUIRED", 1, "m", 500),
            members=[view("m", 1, oldest=2_000, ends=500), view("gone", 3, oldest=70_000)],
        ),
        window(members=[view("gone before")]),
    ]
    first, second, third = workers([here, idle], shown)
    assert first == {
        "member": "m",
        "client": "packer-1",
        "host": "10.0.0.1",
        "isGone": False,
        "isSilent": False,
        "partitions": 2,
        "holds": 2,
        "oldestHeldSeconds": 4.0,
        "takesPerSecond": 3.0,
        "completesPerSecond": 1.5,
        "lastAcknowledgementSeconds": 9.0,
        "nextLockEndsSeconds": 0.5,
    }
    assert (second["member"], second["holds"], second["takesPerSecond"]) == ("n", 0, None)
    assert (third["member"], third["isGone"], third["isSilent"]) == ("gone", True, True)


def test_retries_are_counted_by_delivery() -> None:
    records = [
        cell(0, "ACQUIRED", 1),
        cell(1, "DELAYED", 1, left=700),
        cell(2, "DELAYED", 1, left=500),
        cell(3, "ACQUIRED", 3),
        cell(4, "ARCHIVED", 5),
    ]
    rows = retries([window(*records)])
    assert [(row["deliveries"], row["records"], row["delayed"], row["nextSeconds"]) for row in rows] == [
        (3, 1, 0, None),
        (1, 2, 2, 0.5),
    ]


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ((0, 9, 1.0, 0.0), "9 records to do, and no worker."),
        ((0, 0, 1.0, 0.0), "No worker, and nothing to do."),
        ((1, 0, 5.0, 5.0), "1 worker, and nothing waits."),
        ((2, 9, 5.0, 0.0), "2 workers, and none of them completes a record: look at what they do."),
        ((2, 100, 5.0, 10.0), "At this pace it is caught up in 20 s."),
        ((1, 100, 5.0, 5.0), "1 worker keeps pace with what arrives, and the backlog stays."),
        ((2, 100, 10.0, 5.5), "It falls behind by 4.5 records a second."),
        ((2, 100, None, None), "The rates are being measured."),
    ],
)
def test_the_outlook_follows_from_what_arrives_and_what_is_completed(figures: Any, words: str) -> None:
    assert outlook(figures[0], figures[1], figures[2], figures[3], None) == [words]


def test_with_metrics_the_outlook_says_how_many_workers_are_needed() -> None:
    assert outlook(10, 4_500, 40, 25, ADVICE)[1] == (
        "A worker has a record for 400 ms; 20 workers would keep up, 28 would catch up within 5 min."
    )
    enough = replace(ADVICE, workers_to_keep_up=1, workers_to_catch_up=1)
    assert outlook(1, 5, 1, 2, enough)[1] == "A worker has a record for 400 ms; 1 worker would keep up."


@pytest.mark.parametrize(
    ("oldest", "words"),
    [
        (cell(7, "DELAYED", left=28_000), "offset 7 backs off, and is delivered again in 28 s."),
        (cell(7, "ACQUIRED", member="m1", left=12_000), "offset 7 is held by packer-1 for at most 12 s more."),
        (cell(7, "AVAILABLE"), "offset 7 waits for a worker."),
    ],
)
def test_where_a_window_is_full_the_oldest_record_is_named_in_place_of_more_workers(oldest: Any, words: str) -> None:
    full: Any = {**window(oldest, cell(8, "ACKNOWLEDGED")), "startOffset": 7, "endOffset": 9, "maxRecordLocks": 2}
    roomy: Any = {**full, "partition": 1, "maxRecordLocks": 3}
    found = obstacles([full, roomy], {"m1": "packer-1"})
    assert [sentence.startswith("t-0 is full") and sentence.endswith(words) for sentence in found] == [True]
    assert outlook(2, 500, 40, 25, ADVICE, found) == ["It falls behind by 15 records a second.", *found]
    assert len(obstacles([full] * 9, {})) == 3
