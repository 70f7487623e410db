"""Appending to a partition's log and reading from it."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.files import OpenFiles
from penstock.log.partition import PartitionLog
from penstock.log.results import IsolationLevel
from penstock.records.batch import iter_headers, parse_header
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec
from penstock.wire.errors import OffsetOutOfRange, RecordListTooLarge
from tests.log.log_helpers import (
    NOW,
    SMALL,
    TOPIC_ID,
    all_bytes,
    append,
    contents,
    files,
    open_log,
    plain,
    reopen,
    reopen_clean,
)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path)


def test_a_new_log_is_empty_and_starts_at_zero(log: PartitionLog) -> None:
    assert (log.log_start_offset, log.high_watermark, log.last_stable_offset, log.log_end_offset) == (0, 0, 0, 0)
    assert log.read(0, 1000).size == 0


def test_appends_get_consecutive_offsets_and_read_back_byte_for_byte(log: PartitionLog) -> None:
    batches = [plain("a"), plain("b", "c", "d"), plain("e")]
    appended = [append(log, batch) for batch in batches]
    assert [(each.base_offset, each.last_offset) for each in appended] == [(0, 0), (1, 3), (4, 4)]
    assert log.read(0, 1 << 20).read() == b"".join(batches)
    assert contents(log) == [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")]


def test_the_leader_epoch_is_written_into_the_batch_and_its_crc_stays_right(log: PartitionLog) -> None:
    log.leader_epoch = 3
    append(log, plain("a"))
    header = parse_header(log.read(0, 1000).read())
    assert (header.base_offset, header.partition_leader_epoch) == (0, 3)
    assert (log.folder / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"


def test_a_fetch_starts_with_the_batch_that_holds_the_offset(log: PartitionLog) -> None:
    append(log, plain("a"))
    middle = plain("b", "c", "d")
    append(log, middle)
    append(log, plain("e"))
    for offset in (1, 2, 3):
        assert log.read(offset, len(middle)).read() == middle


def test_a_fetch_never_ends_within_a_batch(log: PartitionLog) -> None:
    batches = [plain(*"abc"[: 1 + n % 3]) for n in range(50)]
    for batch in batches:
        append(log, batch)
    data = b"".join(batches)
    ends = [0]
    for batch in batches:
        ends.append(ends[-1] + len(batch))
    for max_bytes in range(0, len(data) + 10, 7):
        expected = max(end for end in ends if end <= max_bytes)
        assert log.read(0, max_bytes, min_one_batch=False).size == expected
        assert log.read(0, max_bytes).size == (expected or ends[1])


def test_the_first_batch_may_exceed_the_limit_only_if_asked(log: PartitionLog) -> None:
    append(log, plain("x" * 10_000))
    assert log.read(0, 1).size > 10_000
    assert log.read(0, 1, min_one_batch=False).size == 0


@pytest.mark.parametrize("offset", [-1, 4])
def test_an_offset_outside_the_log_is_out_of_range(log: PartitionLog, offset: int) -> None:
    append(log, plain("a", "b", "c"))
    with pytest.raises(OffsetOutOfRange):
        log.read(offset, 1000)


def test_a_fetch_at_the_end_is_empty_and_tells_the_offsets(log: PartitionLog) -> None:
    append(log, plain("a", "b"))
    found = log.read(2, 1000)
    assert (found.size, found.file, found.high_watermark, found.last_stable_offset) == (0, None, 2, 2)
    assert found.aborted is None
    assert log.read(2, 1000, isolation=IsolationLevel.READ_COMMITTED).aborted == []


def test_a_full_segment_rolls_and_reads_go_on_in_the_next(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    values = [f"value {n}" for n in range(20)]
    for value in values:
        append(log, plain(value))
    assert len(log.segments) == 10
    assert all(segment.size <= 200 for segment in log.segments)
    assert contents(log) == list(enumerate(values))


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    with pytest.raises(RecordListTooLarge):
        append(log, plain("x" * 200))
    assert log.log_end_offset == 0


def test_a_segment_rolls_by_the_age_of_its_records(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    append(log, plain("a", timestamp=NOW))
    append(log, plain("b", timestamp=NOW + 1000))
    assert len(log.segments) == 1
    append(log, plain("c", timestamp=NOW + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_without_timestamps_a_segment_rolls_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    append(log, plain("a", timestamp=-1), now_ms=NOW)
    append(log, plain("b", timestamp=-1), now_ms=NOW + 1000)
    append(log, plain("c", timestamp=-1), now_ms=NOW + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_full_index_rolls_the_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_index_bytes=24, index_interval_bytes=1))
    for n in range(20):
        append(log, plain(str(n)))
    assert len(log.segments) > 3
    assert [value for _, value in contents(log)] == [str(n) for n in range(20)]


def test_a_changed_config_applies_to_the_next_append(log: PartitionLog) -> None:
    append(log, plain("a"))
    log.update_config(replace(SMALL, segment_bytes=100))
    append(log, plain("b"))
    assert len(log.segments) == 2


def test_compressed_batches_are_stored_as_they_came(log: PartitionLog) -> None:
    batch = build_batch([(NOW, b"k", b"v" * 1000, [("h", b"x")])] * 10, codec=Codec.ZSTD)
    append(log, batch)
    assert log.read(5, 1 << 20).read() == batch
    assert contents(log)[3] == (3, "v" * 1000)


def test_a_slice_stays_readable_after_its_segment_was_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200, file_delete_delay_ms=0))
    for n in range(10):
        append(log, plain(f"value {n}"))
    found = log.read(0, 100)
    log.delete_records(8, NOW)
    log.purge(NOW)
    assert parse_header(found.read()).base_offset == 0


def test_few_files_stay_open_however_many_segments_there_are(tmp_path: Path) -> None:
    open_files = OpenFiles(5)
    log = open_log(tmp_path, LogConfig(segment_bytes=100), open_files=open_files)
    for n in range(100):
        append(log, plain(str(n)))
    before = len(os.listdir("/proc/self/fd"))
    assert [value for _, value in contents(log)] == [str(n) for n in range(100)]
    assert len(open_files) <= 5
    assert len(os.listdir("/proc/self/fd")) <= before + 5


# Timestamps


def test_a_timestamp_finds_the_first_record_that_is_not_older(log: PartitionLog) -> None:
    for n in range(200):
        append(log, build_batch([(NOW + 10 * n, None, b"a", []), (NOW + 10 * n + 5, None, b"b", [])]))
    assert log.offset_for_timestamp(0) == (NOW, 0, 0)
    assert log.offset_for_timestamp(NOW + 10 * 77) == (NOW + 770, 154, 0)
    assert log.offset_for_timestamp(NOW + 10 * 77 + 1) == (NOW + 775, 155, 0)
    assert log.offset_for_timestamp(NOW + 10 * 200) is None


def test_the_largest_timestamp_leads_to_the_first_record_that_has_it(log: PartitionLog) -> None:
    assert log.max_timestamp_offset() is None
    append(log, plain("a"))
    append(log, build_batch([(NOW + 1, None, b"b", []), (NOW + 9, None, b"c", []), (NOW + 9, None, b"d", [])]))
    append(log, plain("e", timestamp=NOW + 9))
    assert log.max_timestamp_offset() == (NOW + 9, 2, 0)


def test_a_record_below_the_log_start_is_not_found(log: PartitionLog) -> None:
    append(log, plain("a", "b", "c"))
    log.delete_records(2, NOW)
    assert log.offset_for_timestamp(NOW) == (NOW, 2, 0)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(-1, 60), min_size=1, max_size=4), min_size=1, max_size=40),
    segment_bytes=st.integers(150, 2000),
    start=st.integers(0, 20),
    clean=st.booleans(),
)
def test_timestamp_lookups_are_exact_whatever_the_order(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], segment_bytes: int, start: int, clean: bool
) -> None:
    log = open_log(tmp_path_factory.mktemp("log"), LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100))
    timestamps = [timestamp for batch in batches for timestamp in batch]
    for batch in batches:
        append(log, build_batch([(timestamp, None, b"v", []) for timestamp in batch]))
    log.delete_records(min(start, log.log_end_offset), NOW)
    if clean:
        log = reopen_clean(log)
    visible = list(enumerate(timestamps))[log.log_start_offset :]
    for target in range(62):
        expected = next((offset for offset, timestamp in visible if timestamp >= target), None)
        found = log.offset_for_timestamp(target)
        assert (found.offset if found else None) == expected


# Deleting


def test_delete_records_moves_the_start_and_drops_whole_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    for n in range(10):
        append(log, plain(f"value {n}"))
    assert log.delete_records(5, NOW) == 5
    assert [segment.base_offset for segment in log.segments] == [4, 6, 8]
    with pytest.raises(OffsetOutOfRange):
        log.read(4, 1000)
    assert contents(log)[0] == (5, "value 5")
    assert "00000000000000000000.log.deleted" in files(log)
    log.purge(NOW + 59_999)
    assert "00000000000000000000.log.deleted" in files(log)
    log.purge(NOW + 60_000)
    assert not any(name.endswith(".deleted") for name in files(log))


def test_delete_records_up_to_the_high_watermark(log: PartitionLog) -> None:
    append(log, plain("a", "b"))
    assert log.delete_records(-1, NOW) == 2
    assert log.delete_records(1, NOW) == 2
    assert log.read(2, 1000).size == 0
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(3, NOW)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(-2, NOW)


def test_retention_by_time_deletes_old_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200, retention_ms=1000))
    for n in range(10):
        append(log, plain(f"value {n}", timestamp=NOW + 100 * n))
    assert log.apply_retention(NOW + 1000) == 0
    assert log.apply_retention(NOW + 1302) == 2
    assert log.log_start_offset == 4
    assert log.apply_retention(NOW + 10_000) == 3
    assert (log.log_start_offset, log.log_end_offset, log.size) == (10, 10, 0)
    assert append(log, plain("next")).base_offset == 10


def test_retention_by_size_keeps_at_least_that_much(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200, retention_bytes=400))
    for n in range(10):
        append(log, plain(f"value {n}"))
    log.apply_retention(NOW)
    assert 400 <= log.size < 400 + 200


def test_a_compacted_log_is_not_deleted_by_retention(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=200, retention_ms=1, cleanup_policy="compact"))
    for n in range(10):
        append(log, plain(f"value {n}"))
    assert log.apply_retention(NOW + 10_000) == 0


def test_deleting_a_log_renames_its_folder(log: PartitionLog) -> None:
    append(log, plain("a"))
    renamed = log.delete(bytes(16))
    assert not log.folder.exists()
    assert renamed.name.startswith("t-0.")
    assert renamed.name.endswith("-delete")


def test_a_folder_of_an_earlier_topic_of_the_same_name_is_put_aside(log: PartitionLog) -> None:
    append(log, plain("old"))
    other = PartitionLog.open(log.folder.parent, "t", 0, b"\xff" * 16, SMALL, NOW)
    assert other.log_end_offset == 0
    (stray,) = [path for path in log.folder.parent.iterdir() if path.name.endswith("-stray")]
    assert (stray / "00000000000000000000.log").stat().st_size > 0


def test_the_topic_id_is_stored_as_kafka_stores_it(log: PartitionLog) -> None:
    assert (log.folder / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"


# Epochs


def test_epoch_end_offsets(log: PartitionLog) -> None:
    append(log, plain("a", "b"))
    log.leader_epoch = 2
    append(log, plain("c"))
    log.leader_epoch = 5
    append(log, plain("d"))
    assert log.end_offset_for_epoch(5) == (5, 4)
    assert log.end_offset_for_epoch(2) == (2, 3)
    assert log.end_offset_for_epoch(3) == (2, 3)
    assert log.end_offset_for_epoch(0) == (0, 2)
    assert log.end_offset_for_epoch(6) == (-1, -1)
    assert reopen(log).end_offset_for_epoch(3) == (2, 3)


# A disk that refuses


def test_a_full_disk_leaves_nothing_half_written_and_reads_go_on(tmp_path: Path) -> None:
    """The limit on file sizes stands in for a full disk: the write fails after some of the bytes were written."""
    log = open_log(tmp_path)
    append(log, plain("kept"))
    size = log.size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    try:
        with pytest.raises(StorageError):
            append(log, plain("x" * 1000))
        assert os.path.getsize(log.folder / "00000000000000000000.log") == size
        assert contents(log) == [(0, "kept")]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert append(log, plain("after")).base_offset == 1
    assert contents(log) == [(0, "kept"), (1, "after")]
    assert contents(reopen(log)) == [(0, "kept"), (1, "after")]


# Everything together


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 5), st.integers(0, 300)),
            st.tuples(st.just("roll"), st.just(0), st.just(0)),
            st.tuples(st.just("reopen"), st.just(0), st.just(0)),
            st.tuples(st.just("crash"), st.just(0), st.just(0)),
            st.tuples(st.just("delete"), st.integers(0, 10), st.just(0)),
        ),
        max_size=40,
    ),
    max_bytes=st.integers(1, 3000),
)
def test_a_log_holds_what_was_appended_through_rolls_restarts_and_deletes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], max_bytes: int
) -> None:
    log = open_log(tmp_path_factory.mktemp("log"), LogConfig(segment_bytes=1000, index_interval_bytes=50))
    model: list[str] = []
    start = 0
    for step, number, size in steps:
        if step == "append":
            values = [f"{len(model) + n}:" + "x" * size for n in range(number)]
            if len(plain(*values)) <= 1000:
                append(log, plain(*values))
                model += values
        elif step == "roll":
            log.roll(NOW)
        elif step == "reopen":
            log.close()
            log = open_log(
                log.folder.parent,
                log.config,
                clean=True,
                recovery_point=log.recovery_point,
                log_start_offset=log.log_start_offset,
            )
            assert log.truncated_bytes == 0
        elif step == "crash":
            log = reopen(log, log_start_offset=log.log_start_offset, recovery_point=log.recovery_point)
        elif start + number <= len(model):
            start += number
            log.delete_records(start, NOW)
        assert (log.log_start_offset, log.log_end_offset) == (start, len(model))
    assert contents(log) == list(enumerate(model))[start:]
    for offset in range(start, len(model)):
        found = log.read(offset, max_bytes)
        headers = [header for _, header in iter_headers(found.read())]
        assert headers[0].base_offset <= offset <= headers[0].last_offset
        assert found.size <= max_bytes or len(headers) == 1
        assert sum(header.size for header in headers) == found.size


def test_many_partitions_share_few_open_files(tmp_path: Path) -> None:
    open_files = OpenFiles(50)
    logs = [
        PartitionLog.open(tmp_path, "many", partition, TOPIC_ID, LogConfig(), NOW, open_files=open_files)
        for partition in range(200)
    ]
    for log in logs:
        append(log, plain("a"))
    for log in logs:
        append(log, plain("b"))
    assert len(open_files) <= 50
    assert {len(all_bytes(log)) for log in logs} == {len(plain("a")) + len(plain("b"))}
