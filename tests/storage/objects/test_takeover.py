"""What a broker reads before it leads: each object once, whatever of many logs is in it, and little at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.records.batch import parse_header
from penstock.storage.contract import Log
from penstock.storage.objects.commit_log import Extent, PartitionKey
from penstock.storage.objects.committer import CommitSettings
from penstock.storage.objects.loading import PAGE_BYTES, pages
from penstock.storage.objects.memory_commit_log import MemoryCommitLog
from penstock.storage.objects.storage import EngineSettings, ObjectStorage
from penstock.storage.objects.store import ObjectStore, StoreError
from penstock.storage.objects.tails import TailSettings
from penstock.storage.objects.takeover import RUN_BYTES
from tests.storage.objects.test_storage import KEY, World, read, until
from tests.storage.test_contract import NOW, TOPIC_ID, append, plain, produced

FOLLOWER = EngineSettings(2, is_alone=False)


class Reading(ObjectStore):
    """Notes what is read, and runs `on_get` before."""

    def __init__(self) -> None:
        sound = ObjectStore.open("memory://")
        super().__init__(sound._store, sound.shown)
        self.gets: list[tuple[str, int, int]] = []
        self.on_get: Callable[[str], None] = lambda key: None

    def get(self, key: str, position: int, size: int) -> bytes:
        self.gets.append((key, position, size))
        self.on_get(key)
        return super().get(key, position, size)


@pytest.fixture
def store() -> Reading:
    return Reading()


@pytest.fixture
def world(tmp_path: Path, store: Reading) -> Iterator[World]:
    world = World(tmp_path / "cache")
    world.store = store
    yield world
    for storage in world.started:
        storage.close()
    assert not world.failures


def _all_reach(logs: Sequence[Log], offset: int) -> bool:
    return all(log.high_watermark == offset for log in logs)


def written(world: World, logs: int, rounds: int, commit: CommitSettings) -> list[PartitionKey]:
    """Each round appends a record to every log, and is one commit. The broker has died then."""
    storage = world.start(commit)
    opened = [storage.open_log("t", index, TOPIC_ID, LogConfig()) for index in range(logs)]
    for number in range(rounds):
        for log in opened:
            batch = plain(f"{number} of {log.partition}")
            log.append(batch, parse_header(batch), now_ms=NOW)
        until(partial(_all_reach, opened, number + 1))
    storage.close()
    return [log.key for log in opened]


def taken_over(world: World, keys: list[PartitionKey]) -> ObjectStorage:
    """Another broker leads all of them from now on."""
    world.settings = FOLLOWER
    storage = world.make()
    for key in keys:
        world.commits.create(key, leader=2, leader_epoch=world.commits.states([key])[key].leader_epoch + 1)
        storage.open_log("t", key.partition, TOPIC_ID, LogConfig())
    storage.opened()
    return storage


IN_STORE = CommitSettings(window_ms=50, inline_bytes=0)


def test_an_object_with_records_of_many_logs_is_read_once(world: World, store: Reading) -> None:
    keys = written(world, logs=20, rounds=3, commit=IN_STORE)
    objects = len(world.commits.known_objects())
    storage = taken_over(world, keys)
    until(lambda: all(log.is_leader for log in storage.logs()))
    assert len(store.gets) == objects
    for log in storage.logs():
        assert [read(log, offset)[0] for offset in range(3)] == [
            b"%d of %d" % (each, log.partition) for each in range(3)
        ]


def test_records_in_the_store_and_in_postgresql_are_put_together_in_order(world: World) -> None:
    storage = world.start(CommitSettings(window_ms=1, inline_bytes=200))
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    values = [b"x" * (500 if number % 3 else 10) for number in range(20)]
    for value in values:
        append(log, plain(value.decode()))
    extents = world.commits.layouts([KEY])[KEY].extents
    assert {extent.object_key is None for extent in extents} == {True, False}
    again = world.start().open_log("t", 0, TOPIC_ID, LogConfig())
    assert [read(again, offset)[0] for offset in range(20)] == values


def test_an_extent_that_begins_in_the_last_segment_is_read_from_where_that_ends(world: World) -> None:
    storage = world.start(CommitSettings(window_ms=100, inline_bytes=0))
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig(segment_bytes=2 * len(produced(0, "0"))))
    for number in range(5):
        batch = produced(number, str(number))
        log.append(batch, parse_header(batch), now_ms=NOW)
    until(lambda: len(world.commits.layouts([KEY])[KEY].segments) == 2)
    layout = world.commits.layouts([KEY])[KEY]
    assert (layout.segments[-1].end_offset, layout.extents[0].base_offset) == (4, 0)
    again = world.start().open_log("t", 0, TOPIC_ID, LogConfig())
    assert [read(again, offset)[-1] for offset in (3, 4)] == [b"3", b"4"]
    assert append(again, produced(4, "4")).duplicate


def test_a_log_is_led_as_soon_as_its_own_records_are_here(world: World, store: Reading) -> None:
    slow, quick = (written_alone(world, index) for index in (0, 1))
    (slow_object,) = (each.object_key for each in world.commits.layouts([slow])[slow].extents)
    may_go_on = threading.Event()

    def hold(key: str) -> None:
        if key == slow_object:
            assert may_go_on.wait(30)

    store.on_get = hold
    storage = taken_over(world, [slow, quick])
    held, other = storage.logs()
    until(lambda: other.is_leader)
    assert not held.is_leader
    may_go_on.set()
    until(lambda: held.is_leader)


def test_a_log_whose_records_cannot_be_read_is_led_later_and_others_are_led_now(world: World, store: Reading) -> None:
    bad, good = (written_alone(world, index) for index in (0, 1))
    (bad_object,) = (each.object_key for each in world.commits.layouts([bad])[bad].extents)
    is_away = threading.Event()
    is_away.set()

    def fail(key: str) -> None:
        if key == bad_object and is_away.is_set():
            raise StoreError("503 Slow Down")

    store.on_get = fail
    storage = taken_over(world, [bad, good])
    failed, other = storage.logs()
    until(lambda: other.is_leader)
    assert not failed.is_leader
    is_away.clear()
    until(lambda: failed.is_leader)


def test_a_broker_that_stops_reads_nothing_more(world: World, store: Reading) -> None:
    keys = [written_alone(world, index) for index in range(40)]
    reached, may_go_on = threading.Event(), threading.Event()

    def hold(key: str) -> None:
        reached.set()
        assert may_go_on.wait(30)

    store.on_get = hold
    storage = taken_over(world, keys)
    assert reached.wait(30)
    closing = threading.Thread(target=storage.close)
    closing.start()
    until(lambda: storage._take_over._is_closed)
    may_go_on.set()
    closing.join(30)
    assert not closing.is_alive()
    assert len(store.gets) <= 16


def test_what_is_read_at_a_time_is_bounded_however_long_the_tail_is(world: World, store: Reading) -> None:
    pages_read: list[int] = []

    class Paged(MemoryCommitLog):
        def read_inline(self, partition: PartitionKey, first: int, last: int) -> list[tuple[int, bytes]]:
            found = super().read_inline(partition, first, last)
            pages_read.append(sum(len(data) for _, data in found))
            return found

    world.commits = Paged()
    world.settings = EngineSettings(1, tails=TailSettings(extents=1 << 20))
    size = 1_000_000
    inline = CommitSettings(window_ms=1, inline_bytes=2 * size, inline_bytes_per_second=1 << 30)
    for commit in (inline, CommitSettings(window_ms=1, inline_bytes=0, object_bytes=1)):
        log = world.start(commit).open_log("t", 0, TOPIC_ID, LogConfig())
        for _ in range(15):
            append(log, plain("x" * size))
    pages_read.clear()
    store.gets.clear()
    again = world.start().open_log("t", 0, TOPIC_ID, LogConfig())
    assert again.high_watermark == 30
    assert len(pages_read) > 3
    assert max(pages_read) <= PAGE_BYTES
    assert max(size for _, _, size in store.gets) <= RUN_BYTES


def test_extents_are_read_in_pages_that_end_where_the_store_comes_in_between() -> None:
    extents = [Extent(at, at + 1, "key" if at == 2 else None, 0, PAGE_BYTES // 2) for at in range(7)]
    assert [[each.base_offset for each in page] for page in pages(extents)] == [[0, 1], [2], [3, 4], [5, 6]]


def written_alone(world: World, index: int) -> PartitionKey:
    """A log with one record in an object of its own. The broker has died then."""
    log = world.start(CommitSettings(window_ms=1, inline_bytes=0)).open_log("t", index, TOPIC_ID, LogConfig())
    append(log, plain(str(index)))
    return log.key
