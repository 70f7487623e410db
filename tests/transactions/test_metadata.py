from __future__ import annotations

import pytest

from penstock.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionVersion,
    completed,
    fenced,
    next_epoch,
    prepared,
    rotate_producer_id,
    session_over,
    with_partitions,
)
from penstock.transactions.states import TransactionState
from penstock.wire.errors import ProducerFenced

TV_0, TV_2 = TransactionVersion.TV_0, TransactionVersion.TV_2
NEW = TransactionMetadata("t", 1000, timeout_ms=100, last_update_timestamp_ms=1)
EMPTY = next_epoch(NEW, timeout_ms=100, expected_epoch=None, now_ms=2)
OPEN = with_partitions(EMPTY, frozenset({("a", 0)}), TV_2, 10)


def test_a_new_id_starts_at_epoch_zero() -> None:
    assert (EMPTY.producer_epoch, EMPTY.last_producer_epoch, EMPTY.state) == (0, -1, TransactionState.EMPTY)


def test_a_repeated_request_with_the_epoch_before_gets_the_same_epoch_again() -> None:
    bumped = next_epoch(EMPTY, timeout_ms=100, expected_epoch=0, now_ms=3)
    assert bumped.producer_epoch == 1
    assert next_epoch(bumped, timeout_ms=100, expected_epoch=0, now_ms=4).producer_epoch == 1


def test_another_producer_in_between_fences_the_one_that_wants_to_go_on() -> None:
    taken_over = next_epoch(EMPTY, timeout_ms=100, expected_epoch=None, now_ms=3)
    with pytest.raises(ProducerFenced):
        next_epoch(taken_over, timeout_ms=100, expected_epoch=0, now_ms=4)


def test_the_first_partition_starts_the_clock_of_the_transaction_and_later_ones_do_not() -> None:
    more = with_partitions(OPEN, frozenset({("b", 1)}), TV_2, 50)
    assert OPEN.start_timestamp_ms == more.start_timestamp_ms == 10
    assert more.partitions == {("a", 0), ("b", 1)}
    assert more.last_update_timestamp_ms == 50


def test_the_classic_protocol_keeps_the_epoch_at_the_end_and_kip_890_moves_it() -> None:
    classic = prepared(OPEN, commit=True, version=TV_0, next_producer_id=NO_PRODUCER_ID, now_ms=20)
    modern = prepared(OPEN, commit=True, version=TV_2, next_producer_id=NO_PRODUCER_ID, now_ms=20)
    assert (classic.producer_epoch, modern.producer_epoch, modern.last_producer_epoch) == (0, 1, 0)
    assert completed(modern, 30).producer_epoch == 1


def test_the_end_of_a_transaction_keeps_its_beginning_until_the_next_producer_comes() -> None:
    done = completed(prepared(OPEN, commit=True, version=TV_2, next_producer_id=NO_PRODUCER_ID, now_ms=20), 30)
    assert (done.start_timestamp_ms, done.last_update_timestamp_ms) == (10, 30)
    assert next_epoch(done, timeout_ms=100, expected_epoch=None, now_ms=40).start_timestamp_ms == -1


def test_a_producer_id_with_used_up_epochs_is_replaced_only_after_the_markers() -> None:
    old = TransactionMetadata(
        "t", 1000, 32766, state=TransactionState.ONGOING, partitions=frozenset({("a", 0)}), start_timestamp_ms=10
    )
    assert old.epoch_is_exhausted
    ended = prepared(old, commit=True, version=TV_2, next_producer_id=2000, now_ms=20)
    assert (ended.producer_id, ended.producer_epoch) == (1000, 32767)
    after = completed(ended, 30)
    assert (after.producer_id, after.producer_epoch, after.previous_producer_id) == (2000, 0, 1000)
    assert after.next_producer_id == NO_PRODUCER_ID


def test_an_abort_at_the_last_epoch_does_not_overflow() -> None:
    stuck = TransactionMetadata("t", 1000, 32767, state=TransactionState.ONGOING)
    ended = prepared(stuck, commit=False, version=TV_2, next_producer_id=2000, now_ms=20)
    assert ended.producer_epoch == 32767


def test_an_abort_without_any_partition_starts_when_it_is_asked_for() -> None:
    ended = prepared(EMPTY, commit=False, version=TV_2, next_producer_id=NO_PRODUCER_ID, now_ms=20)
    assert ended.start_timestamp_ms == 20


def test_fencing_forgets_the_epoch_before_so_that_a_retry_of_the_fenced_producer_is_refused() -> None:
    again = fenced(OPEN._replace(producer_epoch=4, last_producer_epoch=3))
    assert (again.producer_epoch, again.last_producer_epoch) == (5, NO_PRODUCER_EPOCH)


def test_rotation_gives_a_fresh_producer_id_at_epoch_zero() -> None:
    old = TransactionMetadata("t", 1000, 32766)
    fresh = rotate_producer_id(old, producer_id=2000, timeout_ms=5, remember_epoch=True, now_ms=9)
    assert (fresh.producer_id, fresh.producer_epoch, fresh.last_producer_epoch) == (2000, 0, 32766)
    assert fresh.timeout_ms == 5
    anew = rotate_producer_id(old, producer_id=2000, timeout_ms=5, remember_epoch=False, now_ms=9)
    assert anew.last_producer_epoch == NO_PRODUCER_EPOCH
    assert fresh.previous_producer_id == 1000


def test_a_step_that_the_table_does_not_know_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        completed(OPEN, 30)
    with pytest.raises(AssertionError):
        prepared(EMPTY, commit=True, version=TV_2, next_producer_id=NO_PRODUCER_ID, now_ms=20)


def test_the_end_of_a_session_leaves_an_epoch_that_nobody_was_told() -> None:
    over = session_over(EMPTY, 5)
    assert (over.state, over.producer_id, over.producer_epoch) == (TransactionState.EMPTY, 1000, 1)
    assert over.last_producer_epoch == NO_PRODUCER_EPOCH
    with pytest.raises(ProducerFenced):
        next_epoch(over, timeout_ms=100, expected_epoch=0, now_ms=6)
    last = session_over(EMPTY._replace(producer_epoch=32767), 5)
    assert last.producer_epoch == 32767
