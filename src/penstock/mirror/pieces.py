"""From the batches of the source to batches that the target can append.

A target gives a batch of n records the next n offsets. So a batch whose offsets have no gaps goes through as it is,
still compressed: only its producer, its sequence number and its checksum change. A batch with gaps in it (compaction
took records out) is cut where they are, and so is one of which the target has the beginning already. Small batches that
follow each other without a gap become one, because each batch costs a request.

What a reader of committed records never sees (markers, aborted transactions) is left out, and so becomes a gap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.records.aborted import BatchFilter
from penstock.records.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    BatchHeader,
    crc_is_valid,
    iter_headers,
    write_crc,
)
from penstock.records.builder import NewRecord, build_batch
from penstock.records.record import Record, decode_records

MERGED_RECORDS_MAX = 16
"""A batch of at most so many records is worth decoding to save a request."""

MERGED_BYTES_MAX = 65_536

_HEAD = struct.Struct(">qii")
_IDENTITY = struct.Struct(">qhi")
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_IDENTITY_AT = 43


class CorruptSource(Exception):
    """A batch of the source does not match its checksum."""


@dataclass(slots=True)
class Piece:
    """One batch for the target: `count` records, the first of which belongs at offset `first`."""

    first: int
    count: int
    data: bytearray

    @property
    def next(self) -> int:
        return self.first + self.count

    def sign(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        """Write the producer and the sequence number, then the checksum that they change."""
        _HEAD.pack_into(self.data, 0, 0, len(self.data) - 12, -1)
        _IDENTITY.pack_into(self.data, _IDENTITY_AT, producer_id, producer_epoch, sequence)
        write_crc(self.data, 0, len(self.data))


def cut(
    data: memoryview, position: int, aborted: Iterable[tuple[int, int]] = (), ends_at: int = -1
) -> tuple[list[Piece], int]:
    """The pieces of fetched bytes from `position` on, and the offset behind the last whole batch; no batch that begins
    at `ends_at` or later, unless it is -1.
    """
    chosen = BatchFilter(aborted)
    pieces: list[Piece] = []
    small: list[Record] = []
    codec = small_bytes = 0
    for pos, header in iter_headers(data):
        if header.next_offset <= position:
            continue
        if 0 <= ends_at <= header.base_offset:
            break
        if not crc_is_valid(data, pos, header.size):
            raise CorruptSource(f"the batch at offset {header.base_offset} does not match its checksum")
        shown = not chosen.skips(header, data, pos) and header.records_count > 0
        joins = shown and header.records_count <= MERGED_RECORDS_MAX
        if small and not (
            joins
            and codec == header.attributes & CODEC_MASK
            and small_bytes + header.size <= MERGED_BYTES_MAX
            and small[-1].offset + 1 == header.base_offset
        ):
            pieces += runs(small, codec)
            small, small_bytes = [], 0
        if shown and (joins or not _is_plain(header, position)):
            records = [each for each in decode_records(data, pos, header) if each.offset >= position]
            codec = header.attributes & CODEC_MASK
            if joins:
                small += records
                small_bytes += header.size
            else:
                pieces += runs(records, codec)
        elif shown:
            pieces.append(_whole(data, pos, header))
        position = header.next_offset
    pieces += runs(small, codec)
    return pieces, position


def runs(records: list[Record], codec: int) -> Iterator[Piece]:
    """One piece for each run of records whose offsets follow each other."""
    start = 0
    for at in range(1, len(records) + 1):
        if at == len(records) or records[at].offset != records[at - 1].offset + 1:
            run = records[start:at]
            yield Piece(run[0].offset, len(run), build_batch(map(_new, run), codec=codec))
            start = at


def empty(first: int, count: int, timestamp: int, codec: int) -> Piece:
    """A piece of `count` records with nothing in them, to be deleted again. A compacted topic wants a key."""
    nothing: NewRecord = (timestamp, b"", None, ())
    return Piece(first, count, build_batch([nothing] * count, codec=codec))


def _is_plain(header: BatchHeader, position: int) -> bool:
    return (
        header.base_offset >= position
        and header.records_count == header.last_offset_delta + 1
        and not header.attributes & LOG_APPEND_TIME  # one timestamp in the header stands for that of each record
    )


def _whole(data: memoryview, pos: int, header: BatchHeader) -> Piece:
    copied = bytearray(data[pos : pos + header.size])
    _ATTRIBUTES.pack_into(copied, _ATTRIBUTES_AT, header.attributes & CODEC_MASK)
    return Piece(header.base_offset, header.records_count, copied)


def _new(record: Record) -> NewRecord:
    return record.timestamp, record.key, record.value, record.headers


def records_of(data: memoryview, position: int, aborted: Iterable[tuple[int, int]]) -> tuple[list[Record], int]:
    """What a reader of committed records sees in fetched bytes from `position` on, and the offset behind them."""
    chosen = BatchFilter(aborted)
    found: list[Record] = []
    for pos, header in iter_headers(data):
        if not chosen.skips(header, data, pos) and header.next_offset > position:
            found += [each for each in decode_records(data, pos, header) if each.offset >= position]
        position = max(position, header.next_offset)
    return found, position
