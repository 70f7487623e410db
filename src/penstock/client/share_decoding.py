"""Decodes the response to a share fetch: only the records that were acquired, each with its delivery count.

A broker may send whole batches of which only some offsets were acquired for this consumer. It may also have acquired
offsets without a record (transaction markers, records removed by compaction): these gaps are acknowledged silently.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.client.decoding import decode_batch
from penstock.client.share_acknowledgements import runs_of
from penstock.client.share_session import SharePartition, ShareSession, TopicIdPartition
from penstock.client.types import ConsumerRecord, TopicPartition
from penstock.records.batch import BatchHeader, CorruptBatch, crc_is_valid, iter_headers


@dataclass(slots=True)
class Delivered:
    """Acquired records of one partition, the session to acknowledge them to, and what else was acquired with them."""

    session: ShareSession
    tp: TopicPartition
    partition: TopicIdPartition
    records: list[ConsumerRecord[bytes, bytes]]
    gaps: list[tuple[int, int]]
    corrupt: list[tuple[int, int]]  # acquired offsets of batches that cannot be read
    locked_at: float = 0.0

    def locked_runs(self) -> list[tuple[int, int]]:
        """All that is locked and not acknowledged yet."""
        return self.runs() + self.corrupt

    def runs(self) -> list[tuple[int, int]]:
        """The records' offsets as runs without holes."""
        return runs_of_records(self.records)


def decode_share_partition(
    session: ShareSession, tp: TopicPartition, fetched: SharePartition, check_crcs: bool
) -> Delivered:
    acquired = sorted(fetched.acquired)
    records: list[ConsumerRecord[bytes, bytes]] = []
    corrupt: list[tuple[int, int]] = []
    behind = acquired[0][0]
    try:
        for pos, header in iter_headers(fetched.records):
            behind = header.next_offset
            if header.is_control:
                continue
            try:
                if check_crcs and not crc_is_valid(fetched.records, pos, header.size):
                    raise CorruptBatch("checksum")
                records += _acquired_of(tp, fetched.records, pos, header, acquired)
            except CorruptBatch:
                corrupt += _overlap(header.base_offset, header.last_offset, acquired)
    except CorruptBatch:  # not even a header: nothing behind it can be read
        corrupt += _overlap(behind, acquired[-1][1], acquired)
    acquired_count = sum(last - first + 1 for first, last, _ in acquired)
    gaps: list[tuple[int, int]] = []
    if acquired_count != len(records):
        there = {record.offset for record in records}
        for first, last in corrupt:
            there.update(range(first, last + 1))
        gaps = runs_of([o for first, last, _ in acquired for o in range(first, last + 1) if o not in there])
    return Delivered(session, tp, fetched.partition, records, gaps, corrupt, fetched.locked_at)


def _acquired_of(
    tp: TopicPartition, data: memoryview, pos: int, header: BatchHeader, acquired: list[tuple[int, int, int]]
) -> list[ConsumerRecord[bytes, bytes]]:
    """The records of a batch that were acquired. Mostly one range covers the whole batch."""
    found: list[ConsumerRecord[bytes, bytes]] = []
    for first, last, count in acquired:
        if last < header.base_offset or first > header.last_offset:
            continue
        records = decode_batch(tp.topic, tp.partition, data, pos, header, first, count)
        if records and last < records[-1].offset:
            records = [record for record in records if record.offset <= last]
        found += records
    return found


def _overlap(start: int, end: int, acquired: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """The acquired offsets between `start` and `end`."""
    return [(max(first, start), min(last, end)) for first, last, _ in acquired if first <= end and last >= start]


def runs_of_records(records: list[ConsumerRecord[bytes, bytes]]) -> list[tuple[int, int]]:
    """The offsets of records, which ascend, as runs without holes."""
    if not records:
        return []
    first, last = records[0].offset, records[-1].offset
    if last - first == len(records) - 1:
        return [(first, last)]
    return runs_of([record.offset for record in records])
