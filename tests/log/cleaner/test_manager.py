"""The cleaner as a broker runs it: with its process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from penstock.log.checkpoints import CLEANER_OFFSETS, read_checkpoint
from penstock.log.cleaner.manager import JOB_FILE, CleanerConfig, CleanerManager
from penstock.log.config import LogConfig
from penstock.log.files import OpenFiles
from penstock.log.partition import PartitionLog
from tests.log.cleaner.clean_helpers import latest, records, write
from tests.log.log_helpers import NOW, TOPIC_ID, append, open_log, plain

COMPACT = LogConfig(cleanup_policy="compact", segment_bytes=2000, index_interval_bytes=100)


_IS_CLEANER = "penstock.log.cleaner.process"


def fill(log: PartitionLog, count: int = 100) -> None:
    for n in range(count):
        write(log, (f"key {n % 5}", f"{n}"))
    log.roll(NOW)
    log.sync()


def damage(log: PartitionLog) -> None:
    path = log.folder / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


_progress = threading.Event()


def manager_of(
    folder: Path, logs: Callable[[], list[PartitionLog]], config: CleanerConfig | None = None
) -> CleanerManager:
    return CleanerManager(folder, logs, config, _progress.set)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path, COMPACT)


@pytest.fixture
def manager(tmp_path: Path, log: PartitionLog) -> Iterator[CleanerManager]:
    manager = manager_of(tmp_path, lambda: [log])
    yield manager
    manager.close()


def poll_until(manager: CleanerManager, condition: Callable[[], bool], now_ms: int = NOW) -> None:
    """Poll as an event loop does: whenever the process has something to say."""
    deadline = time.monotonic() + 60
    while True:
        manager.poll(now_ms)
        if condition():
            return
        assert time.monotonic() < deadline, manager.status(now_ms)
        _progress.wait(1)
        _progress.clear()


def test_a_dirty_log_is_cleaned_and_the_process_ends_when_nothing_is_left(
    manager: CleanerManager, log: PartitionLog, tmp_path: Path
) -> None:
    fill(log)
    size = log.size
    before = manager.status(NOW)
    assert before.logs[0].dirty_ratio == before.dirtiest_ratio == 1
    poll_until(manager, lambda: not manager.has_process and manager.status(NOW).rounds == 1)
    assert records(log) == [(n, f"key {n % 5}", f"{n}") for n in range(95, 100)]
    assert log.size < size / 10
    assert read_checkpoint(tmp_path / CLEANER_OFFSETS) == {("t", 0): 100}
    status = manager.status(NOW)
    assert (status.logs[0].dirty_bytes, status.last_success_ms, status.last_error) == (0, NOW, None)
    assert status.bytes_read > status.bytes_written > 0
    assert not (tmp_path / JOB_FILE).exists()


def test_nothing_is_started_without_work(manager: CleanerManager, log: PartitionLog) -> None:
    write(log, ("a", "1"))
    manager.poll(NOW)
    assert not manager.has_process
    log.update_config(LogConfig())
    fill(log)
    manager.poll(NOW + 60_000)
    assert not manager.has_process
    assert manager.status(NOW).logs == []


def test_it_looks_again_after_the_backoff(manager: CleanerManager, log: PartitionLog) -> None:
    manager.poll(NOW)
    fill(log)
    manager.poll(NOW + 14_999)
    assert not manager.has_process
    poll_until(manager, lambda: manager.status(NOW).rounds == 1, NOW + 15_000)


def test_a_disabled_cleaner_does_nothing(tmp_path: Path, log: PartitionLog) -> None:
    fill(log)
    manager = manager_of(tmp_path, lambda: [log], CleanerConfig(enable=False))
    manager.poll(NOW)
    assert not manager.has_process
    manager.update_config(CleanerConfig())
    poll_until(manager, lambda: manager.status(NOW).rounds == 1)
    manager.close()


def test_the_dirtiest_log_comes_first_and_all_get_their_turn(tmp_path: Path) -> None:
    logs = [PartitionLog.open(tmp_path, "t", n, TOPIC_ID, COMPACT, NOW) for n in range(3)]
    for log in logs:
        fill(log)
    manager = manager_of(tmp_path, lambda: logs)
    poll_until(manager, lambda: manager.status(NOW).rounds == 3)
    manager.close()
    assert all(len(records(log)) == 5 for log in logs)


def test_a_damaged_log_is_set_aside_and_the_others_are_cleaned(tmp_path: Path) -> None:
    logs = [PartitionLog.open(tmp_path, "t", n, TOPIC_ID, COMPACT, NOW) for n in range(2)]
    for log in logs:
        fill(log)
    damage(logs[0])
    manager = manager_of(tmp_path, lambda: logs)
    poll_until(manager, lambda: manager.status(NOW).rounds == 1 and manager.status(NOW).failures == 1)
    status = manager.status(NOW)
    assert [each.uncleanable for each in status.logs] == [True, False]
    assert "CRC" in (status.logs[0].last_error or "")
    assert status.uncleanable_logs == 1
    manager.poll(NOW + 1_000_000)
    assert manager.status(NOW).failures == 1
    manager.close()


def test_a_killed_process_is_started_again_after_the_backoff(manager: CleanerManager, log: PartitionLog) -> None:
    fill(log)
    before = latest(records(log))
    manager.poll(NOW)
    assert manager._process is not None
    manager._process.kill(60)
    poll_until(manager, lambda: manager.status(NOW).failures == 1)
    assert latest(records(log)) == before
    poll_until(manager, lambda: manager.status(NOW).rounds == 1, NOW + 20_000)
    status = manager.status(NOW)
    assert status.last_error is None
    assert latest(records(log)) == before
    assert len(records(log)) == 5


def test_what_a_killed_process_left_behind_does_not_stop_the_next_one(
    manager: CleanerManager, log: PartitionLog
) -> None:
    fill(log)
    leftover = log.folder / "00000000000000000000.log.cleaned"
    leftover.write_bytes(b"half a segment")
    poll_until(manager, lambda: manager.status(NOW).rounds == 1)
    assert manager.status(NOW).failures == 0
    assert not leftover.exists()


def test_appends_and_rolls_go_on_while_a_round_is_under_way(manager: CleanerManager, log: PartitionLog) -> None:
    fill(log)
    manager.poll(NOW)
    fill(log)
    write(log, ("key 0", "last"))
    poll_until(manager, lambda: manager.status(NOW).rounds >= 2)
    assert latest(records(log)) == {"key 0": "last", **{f"key {n}": f"{95 + n}" for n in range(1, 5)}}
    assert log.log_end_offset == 201


def test_a_log_that_is_deleted_during_its_round_is_forgotten(manager: CleanerManager, log: PartitionLog) -> None:
    fill(log)
    manager.poll(NOW)
    manager.forget(log)
    log.delete(bytes(16))
    assert not manager.has_process
    assert manager.status(NOW).running is None


def test_a_log_that_shrinks_during_its_round_is_cleaned_later(tmp_path: Path) -> None:
    config = replace(COMPACT, cleanup_policy="compact,delete")
    log = open_log(tmp_path, config)
    fill(log)
    manager = manager_of(tmp_path, lambda: [log])
    manager.poll(NOW)
    log.delete_records(50, NOW)
    poll_until(manager, lambda: manager.status(NOW).rounds > 0)
    assert manager.status(NOW).failures == 0, "that segments are deleted is no failure"
    manager.close()
    assert latest(records(log)) == {f"key {n}": f"{95 + n}" for n in range(5)}


def test_a_round_goes_on_where_the_last_run_of_the_broker_left_off(tmp_path: Path, log: PartitionLog) -> None:
    fill(log)
    first = manager_of(tmp_path, lambda: [log])
    poll_until(first, lambda: first.status(NOW).rounds == 1)
    first.close()
    second = manager_of(tmp_path, lambda: [log])
    assert second.status(NOW).logs[0].dirty_bytes == 0
    fill(log)
    status = second.status(NOW)
    assert status.logs[0].clean_bytes > 0
    assert status.logs[0].dirty_ratio > 0.5
    poll_until(second, lambda: second.status(NOW).rounds == 1)
    second.close()
    assert len(records(log)) == 5


def test_keyless_records_written_before_the_policy_changed_do_not_stop_it(
    manager: CleanerManager, log: PartitionLog
) -> None:
    append(log, plain("no key"))
    fill(log)
    poll_until(manager, lambda: manager.status(NOW).rounds == 1)
    assert len(records(log)) == 5


def test_timestamps_that_are_on_disk_only_are_read_by_a_thread(
    tmp_path: Path, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log)
    log.close()
    config = replace(COMPACT, max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0)
    open_files = OpenFiles()
    log = open_log(tmp_path, config, clean=True, recovery_point=log.log_end_offset, open_files=open_files)
    open_files.reader.may_wait = False
    refused: list[int] = []

    def preadv(fd: int, *_: object) -> int:
        refused.append(fd)
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", preadv)
    manager = manager_of(tmp_path, lambda: [log])
    try:
        assert manager.status(NOW + 5000).logs[0].dirty_bytes > 0, (
            "how old the log is takes reading, how large does not"
        )
        size = log.size
        poll_until(manager, lambda: log.size < size, NOW + 5000)
        assert refused
    finally:
        manager.close()


def test_the_end_of_a_process_is_reported_at_once(manager: CleanerManager, log: PartitionLog) -> None:
    fill(log)
    poll_until(manager, lambda: manager.has_process)
    process = manager._process
    assert process is not None
    _progress.clear()
    process.kill(60)
    while manager.status(NOW).failures == 0:
        assert _progress.wait(60)
        _progress.clear()
        manager.poll(NOW)
    assert "ended with code" in (manager.status(NOW).last_error or "")


def test_work_that_waits_is_seen_until_it_is_done(tmp_path: Path, log: PartitionLog) -> None:
    config = CleanerConfig(backoff_ms=1_000)
    manager = manager_of(tmp_path, lambda: [log], config)
    manager.poll(NOW)
    assert manager.waiting_ms(NOW + 60_000) == 0, "there is nothing to clean"
    fill(log)
    manager.poll(NOW + 1_000)
    assert manager.waiting_ms(NOW + 61_000) == 60_000
    poll_until(manager, lambda: manager.status(NOW).rounds == 1 and not manager.has_process, NOW + 90_000)
    assert manager.waiting_ms(NOW + 200_000) == 0
    manager.close()


def test_a_process_that_hangs_makes_work_wait(tmp_path: Path, log: PartitionLog) -> None:
    manager = manager_of(tmp_path, lambda: [log])
    fill(log)
    manager.poll(NOW)
    while not (
        found := [each for each in psutil.Process().children() if "penstock.log.cleaner" in str(each.cmdline())]
    ):
        time.sleep(0.01)  # forked, and not begun yet
    found[0].suspend()
    for seconds in range(1, 1_000, 100):
        manager.poll(NOW + 1000 * seconds)
    assert manager.waiting_ms(NOW + 1_000_000) >= 999_000
    manager.close()


def test_a_damaged_log_is_in_the_log_once_and_makes_work_wait(
    tmp_path: Path, log: PartitionLog, caplog: pytest.LogCaptureFixture
) -> None:
    config = CleanerConfig(backoff_ms=0)
    manager = manager_of(tmp_path, lambda: [log], config)
    fill(log)
    damage(log)
    poll_until(manager, lambda: manager.status(NOW).uncleanable_logs == 1)
    for _ in range(5):
        manager.poll(NOW)
    [line] = [record.getMessage() for record in caplog.records if record.name == "penstock.log"]
    assert "t-0 is damaged and will not be compacted any more" in line
    assert manager.waiting_ms(NOW + 5_000) == 5_000
    manager.close()


def test_a_failure_that_repeats_itself_is_in_the_log_once(
    tmp_path: Path, log: PartitionLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = manager_of(tmp_path, lambda: [log], CleanerConfig(backoff_ms=0))
    fill(log)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(manager, "_send", refuse)
    for seconds in range(5):
        manager.poll(NOW + 1000 * seconds)
    assert manager.status(NOW).failures == 5
    [line] = [record.getMessage() for record in caplog.records]
    assert "the compaction of t-0 failed and will be tried again: cannot start" in line
    assert "No space left on device" in line
    manager.close()
