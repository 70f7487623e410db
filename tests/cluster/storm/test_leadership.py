"""Deliveries are judged by the window of the leader that they come from: what is planted in a history is found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.checks import Operation, check
from penstock.checks.history import checked
from tests.cluster.storm.leadership import Judged, Led, Loaded, judged, leaderships

PLACE = ("jobs", 0)
LOCK_MS = 6_000
ALONE = ([Led(PLACE, 1, 0, 0)], [Loaded(PLACE, 1, 0)])
"""Broker 1 leads all the time."""
MOVED = (
    [Led(PLACE, 1, 0, 0, 10_000), Led(PLACE, 2, 1, 10_000)],
    [Loaded(PLACE, 1, 0, 0), Loaded(PLACE, 2, 10_100, 1)],
)
"""Broker 2 leads from 10 s on."""
RELOADED = ([Led(PLACE, 1, 0, 0)], [Loaded(PLACE, 1, 0), Loaded(PLACE, 1, 10_000)])
"""Broker 1 leads all the time, and has loaded its window anew after 10 s."""


def deliver(member: str, count: int, sent: int, time: int | None = None, node: int = 1, offset: int = 0) -> Operation:
    time = sent + 10 if time is None else time
    return _shared("deliver", member, node, sent, time) | {"offset": offset, "count": count}


def acknowledge(member: str, kind: str, sent: int, node: int = 1, result: str = "ok") -> Operation:
    return _shared("acknowledge", member, node, sent, sent + 10) | {"offset": 0, "kind": kind, "result": result}


def lost_fetch(member: str, sent: int, time: int, node: int = 1) -> Operation:
    return {"op": "lost-fetch", "group": "g", "member": member, "node": node, "sent": sent, "time": time}


def over(member: str, since: int, time: int, node: int = 1) -> Operation:
    return {"op": "session-over", "member": member, "node": node, "since": since, "time": time}


def _shared(op: str, member: str, node: int, sent: int, time: int) -> Operation:
    place: Operation = {"group": "g", "topic": PLACE[0], "partition": PLACE[1]}
    return {"op": op, **place, "member": member, "node": node, "sent": sent, "time": time}


def judge(cluster: tuple[Sequence[Led], Sequence[Loaded]], *operations: Operation) -> tuple[list[str], Judged]:
    result = judged(operations, *cluster, LOCK_MS)
    found = check(checked(dict(each), line) for line, each in enumerate(result.operations, 1))
    return sorted({each.check for each in (*result.findings, *found)}), result


def checks(cluster: tuple[Sequence[Led], Sequence[Loaded]], *operations: Operation) -> list[str]:
    return judge(cluster, *operations)[0]


class TestOneWindow:
    def test_a_record_that_two_hold_at_once_is_found(self) -> None:
        assert checks(ALONE, deliver("a", 1, 100), deliver("b", 2, 200)) == ["Q1"]

    def test_a_count_that_comes_again_is_found(self) -> None:
        assert checks(ALONE, deliver("a", 1, 100), deliver("b", 1, 100 + LOCK_MS)) == ["Q3"]

    def test_a_count_that_leaves_one_out_is_found(self) -> None:
        assert checks(ALONE, deliver("a", 1, 100), deliver("b", 3, 100 + LOCK_MS)) == ["Q3"]

    def test_a_delivery_after_a_confirmed_acceptance_is_found_however_it_overlaps(self) -> None:
        assert checks(ALONE, deliver("a", 1, 100), acknowledge("a", "accept", 200), deliver("b", 2, 205)) == ["Q4"]

    def test_a_lock_that_ran_out_frees_its_record(self) -> None:
        assert checks(ALONE, deliver("a", 1, 100), deliver("b", 2, 100 + LOCK_MS)) == []

    def test_a_record_that_is_being_released_may_come_before_the_answer(self) -> None:
        release = acknowledge("a", "release", 200) | {"time": 900}
        assert checks(ALONE, deliver("a", 1, 100), deliver("b", 2, 200, 250), release) == []

    def test_a_record_may_come_in_the_millisecond_in_which_its_release_was_sent(self) -> None:
        release = acknowledge("a", "release", 200)
        assert checks(ALONE, deliver("a", 1, 100), deliver("b", 2, 150, 200), release) == []
        assert checks(ALONE, deliver("a", 1, 100), deliver("b", 2, 150, 199), release) == ["Q1"]

    def test_an_answer_that_waited_may_come_after_that_of_the_next_delivery(self) -> None:
        late = deliver("a", 1, 100, 300 + LOCK_MS)
        found, result = judge(ALONE, deliver("b", 2, 200 + LOCK_MS), late)
        assert found == []
        assert result.overlaps["answer after that of a later delivery"] == 1
        assert checks(ALONE, deliver("b", 2, 200), deliver("a", 1, 100, 300)) == ["Q1"]
        assert checks(ALONE, deliver("b", 2, 100), deliver("a", 1, 200 + LOCK_MS)) == ["Q3"]

    @pytest.mark.parametrize(("since", "found"), [(150, []), (1_000, ["Q1"])])
    def test_a_session_that_ends_frees_what_its_member_was_given_before(self, since: int, found: list[str]) -> None:
        history = (deliver("a", 1, 100), deliver("b", 2, 200), over("a", since, 1_100))
        assert checks(ALONE, *history) == found

    @pytest.mark.parametrize(("over_at", "found"), [(150, []), (9_000, ["Q1"])])
    def test_a_renewal_holds_no_longer_than_the_session(self, over_at: int, found: list[str]) -> None:
        renewal = acknowledge("a", "renew", 120) | {"until": 120 + LOCK_MS}
        history = (deliver("a", 1, 100), renewal, over("a", over_at, over_at), deliver("b", 2, 200))
        assert checks(ALONE, *history) == found

    def test_a_session_at_another_broker_frees_nothing(self) -> None:
        assert checks(ALONE, deliver("a", 1, 100), over("a", 150, 150, node=2), deliver("b", 2, 200)) == ["Q1"]

    def test_an_answer_that_was_lost_may_have_counted_once(self) -> None:
        late = 100 + LOCK_MS
        lost = lost_fetch("c", 150, 5_000)
        assert checks(ALONE, deliver("a", 1, 100), lost, deliver("b", 3, late)) == []
        assert checks(ALONE, deliver("a", 1, 100), lost, deliver("b", 3, late), deliver("a", 5, late + LOCK_MS)) == [
            "Q3"
        ]


class TestTakeOvers:
    def test_a_new_leader_counts_from_what_is_stored_and_knows_no_holders(self) -> None:
        assert checks(MOVED, deliver("a", 1, 9_900), deliver("b", 1, 10_050, 10_200, node=2)) == []

    def test_a_new_leader_that_gives_a_record_to_two_is_found(self) -> None:
        history = (deliver("b", 1, 10_200, node=2), deliver("c", 2, 10_300, node=2))
        assert checks(MOVED, deliver("a", 1, 9_900), *history) == ["Q1"]

    def test_one_take_over_lets_a_count_come_again_once(self) -> None:
        history = (deliver("b", 1, 10_200, node=2), deliver("c", 1, 10_300 + LOCK_MS, node=2))
        assert checks(MOVED, deliver("a", 1, 9_900), *history) == ["Q3"]

    def test_a_leader_that_leads_again_delivers_from_its_new_window(self) -> None:
        led = [*MOVED[0][:1], Led(PLACE, 2, 1, 10_000, 11_000), Led(PLACE, 1, 2, 11_000)]
        loaded = [*MOVED[1], Loaded(PLACE, 1, 11_200, 2)]
        history = (deliver("b", 2, 10_200, node=2), deliver("c", 3, 11_150, 11_250))
        assert checks((led, loaded), deliver("a", 1, 9_900), *history) == []

    def test_a_delivery_of_a_leader_that_was_replaced_before_the_request_is_found(self) -> None:
        assert checks(MOVED, deliver("a", 1, 10_020)) == ["Q1"]

    def test_an_answer_of_the_old_leader_that_is_late_counts_before_the_take_over(self) -> None:
        assert checks(MOVED, deliver("b", 1, 10_150, node=2), deliver("a", 1, 9_900, 10_400)) == []

    def test_an_acceptance_that_the_old_leader_confirms_late_is_found(self) -> None:
        assert checks(MOVED, deliver("a", 1, 9_000), acknowledge("a", "accept", 10_020)) == ["Q1"]

    def test_a_record_that_was_accepted_under_the_old_leader_never_comes_again(self) -> None:
        accepted = acknowledge("a", "accept", 9_990) | {"time": 10_300}
        assert checks(MOVED, deliver("a", 1, 9_900), deliver("b", 2, 10_150, node=2), accepted) == ["Q4"]

    def test_a_delivery_without_a_window_is_found(self) -> None:
        assert checks((MOVED[0], MOVED[1][:1]), deliver("b", 1, 10_200, node=2)) == ["Q1"]


class TestReloads:
    def test_a_window_that_is_loaded_anew_knows_no_holders(self) -> None:
        found, result = judge(RELOADED, deliver("a", 1, 9_900), deliver("b", 1, 10_020))
        assert found == []
        assert result.overlaps["window loaded anew under one leader epoch"] == 1

    def test_a_release_that_was_sent_to_the_window_before_had_freed_its_record_there(self) -> None:
        release = acknowledge("a", "release", 9_850, result="unknown") | {"time": 10_150}
        assert checks(RELOADED, deliver("a", 1, 9_800), deliver("b", 2, 9_900), release) == []
        assert checks(RELOADED, deliver("a", 1, 9_800), deliver("b", 2, 9_800), release) == ["Q1"]

    def test_what_may_be_of_either_window_is_counted_only(self) -> None:
        found, result = judge(RELOADED, deliver("a", 1, 9_900), deliver("b", 1, 9_950, 10_050), deliver("c", 1, 10_100))
        assert found == []
        assert result.overlaps["delivery of one of two windows"] == 1

    def test_what_a_later_window_ended_may_be_confirmed_again(self) -> None:
        history = (deliver("a", 1, 9_900), deliver("b", 1, 10_100), acknowledge("b", "accept", 10_200))
        found, result = judge(RELOADED, *history, acknowledge("a", "accept", 10_300))
        assert found == []
        assert result.overlaps["acknowledgement of what has ended in a later window"] == 1
        assert checks(RELOADED, *history, acknowledge("b", "accept", 10_300)) == ["Q2"]


def test_leaderships_end_where_the_next_one_begins() -> None:
    changes = [(PLACE, 1, 0, 5.0), (("jobs", 1), 2, 0, 6.0), (PLACE, 2, 1, 9.0)]
    assert leaderships(changes) == [Led(PLACE, 1, 0, 5.0, 9.0), Led(("jobs", 1), 2, 0, 6.0), Led(PLACE, 2, 1, 9.0)]


def test_operations_of_other_kinds_stay_in_their_order() -> None:
    operations: list[Operation] = [
        {"op": "settled", "group": "g", "time": 9},
        {"op": "drained"},
        {"op": "share-settings", "group": "g"},
    ]
    assert [each["op"] for each in judged(operations, *ALONE, LOCK_MS).operations] == [
        "drained",
        "share-settings",
        "settled",
    ]
