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
