"""How much goes into an object, and how many uploads are under way: on a quiet line, a busy one and a slow one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.records.batch import parse_header
from penstock.storage.objects.committer import CommitSettings
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.store import ObjectStore, StoreError
from tests.storage.objects.test_storage import World, read, until
from tests.storage.test_contract import NOW, TOPIC_ID, plain

_NEVER_MS = 3_600_000


class HeldStore(ObjectStore):
    """Holds every PUT until it is let go, and notes its size."""

    def __init__(self) -> None:
        sound = ObjectStore.open("memory://")
        super().__init__(sound._store, sound.shown)
        self.sizes: list[int] = []
        self.may_go_on = threading.Event()

    def put(self, key: str, parts: Sequence[bytes]) -> None:
        self.sizes.append(sum(map(len, parts)))
        assert self.may_go_on.wait(30)
        super().put(key, parts)


class NarrowStore(ObjectStore):
    """A line on which the first PUTs, made side by side, time out; then it notes whether the next one is alone."""

    def __init__(self, count: int) -> None:
        sound = ObjectStore.open("memory://")
        super().__init__(sound._store, sound.shown)
        self.failed = 0
        self.was_alone: bool | None = None
        self._side_by_side = threading.Barrier(count)
        self._another_comes = threading.Event()

    def put(self, key: str, parts: Sequence[bytes]) -> None:
        if self.failed < self._side_by_side.parties:
            self._side_by_side.wait(30)
            self.failed += 1
            raise StoreError("no answer within 20 s")
        if self.was_alone is None:
            self.was_alone = True
            self.was_alone = not self._another_comes.wait(0.3)
        else:
            self._another_comes.set()
        super().put(key, parts)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "cache")
    yield world
    for storage in world.started:
        storage.close()
    assert not world.failures


def start_append(log: ObjectLog, size: int) -> int:
    """Append without waiting for the commit. Returns how many bytes the batch has."""
    batch = plain("x" * size)
    log.append(batch, parse_header(batch), now_ms=NOW)
    return len(batch)


def test_few_records_wait_for_their_window_also_while_a_large_upload_is_under_way(world: World) -> None:
    store = world.store = HeldStore()
    storage = world.start(CommitSettings(window_ms=_NEVER_MS, quiet_ms=0, inline_bytes=0))
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    large = start_append(log, 100_000)
    until(lambda: store.sizes)
    few = [start_append(log, 1000) for _ in range(20)]
    enough = start_append(log, 70_000)
    until(lambda: len(store.sizes) == 2)
    store.may_go_on.set()
    until(lambda: log.high_watermark == 22)
    assert store.sizes == [large, sum(few) + enough]


def test_what_waited_for_a_slow_store_goes_into_several_objects_of_the_usual_size(world: World) -> None:
    store = world.store = HeldStore()
    storage = world.start(CommitSettings(window_ms=1, inline_bytes=0, object_bytes=10_000, uploads_max=1))
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    start_append(log, 1)
    until(lambda: store.sizes)
    size = {start_append(log, 4000) for _ in range(7)}.pop()
    store.may_go_on.set()
    until(lambda: log.high_watermark == 8)
    assert store.sizes[1:] == [2 * size, 2 * size, 2 * size, size]
    again = world.start().open_log("t", 0, TOPIC_ID, LogConfig())
    assert [read(again, offset)[0] for offset in range(8)] == [b"x", *[b"x" * 4000] * 7]


def test_uploads_that_failed_side_by_side_are_tried_again_one_by_one(world: World) -> None:
    store = world.store = NarrowStore(4)
    storage = world.start(CommitSettings(window_ms=1, inline_bytes=0, object_bytes=1, uploads_max=4))
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    for _ in range(20):
        start_append(log, 10)
    until(lambda: log.high_watermark == 20)
    assert store.was_alone
