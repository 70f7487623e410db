"""When a log begins a new segment, so that whoever takes over has little to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.log.files import OpenFiles
from penstock.storage.objects.commit_log import Extent, Tail
from penstock.storage.objects.committer import CommitSettings
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.storage import EngineSettings
from penstock.storage.objects.store import StoreError
from penstock.storage.objects.tails import Tails, TailSettings
from tests.storage.objects.test_shipping import Store
from tests.storage.objects.test_storage import KEY, LoopWorld, read, segments
from tests.storage.test_contract import TOPIC_ID, plain

THROUGH_STORE = CommitSettings(window_ms=1, inline_bytes=0)


class Books:
    """Logs that commit what they are told to, and what is kept of it."""

    def __init__(self, settings: TailSettings) -> None:
        self.tails = Tails(settings)
        self._names = iter(range(1000))

    def log(self, *extents: Extent, now: float = 0.0) -> ObjectLog:
        name = f"t{next(self._names)}"
        log = ObjectLog(Path(name), name, 0, TOPIC_ID, LogConfig(), OpenFiles())
        self.tails.begin(log, extents, now)
        return log

    def commit(self, log: ObjectLog, size: int, *, inline: bool = False, now: float = 0.0) -> None:
        base, log.log_end_offset = log.log_end_offset, log.log_end_offset + 1
        data = bytes(size) if inline else None
        self.tails.committed(log, Tail(log.key, 0, base, base + 1, 0, size, data), now)


def test_a_log_is_due_when_its_tail_is_large() -> None:
    books = Books(TailSettings(bytes=100))
    log = books.log()
    books.commit(log, 99)
    assert not books.tails.is_due(log)
    books.commit(log, 1)
    assert books.tails.is_due(log)
    books.tails.rolled(log)
    assert not books.tails.is_due(log)


def test_a_log_is_due_when_its_tail_is_in_many_pieces_of_which_those_in_postgresql_count_less() -> None:
    books = Books(TailSettings(extents=2))
    stored, inline = books.log(), books.log()
    for _ in range(2):
        assert not books.tails.is_due(stored)
        books.commit(stored, 1)
    assert books.tails.is_due(stored)
    for _ in range(32):
        assert not books.tails.is_due(inline)
        books.commit(inline, 1, inline=True)
    assert books.tails.is_due(inline)


def test_a_tail_that_was_loaded_counts() -> None:
    books = Books(TailSettings(bytes=100))
    assert books.tails.is_due(books.log(Extent(0, 1, "key", 0, 60), Extent(1, 2, None, 0, 60)))


def test_old_tails_are_found_and_new_or_empty_ones_are_not() -> None:
    books = Books(TailSettings(seconds=10))
    old, young, _ = books.log(), books.log(), books.log()
    books.commit(old, 1, now=0)
    books.commit(old, 1, now=9)
    books.commit(young, 1, now=5)
    assert list(books.tails.old(9)) == []
    assert list(books.tails.old(10)) == [old]
    books.tails.rolled(old)
    assert list(books.tails.old(10)) == []


def test_the_largest_tails_are_chosen_when_all_together_are_too_large() -> None:
    books = Books(TailSettings(all_bytes=1280))
    small, medium, large = books.log(), books.log(), books.log()
    books.commit(large, 700)
    books.commit(medium, 500)
    books.commit(small, 80)
    assert books.tails.excess(0) == []
    books.commit(small, 100)
    assert books.tails.excess(1) == [large]
    books.tails.rolled(large)
    assert books.tails.excess(2) == []


def test_tails_that_are_not_worth_an_object_are_left_alone() -> None:
    books = Books(TailSettings(all_bytes=1280))
    for _ in range(300):
        books.commit(books.log(), 9)
    assert books.tails.excess(0) == []


def test_what_waits_in_postgresql_is_bounded_and_leaves_it_when_it_is_stored() -> None:
    books = Books(TailSettings(inline_bytes=100))
    log = books.log()
    books.commit(log, 60, inline=True)
    assert books.tails.may_go_inline
    books.tails.rolled(log)
    books.commit(log, 60, inline=True)
    assert not books.tails.may_go_inline
    books.tails.stored(log, 1)
    assert books.tails.may_go_inline
    books.tails.end(log)
    assert (books.tails.bytes, books.tails.inline_bytes) == (0, 0)


def test_records_that_are_committed_after_their_segment_has_rolled_belong_to_it() -> None:
    books = Books(TailSettings(bytes=100))
    log = books.log()
    log.log_end_offset = 1
    books.tails.rolled(log)
    log.log_end_offset = 0
    books.commit(log, 200)
    assert not books.tails.is_due(log)
    books.tails.stored(log, 1)
    assert books.tails.bytes == 0


# In the engine


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LoopWorld]:
    world = LoopWorld(tmp_path / "cache")
    yield world
    for storage in world.started:
        storage.close()
    assert not world.failures


def test_under_load_a_partition_never_has_more_extents_than_it_may(world: LoopWorld) -> None:
    world.settings = EngineSettings(1, commit=THROUGH_STORE, tails=TailSettings(extents=5))
    log = world.start().open_log("t", 0, TOPIC_ID, LogConfig())
    for number in range(60):
        world.append(log, str(number))
        world.until(lambda: len(world.commits.layouts([KEY])[KEY].extents) <= 5)
    assert len(segments(world)) >= 10
    again = world.start().open_log("t", 0, TOPIC_ID, LogConfig())
    assert [read(again, offset)[0] for offset in range(60)] == [b"%d" % number for number in range(60)]


def test_a_quiet_tail_is_stored_when_it_is_old_and_then_nothing_is(world: LoopWorld) -> None:
    world.settings = EngineSettings(1, tails=TailSettings(seconds=0))
    storage = world.start()
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    world.append(log, "a")
    for _ in range(3):
        storage.save_progress()
        world.until(lambda: segments(world) and not storage.shipper.waiting)
    assert (len(segments(world)), storage.shipper.shipped) == (1, 1)
    assert world.commits.layouts([KEY])[KEY].extents == []
    world.append(log, "b")
    assert read(log, 0) + read(log, 1) == [b"a", b"b"]


def test_a_long_tail_that_was_taken_over_is_stored_at_once(world: LoopWorld) -> None:
    log = world.start(THROUGH_STORE).open_log("t", 0, TOPIC_ID, LogConfig())
    for number in range(5):
        world.append(log, str(number))
    world.settings = EngineSettings(1, tails=TailSettings(extents=5))
    world.start().open_log("t", 0, TOPIC_ID, LogConfig())
    world.until(lambda: segments(world))


def test_records_wait_for_the_store_when_too_many_wait_in_postgresql_to_be_stored(world: LoopWorld) -> None:
    store = world.store = Store()

    def refuse(key: str) -> None:
        raise StoreError("503 Slow Down")

    store.on_segment = refuse
    size = len(plain("a"))
    world.settings = EngineSettings(
        1, commit=CommitSettings(window_ms=1), tails=TailSettings(bytes=size, inline_bytes=2 * size)
    )
    storage = world.start()
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig())
    for value in "abcd":
        world.append(log, value)
    assert storage.committer.statistics.inline_bytes == 2 * size
    assert storage.committer.statistics.uploads == 2
