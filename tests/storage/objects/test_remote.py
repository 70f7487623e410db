"""What is read of stored segments: only what somebody wants, and what they will want next."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.log.errors import ColdRead
from penstock.storage.objects.commit_log import SegmentEntry
from penstock.storage.objects.remote import AHEAD_CHUNKS, CHUNK_BYTES, CacheFile, RemoteSegment, SegmentCache
from penstock.storage.objects.store import ObjectStore, StoreError

SECONDS = 20
KEY = "segment"
CHUNKS = AHEAD_CHUNKS + 4
LIMIT = 4 << 30


class CountingStore(ObjectStore):
    """Counts the GETs of each chunk, fails on demand, and lets nobody through while it is held up."""

    def __init__(self) -> None:
        memory = ObjectStore.open("memory://")
        super().__init__(memory._store, memory.shown)
        self.gets: Counter[int] = Counter()
        self.fails = False
        self.may_answer = threading.Event()
        self.may_answer.set()

    def get(self, key: str, position: int, size: int) -> bytes:
        self.gets[position // CHUNK_BYTES] += 1
        assert self.may_answer.wait(SECONDS)
        if self.fails:
            raise StoreError("503")
        return super().get(key, position, size)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def store() -> CountingStore:
    store = CountingStore()
    store.put(KEY, [bytes([number]) * CHUNK_BYTES for number in range(CHUNKS)])
    return store


@pytest.fixture
def cache(tmp_path: Path, store: CountingStore) -> Iterator[SegmentCache]:
    cache = SegmentCache(tmp_path / "cache", store, LIMIT)
    yield cache
    cache.close()


def read(file: CacheFile, position: int, size: int = 1000) -> None:
    """As a fetch does: a thread gets what is missing, then the read is tried again."""
    try:
        file.require(position, size)
    except ColdRead as cold:
        for fetch in cold.fetches:
            fetch()
        file.require(position, size)


def whole(cache: SegmentCache) -> CacheFile:
    return cache.file(KEY, CHUNKS * CHUNK_BYTES)


def test_whoever_reads_on_finds_what_follows(cache: SegmentCache, store: CountingStore) -> None:
    file = whole(cache)
    read(file, 0)
    read(file, 1000)
    until(lambda: len(file.chunks) == 1 + AHEAD_CHUNKS)
    file.require(CHUNK_BYTES, CHUNK_BYTES)
    until(lambda: len(file.chunks) == 2 + AHEAD_CHUNKS)
    assert set(store.gets.values()) == {1}, "each chunk is requested once"


def test_a_look_up_has_nothing_fetched_ahead(cache: SegmentCache, store: CountingStore) -> None:
    file = whole(cache)
    read(file, 0)
    read(file, 3 * CHUNK_BYTES + 7)
    cache.close()
    assert store.gets == {0: 1, 3: 1}


def test_nothing_is_fetched_beyond_the_end(cache: SegmentCache, store: CountingStore) -> None:
    file = whole(cache)
    read(file, (CHUNKS - 2) * CHUNK_BYTES)
    read(file, (CHUNKS - 1) * CHUNK_BYTES)
    cache.close()
    assert store.gets == {CHUNKS - 2: 1, CHUNKS - 1: 1}


def test_what_is_under_way_is_not_requested_again(cache: SegmentCache, store: CountingStore) -> None:
    file = whole(cache)
    store.may_answer.clear()
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(file.fetch, [1]) for _ in range(2)]
        until(lambda: store.gets[1])
        store.may_answer.set()
        for each in both:
            each.result(SECONDS)
    assert store.gets == {1: 1}


def test_what_could_not_be_fetched_ahead_is_fetched_when_it_is_read(cache: SegmentCache, store: CountingStore) -> None:
    file = whole(cache)
    read(file, 0)
    store.fails = True
    read(file, 1000)
    until(lambda: store.gets[AHEAD_CHUNKS] and not cache._ahead_waiting)
    store.fails = False
    read(file, CHUNK_BYTES)
    assert store.gets[1] == 2


def test_a_failure_reaches_whoever_reads(cache: SegmentCache, store: CountingStore) -> None:
    file = whole(cache)
    store.fails = True
    with pytest.raises(ColdRead) as cold:
        file.require(0, 10)
    for _ in range(2):
        with pytest.raises(StoreError):
            cold.value.fetches[0]()


def test_a_small_cache_holds_only_what_was_wanted(tmp_path: Path, store: CountingStore) -> None:
    cache = SegmentCache(tmp_path / "small", store, 8 * CHUNK_BYTES)
    file = whole(cache)
    read(file, 0)
    read(file, 1000)
    cache.close()
    assert store.gets == {0: 1}


def test_readers_of_many_segments_do_not_pile_up_requests(cache: SegmentCache, store: CountingStore) -> None:
    files = [cache.file(f"segment-{number}", CHUNKS * CHUNK_BYTES) for number in range(50)]
    store.may_answer.clear()
    for file in files:
        file.fetch_ahead(range(AHEAD_CHUNKS))
    assert cache._ahead_waiting < len(files)
    store.fails = True
    store.may_answer.set()
    until(lambda: not cache._ahead_waiting)


def test_indexes_for_a_log_that_was_given_up_are_written_nowhere(cache: SegmentCache, tmp_path: Path) -> None:
    entry = SegmentEntry(0, 1, KEY, 0, 100, 100, 0, 0, 0, 0, 0)
    segment = RemoteSegment(str(tmp_path / "gone"), entry, cache, 4096)
    with pytest.raises(FileNotFoundError):
        segment.fetch_sides()
    segment.is_given_up = True
    segment.fetch_sides()
    with pytest.raises(ColdRead):
        segment.require_sides()


def test_readers_that_get_the_same_indexes_at_the_same_time_do_not_disturb_each_other(
    cache: SegmentCache, store: CountingStore, tmp_path: Path
) -> None:
    entry = SegmentEntry(0, 1, KEY, 0, 1 << 20, 1 << 20, 1 << 20, 0, 0, 0, 0)
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        segment = RemoteSegment(str(folder), entry, cache, 4096)
        store.may_answer.clear()
        with ThreadPoolExecutor(4) as readers:
            fetches = [readers.submit(segment.fetch_sides) for _ in range(4)]
            until(lambda: store.gets[0] % 4 == 0)
            store.may_answer.set()
            for fetch in fetches:
                fetch.result(SECONDS)
        segment.require_sides()
        assert {path.stat().st_size for path in folder.iterdir()} == {1 << 20}
