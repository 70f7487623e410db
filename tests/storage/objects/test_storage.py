"""The object engine beyond the contract: segments in the store, cold reads, retention, fencing, and what is removed."""

from __future__ import annotations

import logging
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.cleaner.manager import CleanerConfig
from penstock.log.config import LogConfig
from penstock.log.errors import ColdRead, LeadershipLost, StorageError
from penstock.records.batch import parse_header
from penstock.records.builder import build_batch
from penstock.storage.objects.commit_log import PartitionKey
from penstock.storage.objects.committer import CommitSettings
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.memory_commit_log import MemoryCommitLog
from penstock.storage.objects.remote import RemoteSegment, SegmentCache
from penstock.storage.objects.storage import EngineSettings, ObjectStorage
from penstock.storage.objects.store import ObjectStore
from penstock.storage.objects.sweep import SweepSettings
from penstock.wire.errors import NotLeaderOrFollower
from tests.storage.test_contract import NOW, TOPIC_ID, append, plain, produced, values

SMALL = LogConfig(segment_bytes=len(plain("a")))
KEY = PartitionKey(TOPIC_ID, 0)
_NO_SWEEP = SweepSettings(round_seconds=3600, idle_seconds=3600)


class World:
    """One broker after the other on the same commit log and store, each with an empty disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commits = MemoryCommitLog()
        self.store = ObjectStore.open("memory://")
        self.failures: list[StorageError] = []
        self.started: list[ObjectStorage] = []
        self.settings = EngineSettings(node_id=1)

    def start(self, commit: CommitSettings | None = None, sweep: SweepSettings = _NO_SWEEP) -> ObjectStorage:
        storage = self.make(commit, sweep)
        storage.opened()
        return storage

    def make(self, commit: CommitSettings | None = None, sweep: SweepSettings = _NO_SWEEP) -> ObjectStorage:
        """A storage whose logs have yet to be opened."""
        while self.folder.exists():  # threads of the one before may still write to it
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        storage = ObjectStorage(
            self.folder,
            lambda: NOW,
            self.call_soon,
            self.failures.append,
            self.commits,
            self.store,
            replace(self.settings, sweep=sweep, commit=commit or self.settings.commit),
        )
        self.started.append(storage)
        return storage

    def call_soon(self, function: Callable[[], None]) -> None:
        """Here: at once, in whatever thread. Enough as long as the test does nothing at the same time."""
        function()


class LoopWorld(World):
    """Calls wait until the test looks at something."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._calls: deque[Callable[[], None]] = deque()
        self.call_soon = self._calls.append  # type: ignore[assignment, method-assign]

    def until(self, condition: Callable[[], object]) -> None:
        def look() -> object:
            while self._calls:
                self._calls.popleft()()
            return condition()

        until(look)

    def append(self, log: ObjectLog, value: str) -> None:
        batch = plain(value)
        appended = log.append(batch, parse_header(batch), now_ms=NOW)
        self.until(lambda: log.high_watermark >= appended.position)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "cache")
    yield world
    for storage in world.started:
        storage.close()
    assert not world.failures


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def read(log: ObjectLog, offset: int) -> list[bytes | None]:
    """As a consumer does: what is not here is fetched, and the read is tried again."""
    while True:
        try:
            return values(log.read(offset, 1 << 20).read())
        except ColdRead as cold:
            for fetch in cold.fetches:
                fetch()


def test_who_has_fetched_something_finds_it_although_others_have_filled_the_cache_meanwhile(tmp_path: Path) -> None:
    store = ObjectStore.open("memory://")
    cache = SegmentCache(tmp_path / "cache", store, limit_bytes=1)
    fetched = []
    for key in "abc":
        store.put(key, [b"bytes"])
        with pytest.raises(ColdRead) as cold:
            cache.file(key, 5).require(0, 5)
        fetched.append(cold.value)
    for _ in range(2):
        for each in fetched:
            each.fetches[0]()
    for key in "abc":
        cache.file(key, 5).require(0, 5)
    assert cache.fetched_bytes == 15
    fetched.clear()
    del cold, each
    assert cache.bytes == 5
    cache.file("c", 5).require(0, 5)
    with pytest.raises(ColdRead):
        cache.file("a", 5).require(0, 5)


def segments(world: World) -> list[str]:
    return [each.object_key for each in world.commits.layouts([KEY])[KEY].segments]


def test_rolled_segments_are_read_from_the_store_by_a_broker_with_an_empty_disk(world: World) -> None:
    log = world.start().open_log("t", 0, TOPIC_ID, SMALL)
    for value in "abcd":
        append(log, plain(value))
    append(log, produced(0, "e"))
    until(lambda: len(segments(world)) == 4)
    assert [each.base_offset for each in world.commits.layouts([KEY])[KEY].extents] == [4]
    again = world.start().open_log("t", 0, TOPIC_ID, SMALL)
    assert [type(each) for each in again.segments[:-1]] == [RemoteSegment] * 4
    assert (again.log_start_offset, again.high_watermark, again.leader_epoch) == (0, 5, 1)
    assert [read(again, offset) for offset in range(5)] == [[b"a"], [b"b"], [b"c"], [b"d"], [b"e"]]
    assert append(again, produced(0, "e")).duplicate


def test_while_the_end_of_a_segment_is_read_the_next_one_is_fetched(world: World) -> None:
    log = world.start().open_log("t", 0, TOPIC_ID, SMALL)
    for value in "abc":
        append(log, plain(value))
    until(lambda: len(segments(world)) == 2)
    storage = world.start()
    again = storage.open_log("t", 0, TOPIC_ID, SMALL)
    first, second = again.segments[:2]
    assert isinstance(second, RemoteSegment)
    assert read(again, 0) == [b"a"]
    until(lambda: second._has_sides and storage.cache.fetched_bytes == first.size + second.size)


def test_retention_moves_the_start_and_drops_what_lies_below_it(world: World) -> None:
    log = world.start().open_log("t", 0, TOPIC_ID, SMALL)
    for value in "abc":
        append(log, plain(value))
    until(lambda: len(segments(world)) == 2)
    _, second = segments(world)
    log.delete_records(1, NOW)
    until(lambda: world.commits.states([KEY])[KEY].log_start_offset == 1)
    assert segments(world) == [second]


def test_a_fenced_leader_answers_nobody_and_serves_nothing(world: World) -> None:
    storage = world.start()
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    append(log, plain("a"))
    world.commits.create(KEY, leader=2, leader_epoch=log.leader_epoch + 1)
    heard: list[StorageError | None] = []
    batch = plain("b")
    appended = log.append(batch, parse_header(batch), now_ms=NOW)
    storage.when_durable(log, appended.position, heard.append)
    until(lambda: heard)
    assert isinstance(heard[0], LeadershipLost)
    assert not log.is_leader
    with pytest.raises(NotLeaderOrFollower):
        log.read(0, 1000)
    assert world.commits.states([KEY])[KEY].end_offset == 1


def test_a_segment_that_was_compacted_after_a_take_over_takes_the_place_of_the_others(world: World) -> None:
    """Of the segments before the last one no producer snapshot is there then, and none is needed."""
    batches = [build_batch([(NOW, b"key", value.encode(), [])]) for value in "abcde"]
    config = LogConfig(segment_bytes=len(batches[0]), cleanup_policy="compact")
    log = world.start().open_log("t", 0, TOPIC_ID, config)
    for batch in batches:
        append(log, batch)
    until(lambda: len(segments(world)) == 4)
    before = segments(world)
    storage = world.start()
    again = storage.open_log("t", 0, TOPIC_ID, config)
    compactor = storage.compactor(CleanerConfig(), lambda: None)

    def compacted() -> bool:
        compactor.poll(NOW + 1000)
        storage.save_progress()
        return not set(segments(world)) & set(before[:-1])

    until(compacted)
    compactor.close()
    assert storage.shipper.failures == 0
    assert read(again, 0) == [b"d"]


def test_what_is_fetched_for_a_log_that_was_given_up_is_no_failure(world: World) -> None:
    log = world.start().open_log("t", 0, TOPIC_ID, SMALL)
    for value in "abc":
        append(log, plain(value))
    until(lambda: len(segments(world)) == 2)
    storage = world.start()
    again = storage.open_log("t", 0, TOPIC_ID, SMALL)
    with pytest.raises(ColdRead) as cold:
        again.read(0, 1000)
    storage.resign(again)
    until(lambda: not again.folder.exists())
    for fetch in cold.value.fetches:
        fetch()
    with pytest.raises(NotLeaderOrFollower):
        again.read(0, 1000)


def test_a_compaction_is_given_up_with_its_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    batches = [build_batch([(NOW, b"key", value.encode(), [])]) for value in "abcde"]
    storage = world.start()
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig(segment_bytes=len(batches[0]), cleanup_policy="compact"))
    for batch in batches:
        append(log, batch)
    compactor = storage.compactor(CleanerConfig(), lambda: None)
    compactor.poll(NOW + 1000)
    assert compactor.status(NOW).running == "t-0"
    storage.resign(log)
    assert compactor.status(NOW).running is None
    compactor.poll(NOW + 2000)
    compactor.close()
    assert compactor.status(NOW).failures == 0
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_appends_are_gathered_no_longer_when_nobody_appends(world: World) -> None:
    settings = CommitSettings(window_ms=3_600_000, quiet_ms=1, inline_bytes=0)
    log = world.start(settings).open_log("t", 0, TOPIC_ID, LogConfig())
    append(log, plain("x" * 100_000))
    assert log.high_watermark == 1


def test_few_appends_wait_for_the_window_also_when_nobody_appends(world: World) -> None:
    storage = world.start(CommitSettings(window_ms=500, quiet_ms=0, inline_bytes=0))
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    started = time.monotonic()
    append(log, plain("x"))
    assert time.monotonic() - started >= 0.5
    assert storage.committer.statistics.uploads == 1


def test_a_broker_whose_folder_is_deleted_stops_rather_than_refuse_appends_for_ever(world: World) -> None:
    log = world.start().open_log("t", 0, TOPIC_ID, SMALL)
    append(log, plain("a"))
    shutil.rmtree(log.folder)
    with pytest.raises(StorageError):
        append(log, plain("b"))
    (failure,) = world.failures
    assert "was deleted while the broker runs" in str(failure)
    world.failures.clear()
    again = world.start().open_log("t", 0, TOPIC_ID, SMALL)
    assert read(again, 0) == [b"a"]
