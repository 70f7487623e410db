"""The embedded engine over runs that ended in every way: stopped, killed, cut off from power, with a failed disk."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import portable
from penstock.log import partition, recovery
from penstock.log.checkpoints import RECOVERY_POINTS, read_checkpoint
from penstock.log.files import pwrite_all
from penstock.log.partition import PartitionLog
from penstock.log.recovery import recover_segments
from penstock.records.batch import parse_header
from penstock.records.builder import build_batch
from penstock.storage.checkpoint import BOOT_ID, CLEAN_SHUTDOWN, LOG_ENDS
from penstock.storage.contract import LogConfig, StorageError
from penstock.storage.local import LocalStorage

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig()
WAIT_SECONDS = 30


def start(folder: Path, logs: int = 2) -> tuple[LocalStorage, list[PartitionLog]]:
    storage = LocalStorage(folder, lambda: NOW, lambda function: function(), lambda error: None)
    if not (folder / BOOT_ID).exists():  # the topics come later
        storage.opened()
        storage.lost_writes_settled()
        return storage, open_logs(storage, logs)
    opened = open_logs(storage, logs)
    storage.opened()
    storage.lost_writes_settled()
    return storage, opened


def open_logs(storage: LocalStorage, count: int) -> list[PartitionLog]:
    return [storage.open_log("t", number, TOPIC_ID, CONFIG) for number in range(count)]


def append(log: PartitionLog, value: str = "v") -> None:
    batch = build_batch([(NOW, None, value.encode(), [])])
    log.append(batch, parse_header(batch), now_ms=NOW)


def lose_the_last_batch(log: PartitionLog) -> None:
    path = log.folder / f"{0:020d}.log"
    os.truncate(path, path.stat().st_size * (log.log_end_offset - 1) // log.log_end_offset)


def save_progress(storage: LocalStorage) -> None:
    """As a timer has it done, to the end."""
    storage.save_progress()
    storage._saving.finish()


def cut_power(folder: Path) -> None:
    (folder / BOOT_ID).write_text("another boot")


def recovered(monkeypatch: pytest.MonkeyPatch, open_logs: Callable[[], object]) -> list[str]:
    """The folders of the logs that are checked batch by batch meanwhile."""
    folders: list[str] = []

    def spy(folder: str, *args: Any, **options: Any) -> object:
        folders.append(Path(folder).name)
        return recover_segments(folder, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(partition, "recover_segments", spy)
        open_logs()
    return folders


def test_after_a_kill_only_the_logs_that_were_written_to_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, logs = start(tmp_path, 3)
    append(logs[0])
    append(logs[1])
    storage.close()
    _, logs = start(tmp_path, 3)
    append(logs[1])
    assert recovered(monkeypatch, lambda: start(tmp_path, 3)) == ["t-1"]


def test_after_a_power_cut_every_log_with_records_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, logs = start(tmp_path, 3)
    append(logs[0])
    append(logs[1])
    storage.close()
    start(tmp_path, 3)
    cut_power(tmp_path)
    assert recovered(monkeypatch, lambda: start(tmp_path, 3)) == ["t-0", "t-1"]


def test_a_note_of_ends_that_makes_no_sense_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, logs = start(tmp_path)
    append(logs[0])
    storage.close()
    start(tmp_path)
    (tmp_path / LOG_ENDS).write_bytes(b"0\nt 0 \xff")
    assert recovered(monkeypatch, lambda: start(tmp_path)) == ["t-0"]


def test_ends_that_were_noted_before_a_power_cut_are_forgotten(tmp_path: Path) -> None:
    """Or a log that came to the same size with other records would be taken for what it was."""
    storage, (log, _) = start(tmp_path)
    append(log)
    append(log)
    save_progress(storage)
    lose_the_last_batch(log)
    cut_power(tmp_path)
    _, (log, _) = start(tmp_path)
    append(log)
    log.delete_records(1, NOW)
    _, (log, _) = start(tmp_path)
    assert log.log_end_offset == 2


def test_a_log_that_lost_records_is_led_under_a_new_epoch(tmp_path: Path) -> None:
    storage, (log, other) = start(tmp_path)
    append(log)
    append(log)
    append(other)
    storage.close()
    lose_the_last_batch(log)
    storage, (log, other) = start(tmp_path)
    assert (log.leader_epoch, other.leader_epoch) == (1, 0)
    assert log.end_offset_for_epoch(0) == (0, 1)
    append(log)
    append(log)
    assert log.end_offset_for_epoch(0) == (0, 1)
    storage.close()
    _, (log, _) = start(tmp_path)
    assert (log.leader_epoch, log.end_offset_for_epoch(0)) == (1, (0, 1))


def test_a_log_that_lost_everything_says_that_earlier_epochs_end_where_it_begins(tmp_path: Path) -> None:
    storage, (log, _) = start(tmp_path)
    append(log)
    storage.close()
    lose_the_last_batch(log)
    _, (log, _) = start(tmp_path)
    assert (log.leader_epoch, log.end_offset_for_epoch(0)) == (1, (0, 0))


def test_after_a_power_cut_every_log_is_led_under_an_epoch_that_was_never_used(tmp_path: Path) -> None:
    """A cut that ends with a batch does not show, and the second cut may take what was written under the new epoch."""
    _, logs = start(tmp_path)
    assert [log.leader_epoch for log in logs] == [0, 0]
    for log in logs:
        append(log)
    for expected in (1, 2, 3):
        cut_power(tmp_path)
        _, logs = start(tmp_path)
        assert [log.leader_epoch for log in logs] == [expected, expected]


def test_a_kill_loses_nothing_and_begins_no_epoch(tmp_path: Path) -> None:
    _, logs = start(tmp_path)
    append(logs[0])
    _, logs = start(tmp_path)
    assert [log.leader_epoch for log in logs] == [0, 0]
    assert logs[0].log_end_offset == 1


def test_a_kill_brings_nothing_back_that_is_confirmed_to_be_deleted(tmp_path: Path) -> None:
    storage, logs = start(tmp_path)
    append(logs[0])
    append(logs[0])
    logs[0].delete_records(1, NOW)
    storage.when_start_durable(logs[0], lambda failure: None)
    storage._saving.finish()
    _, logs = start(tmp_path)
    assert (logs[0].log_start_offset, logs[0].log_end_offset) == (1, 2)


def test_a_disk_that_fails_in_the_last_sync_leaves_no_mark_of_a_clean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[Callable[[], None]] = []
    failures: list[StorageError] = []
    storage = LocalStorage(tmp_path, lambda: NOW, later.append, failures.append)
    log = storage.open_log("t", 0, TOPIC_ID, CONFIG)
    storage.opened()
    storage.lost_writes_settled()
    append(log)

    def fail(self: PartitionLog) -> None:
        raise StorageError("input/output error")

    monkeypatch.setattr(PartitionLog, "sync", fail)
    storage.make_durable_soon(log)
    storage.close()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    for function in later:
        function()
    assert [str(failure) for failure in failures] == ["input/output error"]
    assert not (tmp_path / BOOT_ID).exists()


def test_what_a_failed_sync_may_have_dropped_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel counts the pages as written, so a later sync of them succeeds, and a power cut takes the records."""
    storage, (log,) = start(tmp_path, 1)
    append(log, "a")
    log.sync()
    save_progress(storage)
    append(log, "b")
    data = (log.folder / f"{0:020d}.log").read_bytes()
    first = parse_header(data).size
    written: list[tuple[bytes, int]] = []

    def spy(fd: int, data: bytes, position: int) -> None:
        written.append((bytes(data), position))
        pwrite_all(fd, data, position)

    monkeypatch.setattr(recovery, "pwrite_all", spy)
    start(tmp_path, 1)
    assert written == []  # a killed broker has lost nothing
    storage._disk_failed(StorageError("input/output error"))
    opened: list[PartitionLog] = []
    reopened = LocalStorage(tmp_path, lambda: NOW, lambda function: function(), lambda error: None)
    opened += open_logs(reopened, 1)
    assert written == [(data[first:], first)]
    assert opened[0].recovery_point == 1


def test_after_a_stop_in_which_the_disk_failed_the_same_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, (log,) = start(tmp_path, 1)
    append(log)

    def fail(self: PartitionLog) -> None:
        raise StorageError("input/output error")

    monkeypatch.setattr(PartitionLog, "sync", fail)
    with pytest.raises(StorageError):
        storage.close()
    assert not (tmp_path / BOOT_ID).exists()


def test_names_that_a_killed_broker_has_not_synced_are_synced_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new folders and segments are there, but only in memory: a power cut would take the records in them."""
    _, (log,) = start(tmp_path, 1)
    append(log)
    _, (again,) = start(tmp_path, 1)
    synced: list[str] = []
    monkeypatch.setattr(partition, "sync_path", lambda path: synced.append(str(Path(path).relative_to(tmp_path))))
    append(again)
    again.sync()
    assert synced == ["t-0/partition.metadata", ".", "t-0"]
    append(again)
    again.sync()
    assert len(synced) == 3


def test_a_folder_of_no_topic_is_set_aside_and_a_half_deleted_one_removed(tmp_path: Path) -> None:
    (tmp_path / "lost-0").mkdir()
    (tmp_path / "gone-0.abc-delete").mkdir()
    (tmp_path / "notes").mkdir()
    start(tmp_path, 1)
    names = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    (aside,) = names - {"t-0", "notes"}
    assert aside.startswith("lost-0.")
    assert aside.endswith("-stray")


def test_checkpoints_are_synced_by_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, (log, _) = start(tmp_path)
    append(log)
    log.sync()
    threads: list[threading.Thread] = []
    fdatasync = portable.datasync

    def watched(fd: int) -> None:
        threads.append(threading.current_thread())
        fdatasync(fd)

    monkeypatch.setattr(portable, "datasync", watched)
    save_progress(storage)
    assert threads
    assert threading.current_thread() not in threads
    assert read_checkpoint(tmp_path / RECOVERY_POINTS) == {("t", 0): 1, ("t", 1): 0}


def test_checkpoints_that_could_not_be_written_are_written_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storage, (log, _) = start(tmp_path)
    append(log)
    log.sync()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(portable, "datasync", full)
        save_progress(storage)
    [complaint] = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "No space left on device" in complaint
    save_progress(storage)
    assert read_checkpoint(tmp_path / RECOVERY_POINTS)["t", 0] == 1


def test_a_stop_waits_for_checkpoints_that_are_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else older ones could take the place of the last."""
    storage, (log, _) = start(tmp_path)
    append(log)
    log.sync()
    may_go_on = threading.Event()
    fdatasync = portable.datasync

    def slow(fd: int) -> None:
        if threading.current_thread().name == "penstock-checkpoints":
            may_go_on.wait(WAIT_SECONDS)
        fdatasync(fd)

    monkeypatch.setattr(portable, "datasync", slow)
    storage.save_progress()
    append(log)
    closing = threading.Thread(target=storage.close)
    closing.start()
    may_go_on.set()
    closing.join(WAIT_SECONDS)
    assert read_checkpoint(tmp_path / RECOVERY_POINTS)["t", 0] == 2


def test_a_log_is_not_taken_for_a_deleted_one_of_the_same_name(tmp_path: Path) -> None:
    storage, (old, _) = start(tmp_path)
    for _ in range(5):
        append(old)
    old.sync()
    old.delete_records(4, NOW)
    save_progress(storage)
    storage.delete_log(old)()
    new = storage.open_log("t", 0, bytes(16), CONFIG)
    append(new)
    storage = LocalStorage(tmp_path, lambda: NOW, lambda function: function(), lambda error: None)
    reopened = storage.open_log("t", 0, bytes(16), CONFIG)
    assert (reopened.log_start_offset, reopened.log_end_offset, reopened.recovery_point) == (0, 1, 0)
    assert not reopened.was_cut
