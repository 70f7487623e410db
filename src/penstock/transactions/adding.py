"""Which partitions belong to the open transaction: adding them, and asking whether they were added (KIP-890).

A classic producer names its partitions with AddPartitionsToTxn and AddOffsetsToTxn before it writes. Its writes are
verified: a transactional batch for a partition that is not part of the open transaction is refused, because nobody
would ever write the marker that closes it. Producers of `transaction.version=2` leave the naming to the broker, which
adds the partition when the first batch for it arrives.
"""

from __future__ import annotations

from penstock.transactions.metadata import TopicPartition, TransactionMetadata, TransactionVersion, with_partitions
from penstock.transactions.states import ENDING, TransactionState
from penstock.wire.errors import ConcurrentTransactions, ErrorCode, InvalidProducerIdMapping, ProducerFenced


def add(
    meta: TransactionMetadata | None,
    *,
    producer_id: int,
    epoch: int,
    partitions: frozenset[TopicPartition],
    version: TransactionVersion,
    now_ms: int,
) -> TransactionMetadata | None:
    """The entry with the partitions added, or None if the open transaction holds them already."""
    if meta is None:
        raise InvalidProducerIdMapping
    if meta.state in ENDING:
        # Before the other checks: with KIP-890 the producer may already use the epoch or producer id that comes next.
        raise ConcurrentTransactions
    _check_producer(meta, producer_id, epoch)
    if meta.state == TransactionState.ONGOING and partitions <= meta.partitions:
        return None
    return with_partitions(meta, partitions, version, now_ms)


def verify(
    meta: TransactionMetadata | None, *, producer_id: int, epoch: int, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """For each partition, whether it is part of the transaction that this producer has open."""
    if meta is None:
        raise InvalidProducerIdMapping
    _check_producer(meta, producer_id, epoch)
    if meta.state in ENDING:
        raise ConcurrentTransactions
    return {
        partition: ErrorCode.NONE if partition in meta.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _check_producer(meta: TransactionMetadata, producer_id: int, epoch: int) -> None:
    if meta.producer_id != producer_id:
        raise InvalidProducerIdMapping
    if meta.producer_epoch != epoch:
        raise ProducerFenced
