"""A segment: one file of record batches and its indexes.

The batches lie in the `.log` file one after the other, byte for byte as producers sent them and consumers get them. A
segment knows three things about them that nothing else must get wrong: how many bytes of the file are batches (`size`;
whatever lies behind it is a torn write and is overwritten), where the batch with a given offset begins, and where the
last whole batch before a given byte ends.

Lookups use the offset index and then walk over batch headers. The position of the latest batches is also kept in a
small window in memory, because nearly every fetch is for one of them: it is answered without touching the file.

Whatever reads from the files raises ColdRead rather than wait for the disk, once the storage has opened its logs, and
leaves the segment as it was.
"""

from __future__ import annotations

import os
import struct
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from penstock import portable
from penstock.log.errors import ColdRead, StorageError
from penstock.log.files import OpenFiles, SegmentFile, pread_all, pwrite_all, write_file
from penstock.log.offset_index import OffsetIndex, StoredIndex
from penstock.log.time_index import TimeIndex, read_last_entry, stored_offset_before
from penstock.log.transaction_index import TransactionIndex
from penstock.portable import OPEN_FLAGS

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

RELATIVE_OFFSET_MAX = 2**31 - 1
_REBUILDING = threading.Lock()
_TAIL_MAX = 256
_WALK_CHUNK = 4096
_HEADER_SIZE = 61

# base offset, batch length, last offset delta, max timestamp, number of records
_POSITION_FIELDS = struct.Struct(">qi11xi8xq14xi").unpack_from


class BatchAt(NamedTuple):
    """What a walk over headers says of one batch."""

    position: int
    base_offset: int
    last_offset: int
    size: int
    max_timestamp: int
    """-1 of a batch that compaction emptied: whatever its header says, it holds no record of that time."""


def file_stem(folder: str, base_offset: int) -> str:
    return f"{folder}/{base_offset:020d}"


def walk_batches(
    file: SegmentFile,
    position: int,
    end: int,
    chunk_size: int = _WALK_CHUNK,
    read: Callable[[SegmentFile, int, int], bytes] = pread_all,
) -> Iterator[BatchAt]:
    """The batches from `position`, which must be a batch's start, to `end`. One that goes beyond `end` is left out."""
    chunk = b""
    chunk_at = position
    while position + _HEADER_SIZE <= end:
        at = position - chunk_at
        if at + _HEADER_SIZE > len(chunk):
            chunk = read(file, min(chunk_size, end - position), position)
            chunk_at, at = position, 0
            if len(chunk) < _HEADER_SIZE:
                return
        base_offset, length, last_delta, max_timestamp, count = _POSITION_FIELDS(chunk, at)
        size = length + 12
        if size < _HEADER_SIZE or position + size > end:
            return
        yield BatchAt(position, base_offset, base_offset + last_delta, size, max_timestamp if count else -1)
        position += size


class Segment:
    """One `.log` file and its indexes. Offsets are absolute."""

    __slots__ = (
        "_offset_index",
        "_open_files",
        "_reader",
        "_rebuilt",
        "_tail_offsets",
        "_tail_positions",
        "_time_index",
        "_time_loaded",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "file",
        "file_used",
        "first_timestamp",
        "index_entries",
        "index_interval_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "size",
        "stem",
        "txn_index",
    )

    def __init__(
        self,
        folder: str,
        base_offset: int,
        size: int,
        open_files: OpenFiles,
        *,
        created_ms: int,
        index_interval_bytes: int,
        has_txn_index: bool,
    ) -> None:
        self.stem = file_stem(folder, base_offset)
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.index_interval_bytes = index_interval_bytes
        self.bytes_since_index = 0
        self.index_entries = 0
        self.first_timestamp: int | None = None
        """The first batch's max timestamp, which time-based rolling counts from; None until it is known."""
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self._reader = open_files.reader
        self.txn_index = TransactionIndex(self.stem + TXN_INDEX_SUFFIX, None if has_txn_index else [], self._reader)
        self.file: SegmentFile | None = None
        self.file_used = False
        self._open_files = open_files
        self._offset_index: OffsetIndex | StoredIndex | None = None
        self._time_index: TimeIndex | None = None
        self._time_loaded = False
        self._rebuilt: Segment | None = None
        """The same segment with the indexes that a thread has made anew."""
        self._tail_offsets: array[int] = array("q")
        self._tail_positions: array[int] = array("q")

    @classmethod
    def create(
        cls, folder: str, base_offset: int, open_files: OpenFiles, *, created_ms: int, index_interval_bytes: int
    ) -> Segment:
        """A new, empty segment. Files of the same name are leftovers of something that was never acknowledged."""
        segment = cls(
            folder,
            base_offset,
            0,
            open_files,
            created_ms=created_ms,
            index_interval_bytes=index_interval_bytes,
            has_txn_index=False,
        )
        file = SegmentFile(segment.stem + LOG_SUFFIX, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                os.close(os.open(segment.stem + suffix, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | OPEN_FLAGS, 0o644))
        except OSError:
            # The log goes on with the segment it has, which must not seem to end where this one begins.
            os.unlink(segment.stem + LOG_SUFFIX)
            raise
        segment.file = file
        open_files.opened(segment)
        segment._offset_index = OffsetIndex()
        segment._time_index = TimeIndex()
        segment._time_loaded = True
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}, {self.size} bytes)"

    # Files

    def open_file(self) -> SegmentFile:
        file = self.file
        if file is None:
            try:
                file = self.file = SegmentFile(self.stem + LOG_SUFFIX)
            except OSError as error:
                raise StorageError(f"cannot open {self.stem}{LOG_SUFFIX}: {error.strerror}") from error
            self._open_files.opened(self)
        self.file_used = True
        return file

    def release(self) -> None:
        """Let go of the file and of the indexes in memory; they come back on demand."""
        self._open_files.forget(self)
        self._offset_index = None
        self._time_index = None
        self._rebuilt = None

    def sync(self) -> None:
        """Bring the batches to the disk. A file that was deleted in the meantime needs no sync."""
        file = self.file
        if file is None:
            try:
                file = SegmentFile(self.stem + LOG_SUFFIX)
            except FileNotFoundError:
                return
        portable.datasync(file.fd)

    # Appending

    def prepare_to_append(self) -> None:
        """Bring into memory what appending to a segment from an earlier run needs. Raises ColdRead."""
        if not self.size:
            self._begin_indexes()
            return
        self.load_timestamps()
        if not isinstance(self._offset_index, OffsetIndex):  # else it has just been made
            index = OffsetIndex.loaded(self.stem + INDEX_SUFFIX, self._reader)
            if index is None or not index.is_plausible(self.size):
                self.rebuild_indexes()
            else:
                self._offset_index = index
                self.index_entries = len(index)
        if self._time_index is None:
            self._time_index = TimeIndex.loaded(self.stem + TIME_INDEX_SUFFIX, self._reader) or TimeIndex()
        self.first_batch_timestamp()
        self.txn_index.load()

    def _begin_indexes(self) -> None:
        """Those of an empty segment say nothing, whatever is in their files."""
        self._offset_index = OffsetIndex()
        self._time_index = TimeIndex()
        self._time_loaded = True
        if self.txn_index.may_have_entries:
            self.txn_index = TransactionIndex.rebuilt(self.txn_index.path, [])

    def append(self, batch: bytes | bytearray | memoryview, last_offset: int, timestamp: int) -> None:
        """Write one whole batch behind the last one, with its base offset already in place."""
        file = self.file
        if file is None:
            file = self.open_file()
        self.file_used = True
        position = self.size
        try:
            pwrite_all(file.fd, batch, position)
        except OSError as error:
            self._cut_file(position)
            raise StorageError(f"cannot write to {self.stem}{LOG_SUFFIX}: {error.strerror}") from error
        size = len(batch)
        self.size = position + size

        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        if self.bytes_since_index > self.index_interval_bytes:
            self._add_index_entry(last_offset, position)
            self.bytes_since_index = size
        else:
            self.bytes_since_index += size
        tail = self._tail_offsets
        tail.append(last_offset)
        self._tail_positions.append(position)
        if len(tail) >= _TAIL_MAX:
            del tail[: _TAIL_MAX // 2]
            del self._tail_positions[: _TAIL_MAX // 2]

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        offset_index, time_index = self._offset_index, self._time_index
        assert isinstance(offset_index, OffsetIndex)
        assert time_index is not None
        offset_index.append(last_offset - self.base_offset, position)
        self.index_entries += 1
        time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def _cut_file(self, size: int) -> None:
        """Give the bytes of a failed write back. If even that fails they are a tail that the next write covers."""
        try:
            os.ftruncate(self.open_file().fd, size)
        except OSError:
            pass

    def write_indexes(self) -> None:
        """Save the indexes of a segment that was appended to. They can be rebuilt, so a full disk is no error here."""
        offset_index, time_index = self._offset_index, self._time_index
        if not isinstance(offset_index, OffsetIndex) or time_index is None:
            return
        time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        try:
            if offset_index.changed:
                write_file(self.stem + INDEX_SUFFIX, offset_index.to_bytes())
                offset_index.changed = False
            if time_index.changed:
                write_file(self.stem + TIME_INDEX_SUFFIX, time_index.to_bytes())
                time_index.changed = False
        except OSError:
            return

    def freeze(self) -> None:
        """The segment has rolled: save its indexes, and keep none of them in memory."""
        self.write_indexes()
        if isinstance(self._offset_index, OffsetIndex) and not self._offset_index.changed:
            self._offset_index = None
        if self._time_index is not None and not self._time_index.changed:
            self._time_index = None
        self._tail_offsets = array("q")
        self._tail_positions = array("q")

    def truncate_to(self, size: int) -> None:
        """Drop everything from a batch boundary on. The indexes are rebuilt by whoever calls this (recovery)."""
        os.ftruncate(self.open_file().fd, size)
        self.size = size
        self._tail_offsets = array("q")
        self._tail_positions = array("q")

    # Finding batches

    def find(self, offset: int) -> BatchAt | None:
        """The first batch whose last offset is at or above `offset`, None if the segment ends before."""
        for batch in self.batches_from(offset):
            if batch.last_offset >= offset:
                return batch
        return None

    def position_of(self, offset: int) -> int:
        """Where the first batch with a last offset at or above `offset` begins; the segment's size if there is none."""
        tail = self._tail_offsets
        if tail and (offset > tail[0] or self._tail_positions[0] == 0):
            slot = bisect_left(tail, offset)
            return self._tail_positions[slot] if slot < len(tail) else self.size
        batch = self.find(offset)
        return batch.position if batch is not None else self.size

    def batches_from(self, offset: int) -> Iterator[BatchAt]:
        """Batches in order, starting at or somewhat before the one that holds `offset`."""
        return self._walk(self._indexed_position(offset))

    def _walk(self, position: int) -> Iterator[BatchAt]:
        return walk_batches(self.open_file(), position, self.size, read=self._reader.read)

    def read_batch(self, batch: BatchAt) -> bytes:
        return self._reader.read(self.open_file(), batch.size, batch.position)

    def _indexed_position(self, offset: int) -> int:
        relative = offset - self.base_offset
        entry_offset, position = self._lookup_index().lookup(relative)
        if entry_offset >= 0 and not self._is_batch(position, entry_offset + self.base_offset):
            self.rebuild_indexes()
            position = self._lookup_index().lookup(relative)[1]
        return position

    def _is_batch(self, position: int, last_offset: int) -> bool:
        """Whether an index entry tells the truth. An index is not checksummed, so a damaged one is found here."""
        if position < 0:
            return False
        header = self._reader.read(self.open_file(), _HEADER_SIZE, position)
        if len(header) < _HEADER_SIZE:
            return False
        base_offset, _, last_delta, _, _ = _POSITION_FIELDS(header, 0)
        return bool(base_offset + last_delta == last_offset and header[16] == 2)

    def whole_batches_end(self, start: int, limit: int) -> int:
        """The end of the last whole batch between `start`, a batch's start, and `limit`. `start` if none fits."""
        if limit >= self.size:
            return self.size
        tail = self._tail_positions
        if tail and limit >= tail[0]:
            slot = bisect_left(tail, limit + 1) - 1
            return max(tail[slot], start)
        entry_offset, position = self._lookup_index().before_position(limit)
        if position <= start or not self._is_batch(position, self.base_offset + entry_offset):
            position = start
        for batch in self._walk(position):
            if batch.position > limit:
                break
            position = batch.position
            if batch.position + batch.size > limit:
                break
            position += batch.size
        return position

    def batch_size_at(self, position: int) -> int:
        """Size of the batch that begins at `position`."""
        header = self._reader.read(self.open_file(), 12, position)
        return int.from_bytes(header[8:], "big") + 12

    def offset_bound_after(self, position: int) -> int:
        """An offset that no batch before `position` reaches, from the index alone; -1 if the index does not say."""
        relative = self._lookup_index().offset_at_or_after(position)
        return self.base_offset + relative if relative >= 0 else -1

    def _lookup_index(self) -> OffsetIndex | StoredIndex:
        index = self._offset_index
        if index is None:
            index = StoredIndex.opened(self.stem + INDEX_SUFFIX, self._reader)
            if index is None or not index.is_plausible(self.size):
                self.rebuild_indexes()
                index = self._offset_index
                assert index is not None
            else:
                self._offset_index = index
        return index

    # Timestamps

    def load_timestamps(self) -> None:
        """Learn the largest timestamp of a segment from an earlier run: the last entry of its time index."""
        if self._time_loaded:
            return
        last = read_last_entry(self.stem + TIME_INDEX_SUFFIX, self._reader)
        if last is not None and last == (-1, -1):
            if not self.size or self._has_no_timestamps():
                self._time_loaded = True
                return
            last = None
        if last is not None:
            timestamp, relative = last
            batch = self.find(self.base_offset + relative) if relative >= 0 else None
            if batch is not None and batch.max_timestamp == timestamp:
                self.max_timestamp, self.max_timestamp_offset = timestamp, self.base_offset + relative
                self._time_loaded = True
                return
        self.rebuild_indexes()

    def _has_no_timestamps(self) -> bool:
        """An empty time index is right only if no batch carries a timestamp; the first one tells."""
        first = next(self._walk(0), None)
        return first is None or first.max_timestamp < 0

    def largest_timestamp(self) -> int:
        """The largest record timestamp, or when the file was last written if no record has one."""
        self.load_timestamps()
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return os.stat(self.stem + LOG_SUFFIX).st_mtime_ns // 1_000_000

    def first_batch_timestamp(self) -> int:
        """The first batch's max timestamp, -1 if there is none; time-based rolling and compaction count from it."""
        if self.first_timestamp is None and self.size:
            first = next(self._walk(0), None)
            self.first_timestamp = first.max_timestamp if first is not None else None
        return self.first_timestamp if self.first_timestamp is not None else -1

    def batches_since(self, timestamp: int) -> Iterator[BatchAt]:
        """The batches that may hold a record at or after `timestamp`, in order."""
        if self._time_index is not None:
            relative = self._time_index.offset_before(timestamp)
        else:
            relative = stored_offset_before(self.stem + TIME_INDEX_SUFFIX, timestamp, self._reader)
        start = self._indexed_position(self.base_offset + relative) if relative >= 0 else 0
        for batch in self._walk(start):
            if batch.max_timestamp >= timestamp:
                yield batch

    def rebuild_indexes(self) -> None:
        """Make both indexes anew from the batches, as appending them did.

        That takes reading the whole segment: where nobody may wait for it, a thread does, and this adopts the result.
        """
        if self._reader.may_wait:
            self._make_indexes()
        elif self._rebuilt is not None:
            self._adopt(self._rebuilt)
        else:
            raise ColdRead(self._rebuild_apart)
        self.write_indexes()

    def _make_indexes(self) -> None:
        self.start_rebuild()
        for batch in walk_batches(self.open_file(), 0, self.size, 1 << 16):
            self.note_batch(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
        self.finish_rebuild()

    def _rebuild_apart(self) -> None:
        """Read the segment and make its indexes, in a thread. What the event loop uses is left alone."""
        with _REBUILDING:
            if self._rebuilt is None:
                rebuilt = Segment(
                    os.path.dirname(self.stem),
                    self.base_offset,
                    self.size,
                    OpenFiles(),
                    created_ms=self.created_ms,
                    index_interval_bytes=self.index_interval_bytes,
                    has_txn_index=False,
                )
                rebuilt.file = self.file  # which may have been deleted in the meantime
                rebuilt._make_indexes()
                self._rebuilt = rebuilt

    def _adopt(self, rebuilt: Segment) -> None:
        for batch in self._walk(rebuilt.size):  # what was appended in the meantime
            rebuilt.note_batch(batch.position, batch.size, batch.last_offset, batch.max_timestamp)
            rebuilt.size += batch.size
        self._rebuilt = None
        self._offset_index, self._time_index, self._time_loaded = rebuilt._offset_index, rebuilt._time_index, True
        self.max_timestamp, self.max_timestamp_offset = rebuilt.max_timestamp, rebuilt.max_timestamp_offset
        self.bytes_since_index, self.index_entries = rebuilt.bytes_since_index, rebuilt.index_entries
        self.first_timestamp = rebuilt.first_timestamp

    def start_rebuild(self) -> None:
        """Forget the indexes; `note_batch` for every batch and `finish_rebuild` make new ones."""
        self._offset_index, self._time_index, self._time_loaded = OffsetIndex(), TimeIndex(), True
        self.max_timestamp = self.max_timestamp_offset = -1
        self.bytes_since_index = self.index_entries = 0
        self.first_timestamp = None

    def note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        if self.bytes_since_index > self.index_interval_bytes:
            self._add_index_entry(last_offset, position)
            self.bytes_since_index = 0
        self.bytes_since_index += size

    def finish_rebuild(self) -> None:
        """The indexes are whole. Saving them is up to whoever calls this, or to the next roll."""
        offset_index, time_index = self._offset_index, self._time_index
        assert isinstance(offset_index, OffsetIndex)
        assert time_index is not None
        offset_index.changed = time_index.changed = True
