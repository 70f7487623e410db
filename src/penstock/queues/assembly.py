"""From acquired ranges to the bytes of an answer: only the acquired records, however the producer batched them.

A batch that is acquired whole goes out as it is stored. One that is acquired in part is cut; it is opened (and
decompressed) once, and kept while the window is over it, so that a batch of 10,000 records that is handed out twenty at
a time is read once and not five hundred times. The memory for that is bounded: beyond the bound batches are let go, and
read again when they are needed.

Two things can be wrong with a range that looked fine when it was chosen. A batch that has to be cut may turn out to be
*unreadable*: its compressed part is broken, unpacks beyond the limit, or is not what was stored. And compaction may
have removed batches or records meanwhile, whose offsets are *absent*. Both are reported, so that the window lets go of
them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.queues.transitions import AcquiredRange, Unreadable
from penstock.records.batch import BatchHeader, Buffer, CorruptBatch, iter_headers
from penstock.records.cutting import OpenedBatch

DEFAULT_CACHE_BYTES = 32 << 20

Load = Callable[[int], Buffer]
"""Reads whole batches from the log, the first of which holds the offset or comes after it; empty at the end."""


class CachedBatch:
    __slots__ = ("_fault", "_is_dense", "_opened", "base_offset", "holes", "last_offset", "raw", "records_count")

    def __init__(self, header: BatchHeader, raw: Buffer, holes: Sequence[tuple[int, int]] | None) -> None:
        self.base_offset = header.base_offset
        self.last_offset = header.last_offset
        self.records_count = max(1, header.records_count)
        self._is_dense = header.records_count == header.last_offset_delta + 1
        self.raw = raw
        self.holes = holes
        """Offsets without a record; None as long as nobody has looked whether the batch is to be delivered at all."""
        self._opened: OpenedBatch | None = None
        self._fault = ""

    @property
    def size(self) -> int:
        return len(self.raw) + (self._opened.size if self._opened is not None else 0)

    def bytes_per_record(self) -> int:
        size = self._opened.size if self._opened is not None else len(self.raw)
        return max(1, size // self.records_count)

    def cut(self, first_offset: int, last_offset: int) -> Buffer:
        if first_offset <= self.base_offset and last_offset >= self.last_offset:
            return self.raw
        return self._open().cut(first_offset, last_offset)

    def missing(self, first_offset: int, last_offset: int) -> list[tuple[int, int]]:
        """Ranges of offsets between the two that hold no record, as they are in the batch now."""
        if self._is_dense:
            return []
        holes = self.holes if self.holes is not None else self._open().holes()
        return [
            (max(first, first_offset), min(last, last_offset))
            for first, last in holes
            if first <= last_offset and last >= first_offset
        ]

    def _open(self) -> OpenedBatch:
        """Opened once. A batch that cannot be opened is not tried again either: it may unpack to gigabytes."""
        if self._opened is None:
            if self._fault:
                raise CorruptBatch(self._fault)
            try:
                self._opened = OpenedBatch(self.raw)
            except CorruptBatch as error:
                self._fault = str(error)
                raise
        return self._opened


@dataclass(slots=True)
class Assembled:
    """Parts of a `records` field, and the ranges that they answer, less what is named as absent or unreadable."""

    parts: list[Buffer] = field(default_factory=list)
    ranges: list[AcquiredRange] = field(default_factory=list)
    size: int = 0
    absent: list[tuple[int, int]] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether every offset of the ranges has its record among the parts."""
        return not self.absent and not self.unreadable


class BatchCache:
    def __init__(self, cache_bytes_max: Callable[[], int] = lambda: DEFAULT_CACHE_BYTES) -> None:
        self._cache_bytes_max = cache_bytes_max
        """Asked each time, because it depends on how many share the memory."""
        self._last_offsets: list[int] = []
        self._batches: list[CachedBatch] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, header: BatchHeader, raw: Buffer, holes: Sequence[tuple[int, int]] | None = None) -> None:
        at = bisect_left(self._last_offsets, header.base_offset)
        if at < len(self._batches) and self._batches[at].base_offset <= header.last_offset:
            if holes is not None:
                self._batches[at].holes = holes
            return
        if self._bytes > self._cache_bytes_max():
            self.clear()
            at = 0
        self._last_offsets.insert(at, header.last_offset)
        self._batches.insert(at, CachedBatch(header, raw, holes))
        self._bytes += len(raw)

    def at(self, offset: int) -> CachedBatch | None:
        at = bisect_left(self._last_offsets, offset)
        if at < len(self._batches) and self._batches[at].base_offset <= offset:
            return self._batches[at]
        return None

    def forget_below(self, offset: int) -> None:
        done = bisect_left(self._last_offsets, offset)
        if done:
            self._bytes -= sum(batch.size for batch in self._batches[:done])
            del self._batches[:done], self._last_offsets[:done]

    def clear(self) -> None:
        self._batches.clear()
        self._last_offsets.clear()
        self._bytes = 0

    def assemble(self, ranges: Sequence[AcquiredRange], max_bytes: int, load: Load) -> Assembled:
        """The records of the ranges, in order, until the bytes are used up; the first record always fits (KIP-74)."""
        done = Assembled()
        for span in ranges:
            reached = self._add_range(done, span, max_bytes, load)
            if reached >= span.first_offset:
                done.ranges.append(span._replace(last_offset=reached))
            if reached < span.last_offset:
                break
        return done

    def _add_range(self, done: Assembled, span: AcquiredRange, max_bytes: int, load: Load) -> int:
        """Add what fits; returns the last offset that did."""
        offset = span.first_offset
        while offset <= span.last_offset:
            batch = self._find(offset, load)
            if batch is None or batch.base_offset > span.last_offset:
                done.absent.append((offset, span.last_offset))
                return span.last_offset
            if batch.base_offset > offset:
                done.absent.append((offset, batch.base_offset - 1))
                offset = batch.base_offset
            last = min(span.last_offset, batch.last_offset)
            left = max_bytes - done.size
            fitting = left // batch.bytes_per_record()
            whole = offset <= batch.base_offset and last == batch.last_offset and len(batch.raw) <= left
            if not whole and fitting < last - offset + 1:
                if fitting <= 0 and done.parts:
                    return offset - 1
                last = offset + max(1, fitting) - 1
            held = batch.size
            try:
                done.absent += batch.missing(offset, last)
                piece = batch.cut(offset, last)
            except CorruptBatch as error:
                done.unreadable.append(Unreadable(batch.base_offset, batch.last_offset, str(error)))
                offset = batch.last_offset + 1
                continue
            if self.at(offset) is batch:
                self._bytes += batch.size - held
            if piece:
                done.parts.append(piece)
                done.size += len(piece)
            offset = last + 1
            if last < min(span.last_offset, batch.last_offset):
                return last
        return span.last_offset

    def _find(self, offset: int, load: Load) -> CachedBatch | None:
        batch = self.at(offset)
        if batch is not None:
            return batch
        data = load(offset)
        view = memoryview(data)
        first: CachedBatch | None = None
        for position, header in iter_headers(data):
            raw = view[position : position + header.size]
            if header.last_offset >= offset:
                self.put(header, raw)
                first = first or self.at(header.last_offset) or CachedBatch(header, raw, None)
        return first


def split_entries(ranges: Sequence[AcquiredRange], batch_size: int) -> list[AcquiredRange]:
    """Entries of at most BatchSize records, the unit in which a `batch_optimized` client acknowledges (KIP-1206)."""
    if batch_size <= 0 or all(last - first < batch_size for first, last, _ in ranges):
        return list(ranges)
    return [
        AcquiredRange(start, min(start + batch_size - 1, last), count)
        for first, last, count in ranges
        for start in range(first, last + 1, batch_size)
    ]
