"""The records of `__transaction_state`, byte for byte Apache Kafka's: its tools read ours, and we read its files.

Key: TransactionLogKey (the transactional id). Value: TransactionLogValue, version 1 from `transaction.version=1` on,
version 0 before; a null value (tombstone) says that the transactional id has expired.

A record whose type or version this reader does not know is skipped, as in Kafka: it is the trace of a newer release
that was rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from penstock.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    TopicPartition,
    TransactionMetadata,
    TransactionVersion,
)
from penstock.transactions.states import TransactionState
from penstock.wire import messages as m
from penstock.wire.codec import decode, decode_versioned, encode_key, encode_versioned

_TRANSACTION_LOG = 0
_NEWEST_VALUE_VERSION = 1


@lru_cache(maxsize=1024)
def key_of(transactional_id: str) -> bytes:
    return encode_key(m.TransactionLogKey(transactional_id=transactional_id))


def transactional_id_of(key: bytes) -> str | None:
    """The transactional id of a record's key, or None if the record is of an unknown type."""
    if int.from_bytes(key[:2], "big", signed=True) != _TRANSACTION_LOG:
        return None
    return decode(m.TransactionLogKey, key[2:], 0).transactional_id


def value_of(meta: TransactionMetadata, server_version: TransactionVersion) -> bytes:
    flexible = server_version >= TransactionVersion.TV_1
    value = m.TransactionLogValue(
        producer_id=meta.producer_id,
        producer_epoch=meta.producer_epoch,
        transaction_timeout_ms=meta.timeout_ms,
        transaction_status=meta.state,
        transaction_partitions=None if meta.state == TransactionState.EMPTY else _by_topic(meta.partitions),
        transaction_last_update_timestamp_ms=meta.last_update_timestamp_ms,
        transaction_start_timestamp_ms=meta.start_timestamp_ms,
    )
    if flexible:
        value.previous_producer_id = meta.previous_producer_id
        value.next_producer_id = meta.next_producer_id
        value.client_transaction_version = meta.client_version
    return encode_versioned(value, 1 if flexible else 0)


def metadata_of(transactional_id: str, value: bytes) -> TransactionMetadata | None:
    """The entry that a record's value describes, or None if its version is newer than this reader."""
    if not 0 <= int.from_bytes(value[:2], "big", signed=True) <= _NEWEST_VALUE_VERSION:
        return None
    stored = decode_versioned(m.TransactionLogValue, value)
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        state=TransactionState(stored.transaction_status),
        partitions=frozenset(
            (topic.topic, partition)
            for topic in stored.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_timestamp_ms=stored.transaction_start_timestamp_ms,
        last_update_timestamp_ms=stored.transaction_last_update_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        client_version=TransactionVersion(stored.client_transaction_version),
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[m.TransactionLogValue.PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [m.TransactionLogValue.PartitionsSchema(topic=name, partition_ids=ids) for name, ids in topics.items()]
