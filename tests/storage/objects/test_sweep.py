"""What is removed from the store, when, and how little is listed to find it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.records.batch import parse_header
from penstock.storage.objects.commit_log import PartitionKey, StoredObject, Tail
from penstock.storage.objects.committer import CommitSettings
from penstock.storage.objects.key_space import KeySpace
from penstock.storage.objects.memory_commit_log import MemoryCommitLog
from penstock.storage.objects.store import Listed, ObjectMissing, ObjectStore, StoreError
from penstock.storage.objects.sweep import Sweep, SweepSettings, Writer, is_fenced
from tests.storage.objects.test_faults import FaultyStore, throttled
from tests.storage.objects.test_storage import World, until
from tests.storage.test_contract import NOW, TOPIC_ID, append, plain

KEY = PartitionKey(TOPIC_ID, 0)
MINE = Writer("c", 1, 5, "abc")
AT_ONCE = SweepSettings(
    grace_seconds=0, orphan_seconds=-1, list_seconds=0, watch_seconds=0, round_seconds=0, idle_seconds=600
)


class Brokers(MemoryCommitLog):
    """A commit log that knows the epochs of brokers."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = {1: 5}

    def broker_epochs(self) -> dict[int, int]:
        return dict(self.epochs)


Strings = list[str]
"""A name that `CountingStore.list` does not hide."""


class CountingStore(ObjectStore):
    """Notes what was listed and deleted."""

    def __init__(self) -> None:
        sound = ObjectStore.open("memory://")
        super().__init__(sound._store, sound.shown)
        self.listed: list[str] = []
        self.named = 0
        self.deleted: list[list[str]] = []

    def list(self, prefix: str) -> Iterator[Listed]:
        self.listed.append(prefix)
        return super().list(prefix)

    def folders(self, prefix: str) -> Strings:
        self.named += 1
        return super().folders(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        self.deleted.append(list(keys))
        super().delete(self.deleted[-1])

    def keys(self) -> set[str]:
        return {each.key for each in super().list("c/")}


class Stage:
    def __init__(self, settings: SweepSettings = AT_ONCE, keys: KeySpace | None = None) -> None:
        self.commits = Brokers()
        self.commits.create(KEY, leader=1, leader_epoch=0)
        self.store = CountingStore()
        self.settings = settings
        self.keys = keys
        self._end = 0

    def sweep(self, writer: Writer = MINE) -> Sweep:
        return Sweep(self.commits, self.store, writer, self.settings, self.keys)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.store.put(key, [b"x"])

    def commit(self, *keys: str) -> None:
        self.put(*keys)
        for key in keys:
            self.commits.commit(StoredObject(key, 1), [Tail(KEY, 0, self._end, self._end + 1, 0, 1, None)])
            self._end += 1


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "cache")
    yield world
    for storage in world.started:
        storage.close()
    assert not world.failures


def test_an_object_is_removed_only_when_its_grace_is_over(stage: Stage) -> None:
    stage.commit(MINE.key("wal", "1"), MINE.key("wal", "2"))
    stage.commits.move_start(KEY, 0, 1)
    patient = Stage(SweepSettings(grace_seconds=3600, round_seconds=0)).settings
    Sweep(stage.commits, stage.store, MINE, patient).run()
    assert len(stage.store.keys()) == 2
    stage.sweep().run()
    assert stage.store.keys() == {MINE.key("wal", "2")}
    assert stage.commits.known_objects() == {MINE.key("wal", "2"): 1}


def test_what_a_dead_broker_left_behind_is_removed_and_what_is_named_stays(stage: Stage) -> None:
    dead, alive = Writer("c", 2, 6, "x"), Writer("c", 2, 7, "y")
    before = Writer("c", 1, 4, "an earlier run of this broker")
    stage.commits.epochs[2] = 7
    named = dead.key("wal", "1")
    stage.commit(named)
    orphans = {dead.key("wal", "2"), dead.key("segment", "3"), before.key("wal", "1")}
    under_way = {alive.key("wal", "1"), MINE.key("wal", "1"), "c/segment/import/1"}
    stage.put(*orphans, *under_way)
    sweep = stage.sweep()
    sweep.run()
    assert stage.store.keys() == {named, *under_way}
    assert sweep.orphans == 3


def test_young_uploads_of_a_dead_broker_stay_and_are_looked_at_again() -> None:
    stage = Stage(SweepSettings(orphan_seconds=3600, list_seconds=0, round_seconds=0))
    stage.put(Writer("c", 1, 4, "x").key("wal", "1"))
    stage.sweep().run()
    assert len(stage.store.keys()) == 1
    stage.settings = AT_ONCE
    stage.sweep().run()
    assert not stage.store.keys()


def test_a_dead_writer_is_listed_no_more_once_it_was_watched_for_long_enough(stage: Stage) -> None:
    dead = Writer("c", 1, 4, "x")
    stage.put(dead.key("wal", "1"))
    stage.sweep().run()
    assert stage.store.listed == ["c/wal/1-4-x/"]
    stage.sweep().run()
    assert stage.store.listed == ["c/wal/1-4-x/"]
    assert stage.commits.fenced_writers() == {}  # and forgotten, since nothing is there any more


def test_a_dead_writer_is_listed_again_and_again_until_then() -> None:
    stage = Stage(SweepSettings(orphan_seconds=-1, list_seconds=0, round_seconds=0))
    dead = Writer("c", 1, 4, "x")
    stage.put(dead.key("wal", "1"))
    stage.sweep().run()
    stage.put(dead.key("wal", "late"))
    until(lambda: (stage.sweep().run(), not stage.store.keys())[1])


def test_a_cluster_in_which_no_broker_dies_lists_no_objects_and_names_its_writers_once(stage: Stage) -> None:
    stage.commit(*(MINE.key(kind, str(number)) for kind in ("wal", "segment") for number in range(5)))
    sweep = stage.sweep()
    pauses = [sweep.run() for _ in range(4)]
    assert stage.store.listed == []
    assert stage.store.named == 2  # one for each kind of object
    assert pauses == [stage.settings.idle_seconds] * 4
    assert stage.store.deleted == []


def test_one_broker_sweeps_at_a_time(stage: Stage) -> None:
    stage.settings = SweepSettings(grace_seconds=0, round_seconds=3600)
    stage.commit(MINE.key("wal", "1"))
    stage.sweep().run()
    stage.commits.move_start(KEY, 0, 1)
    stage.sweep(Writer("c", 2, 1, "y")).run()
    assert stage.store.keys() == {MINE.key("wal", "1")}


def test_what_is_noted_while_another_broker_has_the_turn_is_looked_at_in_the_next_round(stage: Stage) -> None:
    stage.settings = SweepSettings(grace_seconds=0, round_seconds=0.05, idle_seconds=3600)
    stage.commit(MINE.key("wal", "1"))
    stage.commits.take_turn("sweep", 0.3)
    sweep = stage.sweep()
    sweep.start()
    stage.commits.move_start(KEY, 0, 1)
    sweep.note_work()
    until(lambda: not stage.store.keys())
    sweep.close(10)


def test_a_failed_upload_is_removed_when_it_is_old_enough_although_nothing_else_happens(stage: Stage) -> None:
    stage.settings = SweepSettings(orphan_seconds=0.3, round_seconds=0.05, idle_seconds=3600)
    stage.put(MINE.key("wal", "1"))
    sweep = stage.sweep()
    sweep.start()
    sweep.note_work()
    until(lambda: stage.store.named)  # from now on there is nothing to do
    sweep.doom(MINE.key("wal", "1"))
    until(lambda: not stage.store.keys())
    sweep.close(10)


def test_many_objects_are_deleted_with_few_requests(stage: Stage) -> None:
    dead = Writer("c", 1, 4, "x")
    stage.put(*(dead.key("wal", f"{number:04d}") for number in range(1500)))
    stage.sweep().run()
    assert not stage.store.keys()
    assert len(stage.store.deleted) == 2


def test_a_broker_removes_its_own_failed_uploads_without_listing_unless_they_were_committed(stage: Stage) -> None:
    failed, committed = MINE.key("wal", "1"), MINE.key("wal", "2")
    stage.put(failed)
    stage.commit(committed)
    sweep = stage.sweep()
    for key in (failed, committed, MINE.key("wal", "never arrived")):
        sweep.doom(key)
    sweep.run()
    assert stage.store.keys() == {committed}
    assert stage.store.listed == []


def test_the_store_may_be_away_when_an_own_upload_is_to_be_removed(stage: Stage) -> None:
    store = FaultyStore()
    sweep = Sweep(stage.commits, store, MINE, AT_ONCE)
    store.put(MINE.key("wal", "1"), [b"x"])
    sweep.doom(MINE.key("wal", "1"))
    store.deletes.append(throttled)
    with pytest.raises(StoreError, match="503"):
        sweep.run()
    sweep.run()
    with pytest.raises(ObjectMissing):
        store.get(MINE.key("wal", "1"), 0, 1)


def test_the_sweep_of_a_restored_backup_removes_its_own_objects_and_forgets_those_of_its_origin() -> None:
    keys = KeySpace.of("c", "new", ["old"])
    stage = Stage(keys=keys)
    mine, theirs = Writer(keys.prefix, 1, 5, "y"), Writer("c", 1, 1, "x")
    earlier = Writer(keys.prefix, 1, 4, "z")
    stage.commit(theirs.key("segment", "1"), mine.key("segment", "1"))
    stage.put(theirs.key("wal", "2"), earlier.key("wal", "2"), "c/old/wal/1-1-z/2")
    stage.commits.delete(KEY)
    stage.sweep(mine).run()
    assert stage.store.keys() == {theirs.key("segment", "1"), theirs.key("wal", "2")}
    assert stage.commits.known_objects() == {}


@pytest.mark.parametrize(
    ("name", "fenced"),
    [
        ("1-5-abc", False),  # this process
        ("1-5-xyz", True),  # an earlier one
        ("1-4-abc", True),  # this one, before its lease was ended
        ("1-6-xyz", False),  # one that has taken this broker's place
        ("2-7-x", False),
        ("2-6-x", True),
        ("3-1-x", True),  # of whom nobody knows any more
        ("import", False),
    ],
)
def test_a_writer_is_fenced_when_its_broker_has_registered_anew(name: str, fenced: bool) -> None:
    assert is_fenced(name, MINE, {1: 5, 2: 7}) is fenced


def test_the_object_of_a_commit_that_was_fenced_is_removed(world: World) -> None:
    storage = world.start(CommitSettings(window_ms=1, inline_bytes=0), replace(AT_ONCE, round_seconds=3600))
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    append(log, plain("a"))
    (named,) = world.commits.known_objects()
    world.commits.create(KEY, leader=2, leader_epoch=log.leader_epoch + 1)
    batch = plain("b")
    log.append(batch, parse_header(batch), now_ms=NOW)
    until(lambda: not log.is_leader)
    assert len(list(world.store.list(""))) == 2
    storage.sweep.run()
    assert [each.key for each in world.store.list("")] == [named]
