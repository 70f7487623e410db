"""Checks of what compaction, retention and DeleteRecords take away: each fires on a planted history."""

from __future__ import annotations

from typing import Any

from penstock.checks import Operation
from tests.checks.histories import (
    DRAINED,
    SETTLED,
    acknowledge,
    deliver,
    ended,
    findings,
    found_in,
    poll,
    send,
    window,
)

COMPACTED: Operation = {"op": "topic-settings", "topic": "t", "compacted": True}


def removed(below: int, **more: object) -> Operation:
    return {"op": "removed", "topic": "t", "partition": 0, "below": below} | more


def scan(*records: tuple[int, object], start: int = 0, end: int = 10) -> Operation:
    seen = [list(each) for each in records]
    place = {"topic": "t", "partition": 0, "start": start, "end": end}
    return {"op": "scan", "process": "s", "records": seen} | place


def keyed(value: str, offset: int | None, **more: Any) -> Operation:
    """Its key is the first letter of its value."""
    return send(value, offset, key=value[0], **more)


def test_what_lies_below_the_start_of_a_log_is_not_missed() -> None:
    writes = (send("a", 0), send("b", 1), send("c", 2))
    assert found_in(*writes, poll((2, "c")), DRAINED) == ["lost-write", "lost-write"]
    assert found_in(*writes, removed(2), poll((2, "c")), DRAINED) == []
    assert found_in(*writes, removed(1), poll((2, "c")), DRAINED) == ["lost-write"]


def test_a_group_may_not_pass_over_what_got_the_offsets_of_records_that_were_removed_and_lost() -> None:
    lost: Operation = {"op": "lost", "topic": "t", "partition": 0, "offset": 1}
    records: Operation = SETTLED | {"records": [["t", 0, 0], ["t", 0, 1]]}
    for more, found in (((), []), ((lost,), ["Q2"]), ((lost, deliver(1), acknowledge(1)), [])):
        assert found_in(removed(2), *more, records) == found
    assert found_in(lost, records) == ["Q2", "Q2"]
    assert found_in(removed(1), lost | {"offset": 2}, deliver(1), acknowledge(1), records) == []


def test_a_reader_may_pass_over_what_was_removed() -> None:
    writes = (send("a", 0), send("b", 1), send("c", 2), poll((0, "a"), (1, "b"), (2, "c"), process="other"))
    assert found_in(*writes, poll((0, "a")), poll((2, "c"))) == ["poll-skip"]
    assert found_in(*writes, poll((0, "a")), removed(2), poll((2, "c"))) == []


def test_nobody_reads_what_was_removed_before_the_request() -> None:
    writes = (send("a", 0), send("b", 1))
    history = (*writes, removed(1, time=50))
    assert found_in(*history, poll((0, "a"), sent=51)) == ["removed-read"]
    assert found_in(*history, poll((0, "a"), sent=50)) == []
    assert found_in(*history, poll((1, "b"), sent=51)) == []
    assert found_in(*history, poll((0, "a"))) == [], "nobody knows when it was requested"
    assert found_in(*writes, removed(1), poll((0, "a"), sent=51)) == [], "nobody has confirmed it"
    assert found_in(*history, removed(0, time=60), poll((0, "a"), sent=70)) == ["removed-read"]


def test_nobody_is_delivered_what_was_removed_before_the_request() -> None:
    assert found_in(removed(3, time=50), deliver(2, sent=51)) == ["removed-read"]
    assert found_in(removed(3, time=50), deliver(2, sent=40)) == []
    assert found_in(removed(3, time=50), deliver(3, sent=51)) == []


def test_an_acknowledged_record_does_not_vanish_although_it_was_read_once() -> None:
    history = (send("a", 0), send("b", 1), poll((0, "a"), (1, "b")), DRAINED)
    assert found_in(*history, scan((0, "a"), (1, "b"))) == []
    assert found_in(*history, scan((1, "b"))) == ["vanished"]
    assert found_in(*history, scan((1, "b"), start=1)) == []
    assert found_in(*history, scan((0, "a"), end=1)) == []


def test_of_a_compacted_topic_the_last_record_of_a_key_stays() -> None:
    history = (COMPACTED, keyed("a1", 0), keyed("b1", 1), keyed("a2", 2))
    assert found_in(*history, scan((1, "b1"), (2, "a2"))) == []
    assert found_in(*history, scan((0, "a1"), (1, "b1"))) == ["stale"]
    assert found_in(*history, scan((2, "a2"))) == ["stale"]
    (finding,) = findings(*history, scan((2, "a2")))
    assert finding.text == "key 'b' of t-0 is gone, although 'b1' was acknowledged at 1"


def test_a_value_that_nobody_has_confirmed_or_that_was_aborted_replaces_none() -> None:
    history = (COMPACTED, keyed("a1", 0))
    assert found_in(*history, keyed("a2", None, result="unknown"), scan()) == ["stale"]
    aborted = (keyed("a2", 5, txn="x"), ended("x", "aborted"))
    assert found_in(*history, *aborted, scan()) == ["stale"]
    assert found_in(*history, keyed("a2", 5, txn="x"), ended("x"), scan((5, "a2"))) == []


def test_a_scan_may_end_before_the_record_for_which_another_was_taken_away() -> None:
    assert found_in(COMPACTED, keyed("a1", 0), keyed("a2", 12), scan()) == []
    assert "stale" in found_in(COMPACTED, keyed("a1", 0), poll((12, "a2")), scan()), "its key is not known"


def test_a_tombstone_may_go_with_all_that_it_ends_and_not_before() -> None:
    history = (COMPACTED, keyed("a1", 0), keyed("a2", 3, tombstone=True))
    assert found_in(*history, scan()) == []
    assert found_in(*history, scan((3, "a2"))) == []
    assert found_in(*history, scan((0, "a1"))) == ["stale"]
    assert found_in(COMPACTED, keyed("a1", 0), keyed("a2", None, tombstone=True, result="unknown"), scan()) == []


def test_what_a_later_record_of_its_key_replaces_is_not_missed() -> None:
    writes = (keyed("a1", 0), keyed("b1", 1), keyed("a2", 2), poll((0, "a1"), process="other"))
    assert found_in(*writes, poll((1, "b1"), (2, "a2")), DRAINED) == []
    unread = (keyed("a1", 0), keyed("b1", 1), keyed("a2", 2), poll((1, "b1"), (2, "a2")), DRAINED)
    assert found_in(*unread) == ["lost-write"]
    assert found_in(COMPACTED, *unread) == []


def test_what_was_aborted_may_be_compacted_away_before_a_reader_that_others_have_overtaken_sees_it() -> None:
    level = {"isolation": "read_uncommitted"}
    aborted = (keyed("a1", 0, txn="x"), keyed("b1", 1), ended("x", "aborted"))
    shown = poll((0, "a1"), (1, "b1"), process="other", **level)
    late = (poll((-1, "z"), **level), poll((1, "b1"), **level))
    assert found_in(*aborted, shown, *late) == ["poll-skip"]
    assert found_in(COMPACTED, *aborted, shown, *late) == []
    committed = (keyed("a1", 0, txn="x"), keyed("b1", 1), ended("x"))
    assert found_in(COMPACTED, *committed, shown, *late) == ["poll-skip"]


def test_a_queue_has_finished_what_its_log_has_no_more() -> None:
    history = (deliver(0), acknowledge(0, "release"), deliver(1))
    over = (window(2), SETTLED)
    assert found_in(*history, *over) == ["Q5", "Q5", "Q6", "Q2"]
    assert found_in(*history, removed(2), *over) == []
    taken = {"op": "removed", "topic": "t", "partition": 0, "offsets": [0, 1]}
    assert found_in(*history, taken, *over) == []
