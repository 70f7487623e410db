"""Segments that are in the object store, read through sparse files.

Each object that is read has a file in the cache, as large as the segment and empty at first. A read that finds a chunk
missing raises ColdRead; a thread gets the range and writes it to its place, and the read is tried again. What is there
is handed to `sendfile` like any other file. The cache knows objects and ranges, never offsets: an object never changes,
so neither does what is cached of it.

Whoever reads on from one chunk to the next will want those that follow: threads of the cache's own get them meanwhile,
several at a time, those at the start of the next object of the log included. A look-up alone has nothing fetched ahead.

The cache is bounded. The file that was used least recently goes first; whoever reads from it keeps it open until done,
and until then everybody finds what is in it: who has fetched a chunk will read it, whatever others fetch meanwhile.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from penstock.log.errors import ColdRead, FarFetch, StorageError
from penstock.log.files import DiskReader, OpenFiles, SegmentFile, pread_all, pwrite_all, write_file
from penstock.log.offset_index import OffsetIndex, StoredIndex
from penstock.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, BatchAt, Segment
from penstock.log.transaction_index import AbortedTransaction, TransactionIndex
from penstock.threads import THREADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.storage.objects.commit_log import SegmentEntry
    from penstock.storage.objects.store import ObjectStore
    from penstock.threads import Event, Pool, Threads

CHUNK_BYTES = 4 << 20
AHEAD_CHUNKS = 4
"""How far the cache is ahead of whoever reads on."""
_AHEAD_THREADS = 4
_AHEAD_WAITING_MAX = 4 * AHEAD_CHUNKS
"""Of all readers: what waits longer is read by whoever needs it, before its turn comes."""
_AHEAD_LIMIT_BYTES = 16 * AHEAD_CHUNKS * CHUNK_BYTES
"""In a smaller cache nothing is fetched ahead: it would push out what somebody reads."""
_FILES_MAX = 256

log = logging.getLogger("penstock.storage")


class CacheFile(SegmentFile):
    """A sparse file that holds some chunks of an object."""

    __slots__ = ("__weakref__", "_cache", "_fetching", "_queued", "chunks", "held_bytes", "key", "size")

    def __init__(self, path: str, cache: SegmentCache, key: str, size: int) -> None:
        super().__init__(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(self.fd, size)
        self._cache = cache
        self.chunks: set[int] = set()
        """Those that are here."""
        self.held_bytes = 0
        self._fetching: dict[int, Event] = {}
        """Chunks that are under way, and what is set when they are here or have failed."""
        self._queued: set[int] = set()
        self.key = key
        self.size = size

    @property
    def chunk_count(self) -> int:
        return (self.size + CHUNK_BYTES - 1) // CHUNK_BYTES

    def require(self, position: int, size: int) -> None:
        """Raises ColdRead unless the range is here."""
        end = min(position + size, self.size)
        if end <= position:
            return
        self._cache.used(self.key)
        wanted = range(position // CHUNK_BYTES, (end - 1) // CHUNK_BYTES + 1)
        missing = [chunk for chunk in wanted if chunk not in self.chunks]
        if position and (wanted[0] == 0 or wanted[0] - 1 in self.chunks):
            self.fetch_ahead(range(wanted[-1] + 1, min(wanted[-1] + 1 + AHEAD_CHUNKS, self.chunk_count)))
        if missing:
            self._cache.misses += 1
            raise ColdRead(FarFetch(lambda: self.fetch(missing)))
        self._cache.hits += 1

    def fetch(self, chunks: list[int] | range) -> None:
        """Get chunks from the store, in a thread."""
        for chunk in chunks:
            while not self._fetch_once(chunk):
                pass

    def _fetch_once(self, chunk: int) -> bool:
        """Whether the chunk is here. If another thread was about to get it, that may have failed."""
        with self._cache.lock:
            if chunk in self.chunks:
                return True
            under_way = self._fetching.get(chunk)
            if under_way is None:
                done = self._fetching[chunk] = self._cache.threads.event()
        if under_way is not None:
            under_way.wait()
            return False
        try:
            start = chunk * CHUNK_BYTES
            data = self._cache.store.get(self.key, start, min(CHUNK_BYTES, self.size - start))
            pwrite_all(self.fd, data, start)
            self._cache.filled(self, chunk, len(data))
        finally:
            with self._cache.lock:
                del self._fetching[chunk]
            done.set()
        return True

    def fetch_ahead(self, chunks: range) -> None:
        """Have threads of the cache get what is not here and not under way."""
        for chunk in chunks:
            if chunk not in self.chunks and chunk not in self._queued and chunk not in self._fetching:
                self._queued.add(chunk)
                if not self._cache.ahead(partial(self._fetch_queued, chunk)):
                    self._queued.discard(chunk)

    def _fetch_queued(self, chunk: int) -> None:
        self._queued.discard(chunk)
        if chunk not in self._fetching:
            self._fetch_once(chunk)


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

    def __init__(self, folder: Path, store: ObjectStore, limit_bytes: int, threads: Threads = THREADS) -> None:
        self.folder = folder
        self.store = store
        self.threads = threads
        self.hits = self.misses = self.fetched_bytes = 0
        self._limit = limit_bytes
        self.lock = threading.Lock()
        self.sides_lock = threading.Lock()
        """Held while indexes of a segment are written: several readers may have fetched the same ones."""
        self._pool: Pool | None = None
        self._ahead_waiting = 0
        self._is_closed = False
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
        with self.lock:
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
        with self.lock:
            if key in self._files:
                self._files.move_to_end(key)

    def filled(self, file: CacheFile, chunk: int, size: int) -> None:
        with self.lock:
            self.fetched_bytes += size
            if chunk not in file.chunks:
                file.chunks.add(chunk)
                file.held_bytes += size
                self._keep_within_bounds()

    def ahead(self, fetch: Callable[[], object]) -> bool:
        """Have a thread of the cache fetch something that will be wanted soon. False if there is too much already."""
        with self.lock:
            if self._is_closed or self._limit < _AHEAD_LIMIT_BYTES or self._ahead_waiting >= _AHEAD_WAITING_MAX:
                return False
            if self._pool is None:
                self._pool = self.threads.pool("penstock-read-ahead", _AHEAD_THREADS)
            self._ahead_waiting += 1
        self._pool.submit(self._run_ahead, fetch)
        return True

    def _run_ahead(self, fetch: Callable[[], object]) -> None:
        try:
            if not self._is_closed:
                fetch()
        except (StorageError, OSError) as error:
            log.debug("what would have been read next was not fetched: %s", error)  # whoever reads it tries again
        finally:
            with self.lock:
                self._ahead_waiting -= 1

    def close(self) -> None:
        """Nothing is fetched ahead any more."""
        with self.lock:
            self._is_closed, pool = True, self._pool
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _keep_within_bounds(self) -> None:
        while len(self._files) > 1 and (len(self._files) > _FILES_MAX or self.bytes > self._limit):
            self._files.popitem(last=False)


class RemoteSegment(Segment):
    """A segment of which the catalog says all that retention needs, and whose bytes come when they are read."""

    __slots__ = ("_cache", "_entry", "_has_sides", "_is_expected", "is_given_up")

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
        self._is_expected = False
        self.is_given_up = False
        """Whether the log is not led from here any more: its folder may be gone at any time."""
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

    def fetch_ahead(self) -> None:
        """Whoever reads the log will come here next."""
        if not self._has_sides and not self._is_expected:
            self._is_expected = self._cache.ahead(self._fetch_sides_once)
        file = self._cache.file(self._entry.object_key, self._entry.log_size)
        file.fetch_ahead(range(min(AHEAD_CHUNKS, file.chunk_count)))

    def _fetch_sides_once(self) -> None:
        if not self._has_sides:
            self.fetch_sides()

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
        with self._cache.sides_lock:
            if self._has_sides:
                return
            try:
                write_file(self.stem + INDEX_SUFFIX, data[:time_at])
                write_file(self.stem + TIME_INDEX_SUFFIX, data[time_at:txn_at])
                if entry.txn_index_size:
                    write_file(self.stem + TXN_INDEX_SUFFIX, data[txn_at:])
            except FileNotFoundError:
                if not self.is_given_up:
                    raise
                return  # whoever wanted to read is told by the log
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
