"""InitProducerId for a transactional id: who may speak from now on (KIP-98; KIP-360 for a producer that goes on).

- A new transactional id gets a fresh producer id at epoch 0.
- A known one keeps its producer id and gets the next epoch: whoever still uses the old epoch is a zombie from then on.
- While a transaction is open it is aborted first. The caller hears CONCURRENT_TRANSACTIONS and asks again; it then gets
  an epoch above the one the abort was made with, so that nothing of the old producer can pass for the new one's.
- A producer that names the producer id and epoch it has (version 3 and later) wants to go on after an error; it is
  served only if nobody else was served in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.transactions.end_txn import abort_over_the_producers_head
from penstock.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionVersion,
    is_epoch_exhausted,
    next_epoch,
    rotate_producer_id,
)
from penstock.transactions.states import ENDING, TransactionState
from penstock.wire.errors import ConcurrentTransactions, InvalidRequest, InvalidTransactionTimeout, ProducerFenced


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    producer_id: int
    epoch: int


def expected_producer(producer_id: int, epoch: int) -> ProducerIdAndEpoch | None:
    """The producer id and epoch that the request names, if it does; naming only one of them is an error."""
    if producer_id == NO_PRODUCER_ID and epoch == NO_PRODUCER_EPOCH:
        return None
    if producer_id == NO_PRODUCER_ID or epoch == NO_PRODUCER_EPOCH:
        raise InvalidRequest("producer id and producer epoch must be given together")
    return ProducerIdAndEpoch(producer_id, epoch)


def check_timeout(timeout_ms: int, max_timeout_ms: int) -> None:
    if not 0 < timeout_ms <= max_timeout_ms:
        raise InvalidTransactionTimeout


def initialize(
    meta: TransactionMetadata | None,
    transactional_id: str,
    *,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    new_producer_id: Callable[[], int],
    server_version: TransactionVersion,
    now_ms: int,
) -> TransactionMetadata:
    """The entry after this InitProducerId: Empty with the epoch to answer, or PrepareAbort of the open transaction."""
    if meta is None:
        meta = TransactionMetadata(transactional_id, new_producer_id())
    if meta.state in ENDING:
        raise ConcurrentTransactions
    if expected is not None and not _may_go_on(meta, expected):
        raise ProducerFenced
    if meta.state == TransactionState.ONGOING:
        return abort_over_the_producers_head(
            meta, new_producer_id=new_producer_id, server_version=server_version, now_ms=now_ms
        )
    if meta.epoch_is_exhausted and (expected is None or expected.epoch == meta.producer_epoch):
        return rotate_producer_id(
            meta,
            producer_id=new_producer_id(),
            timeout_ms=timeout_ms,
            remember_epoch=expected is not None,
            now_ms=now_ms,
        )
    if meta.epoch_is_exhausted:
        raise ProducerFenced
    expected_epoch = None if expected is None else expected.epoch
    return next_epoch(meta, timeout_ms=timeout_ms, expected_epoch=expected_epoch, now_ms=now_ms)


def _may_go_on(meta: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether the producer that the request names may be this transactional id's current one."""
    if meta.producer_epoch == NO_PRODUCER_EPOCH:
        # The id had expired and was made anew a moment ago: nobody else can hold it.
        return True
    if expected.producer_id == meta.producer_id:
        return True
    # A retry whose first attempt moved the transactional id to a new producer id; its answer was lost.
    return expected.producer_id == meta.previous_producer_id and is_epoch_exhausted(expected.epoch)
