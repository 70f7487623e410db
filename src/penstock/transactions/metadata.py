"""What the coordinator knows of one transactional id, and the steps that change it.

`TransactionMetadata` is an immutable value; each step is a pure function from one value to the next and names the KIP
or the client behind its rule. Whether a step is *allowed* for this request is decided by the callers
(`init_producer`, `adding`, `end_txn`, `expiry`); the functions here only know how the numbers move.

The epoch is an int16. 32767 is never given to a producer, so that there is always one epoch left with which the
coordinator can fence it: at 32766 the epochs count as exhausted, and the transactional id moves to a fresh producer id
at epoch 0.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from penstock.records.batch import NO_PRODUCER_ID as NO_PRODUCER_ID
from penstock.records.batch import NO_TIMESTAMP
from penstock.transactions.states import NEXT_STATES, TransactionState
from penstock.wire.errors import ProducerFenced

NO_PRODUCER_EPOCH = -1
MAX_PRODUCER_EPOCH = 32767

TopicPartition = tuple[str, int]


class TransactionVersion(IntEnum):
    """The levels of the feature `transaction.version`: 1 = flexible log records, 2 = an epoch per transaction."""

    TV_0 = 0
    TV_1 = 1
    TV_2 = 2

    @property
    def bumps_epoch(self) -> bool:
        return self >= TransactionVersion.TV_2


class TransactionMetadata(NamedTuple):
    """One entry of the coordinator. `last_producer_epoch` is the only field that the log does not keep."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: TransactionVersion = TransactionVersion.TV_0

    @property
    def epoch_is_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)


def is_epoch_exhausted(epoch: int) -> bool:
    return epoch >= MAX_PRODUCER_EPOCH - 1


def next_epoch(
    meta: TransactionMetadata, *, timeout_ms: int, expected_epoch: int | None, now_ms: int
) -> TransactionMetadata:
    """The step of InitProducerId: one epoch up, so that any older producer of this transactional id is fenced."""
    assert not meta.epoch_is_exhausted
    if expected_epoch is None:
        epoch, last = meta.producer_epoch + 1, NO_PRODUCER_EPOCH
    elif meta.producer_epoch == NO_PRODUCER_EPOCH or expected_epoch == meta.producer_epoch:
        # KIP-360: a producer that goes on after an error names the epoch it has, so that two cannot both be served.
        epoch, last = meta.producer_epoch + 1, meta.producer_epoch
    elif expected_epoch == meta.last_producer_epoch:
        # The answer to the first attempt was lost: give the same answer again.
        epoch, last = meta.producer_epoch, meta.last_producer_epoch
    else:
        raise ProducerFenced
    return _to_empty(meta, meta.producer_id, epoch, last, timeout_ms, now_ms)


def rotate_producer_id(
    meta: TransactionMetadata, *, producer_id: int, timeout_ms: int, remember_epoch: bool, now_ms: int
) -> TransactionMetadata:
    """The step of InitProducerId when the epochs are used up: a fresh producer id at epoch 0."""
    last = meta.producer_epoch if remember_epoch else NO_PRODUCER_EPOCH
    return _to_empty(meta, producer_id, 0, last, timeout_ms, now_ms)


def _to_empty(
    meta: TransactionMetadata, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    return _step(
        meta,
        TransactionState.EMPTY,
        now_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
    )


def session_over(meta: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Nobody may speak for this id any more before the next InitProducerId: one epoch up, and nobody is told it."""
    epoch = min(meta.producer_epoch + 1, MAX_PRODUCER_EPOCH)
    return _to_empty(meta, meta.producer_id, epoch, NO_PRODUCER_EPOCH, meta.timeout_ms, now_ms)


def with_partitions(
    meta: TransactionMetadata, partitions: frozenset[TopicPartition], version: TransactionVersion, now_ms: int
) -> TransactionMetadata:
    """More partitions join the transaction; the first ones begin it (and its timeout)."""
    began = meta.state == TransactionState.ONGOING
    return _step(
        meta,
        TransactionState.ONGOING,
        now_ms,
        partitions=meta.partitions | partitions,
        start_timestamp_ms=meta.start_timestamp_ms if began else now_ms,
        client_version=version,
    )


def prepared(
    meta: TransactionMetadata,
    *,
    commit: bool,
    version: TransactionVersion,
    next_producer_id: int,
    now_ms: int,
) -> TransactionMetadata:
    """The outcome is fixed. With KIP-890 the epoch moves here, so that the markers already carry the new one."""
    epoch, last = meta.producer_epoch, meta.last_producer_epoch
    if version.bumps_epoch:
        # An epoch of 32767 cannot move; an abort must get through all the same, or the id would be stuck for ever.
        epoch, last = min(meta.producer_epoch + 1, MAX_PRODUCER_EPOCH), meta.producer_epoch
    # An abort without any partition has no beginning; the log wants one nevertheless.
    start_ms = meta.start_timestamp_ms if meta.state == TransactionState.ONGOING else now_ms
    return _step(
        meta,
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        now_ms,
        producer_epoch=epoch,
        last_producer_epoch=last,
        next_producer_id=next_producer_id,
        start_timestamp_ms=start_ms,
        client_version=version,
    )


def fenced(meta: TransactionMetadata) -> TransactionMetadata:
    """The classic protocol's way to shut out a producer whose transaction is aborted over its head: one epoch up.

    (With KIP-890 the epoch moves in `prepared` anyway, and moving it twice would make the producer's own retry of
    EndTxn look like a zombie's: KAFKA-19367.)
    """
    assert meta.producer_epoch < MAX_PRODUCER_EPOCH
    return meta._replace(producer_epoch=meta.producer_epoch + 1, last_producer_epoch=NO_PRODUCER_EPOCH)


def completed(meta: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """All markers are written. A producer id whose epochs are used up is replaced now, not before."""
    commit = meta.state == TransactionState.PREPARE_COMMIT
    producer_id, epoch = meta.producer_id, meta.producer_epoch
    if meta.client_version.bumps_epoch and meta.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = meta.next_producer_id, 0
    return _step(
        meta,
        TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
        now_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
    )


def _step(meta: TransactionMetadata, state: TransactionState, now_ms: int, **changes: Any) -> TransactionMetadata:
    assert state in NEXT_STATES[meta.state], f"{meta.transactional_id}: {meta.state.label} to {state.label}"
    return meta._replace(state=state, previous_producer_id=meta.producer_id, last_update_timestamp_ms=now_ms, **changes)
