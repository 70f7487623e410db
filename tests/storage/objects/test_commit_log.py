"""Every engine answers alike: the contract of the commit log, checked on each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from penstock.catalog.postgres_session import Session
from penstock.storage.objects.commit_log import (
    CommitLog,
    Outcome,
    PartitionKey,
    SegmentEntry,
    StoredObject,
    Tail,
)
from penstock.storage.objects.memory_commit_log import MemoryCommitLog
from penstock.storage.objects.postgres_commit_log import PostgresCommitLog
from tests.catalog.postgres_catalogs import new_schema, open_postgres
from tests.postgres import PostgresServer

TOPIC = bytes(range(16))
FIRST, SECOND = PartitionKey(TOPIC, 0), PartitionKey(TOPIC, 1)
UNKNOWN = PartitionKey(bytes(16), 0)
NODE = 3
OBJECT = StoredObject("wal/3-1-abc/1", 100)


class Cluster:
    """One topic with two partitions, and what the catalog may do to it."""

    def __init__(
        self, connect: Callable[[], CommitLog], move: Callable[[PartitionKey], None], delete: Callable[[], None]
    ) -> None:
        self.connect = connect
        self.log = connect()
        self.move = move
        self.delete = delete


def in_memory() -> Cluster:
    log = MemoryCommitLog()

    def move(partition: PartitionKey) -> None:
        log.create(partition, NODE + 1, log.states([partition])[partition].leader_epoch + 1)

    def delete() -> None:
        log.delete(FIRST)
        log.delete(SECOND)

    return Cluster(lambda: log, move, delete)


def in_postgres(server: PostgresServer) -> Iterator[Cluster]:
    schema = new_schema()
    catalog = open_postgres(server, schema)
    catalog.create_topic("t", TOPIC, 2, {})

    def connect() -> CommitLog:
        return PostgresCommitLog(lambda: Session(server.url(), schema, "the test's server"))

    direct = psycopg.connect(server.url(), autocommit=True)
    direct.execute("SELECT set_config('search_path', quote_ident(%s), false)", (schema,))

    def move(partition: PartitionKey) -> None:
        direct.execute(
            "UPDATE partition SET leader = %s, leader_epoch = leader_epoch + 1 "
            "WHERE topic_id = %s AND partition_index = %s",
            (NODE + 1, *partition),
        )

    cluster = Cluster(connect, move, lambda: catalog.delete_topic(TOPIC))
    yield cluster
    direct.close()
    cluster.log.close()
    catalog.close()


@pytest.fixture(params=["memory", "postgres"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "memory":
        yield in_memory()
    else:
        yield from in_postgres(request.getfixturevalue("postgres"))


@pytest.fixture
def log(cluster: Cluster) -> CommitLog:
    return cluster.log


@pytest.fixture
def epoch(log: CommitLog) -> int:
    return log.lead(NODE, [FIRST, SECOND])[FIRST].leader_epoch


def inline(partition: PartitionKey, epoch: int, base: int, end: int, data: bytes = b"bytes") -> Tail:
    return Tail(partition, epoch, base, end, 0, len(data), data)


def in_object(partition: PartitionKey, epoch: int, base: int, end: int, position: int = 0) -> Tail:
    return Tail(partition, epoch, base, end, position, 50, None)


def segment(base: int, end: int, key: str = "segment/1") -> SegmentEntry:
    return SegmentEntry(base, end, key, 90, 8, 12, 0, 20, 1000, 2000, end - 1)


def extents(log: CommitLog, partition: PartitionKey = FIRST) -> list[tuple[int, int]]:
    return [(each.base_offset, each.end_offset) for each in log.layouts([partition])[partition].extents]


def segments(log: CommitLog) -> list[str]:
    return [each.object_key for each in log.layouts([FIRST])[FIRST].segments]


def end(log: CommitLog, partition: PartitionKey = FIRST) -> int:
    return log.states([partition])[partition].end_offset


def test_leading_again_raises_the_epoch(log: CommitLog, epoch: int) -> None:
    again = log.lead(NODE, [FIRST])[FIRST]
    assert (again.leader, again.leader_epoch) == (NODE, epoch + 1)
    assert log.states([FIRST])[FIRST] == again
    assert log.states([SECOND])[SECOND].leader_epoch == epoch


def test_a_commit_moves_the_end_and_keeps_the_bytes(log: CommitLog, epoch: int) -> None:
    assert log.commit(None, [inline(FIRST, epoch, 0, 3, b"abc")]) == [Outcome.COMMITTED]
    assert log.commit(OBJECT, [in_object(FIRST, epoch, 3, 5, 7)]) == [Outcome.COMMITTED]
    assert end(log) == 5
    first, second = log.layouts([FIRST])[FIRST].extents
    assert (first.base_offset, first.end_offset, first.object_key, first.size) == (0, 3, None, 3)
    assert (second.base_offset, second.object_key, second.position, second.size) == (3, OBJECT.key, 7, 50)
    assert log.known_objects() == {OBJECT.key: OBJECT.size}


def test_one_commit_holds_both_kinds_of_tails(log: CommitLog, epoch: int) -> None:
    outcomes = log.commit(OBJECT, [in_object(FIRST, epoch, 0, 5), inline(SECOND, epoch, 0, 2)])
    assert outcomes == [Outcome.COMMITTED] * 2
    assert (end(log, FIRST), end(log, SECOND)) == (5, 2)


def test_a_commit_under_another_epoch_is_fenced_and_the_others_are_not(cluster: Cluster, epoch: int) -> None:
    log = cluster.log
    cluster.move(FIRST)
    outcomes = log.commit(OBJECT, [in_object(FIRST, epoch, 0, 5), in_object(SECOND, epoch, 0, 5, 50)])
    assert outcomes == [Outcome.FENCED, Outcome.COMMITTED]
    assert (end(log, FIRST), end(log, SECOND)) == (0, 5)
    assert extents(log, FIRST) == []


def test_a_repeated_commit_is_settled_and_adds_nothing(log: CommitLog, epoch: int) -> None:
    tail = inline(FIRST, epoch, 0, 5)
    assert log.commit(None, [tail]) == log.commit(None, [tail]) == [Outcome.COMMITTED]
    assert extents(log) == [(0, 5)]


@pytest.mark.parametrize(("base", "new_end"), [(2, 8), (9, 12)], ids=["before the end", "behind the end"])
def test_a_commit_that_expects_another_end_diverges(log: CommitLog, epoch: int, base: int, new_end: int) -> None:
    log.commit(None, [inline(FIRST, epoch, 0, 5)])
    assert log.commit(None, [inline(FIRST, epoch, base, new_end)]) == [Outcome.DIVERGED]
    assert end(log) == 5


def test_partitions_of_deleted_topics_are_reported_and_their_objects_found(cluster: Cluster, epoch: int) -> None:
    log = cluster.log
    log.commit(OBJECT, [in_object(FIRST, epoch, 0, 5)])
    cluster.delete()
    assert log.states([FIRST]) == {}
    assert log.commit(None, [inline(FIRST, epoch, 5, 6)]) == [Outcome.DELETED]
    assert log.mark_unreferenced() == 0
    assert log.forget_deleted() > 0
    assert log.mark_unreferenced() == 1
    assert log.marked(0) == [OBJECT.key]


def test_the_history_of_epochs_tells_where_each_began_to_write(log: CommitLog, epoch: int) -> None:
    log.commit(None, [inline(FIRST, epoch, 0, 5)])
    log.lead(NODE, [FIRST])
    later = log.lead(NODE, [FIRST])[FIRST].leader_epoch
    log.commit(None, [inline(FIRST, later, 5, 6)])
    log.commit(None, [inline(FIRST, later, 6, 7)])
    assert log.layouts([FIRST])[FIRST].epochs == [(epoch, 0), (later, 5)]


def test_a_segment_takes_the_place_of_the_extents_that_it_covers(log: CommitLog, epoch: int) -> None:
    for base in (0, 2, 4, 6):
        log.commit(None, [inline(FIRST, epoch, base, base + 2)])
    entry = segment(0, 5)
    assert log.add_segment(FIRST, epoch, entry) == log.add_segment(FIRST, epoch, entry) == Outcome.COMMITTED
    layout = log.layouts([FIRST])[FIRST]
    assert layout.segments == [entry]
    assert extents(log) == [(4, 6), (6, 8)]
    assert log.known_objects() == {"segment/1": entry.size}


def test_an_extent_over_several_segments_is_named_until_the_last_of_them_is_stored(log: CommitLog, epoch: int) -> None:
    log.commit(OBJECT, [in_object(FIRST, epoch, 0, 8)])
    for base, key in ((0, "segment/1"), (3, "segment/2")):
        log.add_segment(FIRST, epoch, segment(base, base + 3, key))
        assert extents(log) == [(0, 8)]
    log.add_segment(FIRST, epoch, segment(6, 8, "segment/3"))
    assert extents(log) == []
    assert log.mark_unreferenced() == 1
    assert log.marked(0) == [OBJECT.key]


def test_an_extent_that_lies_in_several_segments_goes_with_the_last_of_them(log: CommitLog, epoch: int) -> None:
    for base, end in ((0, 2), (2, 8), (8, 10)):
        log.commit(None, [inline(FIRST, epoch, base, end)])
    for base, end, left in ((0, 3, [(2, 8), (8, 10)]), (3, 5, [(2, 8), (8, 10)]), (5, 9, [(8, 10)]), (9, 10, [])):
        entry = segment(base, end, f"segment/{base}")
        for _ in range(2):
            assert log.add_segment(FIRST, epoch, entry) == Outcome.COMMITTED
            assert extents(log) == left


def test_segments_are_guarded_like_commits(cluster: Cluster, epoch: int) -> None:
    log = cluster.log
    log.commit(None, [inline(FIRST, epoch, 0, 5)])
    assert log.add_segment(FIRST, epoch, segment(0, 6)) == Outcome.DIVERGED
    assert log.add_segment(UNKNOWN, epoch, segment(0, 5)) == Outcome.DELETED
    log.add_segment(FIRST, epoch, segment(0, 3))
    assert log.add_segment(FIRST, epoch, segment(2, 5, "segment/2")) == Outcome.DIVERGED
    cluster.move(FIRST)
    assert log.add_segment(FIRST, epoch, segment(3, 5, "segment/2")) == Outcome.FENCED
    assert segments(log) == ["segment/1"]


def test_a_compacted_segment_takes_the_place_of_exactly_those_it_was_made_from(log: CommitLog, epoch: int) -> None:
    log.commit(None, [inline(FIRST, epoch, 0, 9)])
    for base, key in ((0, "segment/1"), (3, "segment/2"), (6, "segment/3")):
        log.add_segment(FIRST, epoch, segment(base, base + 3, key))
    cleaned = segment(0, 6, "segment/4")
    wrong = log.replace_segments(FIRST, epoch, ["segment/1", "segment/9"], segment(0, 6, "segment/5"))
    assert wrong == Outcome.DIVERGED
    for _ in range(2):
        assert log.replace_segments(FIRST, epoch, ["segment/1", "segment/2"], cleaned) == Outcome.COMMITTED
    assert segments(log) == ["segment/4", "segment/3"]
    assert log.mark_unreferenced() == 2
    assert sorted(log.marked(0)) == ["segment/1", "segment/2"]


def test_a_compacted_segment_takes_the_place_of_extents_that_were_in_no_segment_yet(log: CommitLog, epoch: int) -> None:
    log.commit(None, [inline(FIRST, epoch, 0, 3)])
    log.add_segment(FIRST, epoch, segment(0, 3))
    log.commit(OBJECT, [in_object(FIRST, epoch, 3, 5)])
    log.commit(None, [inline(FIRST, epoch, 5, 6), inline(SECOND, epoch, 0, 5)])
    log.commit(None, [inline(FIRST, epoch, 6, 9)])
    wrong = log.replace_segments(FIRST, epoch, ["segment/9"], segment(0, 8, "segment/2"))
    assert (wrong, len(extents(log))) == (Outcome.DIVERGED, 3)
    for _ in range(2):
        assert log.replace_segments(FIRST, epoch, ["segment/1"], segment(0, 8, "segment/2")) == Outcome.COMMITTED
        assert extents(log) == [(6, 9)]
        assert extents(log, SECOND) == [(0, 5)]
    assert log.read_inline(FIRST, 0, 5) == []
    assert log.mark_unreferenced() == 2
    assert sorted(log.marked(0)) == sorted([OBJECT.key, "segment/1"])


def test_a_replaced_leader_swaps_no_segments(cluster: Cluster, epoch: int) -> None:
    log = cluster.log
    log.commit(None, [inline(FIRST, epoch, 0, 3)])
    log.add_segment(FIRST, epoch, segment(0, 3))
    cluster.move(FIRST)
    outcome = log.replace_segments(FIRST, epoch, ["segment/1"], segment(0, 3, "segment/2"))
    assert outcome == Outcome.FENCED
    assert segments(log) == ["segment/1"]


def test_a_new_log_start_deletes_what_lies_below_it(cluster: Cluster, epoch: int) -> None:
    log = cluster.log
    log.commit(OBJECT, [in_object(FIRST, epoch, 0, 4)])
    log.commit(None, [inline(FIRST, epoch, 4, 6)])
    log.add_segment(FIRST, epoch, segment(0, 3))
    log.add_segment(FIRST, epoch, segment(3, 5, "segment/2"))
    assert log.move_start(FIRST, epoch, 9) == Outcome.DIVERGED
    assert log.move_start(FIRST, epoch, 4) == Outcome.COMMITTED
    assert log.move_start(FIRST, epoch, 2) == Outcome.COMMITTED
    assert log.states([FIRST])[FIRST].log_start_offset == 4
    assert segments(log) == ["segment/2"]
    cluster.move(FIRST)
    assert log.move_start(FIRST, epoch, 5) == Outcome.FENCED
    assert log.states([FIRST])[FIRST].log_start_offset == 4


def test_objects_are_forgotten_only_after_they_were_marked(log: CommitLog, epoch: int) -> None:
    log.commit(OBJECT, [in_object(FIRST, epoch, 0, 4), in_object(SECOND, epoch, 0, 4, 50)])
    log.move_start(FIRST, epoch, 4)
    assert log.mark_unreferenced() == 0
    log.move_start(SECOND, epoch, 4)
    assert log.mark_unreferenced() == 1
    assert log.marked(3600) == []
    assert log.usage().marked == 1
    log.forget_objects([OBJECT.key])
    assert log.known_objects() == {}


def test_usage_counts_what_is_kept(log: CommitLog, epoch: int) -> None:
    log.commit(OBJECT, [in_object(FIRST, epoch, 0, 4), inline(SECOND, epoch, 0, 1, b"abc")])
    used = log.usage()
    assert (used.objects, used.bytes, used.extents, used.inline_bytes, used.segments) == (1, 100, 2, 3, 0)


def test_commits_of_the_same_partitions_side_by_side_neither_deadlock_nor_overwrite(postgres: PostgresServer) -> None:
    for cluster in in_postgres(postgres):
        epoch = cluster.log.lead(NODE, [FIRST, SECOND])[FIRST].leader_epoch
        outcomes: list[Outcome] = []

        def contend(log: CommitLog, order: list[PartitionKey], epoch: int = epoch) -> None:
            for at in range(50):
                tails = [inline(key, epoch, at, at + 1) for key in order]
                outcomes.extend(log.commit(None, tails))  # noqa: B023 - the loop runs once

        other = cluster.connect()
        contenders = [(cluster.log, [FIRST, SECOND]), (other, [SECOND, FIRST])]
        threads = [threading.Thread(target=contend, args=each) for each in contenders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(outcomes) <= {Outcome.COMMITTED, Outcome.DIVERGED}
        assert end(cluster.log, FIRST) == end(cluster.log, SECOND) == 50
        assert extents(cluster.log, FIRST) == [(at, at + 1) for at in range(50)]
        other.close()


def test_known_objects_are_told_from_others(log: CommitLog, epoch: int) -> None:
    log.commit(OBJECT, [in_object(FIRST, epoch, 0, 4)])
    assert log.known_among([OBJECT.key, "wal/other"]) == {OBJECT.key}
    assert log.known_among([]) == set()


def test_a_turn_is_taken_once_until_it_ends_by_itself(log: CommitLog) -> None:
    assert log.take_turn("a task", 3600)
    assert not log.take_turn("a task", 3600)
    assert log.take_turn("another", 0)
    assert log.take_turn("another", 3600)


def test_fenced_writers_are_noted_once_and_remembered_until_they_are_forgotten(log: CommitLog) -> None:
    log.note_fenced(["c/wal/1-1-x/"])
    log.note_listed("c/wal/1-1-x/", False)
    log.note_fenced(["c/wal/1-1-x/", "c/wal/2-1-y/"])
    writers = log.fenced_writers()
    assert set(writers) == {"c/wal/1-1-x/", "c/wal/2-1-y/"}
    assert writers["c/wal/1-1-x/"].listed_seconds_ago is not None
    assert writers["c/wal/2-1-y/"].listed_seconds_ago is None
    assert 0 <= writers["c/wal/2-1-y/"].age_seconds < 600
    log.note_listed("c/wal/1-1-x/", True)
    assert log.fenced_writers()["c/wal/1-1-x/"].is_done
    log.forget_writers(["c/wal/1-1-x/"])
    assert set(log.fenced_writers()) == {"c/wal/2-1-y/"}


def test_bytes_without_an_object_are_read_by_ranges_of_offsets(log: CommitLog, epoch: int) -> None:
    for base in (0, 2, 6):
        log.commit(None, [inline(FIRST, epoch, base, base + 2, b"\x00from %d" % base)])
        if base == 2:
            log.commit(OBJECT, [in_object(FIRST, epoch, 4, 6)])
    log.commit(None, [inline(SECOND, epoch, 0, 1, b"of another")])
    assert log.read_inline(FIRST, 0, 5) == [(0, b"\x00from 0"), (2, b"\x00from 2")]
    assert log.read_inline(FIRST, 2, 6) == [(2, b"\x00from 2"), (6, b"\x00from 6")]
    assert log.read_inline(FIRST, 7, 9) == []
    log.add_segment(FIRST, epoch, segment(0, 3))
    assert log.read_inline(FIRST, 0, 6) == [(2, b"\x00from 2"), (6, b"\x00from 6")]
