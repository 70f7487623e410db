"""One round of cleaning: build the map of keys, then rewrite the segments.

1. Over the dirty part of the log: key -> offset of its last record. The map is bounded by `log.cleaner.dedupe.buffer`;
   when it is full the round covers only what was mapped, and the next one goes on from there.
2. All segments from the log's beginning to the end of the mapped part are copied without the records that the map knows
   a later one of. Adjacent segments that fit into one are merged.

Nothing here touches the live files: the results carry the suffix `.cleaned` until the broker puts them in place.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator

from penstock import portable
from penstock.log.cleaner.filtering import CleaningRules, filter_batch
from penstock.log.cleaner.jobs import CleanedGroup, CleanedRound, CleanJob
from penstock.log.cleaner.key_map import KeyMap
from penstock.log.cleaner.swap import CLEANED_SUFFIX
from penstock.log.cleaner.transactions import CleanedTransactions
from penstock.log.files import SegmentFile, pread_all, write_all
from penstock.log.offset_index import OffsetIndex
from penstock.log.recovery import read_marker
from penstock.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_stem,
)
from penstock.log.time_index import TimeIndex
from penstock.log.transaction_index import AbortedTransaction, read_transaction_index, transaction_index_bytes
from penstock.records.batch import CONTROL, HEADER_SIZE, BatchHeader, CorruptBatch, crc_is_valid, parse_header
from penstock.records.record import records_section

Throttle = Callable[[int], None]
"""Told about every number of bytes read or written; waits as long as it must."""

_CHUNK = 1 << 20
_TIMESTAMP_AND_COUNT = struct.Struct(">q14xi").unpack_from
# What a key costs in a Python dict in the worst case: a bytes object, an int, and their share of the table.
BYTES_PER_KEY = 200


class CorruptSegment(Exception):
    """A segment holds bytes that are not batches, or batches that do not decode."""


def clean_round(job: CleanJob, throttle: Throttle) -> Iterator[CleanedGroup | CleanedRound]:
    """Clean a log, one group of segments at a time. Do not go on before the group is in place or given up."""
    aborted = [
        entry
        for base_offset in job.txn_index_segments
        for entry in read_transaction_index(file_stem(job.folder, base_offset) + TXN_INDEX_SUFFIX)
    ]
    keys, bytes_read = build_key_map(job, aborted, throttle)
    rules = CleaningRules(
        keys=keys,
        upper_bound_offset=job.upper_bound_offset,
        now_ms=job.now_ms,
        delete_retention_ms=job.delete_retention_ms,
        last_data_offsets={producer_id: offset for producer_id, offset, _ in job.producers if offset >= 0},
        last_epochs={producer_id: epoch for producer_id, offset, epoch in job.producers if offset < 0},
    )
    transactions = CleanedTransactions(aborted)
    bytes_written = 0
    for group in group_segments(job, keys.latest_offset + 1):
        writer = CleanedSegmentWriter(job.folder, group[0][0], job.index_interval_bytes)
        try:
            for base_offset, size in group:
                bytes_read += size
                for batch, header in read_batches(job.folder, base_offset, size, throttle):
                    kept, entry = filter_batch(batch, header, rules, transactions)
                    if entry is not None:
                        writer.aborted.append(entry)
                    if kept is not None:
                        writer.append(kept, header)
                        throttle(len(kept))
            writer.finish(file_stem(job.folder, group[-1][0]) + LOG_SUFFIX)
        except CorruptBatch as error:
            writer.discard()
            raise CorruptSegment(f"{file_stem(job.folder, group[0][0])}{LOG_SUFFIX}: {error}") from error
        except BaseException:
            writer.discard()
            raise
        bytes_written += writer.size
        yield CleanedGroup(base_offsets=[base_offset for base_offset, _ in group], size=writer.size)
    yield CleanedRound(
        end_offset=keys.latest_offset + 1,
        bytes_read=bytes_read,
        bytes_written=bytes_written,
        keys=len(keys.offsets),
    )


def build_key_map(job: CleanJob, aborted: list[AbortedTransaction], throttle: Throttle) -> tuple[KeyMap, int]:
    """The map of the dirty part, or of as much of it as fits, and how many bytes that took to read."""
    capacity = max(job.dedupe_buffer_bytes // BYTES_PER_KEY, 1)
    keys = KeyMap(job.first_dirty_offset)
    transactions = CleanedTransactions(aborted)
    bytes_read = 0
    for slot, (base_offset, size) in enumerate(job.segments):
        following = job.segments[slot + 1][0] if slot + 1 < len(job.segments) else job.upper_bound_offset
        if following <= job.first_dirty_offset:
            continue
        bytes_read += size
        try:
            for batch, header in read_batches(job.folder, base_offset, size, throttle):
                if header.last_offset < job.first_dirty_offset:
                    continue
                if header.attributes & CONTROL:
                    transactions.control_batch(header, read_marker(batch) if header.records_count else None)
                elif not transactions.data_batch(header) and header.records_count:
                    if keys.offsets and len(keys.offsets) + header.records_count > capacity:
                        keys.complete()
                        return keys, bytes_read
                    keys.add(header, records_section(batch, 0, header))
                keys.latest_offset = header.last_offset
        except CorruptBatch as error:
            raise CorruptSegment(f"{file_stem(job.folder, base_offset)}{LOG_SUFFIX}: {error}") from error
        keys.latest_offset = max(keys.latest_offset, following - 1)
    keys.complete()
    return keys, bytes_read


def group_segments(job: CleanJob, end_offset: int) -> list[list[tuple[int, int]]]:
    """Adjacent segments that fit into one, by bytes and by what a relative offset can say."""
    groups: list[list[tuple[int, int]]] = []
    group_bytes = 0
    for slot, (base_offset, size) in enumerate(job.segments):
        if base_offset >= end_offset:
            break
        last = (job.segments[slot + 1][0] if slot + 1 < len(job.segments) else job.upper_bound_offset) - 1
        fits = (
            groups
            and group_bytes + size <= job.segment_bytes
            and (group_bytes + size) // max(job.index_interval_bytes, 1) * 12 <= job.segment_index_bytes
            and (size == 0 or last - groups[-1][0][0] <= RELATIVE_OFFSET_MAX)
        )
        if fits:
            groups[-1].append((base_offset, size))
            group_bytes += size
        else:
            groups.append([(base_offset, size)])
            group_bytes = size
    return groups


def read_batches(
    folder: str, base_offset: int, size: int, throttle: Throttle
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """The batches of a segment file, each checked: what was damaged on disk must not be copied under a new CRC."""
    path = file_stem(folder, base_offset) + LOG_SUFFIX
    file = SegmentFile(path, os.O_RDONLY)
    chunk = memoryview(b"")
    at = chunk_at = 0
    while chunk_at + at < size:
        if len(chunk) - at < HEADER_SIZE or len(chunk) - at < int.from_bytes(chunk[at + 8 : at + 12], "big") + 12:
            position = chunk_at + at
            length = _CHUNK
            if len(chunk) - at >= HEADER_SIZE:
                length = max(length, int.from_bytes(chunk[at + 8 : at + 12], "big") + 12)
            chunk, chunk_at, at = memoryview(pread_all(file, min(length, size - position), position)), position, 0
            throttle(len(chunk))
        try:
            header = parse_header(chunk, at)
        except CorruptBatch as error:
            raise CorruptSegment(f"{path} at {chunk_at + at}: {error}") from error
        batch_size = header.size
        if batch_size > len(chunk) - at:
            if chunk_at + at + batch_size > size:
                raise CorruptSegment(f"{path} at {chunk_at + at}: a batch reaches beyond the segment's end")
            continue
        if not crc_is_valid(chunk, at, batch_size):
            raise CorruptSegment(f"{path} at {chunk_at + at}: the CRC of a batch does not match")
        yield chunk[at : at + batch_size], header
        at += batch_size


class CleanedSegmentWriter:
    """Writes the files of a cleaned segment: batches, both indexes, and the index of aborted transactions.

    The last one is written even if it is empty: an interrupted swap could otherwise not tell "there is none" from "it
    is in place already", and would leave the old segment's.
    """

    def __init__(self, folder: str, base_offset: int, index_interval_bytes: int) -> None:
        self._stem = file_stem(folder, base_offset)
        self._base_offset = base_offset
        self._interval = index_interval_bytes
        # The name must be free: two processes that write the same segment would ruin it.
        self._file = SegmentFile(self._stem + LOG_SUFFIX + CLEANED_SUFFIX, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._buffer: list[bytes | bytearray | memoryview] = []
        self._buffered = 0
        self._since_index = 0
        self._offset_index = OffsetIndex()
        self._time_index = TimeIndex()
        self._max_timestamp = -1
        self._max_timestamp_offset = -1
        self.aborted: list[AbortedTransaction] = []
        self.size = 0

    def append(self, batch: bytes | bytearray | memoryview, header: BatchHeader) -> None:
        max_timestamp, count = _TIMESTAMP_AND_COUNT(batch, 35)
        if count and max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = max_timestamp, header.last_offset
        if self._since_index > self._interval:
            self._offset_index.append(header.last_offset - self._base_offset, self.size)
            self._add_time()
            self._since_index = 0
        self._since_index += len(batch)
        self.size += len(batch)
        self._buffer.append(batch)
        self._buffered += len(batch)
        if self._buffered >= _CHUNK:
            self._flush()

    def finish(self, like: str) -> None:
        """Make everything durable. The files keep the age of `like`, which retention goes by without timestamps."""
        self._flush()
        self._add_time()
        modified = os.stat(like).st_mtime_ns
        portable.datasync(self._file.fd)
        os.utime(self._stem + LOG_SUFFIX + CLEANED_SUFFIX, ns=(modified, modified))
        for suffix, data in (
            (INDEX_SUFFIX, self._offset_index.to_bytes()),
            (TIME_INDEX_SUFFIX, self._time_index.to_bytes()),
            (TXN_INDEX_SUFFIX, transaction_index_bytes(self.aborted)),
        ):
            file = SegmentFile(self._stem + suffix + CLEANED_SUFFIX, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            write_all(file.fd, data)
            portable.datasync(file.fd)

    def discard(self) -> None:
        for suffix in SUFFIXES:
            try:
                os.unlink(self._stem + suffix + CLEANED_SUFFIX)
            except FileNotFoundError:
                continue

    def _add_time(self) -> None:
        self._time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset - self._base_offset)

    def _flush(self) -> None:
        if self._buffer:
            write_all(self._file.fd, b"".join(self._buffer))
            self._buffer.clear()
            self._buffered = 0
