"""EndTxn: the outcome of a transaction is fixed, in the classic protocol (versions 0-4) and in KIP-890's (5 and later).

Classic: the request's epoch must be the current one. Ending again in the same direction is answered with success (the
producer repeats a request whose answer was lost), anything else than an open transaction is INVALID_TXN_STATE.

KIP-890: every end moves the epoch, so the request's epoch tells a repeated request from a new one:

| state          | abort, epoch before | abort, current epoch | commit, epoch before | commit, current epoch |
|----------------|---------------------|----------------------|----------------------|-----------------------|
| Empty          | PRODUCER_FENCED     | new epoch            | PRODUCER_FENCED      | INVALID_TXN_STATE     |
| CompleteAbort  | success again       | new epoch            | INVALID_TXN_STATE    | INVALID_TXN_STATE     |
| CompleteCommit | INVALID_TXN_STATE   | new epoch            | success again        | INVALID_TXN_STATE     |

A producer may abort where the coordinator knows of no transaction: it cannot tell whether its first write arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.transactions.metadata import (
    MAX_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionVersion,
    completed,
    fenced,
    prepared,
)
from penstock.transactions.states import ENDING, TransactionState
from penstock.wire.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)


@dataclass(frozen=True, slots=True)
class EndRequest:
    producer_id: int
    epoch: int
    commit: bool
    version: TransactionVersion


@dataclass(frozen=True, slots=True)
class EndDecision:
    """What to write (nothing if the request only repeats one that was served), and what the producer is told."""

    meta: TransactionMetadata | None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


def end(
    meta: TransactionMetadata | None, request: EndRequest, *, new_producer_id: Callable[[], int], now_ms: int
) -> EndDecision:
    if meta is None:
        raise InvalidProducerIdMapping
    if request.version.bumps_epoch:
        return _end_with_epoch_bump(meta, request, new_producer_id, now_ms)
    return _end_classic(meta, request, now_ms)


def abort_over_the_producers_head(
    meta: TransactionMetadata,
    *,
    new_producer_id: Callable[[], int],
    server_version: TransactionVersion,
    now_ms: int,
) -> TransactionMetadata:
    """Abort an open transaction that timed out or whose producer was replaced; the producer is fenced by it."""
    assert meta.state == TransactionState.ONGOING
    if server_version.bumps_epoch:
        return _prepared_with_epoch_bump(meta, False, server_version, new_producer_id, now_ms)
    return prepared(
        fenced(meta),
        commit=False,
        version=TransactionVersion.TV_0,
        next_producer_id=NO_PRODUCER_ID,
        now_ms=now_ms,
    )


def _end_classic(meta: TransactionMetadata, request: EndRequest, now_ms: int) -> EndDecision:
    if meta.producer_id != request.producer_id:
        raise InvalidProducerIdMapping
    if meta.producer_epoch != request.epoch:
        raise ProducerFenced
    if meta.state in ENDING:
        raise ConcurrentTransactions
    if meta.state == TransactionState.ONGOING:
        return EndDecision(
            prepared(
                meta,
                commit=request.commit,
                version=TransactionVersion.TV_0,
                next_producer_id=NO_PRODUCER_ID,
                now_ms=now_ms,
            )
        )
    if meta.state == _complete_state(request.commit):
        return EndDecision(None)
    raise InvalidTxnState


def _end_with_epoch_bump(
    meta: TransactionMetadata, request: EndRequest, new_producer_id: Callable[[], int], now_ms: int
) -> EndDecision:
    if meta.state in ENDING:
        # Before the other checks: the producer may already use the producer id that the end of this one will bring.
        raise ConcurrentTransactions
    repeated_over_rotation = (
        meta.previous_producer_id == request.producer_id
        and request.epoch == MAX_PRODUCER_EPOCH - 1
        and meta.producer_epoch == 0
    )
    if meta.producer_id != request.producer_id and not repeated_over_rotation:
        raise InvalidProducerIdMapping
    repeated = repeated_over_rotation or meta.producer_epoch == request.epoch + 1
    may_repeat = meta.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if meta.producer_epoch != request.epoch and not (may_repeat and repeated):
        raise ProducerFenced
    if may_repeat and repeated:
        if meta.state == _complete_state(request.commit):
            return EndDecision(None, meta.producer_id, meta.producer_epoch)
        raise InvalidTxnState
    if request.commit and meta.state != TransactionState.ONGOING:
        raise InvalidTxnState
    ended = _prepared_with_epoch_bump(meta, request.commit, request.version, new_producer_id, now_ms)
    # The producer is told what it will be after the markers: the fresh producer id if its epochs are used up.
    after = completed(ended, now_ms)
    return EndDecision(ended, after.producer_id, after.producer_epoch)


def _prepared_with_epoch_bump(
    meta: TransactionMetadata,
    commit: bool,
    version: TransactionVersion,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> TransactionMetadata:
    next_producer_id = new_producer_id() if meta.epoch_is_exhausted else NO_PRODUCER_ID
    return prepared(meta, commit=commit, version=version, next_producer_id=next_producer_id, now_ms=now_ms)


def _complete_state(commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
