"""Each check of what queues do on request fires on a history that was planted for it, and not on its healthy twin."""

from __future__ import annotations

from penstock.checks import Operation
from tests.checks.histories import acknowledge, deliver, ended, fault, found_in, gone, send, settings

WAKES = settings(wakes_within=100, delivery_limit=5)
LETTERS = settings(dead_letters=True)
COMMITTED = settings(isolation="read_committed")
HELD = deliver(0, until=100, free=300)


def of_record(op: str, offset: int = 0, **more: object) -> Operation:
    return {"op": op, "group": "g", "topic": "t", "partition": 0, "offset": offset} | more


def waited(since: int, time: int, **more: object) -> Operation:
    wait: Operation = {"op": "waited", "group": "g", "member": "m2", "topic": "t", "partition": 0}
    return wait | {"since": since, "time": time} | more


def settled(*offsets: int) -> Operation:
    return {"op": "settled", "group": "g", "time": 9_000, "records": [["t", 0, each] for each in offsets]}


LOST: Operation = {"op": "lost", "topic": "t", "partition": 0, "offset": 0}


class TestQ10:
    def test_a_new_record_that_a_fetch_is_not_given(self) -> None:
        new = of_record("free", time=1_000)
        assert found_in(WAKES, new, waited(500, 1_100)) == []
        assert found_in(WAKES, new, waited(500, 1_101)) == ["Q10"]
        assert found_in(WAKES, new, waited(1_050, 1_150)) == []
        assert found_in(WAKES, new, waited(500, 1_101, partition=1)) == []
        assert found_in(settings(), new, waited(500, 1_101)) == []

    def test_a_record_that_is_delivered_meanwhile_is_not_free(self) -> None:
        new = of_record("free", time=1_000)
        assert found_in(WAKES, new, deliver(0, time=1_050, until=3_000), waited(500, 2_000)) == []
        assert found_in(WAKES, deliver(0, time=950, until=3_000), new, waited(500, 2_000)) == []

    def test_a_released_record_after_its_back_off(self) -> None:
        released = (WAKES, HELD, acknowledge(0, "release", time=50, not_before=80))
        assert found_in(*released, waited(0, 180)) == []
        assert found_in(*released, waited(0, 181)) == ["Q10"]

    def test_a_lock_that_ran_out(self) -> None:
        assert found_in(WAKES, HELD, waited(0, 400)) == []
        assert found_in(WAKES, HELD, waited(0, 401)) == ["Q10"]

    def test_a_renewed_lock(self) -> None:
        renewed = acknowledge(0, "renew", until=500, free=600)
        assert found_in(WAKES, HELD, renewed, waited(0, 700)) == []
        assert found_in(WAKES, HELD, renewed, waited(0, 701)) == ["Q10"]

    def test_what_a_lost_member_held(self) -> None:
        lost = {"op": "gone", "group": "g", "member": "m1", "time": 20}
        assert found_in(WAKES, HELD, lost, waited(0, 120)) == []
        assert found_in(WAKES, HELD, lost, waited(0, 121)) == ["Q10"]

    def test_what_is_done_or_given_up_or_unknown_is_waited_for_by_nobody(self) -> None:
        long = waited(0, 9_000)
        assert found_in(WAKES, HELD, acknowledge(0), long) == []
        assert found_in(WAKES, HELD, acknowledge(0, result="unknown"), long) == []
        assert found_in(WAKES, HELD, fault("kill"), long) == []
        last = settings(wakes_within=100, delivery_limit=1)
        assert found_in(last, HELD, acknowledge(0, "release"), long) == []


class TestQ11:
    def test_a_rejected_record_without_a_letter(self) -> None:
        rejected = (LETTERS, deliver(0), acknowledge(0, "reject"))
        assert found_in(*rejected, of_record("letter"), settled(0)) == []
        assert found_in(*rejected, settled(0)) == ["Q11"]

    def test_two_letters_of_a_record(self) -> None:
        rejected = (LETTERS, deliver(0), acknowledge(0, "reject"))
        assert found_in(*rejected, of_record("letter"), of_record("letter"), settled(0)) == ["Q11"]

    def test_a_letter_of_what_was_accepted(self) -> None:
        assert found_in(LETTERS, deliver(0), acknowledge(0), settled(0)) == []
        assert found_in(LETTERS, deliver(0), acknowledge(0), of_record("letter"), settled(0)) == ["Q11"]

    def test_what_may_have_been_accepted_has_a_letter_or_not(self) -> None:
        unknown = (LETTERS, deliver(0), acknowledge(0, result="unknown"))
        assert found_in(*unknown, settled(0)) == []
        assert found_in(*unknown, of_record("letter"), settled(0)) == []

    def test_who_accepts_a_record_too_late_may_have_been_confirmed_although_it_was_given_up(self) -> None:
        released = acknowledge(0, "release", time=5)
        late = (deliver(0, until=9), acknowledge(0, time=10))
        renewed = (deliver(0, until=9), acknowledge(0, "renew", time=10, until=90), acknowledge(0, time=11))
        for history in ((deliver(0), released, acknowledge(0)), late, renewed):
            assert found_in(LETTERS, *history, of_record("letter"), settled(0)) == []

    def test_an_offset_that_a_power_cut_has_freed_may_have_two_letters(self) -> None:
        lost = (LETTERS, deliver(0), acknowledge(0, "reject"), fault("power-cut"), LOST)
        again = (deliver(0, time=30), acknowledge(0, "reject", time=40))
        assert found_in(*lost, *again, of_record("letter"), of_record("letter"), settled(0)) == []


class TestQ12:
    def test_a_record_that_is_delivered_before_it_is_due(self) -> None:
        due = of_record("due", time=50)
        assert found_in(settings(), due, deliver(0, time=50)) == []
        assert found_in(settings(), due, deliver(0, time=49)) == ["Q12"]
        assert found_in(settings(), deliver(0, time=49), due) == ["Q12"]


class TestQ13:
    def test_a_delivery_of_what_was_aborted(self) -> None:
        sent = send("a", 0, txn="x")
        assert found_in(COMMITTED, sent, ended("x"), deliver(0)) == []
        assert found_in(COMMITTED, sent, ended("x", "aborted"), deliver(0)) == ["Q13"]
        assert found_in(settings(), sent, ended("x", "aborted"), deliver(0)) == []

    def test_a_delivery_before_the_transaction_is_aborted(self) -> None:
        assert found_in(COMMITTED, send("a", 0, txn="x"), deliver(0), ended("x", "aborted")) == ["Q13"]

    def test_another_record_may_have_the_offset_of_one_that_a_power_cut_took(self) -> None:
        for history in (
            (send("a", 0, txn="x"), ended("x", "aborted"), fault("power-cut"), LOST),
            (send("a", 0, txn="x"), fault("power-cut"), LOST, ended("x", "aborted")),
        ):
            assert found_in(COMMITTED, *history, deliver(0)) == []


def test_a_group_without_settings_is_not_looked_at() -> None:
    assert found_in(deliver(0), gone(), waited(0, 9_000)) == []
