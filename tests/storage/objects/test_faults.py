"""The store and the commit log fail in every way that they can: nothing is lost, doubled or promised too early."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from penstock.catalog.postgres_session import Session
from penstock.log.config import LogConfig
from penstock.log.errors import ColdRead, FarFetch, StorageError
from penstock.records.batch import parse_header
from penstock.storage.objects.commit_log import CommitLogAway, Outcome, StoredObject, Tail
from penstock.storage.objects.committer import CommitSettings
from penstock.storage.objects.inspection import inspect
from penstock.storage.objects.key_space import KeySpace
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.memory_commit_log import MemoryCommitLog
from penstock.storage.objects.postgres_commit_log import PostgresCommitLog
from penstock.storage.objects.storage import ObjectStorage
from penstock.storage.objects.store import ObjectStore, StoreError
from penstock.wire.errors import NotEnoughReplicas
from tests.catalog.postgres_catalogs import new_schema, open_postgres
from tests.catalog.postgres_proxy import ANYTHING, PostgresProxy
from tests.postgres import PostgresServer
from tests.storage.objects.test_storage import KEY, World, read, segments, until
from tests.storage.test_contract import NOW, TOPIC_ID, append, plain, produced

THROUGH_STORE = CommitSettings(window_ms=1, inline_bytes=0)

Fault = Callable[[Callable[[], None]], None]
"""Is handed the operation, and may run it before, after or instead of failing."""


class FaultyStore(ObjectStore):
    """Every PUT, GET and deletion meets the next fault, if one is left."""

    def __init__(self) -> None:
        sound = ObjectStore.open("memory://")
        super().__init__(sound._store, sound.shown)
        self.puts: list[Fault] = []
        self.gets: list[Fault] = []
        self.deletes: list[Fault] = []
        self.met = 0

    def put(self, key: str, parts: Sequence[bytes]) -> None:
        self._meet(self.puts, lambda: super(FaultyStore, self).put(key, parts))

    def get(self, key: str, position: int, size: int) -> bytes:
        found: list[bytes] = []
        self._meet(self.gets, lambda: found.append(super(FaultyStore, self).get(key, position, size)))
        return found[0]

    def delete(self, keys: Iterable[str]) -> None:
        self._meet(self.deletes, lambda: super(FaultyStore, self).delete(keys))

    def _meet(self, faults: list[Fault], operation: Callable[[], None]) -> None:
        if not faults:
            return operation()
        self.met += 1
        faults.pop(0)(operation)


class FaultyCommitLog(MemoryCommitLog):
    def __init__(self) -> None:
        super().__init__()
        self.faults: list[Fault] = []
        self.met = 0

    def commit(self, stored: StoredObject | None, tails: Sequence[Tail]) -> list[Outcome]:
        outcomes: list[Outcome] = []

        def operation() -> None:
            outcomes.extend(super(FaultyCommitLog, self).commit(stored, tails))

        if self.faults:
            self.met += 1
            self.faults.pop(0)(operation)
        else:
            operation()
        return outcomes


def throttled(operation: Callable[[], None]) -> None:
    raise StoreError("503 Slow Down")


def stored_then_timed_out(operation: Callable[[], None]) -> None:
    operation()
    raise StoreError("no answer within 20 s")


def cut_before_the_commit(operation: Callable[[], None]) -> None:
    raise CommitLogAway("the connection was closed")


def cut_after_the_commit(operation: Callable[[], None]) -> None:
    operation()
    raise CommitLogAway("the connection was closed")


class FaultyWorld(World):
    store: FaultyStore
    commits: FaultyCommitLog

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = FaultyStore()
        self.commits = FaultyCommitLog()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FaultyWorld]:
    world = FaultyWorld(tmp_path / "cache")
    yield world
    for storage in world.started:
        storage.close()
    assert not world.failures


def assert_sound(world: FaultyWorld, log: ObjectLog, count: int) -> None:
    """Each record is there once and in order, here and for whoever comes next."""
    for each in (log, world.start(THROUGH_STORE).open_log("t", 0, TOPIC_ID, LogConfig())):
        found: list[bytes | None] = []
        while len(found) < each.high_watermark:
            found += read(each, len(found))
        assert found == [b"%d" % number for number in range(count)]
    assert inspect(world.commits, world.store, KeySpace(), lambda done, total: None).findings == []


@pytest.mark.parametrize("fault", [throttled, stored_then_timed_out])
def test_an_upload_that_fails_is_repeated_and_committed_once(world: FaultyWorld, fault: Fault) -> None:
    log = world.start(THROUGH_STORE).open_log("t", 0, TOPIC_ID, LogConfig())
    world.store.puts += [fault, fault]
    for number in range(3):
        append(log, produced(number, str(number)))
    assert world.store.met == 2
    assert_sound(world, log, 3)


@pytest.mark.parametrize("fault", [cut_before_the_commit, cut_after_the_commit])
@pytest.mark.parametrize("settings", [CommitSettings(), THROUGH_STORE], ids=["inline", "store"])
def test_a_commit_whose_outcome_is_unknown_is_repeated_until_it_is_known(
    world: FaultyWorld, fault: Fault, settings: CommitSettings
) -> None:
    log = world.start(settings).open_log("t", 0, TOPIC_ID, LogConfig())
    append(log, plain("0"))
    world.commits.faults += [fault, fault]
    append(log, plain("1"))
    append(log, plain("2"))
    assert world.commits.met == 2
    assert_sound(world, log, 3)


def test_uploads_that_overtake_a_slow_one_are_committed_after_it(world: FaultyWorld) -> None:
    storage = world.start(THROUGH_STORE)
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    may_go_on = threading.Event()

    def slow(operation: Callable[[], None]) -> None:
        assert may_go_on.wait(30)
        operation()

    world.store.puts.append(slow)
    statistics = storage.committer.statistics
    for number in range(4):
        batch = plain(str(number))
        log.append(batch, parse_header(batch), now_ms=NOW)
        until(
            lambda: (
                world.store.met == 1 and statistics.uploads + storage.committer.uploads_under_way == log.log_end_offset
            )
        )
    until(lambda: statistics.uploads == 3)
    assert world.store.met == 1
    assert (log.high_watermark, world.commits.states([KEY])[KEY].end_offset) == (0, 0)
    may_go_on.set()
    until(lambda: log.high_watermark == 4)
    assert_sound(world, log, 4)


def test_while_the_store_is_away_reads_go_on_and_producers_are_refused_when_too_much_waits(world: FaultyWorld) -> None:
    size = len(plain("0"))
    settings = CommitSettings(window_ms=1, inline_bytes=0, backlog_bytes=2 * size)
    storage = world.start(settings)
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    append(log, plain("0"))
    is_away = threading.Event()
    is_away.set()

    def away(operation: Callable[[], None]) -> None:
        if is_away.is_set():
            world.store.puts.append(away)
            throttled(operation)
        operation()

    world.store.puts += [away, away]
    heard: list[StorageError | None] = []
    for number in (1, 2):
        batch = plain(str(number))
        appended = log.append(batch, parse_header(batch), now_ms=NOW)
        storage.when_durable(log, appended.position, heard.append)
    until(lambda: world.store.met >= 3)
    batch = plain("refused")
    with pytest.raises(NotEnoughReplicas, match="takes no more records"):
        log.append(batch, parse_header(batch), now_ms=NOW)
    assert read(log, 0) == [b"0"]
    assert heard == []
    is_away.clear()
    until(lambda: heard == [None, None])
    world.store.puts.clear()
    assert_sound(world, log, 3)


def test_a_cold_read_that_fails_is_an_error_of_the_store_and_succeeds_later(world: FaultyWorld) -> None:
    one_batch = LogConfig(segment_bytes=len(plain("0")))
    log = world.start(THROUGH_STORE).open_log("t", 0, TOPIC_ID, one_batch)
    append(log, plain("0"))
    append(log, plain("1"))
    until(lambda: len(segments(world)) == 1)
    again = world.start(THROUGH_STORE).open_log("t", 0, TOPIC_ID, one_batch)
    with pytest.raises(ColdRead) as cold:
        again.read(0, 1000)
    world.store.gets.append(throttled)
    (fetch,) = cold.value.fetches
    assert isinstance(fetch, FarFetch), "nothing that is on a disk waits behind it"
    with pytest.raises(StoreError, match="503"):
        fetch()
    assert world.store.met == 1
    assert read(again, 0) == [b"0"]


def test_the_connection_to_postgresql_is_cut_when_it_has_committed_and_not_answered(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    schema = new_schema()
    catalog = open_postgres(postgres, schema)
    catalog.create_topic("t", TOPIC_ID, 1, {})
    world = World(tmp_path / "cache")
    with PostgresProxy(postgres.port) as proxy:
        conninfo = postgres.url(port=proxy.port)
        world.commits = PostgresCommitLog(lambda: Session(conninfo, schema, "a test"))  # type: ignore[assignment]
        storage: ObjectStorage = world.start()
        log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
        append(log, plain("0"))
        proxy.cut_after = ANYTHING
        append(log, plain("1"))
        assert proxy.faults == 1
        assert storage.committer.statistics.failures >= 1
        append(log, plain("2"))
        assert read(log, 0) + read(log, 1) + read(log, 2)
        layout = world.commits.layouts([KEY])[KEY]
        assert [(each.base_offset, each.end_offset) for each in layout.extents] == [(0, 1), (1, 2), (2, 3)]
        storage.close()
    assert not world.failures
    catalog.close()
