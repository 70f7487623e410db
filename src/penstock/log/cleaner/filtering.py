"""What becomes of one batch when its log is cleaned.

A batch that loses nothing is copied byte for byte. One that loses records keeps its offsets, its sequence numbers and
its codec; only count, length, largest timestamp and CRC change, and the surviving records are copied as they are. The
first time that a batch with tombstones (or a marker whose transaction is gone) is kept, it gets a *delete horizon*: the
time from which on they may be dropped, stored in the base timestamp under an attribute bit (KIP-534), for which the
records' timestamp deltas are written anew.

Some batches must not vanish even when they are empty: the last one of a producer that is still active, which carries
its last sequence number or its epoch, and the last one of the range that was cleaned, which carries its last offset.
Their header is kept with a count of 0.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from penstock.log.cleaner.key_map import KeyMap
from penstock.log.cleaner.keys import surviving_records
from penstock.log.cleaner.transactions import CleanedTransactions
from penstock.log.recovery import read_marker
from penstock.log.transaction_index import AbortedTransaction
from penstock.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
)
from penstock.records.builder import seal_batch, varint
from penstock.records.record import read_varint, records_section
from penstock.records.scan import record_starts


@dataclass(slots=True)
class CleaningRules:
    """All that the fate of a batch depends on beside the batch itself."""

    keys: KeyMap
    upper_bound_offset: int
    """Up to where this round may clean."""
    now_ms: int
    delete_retention_ms: int
    last_data_offsets: dict[int, int] = field(default_factory=dict)
    """Of each active producer: the offset of its last record."""
    last_epochs: dict[int, int] = field(default_factory=dict)
    """Of each active producer that has no record: its epoch, which only a marker carries."""


def filter_batch(
    batch: memoryview, header: BatchHeader, rules: CleaningRules, transactions: CleanedTransactions
) -> tuple[bytes | bytearray | memoryview | None, AbortedTransaction | None]:
    """The batch as it shall be written, or None if it goes; and the index entry of an aborted transaction it ends."""
    if header.attributes & CONTROL:
        return _filter_marker(batch, header, rules, transactions)
    if transactions.data_batch(header):
        return _emptied(header, rules), None
    if not header.records_count:
        return (batch if _must_stay(header, rules) else None), None
    survivors = rules.keys.survivors(header)
    if survivors is not None:
        if not survivors:
            return _emptied(header, rules), None
        if len(survivors) == header.records_count:
            return batch, None
    section = records_section(batch, 0, header)
    if survivors is not None:
        picked = _picked(header, section, survivors)
        if picked is not None:
            return _rebuilt(header, header.attributes, header.base_timestamp, picked), None
    return _filter_records(batch, header, section, rules), None


def _picked(header: BatchHeader, section: bytes, survivors: array[int]) -> list[bytes] | None:
    """The records with these offsets, by their place in a batch without gaps; None if they are not in their places."""
    if header.records_count != header.last_offset_delta + 1:
        return None
    starts = record_starts(section, header.records_count)
    records = []
    for offset in survivors:
        place = offset - header.base_offset
        record = section[starts[place] : starts[place + 1]]
        if read_varint(record, _timestamp_delta(record)[2])[0] != place:
            return None
        records.append(record)
    return records


def _filter_records(
    batch: memoryview, header: BatchHeader, section: bytes, rules: CleaningRules
) -> bytearray | memoryview | None:
    horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
    keep_tombstones = horizon is None or rules.now_ms < horizon
    kept, tombstones = surviving_records(
        section, header.records_count, header.base_offset, rules.keys.offsets, rules.keys.latest_offset, keep_tombstones
    )
    if not kept:
        return _emptied(header, rules)
    if tombstones and horizon is None:
        return _with_horizon(header, section, kept, rules.now_ms + rules.delete_retention_ms)
    if len(kept) == header.records_count:
        return batch
    return _rebuilt(header, header.attributes, header.base_timestamp, [section[a:b] for a, b in kept])


def _filter_marker(
    batch: memoryview, header: BatchHeader, rules: CleaningRules, transactions: CleanedTransactions
) -> tuple[bytes | bytearray | memoryview | None, AbortedTransaction | None]:
    marker = read_marker(batch) if header.records_count else None
    transaction_gone, aborted = transactions.control_batch(header, marker)
    if not header.records_count:
        return (batch if _must_stay(header, rules) else None), None
    if not transaction_gone:
        return batch, aborted
    if not header.attributes & DELETE_HORIZON:
        section = records_section(batch, 0, header)
        return _with_horizon(header, section, [(0, len(section))], rules.now_ms + rules.delete_retention_ms), None
    if rules.now_ms < header.base_timestamp:
        return batch, None
    return _emptied(header, rules), None


def _must_stay(header: BatchHeader, rules: CleaningRules) -> bool:
    """Whether something is lost if not even the header stays."""
    producer_id = header.producer_id
    if producer_id >= 0:
        last_data_offset = rules.last_data_offsets.get(producer_id)
        if last_data_offset is not None:
            if header.last_offset == last_data_offset:
                return True
        elif header.attributes & CONTROL and rules.last_epochs.get(producer_id) == header.producer_epoch:
            return True
    return header.next_offset == rules.upper_bound_offset


def _emptied(header: BatchHeader, rules: CleaningRules) -> bytearray | None:
    if not _must_stay(header, rules):
        return None
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _sealed(header, [], attributes, -1, header.max_timestamp, 0)


def _rebuilt(header: BatchHeader, attributes: int, base_timestamp: int, records: list[bytes]) -> bytearray:
    max_timestamp = header.max_timestamp
    if not attributes & LOG_APPEND_TIME:
        max_timestamp = base_timestamp + max(_timestamp_delta(record)[0] for record in records)
    return _sealed(header, records, attributes, base_timestamp, max_timestamp, len(records))


def _with_horizon(header: BatchHeader, section: bytes, kept: list[tuple[int, int]], horizon: int) -> bytearray:
    """The surviving records with their timestamps relative to the delete horizon."""
    shift = header.base_timestamp - horizon
    records = []
    for start, end in kept:
        record = section[start:end]
        delta, before, behind = _timestamp_delta(record)
        body = record[before - 1 : before] + varint(delta + shift) + record[behind:]
        records.append(varint(len(body)) + body)
    return _rebuilt(header, header.attributes | DELETE_HORIZON, horizon, records)


def _timestamp_delta(record: bytes) -> tuple[int, int, int]:
    """A record's timestamp delta, where it begins and where it ends."""
    _, pos = read_varint(record, 0)
    delta, behind = read_varint(record, pos + 1)
    return delta, pos + 1, behind


def _sealed(
    header: BatchHeader, records: list[bytes], attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> bytearray:
    return seal_batch(
        records,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=count,
    )
