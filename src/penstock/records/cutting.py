"""Cutting a batch: some of its records as a batch of their own, under the same offsets and timestamps.

A share group hands out records, not batches, so a consumer that acquires part of a producer's batch must be sent just
that part. Every client computes a record's offset and timestamp by adding its deltas to the base of the batch, so the
cut batch keeps the original base offset and base timestamp, and the bytes of the chosen records are copied as they
stand. Only the header changes: last offset delta, count, length, CRC. It never names a codec: compressing again would
cost far more than the bytes it saves.

A part gets a checksum of its own, so the stored one is checked before the first cut: otherwise bytes that rotted on
disk would leave with a seal that says they are good.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from penstock.records.batch import CODEC_MASK, BatchHeader, Buffer, CorruptBatch, crc_is_valid, parse_header
from penstock.records.builder import seal_batch
from penstock.records.codecs import DEFAULT_LIMIT
from penstock.records.record import records_section
from penstock.records.scan import record_heads, record_starts


def cut_batch(buf: Buffer, pos: int, first_offset: int, last_offset: int, limit: int = DEFAULT_LIMIT) -> bytes:
    """The records of the batch at `pos` whose offsets lie in [first_offset, last_offset], as a batch.

    The whole range gives the batch as it is; a range that holds no record gives nothing.
    """
    header = parse_header(buf, pos)
    if first_offset <= header.base_offset and last_offset >= header.last_offset:
        return bytes(memoryview(buf)[pos : pos + header.size])
    return bytes(OpenedBatch(buf, pos, limit).cut(first_offset, last_offset))


class OpenedBatch:
    """A batch that was decompressed and walked once, so that each cut costs only the bytes it copies."""

    __slots__ = ("_deltas", "_section", "_starts", "header")

    def __init__(self, buf: Buffer, pos: int = 0, limit: int = DEFAULT_LIMIT) -> None:
        self.header: BatchHeader = parse_header(buf, pos)
        header = self.header
        if not crc_is_valid(buf, pos, header.size):
            raise CorruptBatch("the stored checksum does not match the batch")
        self._section = records_section(buf, pos, header, limit)
        self._starts = record_starts(self._section, header.records_count)
        self._deltas: list[int] | range
        if header.records_count == header.last_offset_delta + 1:
            # As many records as offsets: none was compacted away, so there is no need to read the deltas.
            self._deltas = range(header.records_count)
        else:
            self._deltas = [delta for _, delta, _ in record_heads(self._section, header.records_count)]
            if any(a >= b for a, b in pairwise(self._deltas)):
                raise CorruptBatch("the offsets inside the batch do not increase")

    @property
    def size(self) -> int:
        """Bytes held in memory, for a cache to count."""
        return len(self._section) + 8 * len(self._starts)

    def holes(self) -> list[tuple[int, int]]:
        """Ranges of offsets in the batch that hold no record (any more)."""
        if isinstance(self._deltas, range):
            return []
        base_offset = self.header.base_offset
        deltas = [-1, *self._deltas, self.header.last_offset_delta + 1]
        return [
            (base_offset + before + 1, base_offset + after - 1)
            for before, after in pairwise(deltas)
            if after - before > 1
        ]

    def cut(self, first_offset: int, last_offset: int) -> bytes | bytearray:
        """The records whose offsets lie in [first_offset, last_offset] as a batch; empty when there is none."""
        header = self.header
        first = bisect_left(self._deltas, first_offset - header.base_offset)
        end = bisect_right(self._deltas, last_offset - header.base_offset)
        if first >= end:
            return b""
        chosen = memoryview(self._section)[self._starts[first] : self._starts[end]]
        return seal_batch(
            [chosen],
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
            attributes=header.attributes & ~CODEC_MASK,
            last_offset_delta=self._deltas[end - 1],
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            records_count=end - first,
        )
