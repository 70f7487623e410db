"""Rolled segments become objects: whatever the store does, and whatever becomes of the log meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.storage.objects.commit_log import Outcome, PartitionKey, SegmentEntry
from penstock.storage.objects.memory_commit_log import MemoryCommitLog
from penstock.storage.objects.store import PART_BYTES, ObjectStore, StoreError
from tests.storage.objects.test_storage import KEY, SMALL, World, read, segments, until
from tests.storage.test_contract import NOW, TOPIC_ID, append, plain

OTHER_ID = bytes(range(1, 17))


class Store(ObjectStore):
    """Runs `on_segment` before a segment is stored, which may fail, and notes the sizes of what it is given."""

    def __init__(self) -> None:
        sound = ObjectStore.open("memory://")
        super().__init__(sound._store, sound.shown)
        self.on_segment: Callable[[str], None] = lambda key: None
        self.keys: list[str] = []
        self.largest_part = 0

    def put_stream(self, key: str, size: int, parts: Iterable[bytes]) -> None:
        self.keys.append(key)
        self.on_segment(key)
        super().put_stream(key, size, map(self._noted, parts))

    def _noted(self, part: bytes) -> bytes:
        self.largest_part = max(self.largest_part, len(part))
        return part

    def stored(self) -> set[str]:
        return {each.key for each in self.list("") if "/segment/" in each.key}


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def world(tmp_path: Path, store: Store) -> Iterator[World]:
    world = World(tmp_path / "cache")
    world.store = store
    yield world
    for storage in world.started:
        storage.close()
    assert not world.failures


def test_a_segment_that_cannot_be_stored_is_tried_again_under_another_key(world: World, store: Store) -> None:
    def fail_once(key: str) -> None:
        if len(store.keys) == 1:
            raise StoreError("503 Slow Down")

    store.on_segment = fail_once
    storage = world.start()
    log = storage.open_log("t", 0, TOPIC_ID, SMALL)
    append(log, plain("a"))
    append(log, plain("b"))
    until(lambda: segments(world))
    assert len(set(store.keys)) == 2
    assert segments(world) == [store.keys[1]]
    assert storage.shipper.failures == 1


def test_a_log_whose_segment_is_stuck_does_not_hold_up_the_others(world: World, store: Store) -> None:
    may_go_on = threading.Event()
    store.on_segment = lambda key: None if OTHER_ID.hex() in key else assert_soon(may_go_on)
    storage = world.start()
    stuck, other = storage.open_log("t", 0, TOPIC_ID, SMALL), storage.open_log("other", 0, OTHER_ID, SMALL)
    for log in (stuck, other):
        append(log, plain("a"))
        append(log, plain("b"))
    key = PartitionKey(OTHER_ID, 0)
    until(lambda: world.commits.layouts([key])[key].segments)
    assert segments(world) == []
    may_go_on.set()
    until(lambda: segments(world))


def assert_soon(event: threading.Event) -> None:
    assert event.wait(30)


def test_a_segment_that_is_deleted_while_it_is_stored_is_not_committed(world: World, store: Store) -> None:
    may_go_on = threading.Event()
    store.on_segment = lambda key: assert_soon(may_go_on)
    storage = world.start()
    log = storage.open_log("t", 0, TOPIC_ID, SMALL)
    append(log, plain("a"))
    append(log, plain("b"))
    until(lambda: store.keys)
    log.delete_records(1, NOW)
    may_go_on.set()
    until(lambda: not storage.shipper.waiting)
    assert segments(world) == []


def test_a_segment_of_a_leader_that_was_replaced_is_not_committed(world: World, store: Store) -> None:
    storage = world.start()
    log = storage.open_log("t", 0, TOPIC_ID, SMALL)
    append(log, plain("a"))
    store.on_segment = lambda key: world.commits.create(KEY, leader=2, leader_epoch=log.leader_epoch + 1)
    append(log, plain("b"))
    until(lambda: not log.is_leader)
    assert segments(world) == []


def test_a_commit_whose_outcome_is_unknown_is_repeated_with_the_same_object(world: World, store: Store) -> None:
    world.commits = Away()
    storage = world.start()
    log = storage.open_log("t", 0, TOPIC_ID, SMALL)
    append(log, plain("a"))
    append(log, plain("b"))
    until(lambda: not storage.shipper.waiting)
    assert segments(world) == store.keys
    assert len(store.keys) == 1


class Away(MemoryCommitLog):
    """Makes the first change of a segment, and does not say so."""

    was_away = False

    def add_segment(self, partition: PartitionKey, leader_epoch: int, segment: SegmentEntry) -> Outcome:
        outcome = super().add_segment(partition, leader_epoch, segment)
        if not self.was_away:
            self.was_away = True
            raise StoreError("the connection was closed")
        return outcome


def test_a_large_segment_is_stored_piece_by_piece_and_read_back_whole(world: World, store: Store) -> None:
    size = 1_000_000
    config = LogConfig(segment_bytes=2 * PART_BYTES)
    log = world.start().open_log("t", 0, TOPIC_ID, config)
    for number in range(20):
        append(log, plain(f"{number:02d}" + "x" * size))
    until(lambda: segments(world))
    assert 0 < store.largest_part <= 1 << 20
    again = world.start().open_log("t", 0, TOPIC_ID, config)
    assert [value[:2] for offset in range(20) for value in read(again, offset)[:1] if value] == [
        b"%02d" % number for number in range(20)
    ]
