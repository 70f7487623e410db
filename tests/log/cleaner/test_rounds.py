"""What a round of cleaning keeps, drops and never changes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.cleaner.jobs import CleanedGroup, CleanJob
from penstock.log.cleaner.rounds import BYTES_PER_KEY, CorruptSegment, clean_round, group_segments
from penstock.log.config import LogConfig
from penstock.log.partition import PartitionLog
from penstock.log.results import IsolationLevel
from penstock.records.batch import iter_headers
from penstock.records.codecs import Codec
from penstock.records.record import iter_records
from tests.log.cleaner.clean_helpers import clean, headers, keyed, latest, plan, records, write
from tests.log.log_helpers import NOW, all_bytes, append, end_transaction, open_log, plain, reopen, reopen_clean

COMPACT = LogConfig(cleanup_policy="compact", segment_bytes=1000, index_interval_bytes=50, min_cleanable_dirty_ratio=0)
DAY_MS = 86_400_000


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path, COMPACT)


def test_only_the_last_value_of_each_key_stays(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("b", "1"), ("a", "2"))
    write(log, ("c", "1"), ("b", "2"))
    log.roll(NOW)
    write(log, ("a", "3"))
    clean(log)
    assert records(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    assert log.log_end_offset == 6


def test_the_active_segment_is_never_cleaned(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    write(log, ("a", "2"))
    assert plan(log).segments == []


def test_a_batch_that_loses_nothing_is_copied_byte_for_byte(log: PartitionLog) -> None:
    kept = keyed(("x", "1"), ("y", "1"), codec=Codec.ZSTD)
    write(log, ("a", "1"))
    append(log, kept)
    write(log, ("a", "2"))
    log.roll(NOW)
    clean(log)
    data = log.read(1, 1 << 20).read()
    assert data[: len(kept)] == kept


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_records_keeps_offsets_codec_and_timestamps(log: PartitionLog, codec: Codec) -> None:
    append(
        log,
        keyed(("a", "1"), ("b", "1"), ("c", "1"), codec=codec, producer_id=5, producer_epoch=2, base_sequence=9),
    )
    write(log, ("a", "2"), ("c", "2"))
    log.roll(NOW)
    clean(log)
    first = headers(log)[0]
    assert (first.base_offset, first.last_offset, first.records_count, first.codec) == (0, 2, 1, codec)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (5, 2, 9, 11)
    assert first.max_timestamp == NOW
    (record,) = iter_records(log.read(0, 1).read())
    assert (record.offset, record.key, record.value, record.timestamp) == (1, b"b", b"1", NOW)


def test_the_largest_timestamp_is_that_of_the_survivors(log: PartitionLog) -> None:
    batch = keyed(("a", "1"), timestamp=NOW + 50)
    append(log, batch)
    append(log, keyed(("b", "1"), ("a", "2"), timestamp=NOW + 10))
    log.roll(NOW)
    clean(log)
    assert log.max_timestamp_offset() == (NOW + 10, 1, 0)
    assert log.offset_for_timestamp(NOW + 20) is None


def test_an_emptied_batch_has_no_say_in_timestamps(log: PartitionLog) -> None:
    batch = keyed(("a", "1"), timestamp=NOW + 50, producer_id=5, producer_epoch=0, base_sequence=0)
    append(log, batch)
    append(log, keyed(("a", "2"), ("b", "1"), timestamp=NOW + 10))
    log.roll(NOW)
    clean(log)
    assert headers(log)[0].records_count == 0
    for each in (log, reopen(log)):
        assert each.max_timestamp_offset() == (NOW + 10, 1, 0)
        assert each.offset_for_timestamp(NOW + 5) == (NOW + 10, 1, 0)
        assert each.offset_for_timestamp(NOW + 20) is None


def test_long_keys_and_long_records_are_told_apart(log: PartitionLog) -> None:
    log.update_config(LogConfig(cleanup_policy="compact", index_interval_bytes=50))
    prefix = "k" * 5000
    write(log, (prefix + "1", "old"), (prefix + "2", "x" * 20_000), ("", "empty key"))
    write(log, (prefix + "1", "new"))
    log.roll(NOW)
    clean(log)
    assert [(offset, value) for offset, _, value in records(log)] == [(1, "x" * 20_000), (2, "empty key"), (3, "new")]


def test_records_without_a_key_are_dropped(log: PartitionLog) -> None:
    append(log, plain("no key"))
    write(log, ("a", "1"))
    log.roll(NOW)
    clean(log)
    assert records(log) == [(1, "a", "1")]


def test_a_tombstone_stays_until_its_horizon_and_then_goes(log: PartitionLog) -> None:
    write(log, ("a", "1"), ("b", "1"))
    write(log, ("a", None))
    write(log, ("b", "2"))
    log.roll(NOW)
    done = clean(log)
    assert records(log) == [(2, "a", None), (3, "b", "2")]
    tombstone = headers(log)[0]
    assert tombstone.has_delete_horizon
    assert tombstone.base_timestamp == NOW + DAY_MS
    (record,) = iter_records(log.read(2, 1).read())
    assert record.timestamp == NOW
    write(log, ("c", "1"))
    log.roll(NOW)
    done = clean(log, done.end_offset, NOW + DAY_MS - 1)
    assert records(log)[0] == (2, "a", None)
    write(log, ("c", "2"))
    log.roll(NOW)
    clean(log, done.end_offset, NOW + DAY_MS)
    assert "a" not in latest(records(log))
    assert log.log_end_offset == 6


def test_the_last_batch_of_the_round_keeps_its_offsets_when_it_is_emptied(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    append(log, plain("no key", "no key"))
    log.roll(NOW)
    write(log, ("b", "1"))
    clean(log)
    empty = headers(log)[1]
    assert (empty.records_count, empty.base_offset, empty.last_offset, empty.base_timestamp) == (0, 1, 2, -1)
    assert records(log) == [(0, "a", "1"), (3, "b", "1")]


def test_holes_that_cleaning_left_between_segments_survive_crashes(log: PartitionLog) -> None:
    log.update_config(replace(COMPACT, segment_bytes=300))
    for n in range(4):
        write(log, (f"key {n}", "x" * 100))
        append(log, plain("no key" * 10))
        log.roll(NOW)
    write(log, ("active", "1"))
    clean(log)
    expected = records(log)
    assert len(expected) == 5
    again = log
    for _ in range(3):
        again = reopen(again)
        assert records(again) == expected
        assert again.log_end_offset == 9


def test_the_last_batch_of_an_active_producer_stays_as_an_empty_header(log: PartitionLog) -> None:
    append(log, keyed(("a", "1"), producer_id=5, producer_epoch=0, base_sequence=0))
    append(log, keyed(("a", "2"), producer_id=5, producer_epoch=0, base_sequence=1))
    write(log, ("a", "3"))
    log.roll(NOW)
    clean(log)
    kept = headers(log)[0]
    assert (kept.base_offset, kept.records_count, kept.producer_id, kept.base_sequence) == (1, 0, 5, 1)
    for path in log.folder.glob("*.snapshot"):
        path.unlink()
    again = reopen(log)
    assert append(again, keyed(("a", "2"), producer_id=5, producer_epoch=0, base_sequence=1)).duplicate
    assert append(again, keyed(("a", "4"), producer_id=5, producer_epoch=0, base_sequence=2)).base_offset == 3


def test_a_producer_that_has_expired_leaves_nothing(log: PartitionLog) -> None:
    append(log, keyed(("a", "1"), producer_id=5, producer_epoch=0, base_sequence=0))
    write(log, ("a", "2"))
    log.roll(NOW)
    log.producer_state.remove_expired(NOW + DAY_MS, DAY_MS)
    clean(log)
    assert [header.base_offset for header in headers(log)] == [1]


def test_small_segments_are_merged_up_to_the_segment_size(log: PartitionLog) -> None:
    for n in range(30):
        write(log, (f"key {n}", "x" * 50))
        log.roll(NOW)
    before = records(log)
    clean(log)
    assert records(log) == before
    assert 3 < len(log.segments) < 8
    assert all(segment.size <= 1000 for segment in log.segments)


def test_relative_offsets_bound_a_group() -> None:
    job = plan_with([(0, 10), (2**30, 10), (2**31, 0), (2**31 + 5, 10)], 2**32)
    assert [[base for base, _ in group] for group in group_segments(job, 2**40)] == [[0, 2**30, 2**31], [2**31 + 5]]


def plan_with(segments: list[tuple[int, int]], upper_bound: int) -> CleanJob:
    return CleanJob(
        folder="unused",
        segments=segments,
        txn_index_segments=[],
        first_dirty_offset=0,
        upper_bound_offset=upper_bound,
        segment_bytes=1000,
        segment_index_bytes=1000,
        index_interval_bytes=50,
        delete_retention_ms=0,
        now_ms=0,
        dedupe_buffer_bytes=1000,
        io_max_bytes_per_second=1.0,
    )


def test_a_full_map_ends_the_round_early_and_the_next_one_goes_on(log: PartitionLog) -> None:
    for n in range(40):
        write(log, (f"key {n % 20}", f"{n}"))
    log.roll(NOW)
    cleaned: int | None = None
    rounds = 0
    while cleaned != log.log_end_offset:
        done = clean(log, cleaned, buffer=7 * BYTES_PER_KEY)
        assert done.keys <= 7
        assert done.end_offset > (cleaned or 0)
        cleaned = done.end_offset
        rounds += 1
    assert rounds > 3
    assert records(log) == [(n, f"key {n % 20}", f"{n}") for n in range(20, 40)]


def test_cleaning_again_changes_nothing(log: PartitionLog) -> None:
    for n in range(40):
        write(log, (f"key {n % 7}", None if n % 5 == 0 else f"{n}"))
    log.roll(NOW)
    done = clean(log)
    once = all_bytes(log)
    clean(log, done.end_offset)
    clean(log)
    assert all_bytes(log) == once


def test_a_damaged_segment_is_reported_and_left_alone(log: PartitionLog) -> None:
    for n in range(5):
        write(log, ("a", f"{n}"))
    log.roll(NOW)
    path = log.folder / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptSegment):
        clean(log)
    assert path.read_bytes() == data
    assert not list(log.folder.glob("*.cleaned"))


# Transactions


def transactional(log: PartitionLog, sequence: int, *pairs: tuple[str, str | None], producer_id: int = 5) -> None:
    batch = keyed(*pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
    append(log, batch)


def committed(log: PartitionLog) -> dict[str | None, str | None]:
    """The last value of each key as a `read_committed` consumer sees it."""
    found: dict[str | None, str | None] = {}
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        fetched = log.read(offset, 1 << 20, isolation=IsolationLevel.READ_COMMITTED)
        data = fetched.read()
        if not data:
            break
        starts = {entry.producer_id: entry.first_offset for entry in reversed(fetched.aborted or [])}
        aborted: set[int] = set()
        for position, header in iter_headers(data):
            offset = header.next_offset
            if starts.get(header.producer_id, 2**62) <= header.last_offset:
                aborted.add(header.producer_id)
            if header.is_control:
                for record in iter_records(data, position):
                    if record.key == b"\0\0\0\0":
                        aborted.discard(header.producer_id)
                        later = [
                            entry.first_offset
                            for entry in fetched.aborted or []
                            if entry.producer_id == header.producer_id and entry.first_offset > header.last_offset
                        ]
                        starts[header.producer_id] = min(later, default=2**62)
                continue
            if header.is_transactional and header.producer_id in aborted:
                continue
            for record in iter_records(data, position):
                found[(record.key or b"").decode()] = None if record.value is None else record.value.decode()
    return found


def test_aborted_records_are_dropped_and_do_not_hide_older_ones(log: PartitionLog) -> None:
    write(log, ("a", "kept"))
    transactional(log, 0, ("a", "aborted"), ("b", "aborted"))
    end_transaction(log, False, producer_id=5)
    log.roll(NOW)
    before = committed(log)
    clean(log)
    assert records(log) == [(0, "a", "kept")]
    assert committed(log) == before == {"a": "kept"}


def test_committed_records_count_like_any_other(log: PartitionLog) -> None:
    write(log, ("a", "old"))
    transactional(log, 0, ("a", "new"))
    end_transaction(log, True, producer_id=5)
    log.roll(NOW)
    clean(log)
    assert records(log) == [(1, "a", "new")]
    assert committed(log) == {"a": "new"}


def test_an_open_transaction_stops_the_cleaner(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    log.roll(NOW)
    transactional(log, 0, ("a", "2"))
    log.roll(NOW)
    write(log, ("a", "3"))
    log.roll(NOW)
    assert [base for base, _ in plan(log).segments] == [0]
    end_transaction(log, True, producer_id=5)
    log.roll(NOW)
    assert len(plan(log).segments) == 4


def test_a_marker_outlives_its_records_by_the_delete_retention(log: PartitionLog) -> None:
    transactional(log, 0, ("a", "aborted"))
    end_transaction(log, False, producer_id=5)
    transactional(log, 1, ("a", "1"))
    end_transaction(log, True, producer_id=5)
    for n in range(2, 4):
        write(log, ("a", f"{n}"))
        log.roll(NOW)

    def markers() -> list[int]:
        return [header.base_offset for header in headers(log) if header.is_control and header.records_count]

    clean(log)
    assert markers() == [1, 3]
    clean(log, now_ms=NOW + 1)
    # The abort's records are gone, so its marker has a horizon; the producer's last batch keeps the commit's alive.
    assert [header.has_delete_horizon for header in headers(log) if header.is_control] == [True, False]
    clean(log, now_ms=NOW + DAY_MS)
    assert markers() == [1, 3]
    clean(log, now_ms=NOW + 1 + DAY_MS)
    assert markers() == [3]
    assert log.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED).aborted == []


def test_the_transaction_index_follows_its_segments(log: PartitionLog) -> None:
    transactional(log, 0, ("a", "aborted"))
    log.roll(NOW)
    write(log, ("b", "1"))
    log.roll(NOW)
    end_transaction(log, False, producer_id=5)
    log.roll(NOW)
    clean(log)
    (entry,) = log.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED).aborted or []
    assert (entry.producer_id, entry.first_offset, entry.last_offset) == (5, 0, 2)
    again = reopen_clean(log)
    assert again.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED).aborted == [entry]


def test_several_aborts_of_one_producer_are_kept_apart(log: PartitionLog) -> None:
    for n in range(6):
        transactional(log, n, (f"key {n}", f"{n}"))
        end_transaction(log, n % 2 == 1, producer_id=5)
    log.roll(NOW)
    expected = {f"key {n}": f"{n}" for n in (1, 3, 5)}
    assert committed(log) == expected
    cleaned: int | None = None
    for now in (NOW, NOW + 1, NOW + DAY_MS, NOW + 2 * DAY_MS, NOW + 3 * DAY_MS):
        # From the middle on, too: the map must not take an earlier abort for a later one.
        clean(log, cleaned if now != NOW + 1 else 7, now)
        assert committed(log) == expected


def test_an_earlier_abort_of_the_producer_does_not_hide_a_later_one_from_the_map(log: PartitionLog) -> None:
    write(log, ("a", "kept"))
    for n in range(3):
        transactional(log, n, ("a", "aborted"))
        end_transaction(log, False, producer_id=5)
    log.roll(NOW)
    clean(log, 3)
    assert committed(log) == {"a": "kept"}


def test_the_marker_that_carries_a_producers_epoch_is_kept_as_an_empty_header(log: PartitionLog) -> None:
    """With a bumped epoch for every transaction the last marker is all that tells the producer's epoch."""
    transactional(log, 0, ("a", "1"))
    end_transaction(log, True, producer_id=5, epoch=1, version=2)
    write(log, ("a", "2"))
    log.roll(NOW)
    for now in (NOW, NOW + 1, NOW + 2 * DAY_MS, NOW + 3 * DAY_MS):
        clean(log, now_ms=now)
    kept = headers(log)[0]
    assert (kept.is_control, kept.records_count, kept.producer_id, kept.producer_epoch) == (True, 0, 5, 1)
    log.producer_state.clear()
    clean(log, now_ms=NOW + 4 * DAY_MS)
    assert [header.base_offset for header in headers(log)] == [2]


# Everything together


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=4)),
        st.tuples(
            st.just("transaction"), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=3)
        ),
        st.tuples(st.just("commit"), st.just([])),
        st.tuples(st.just("abort"), st.just([])),
        st.tuples(st.just("roll"), st.just([])),
        st.tuples(st.just("clean"), st.just([])),
        st.tuples(st.just("clean from start"), st.just([])),
        st.tuples(st.just("wait"), st.just([])),
        st.tuples(st.just("restart"), st.just([])),
        st.tuples(st.just("crash"), st.just([])),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(script=steps, codec=st.sampled_from([Codec.NONE, Codec.LZ4]), buffer_keys=st.integers(2, 50))
def test_the_last_committed_value_of_every_key_survives_anything(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[tuple[str, list[tuple[int, int]]]],
    codec: Codec,
    buffer_keys: int,
) -> None:
    log = open_log(tmp_path_factory.mktemp("log"), COMPACT)
    model: dict[str, tuple[int, str | None]] = {}
    undecided: dict[str, tuple[int, str | None]] = {}
    now, sequence, number = NOW, 0, 0
    cleaned: int | None = None
    for step, shape in script:
        pairs: list[tuple[str, str | None]] = []
        for key, kind in shape:
            number += 1
            pairs.append((f"key {key}", None if kind == 0 else f"{number}"))
        placed = {key: (log.log_end_offset + n, value) for n, (key, value) in enumerate(pairs)}
        if step == "write":
            append(log, keyed(*pairs, codec=codec), now_ms=now)
            model.update(placed)
        elif step == "transaction":
            transactional(log, sequence, *pairs)
            sequence += len(pairs)
            undecided.update(placed)
        elif step in ("commit", "abort"):
            end_transaction(log, step == "commit", producer_id=5)
            if step == "commit":
                for name, written in undecided.items():
                    model[name] = max(model.get(name, (-1, None)), written, key=lambda each: each[0])
            undecided = {}
        elif step == "roll":
            log.roll(now)
        elif step == "wait":
            now += DAY_MS
        elif step.startswith("clean"):
            start = None if step == "clean from start" else cleaned
            if plan(log, start, now).segments:
                before = log.log_end_offset
                cleaned = clean(log, start, now, buffer=buffer_keys * BYTES_PER_KEY).end_offset
                assert log.log_end_offset == before
        elif step == "restart":
            log = reopen_clean(log)
        elif step == "crash":
            log = reopen(log)
        offsets = [offset for offset, _, _ in records(log)]
        assert offsets == sorted(set(offsets))
        if not undecided:
            seen = {key: value for key, value in committed(log).items() if value is not None}
            assert seen == {key: value for key, (_, value) in model.items() if value is not None}


def test_a_copy_of_the_files_cleans_to_the_same_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "one", COMPACT)
    for n in range(50):
        write(log, (f"key {n % 9}", f"{n}"))
    log.roll(NOW)
    write(log, ("active", "1"))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    other = open_log(tmp_path / "two", COMPACT)
    clean(log)
    clean(other)
    assert all_bytes(log) == all_bytes(other)


def test_the_cleaned_files_wait_under_their_own_names(log: PartitionLog) -> None:
    write(log, ("a", "1"))
    write(log, ("a", "2"))
    log.roll(NOW)
    (group, *_) = clean_round(plan(log), lambda count: None)
    assert isinstance(group, CleanedGroup)
    assert {path.name for path in log.folder.glob("*.cleaned")} == {
        f"00000000000000000000.{suffix}.cleaned" for suffix in ("log", "index", "timeindex", "txnindex")
    }
    assert len(records(log)) == 2
