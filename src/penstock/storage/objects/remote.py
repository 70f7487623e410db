"""Segments that are in the object store, read through sparse files.

Each object that is read has a file in the cache, as large as the segment and empty at first. A read that finds a chunk
missing raises ColdRead; a thread gets the range and writes it to its place, and the read is tried again. What is there
is handed to `sendfile` like any other file. The cache knows objects and ranges, never offsets: an object never changes,
so neither does what is cached of it.

The cache is bounded. The file that was used least recently goes first; whoever reads from it keeps it open until done,
and until then everybody finds what is in it: who has fetched a chunk will read it, whatever others fetch meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from penstock.log.errors import ColdRead, FarFetch
from penstock.log.files import DiskReader, OpenFiles, SegmentFile, pread_all, pwrite_all, write_file
from penstock.log.offset_index import OffsetIndex, StoredIndex
from penstock.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, BatchAt, Segment
from penstock.log.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.storage.objects.commit_log import SegmentEntry
    from penstock.storage.objects.store import ObjectStore

CHUNK_BYTES = 4 << 20
_FILES_MAX = 256


class CacheFile(SegmentFile):
    """A sparse file that holds some chunks of an object."""

    __slots__ = ("__weakref__", "_cache", "chunks", "held_bytes", "key", "size")

    def __init__(self, path: str, cache: SegmentCache, key: str, size: int) -> None:
        super().__init__(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(self.fd, size)
        self._cache = cache
        self.chunks: set[int] = set()
        """Those that are here."""
        self.held_bytes = 0
        self.key = key
        self.size = size

    def require(self, position: int, size: int) -> None:
        """Raises ColdRead unless the range is here."""
        end = min(position + size, self.size)
        if end <= position:
            return
        self._cache.used(self.key)
        wanted = range(position // CHUNK_BYTES, (end - 1) // CHUNK_BYTES + 1)
        missing = [chunk for chunk in wanted if chunk not in self.chunks]
        if missing:
            self._cache.misses += 1
            raise ColdRead(FarFetch(lambda: self.fetch(missing)))
        self._cache.hits += 1

    def fetch(self, chunks: list[int] | range) -> None:
        """Get chunks from the store, in a thread."""
        for chunk in chunks:
            if chunk not in self.chunks:
                start = chunk * CHUNK_BYTES
                data = self._cache.store.get(self.key, start, min(CHUNK_BYTES, self.size - start))
                pwrite_all(self.fd, data, start)
                self._cache.filled(self, chunk, len(data))

    def fetch_all(self) -> None:
        self.fetch(range((self.size + CHUNK_BYTES - 1) // CHUNK_BYTES))


class _CacheReader(DiskReader):
    """Reads from cache files what is there, and from other files as usual."""

    __slots__ = ()

    def read(self, file: SegmentFile, size: int, position: int) -> bytes:
        if isinstance(file, CacheFile):
            file.require(position, size)
            return pread_all(file, size, position)
        return super().read(file, size, position)


class SegmentCache:
    """The files of segments that are read from the store. Belongs to all threads."""

    def __init__(self, folder: Path, store: ObjectStore, limit_bytes: int) -> None:
        self.folder = folder
        self.store = store
        self.hits = self.misses = self.fetched_bytes = 0
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._files: OrderedDict[str, CacheFile] = OrderedDict()
        self._held: WeakValueDictionary[str, CacheFile] = WeakValueDictionary()
        """Those that somebody holds, in the cache or not."""
        self.open_files = OpenFiles()
        self.open_files.reader = _CacheReader()
        folder.mkdir(parents=True, exist_ok=True)
        for entry in list(os.scandir(folder)):
            os.unlink(entry.path)

    @property
    def bytes(self) -> int:
        return sum(file.held_bytes for file in self._files.values())

    def file(self, key: str, size: int) -> CacheFile:
        with self._lock:
            file = self._held.get(key)
            if file is None:
                # Without a name: a file that nobody holds is gone, and a crash leaves nothing behind.
                path = str(self.folder / "new")
                file = self._held[key] = CacheFile(path, self, key, size)
                os.unlink(path)
            if key in self._files:
                self._files.move_to_end(key)
            else:
                self._files[key] = file
                self._keep_within_bounds()
            return file

    def used(self, key: str) -> None:
        with self._lock:
            if key in self._files:
                self._files.move_to_end(key)

    def filled(self, file: CacheFile, chunk: int, size: int) -> None:
        with self._lock:
            self.fetched_bytes += size
            if chunk not in file.chunks:
                file.chunks.add(chunk)
                file.held_bytes += size
                self._keep_within_bounds()

    def _keep_within_bounds(self) -> None:
        while len(self._files) > 1 and (len(self._files) > _FILES_MAX or self.bytes > self._limit):
            self._files.popitem(last=False)


class RemoteSegment(Segment):
    """A segment of which the catalog says all that retention needs, and whose bytes come when they are read."""

    __slots__ = ("_cache", "_entry", "_has_sides")

    def __init__(self, folder: str, entry: SegmentEntry, cache: SegmentCache, index_interval_bytes: int) -> None:
        super().__init__(
            folder,
            entry.base_offset,
            entry.log_size,
            cache.open_files,
            created_ms=0,
            index_interval_bytes=index_interval_bytes,
            has_txn_index=False,
        )
        self._entry = entry
        self._cache = cache
        self._has_sides = False
        if entry.txn_index_size:
            self.txn_index = RemoteTransactionIndex(self)
        self.first_timestamp = entry.first_timestamp
        self.max_timestamp = entry.max_timestamp
        self.max_timestamp_offset = entry.max_timestamp_offset
        self._time_loaded = True

    @property
    def object_key(self) -> str:
        return self._entry.object_key

    def open_file(self) -> SegmentFile:
        return self._cache.file(self._entry.object_key, self._entry.log_size)

    def release(self) -> None:
        self._offset_index = self._time_index = self._rebuilt = None

    def sync(self) -> None:
        pass

    def largest_timestamp(self) -> int:
        return self.max_timestamp

    def require_sides(self) -> None:
        """Have the index files here. Raises ColdRead."""
        if not self._has_sides:
            raise ColdRead(FarFetch(self.fetch_sides))

    def fetch_sides(self) -> None:
        entry = self._entry
        size = entry.index_size + entry.time_index_size + entry.txn_index_size
        data = self._cache.store.get(entry.object_key, entry.log_size, size)
        time_at = entry.index_size
        txn_at = time_at + entry.time_index_size
        write_file(self.stem + INDEX_SUFFIX, data[:time_at])
        write_file(self.stem + TIME_INDEX_SUFFIX, data[time_at:txn_at])
        if entry.txn_index_size:
            write_file(self.stem + TXN_INDEX_SUFFIX, data[txn_at:])
        self._has_sides = True

    def _lookup_index(self) -> OffsetIndex | StoredIndex:
        self.require_sides()
        return super()._lookup_index()

    def batches_since(self, timestamp: int) -> Iterator[BatchAt]:
        self.require_sides()
        return super().batches_since(timestamp)


class RemoteTransactionIndex(TransactionIndex):
    __slots__ = ("_segment",)

    def __init__(self, segment: RemoteSegment) -> None:
        super().__init__(segment.stem + TXN_INDEX_SUFFIX, None)
        self._segment = segment

    def load(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._segment.require_sides()
        return super().load()
