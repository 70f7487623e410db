"""Acquisition locks: held, given up, run out."""

from __future__ import annotations

import pytest

from penstock.queues.locks import LockTable


def test_a_lock_lives_as_long_as_a_record_is_under_it() -> None:
    locks = LockTable()
    locks.grant(1, "a", 0, 100, 0, 9, 10)
    locks.give_up(1, 4)
    assert locks.members() == {"a": 6}
    locks.give_up(1, 6)
    assert (len(locks), locks.members(), locks.get(1), locks.next_deadline_ms()) == (0, {}, None, None)


def test_a_lock_cannot_give_up_more_than_it_holds() -> None:
    locks = LockTable()
    locks.grant(1, "a", 0, 100, 0, 0, 1)
    with pytest.raises(AssertionError):
        locks.give_up(1, 2)


def test_locks_run_out_in_order_each_once() -> None:
    locks = LockTable()
    locks.grant(1, "a", 0, 300, 0, 0, 1)
    locks.grant(2, "b", 0, 100, 1, 1, 1)
    locks.grant(3, "a", 0, 200, 2, 2, 1)
    assert locks.next_deadline_ms() == 100
    assert [lock.ticket for lock in locks.due(200)] == [2, 3]
    assert locks.due(200) == []
    assert [lock.ticket for lock in locks.of_member("a")] == [1, 3]


def test_deadlines_of_locks_that_are_gone_do_not_pile_up() -> None:
    locks = LockTable()
    for ticket in range(1, 10_000):
        locks.grant(ticket, "a", 0, ticket, 0, 0, 1)
        locks.give_up(ticket, 1)
    assert len(locks._deadlines) < 200


def test_the_oldest_lock_of_a_member_tells_since_when_it_holds_records() -> None:
    locks = LockTable()
    locks.grant(1, "a", 50, 100, 0, 0, 1)
    locks.grant(2, "a", 70, 100, 1, 1, 1)
    locks.grant(3, "b", 60, 100, 2, 2, 1)
    assert locks.oldest_ms() == {"a": 50, "b": 60}
    locks.give_up(1, 1)
    assert locks.oldest_ms() == {"a": 70, "b": 60}


def test_all_records_under_locks_are_counted() -> None:
    locks = LockTable()
    assert locks.held == 0
    lock = locks.grant(1, "a", 5, 100, 10, 12, 3)
    locks.grant(2, "a", 6, 90, 20, 23, 4)
    assert (lock.ticket, lock.member_id, lock.since_ms, lock.deadline_ms) == (1, "a", 5, 100)
    assert (lock.first, lock.last, lock.held, lock.expired) == (10, 12, 3, False)
    assert (locks.held, len(locks), locks.members(), locks.next_end_ms()) == (7, 2, {"a": 7}, {"a": 90})
    locks.give_up(2, 4)
    assert (locks.held, len(locks), locks.members(), locks.next_end_ms()) == (3, 1, {"a": 3}, {"a": 100})
    assert (locks.of_member("b"), locks.next_deadline_ms()) == ([], 100)


def test_the_deadlines_of_locks_that_live_are_kept_when_the_others_are_swept_out() -> None:
    locks = LockTable()
    for ticket, deadline_ms in ((1, 9_000), (2, 7_000), (3, 8_000)):
        locks.grant(ticket, "a", 0, deadline_ms, 0, 0, 1)
    for ticket in range(4, 200):
        locks.grant(ticket, "b", 0, 10_000 + ticket, 0, 0, 1)
        locks.give_up(ticket, 1)
    assert len(locks._deadlines) < 100
    assert locks.next_deadline_ms() == 7_000
    assert [lock.ticket for lock in locks.due(9_000)] == [2, 3, 1]
    assert locks.due(20_000) == []


def test_a_lock_that_was_given_up_does_not_run_out() -> None:
    locks = LockTable()
    locks.grant(1, "a", 0, 100, 0, 0, 1)
    locks.grant(2, "a", 0, 200, 0, 0, 1)
    locks.give_up(1, 1)
    assert [lock.ticket for lock in locks.due(300)] == [2]
    assert locks.next_deadline_ms() is None
