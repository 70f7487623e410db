"""Every end of a transaction, right and wrong, in every state, under both protocols."""

from __future__ import annotations

import pytest

from penstock.transactions.metadata import NO_PRODUCER_EPOCH, TransactionMetadata
from penstock.transactions.records import key_of, value_of
from penstock.transactions.shard import TransactionSettings, TransactionShard
from penstock.transactions.states import TransactionState
from penstock.wire.errors import ErrorCode
from tests.transactions.harness import TV_0, TV_2, Coordinator

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
BAD_STATE = ErrorCode.INVALID_TXN_STATE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING

PID = 77
EPOCH = 5
PARTITION = ("a", 0)


def in_state(state: TransactionState, epoch: int = EPOCH, previous_pid: int = PID) -> Coordinator:
    """A coordinator whose transactional id is in this state, as if read from the log of a KIP-890 producer."""
    coordinator = Coordinator()
    has_partitions = state in (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    )
    meta = TransactionMetadata(
        "t",
        PID,
        epoch,
        60_000,
        state,
        frozenset({PARTITION}) if has_partitions else frozenset(),
        start_timestamp_ms=1,
        last_update_timestamp_ms=1,
        previous_producer_id=previous_pid,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        client_version=TV_2,
    )
    coordinator.shard.replay(key_of("t"), value_of(meta, TV_2))
    return coordinator


S = TransactionState

CLASSIC = [
    # state, commit, epoch asked with, answer
    (S.EMPTY, True, EPOCH, BAD_STATE),
    (S.EMPTY, False, EPOCH, BAD_STATE),
    (S.EMPTY, True, EPOCH - 1, FENCED),
    (S.EMPTY, False, EPOCH + 1, FENCED),
    (S.ONGOING, True, EPOCH, NONE),
    (S.ONGOING, False, EPOCH, NONE),
    (S.ONGOING, True, EPOCH - 1, FENCED),
    (S.ONGOING, True, EPOCH + 1, FENCED),
    (S.PREPARE_COMMIT, True, EPOCH, CONCURRENT),
    (S.PREPARE_COMMIT, False, EPOCH, CONCURRENT),
    (S.PREPARE_COMMIT, True, EPOCH - 1, FENCED),
    (S.PREPARE_ABORT, True, EPOCH, CONCURRENT),
    (S.PREPARE_ABORT, False, EPOCH, CONCURRENT),
    (S.COMPLETE_COMMIT, True, EPOCH, NONE),
    (S.COMPLETE_COMMIT, False, EPOCH, BAD_STATE),
    (S.COMPLETE_COMMIT, True, EPOCH - 1, FENCED),
    (S.COMPLETE_ABORT, False, EPOCH, NONE),
    (S.COMPLETE_ABORT, True, EPOCH, BAD_STATE),
]

MODERN = [
    (S.EMPTY, False, EPOCH - 1, FENCED),
    (S.EMPTY, False, EPOCH, NONE),
    (S.EMPTY, True, EPOCH - 1, FENCED),
    (S.EMPTY, True, EPOCH, BAD_STATE),
    (S.ONGOING, False, EPOCH - 1, FENCED),
    (S.ONGOING, False, EPOCH, NONE),
    (S.ONGOING, True, EPOCH - 1, FENCED),
    (S.ONGOING, True, EPOCH, NONE),
    (S.ONGOING, True, EPOCH + 1, FENCED),
    (S.COMPLETE_ABORT, False, EPOCH - 1, NONE),
    (S.COMPLETE_ABORT, False, EPOCH, NONE),
    (S.COMPLETE_ABORT, True, EPOCH - 1, BAD_STATE),
    (S.COMPLETE_ABORT, True, EPOCH, BAD_STATE),
    (S.COMPLETE_ABORT, False, EPOCH - 2, FENCED),
    (S.COMPLETE_COMMIT, False, EPOCH - 1, BAD_STATE),
    (S.COMPLETE_COMMIT, False, EPOCH, NONE),
    (S.COMPLETE_COMMIT, True, EPOCH - 1, NONE),
    (S.COMPLETE_COMMIT, True, EPOCH, BAD_STATE),
    (S.COMPLETE_COMMIT, True, EPOCH + 1, FENCED),
    (S.PREPARE_ABORT, False, EPOCH - 1, CONCURRENT),
    (S.PREPARE_ABORT, True, EPOCH - 1, CONCURRENT),
    (S.PREPARE_COMMIT, True, EPOCH - 1, CONCURRENT),
    (S.PREPARE_COMMIT, True, EPOCH, CONCURRENT),
]


@pytest.mark.parametrize(("state", "commit", "epoch", "answer"), CLASSIC)
def test_classic_end(state: TransactionState, commit: bool, epoch: int, answer: ErrorCode) -> None:
    coordinator = in_state(state)
    assert coordinator.end(PID, epoch, commit=commit, version=4) == (-1, -1, answer)
    if answer != NONE:
        assert coordinator.state() == state


@pytest.mark.parametrize(("state", "commit", "epoch", "answer"), MODERN)
def test_kip_890_end(state: TransactionState, commit: bool, epoch: int, answer: ErrorCode) -> None:
    coordinator = in_state(state)
    pid, new_epoch, code = coordinator.end(PID, epoch, commit=commit, version=5)
    assert code == answer
    if answer != NONE:
        assert (pid, new_epoch) == (-1, -1)
        assert coordinator.state() == state
    elif epoch == EPOCH:
        assert (pid, new_epoch) == (PID, EPOCH + 1)
    else:
        assert (pid, new_epoch) == (PID, EPOCH)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_another_producer_id_is_a_wrong_mapping_in_every_state(state: TransactionState, version: int) -> None:
    assert in_state(state).end(PID + 1, EPOCH, commit=True, version=version)[2] == MAPPING


@pytest.mark.parametrize("version", [4, 5])
def test_an_unknown_transactional_id_is_a_wrong_mapping(version: int) -> None:
    assert Coordinator().end(PID, EPOCH, commit=True, version=version)[2] == MAPPING
    assert Coordinator().end(PID, EPOCH, commit=True, version=version, transactional_id="")[2] == (
        ErrorCode.INVALID_REQUEST
    )


def test_versions_before_two_know_a_fenced_producer_as_an_invalid_epoch() -> None:
    assert in_state(S.ONGOING).end(PID, 4, commit=True, version=1)[2] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert in_state(S.ONGOING).end(PID, 4, commit=True, version=2)[2] == FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_the_outcome_is_marked_in_every_partition_and_then_complete(commit: bool) -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, ("a", 0), ("b", 3), version=TV_0)
    assert coordinator.end(pid, epoch, commit=commit, version=4)[2] == NONE
    (markers,) = coordinator.to_mark
    assert markers.transaction_version == TV_0
    coordinator.do(coordinator.shard.markers_written(markers, [("a", 0)], coordinator.now_ms))
    assert coordinator.entry.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)
    assert [t.topic for t in coordinator.shard.describe("t").topics] == ["b"]
    coordinator.do(coordinator.shard.markers_written(markers, [("b", 3)], coordinator.now_ms))
    assert coordinator.state() == (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert coordinator.entry.partitions == frozenset()


def test_the_markers_of_a_kip_890_transaction_carry_the_epoch_after_it() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    assert coordinator.end(pid, epoch, commit=True) == (pid, epoch + 1, NONE)
    coordinator.finish()
    assert coordinator.marked == [(("a", 0), pid, epoch + 1, True)]
    assert coordinator.end(pid, epoch, commit=True) == (pid, epoch + 1, NONE)
    assert coordinator.add(pid, epoch) == FENCED
    assert coordinator.add(pid, epoch + 1) == NONE


def test_used_up_epochs_end_on_the_old_producer_id_and_go_on_with_a_new_one() -> None:
    coordinator = in_state(S.ONGOING, epoch=32766)
    new_pid, epoch, code = coordinator.end(PID, 32766, commit=True)
    assert (new_pid != PID, epoch, code) == (True, 0, NONE)
    assert (coordinator.entry.producer_id, coordinator.entry.producer_epoch) == (PID, 32767)
    # Until the markers are written, even a request of the new producer id has to wait.
    assert coordinator.add(new_pid, 0) == CONCURRENT
    coordinator.finish()
    assert coordinator.marked == [(PARTITION, PID, 32767, True)]
    assert (coordinator.entry.producer_id, coordinator.entry.producer_epoch) == (new_pid, 0)
    # The answer was lost, and the producer repeats the request it knows.
    assert coordinator.end(PID, 32766, commit=True) == (new_pid, 0, NONE)
    assert coordinator.add(new_pid, 0) == NONE


def test_an_abort_without_partitions_moves_the_epoch_and_needs_no_marker() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    assert coordinator.end(pid, epoch, commit=False) == (pid, epoch + 1, NONE)
    assert coordinator.to_mark == []
    assert coordinator.state() == S.COMPLETE_ABORT


def test_markers_of_an_older_transaction_complete_nothing() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    coordinator.end(pid, epoch, commit=True)
    (old,) = coordinator.to_mark
    coordinator.finish()
    coordinator.add(pid, epoch + 1)
    coordinator.end(pid, epoch + 1, commit=False)
    coordinator.do(coordinator.shard.markers_written(old, old.partitions, coordinator.now_ms))
    assert coordinator.state() == S.PREPARE_ABORT


def test_the_first_epoch_of_a_producer_id_is_not_taken_for_the_one_after_a_rotation() -> None:
    assert in_state(S.ONGOING, epoch=0).end(PID + 1, 0, commit=True)[2] == MAPPING
    assert in_state(S.COMPLETE_COMMIT, epoch=0, previous_pid=PID - 1).end(PID - 1, 7, commit=True)[2] == MAPPING


def test_an_abort_over_the_producers_head_at_its_last_epoch_leads_to_a_new_producer_id() -> None:
    replaced, timed_out = in_state(S.ONGOING, epoch=32766), in_state(S.ONGOING, epoch=32766)
    assert replaced.init()[2] == CONCURRENT
    timed_out.tick()
    for coordinator in (replaced, timed_out):
        assert coordinator.state() == S.PREPARE_ABORT
        coordinator.finish()
        assert coordinator.marked == [(PARTITION, PID, 32767, False)]
        assert (coordinator.entry.producer_id, coordinator.entry.producer_epoch) == (1000, 0)


def test_the_last_marker_of_a_producer_id_has_the_epoch_with_which_its_transaction_may_still_be_written() -> None:
    assert in_state(S.PREPARE_COMMIT, epoch=32767).shard.holds(PID, 32767, PARTITION)
    assert not in_state(S.PREPARE_COMMIT, epoch=32766).shard.holds(PID, 32766, PARTITION)


def test_markers_carry_the_epoch_of_the_coordinator() -> None:
    coordinator = Coordinator()
    coordinator.shard = TransactionShard(
        coordinator_epoch=7, settings=TransactionSettings(), new_producer_id=lambda: PID
    )
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    coordinator.end(pid, epoch, commit=True)
    assert [markers.coordinator_epoch for markers in coordinator.to_mark] == [7]
