"""A crash at any step of a swap leaves a log with every last value in it, and the next round ends up the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.log.cleaner.jobs import CleanedGroup
from penstock.log.cleaner.rounds import clean_round
from penstock.log.config import LogConfig
from penstock.log.partition import PartitionLog
from tests.log.cleaner.clean_helpers import clean, keyed, latest, plan, records, write
from tests.log.log_helpers import NOW, all_bytes, append, end_transaction, files, open_log

COMPACT = LogConfig(cleanup_policy="compact", segment_bytes=600, index_interval_bytes=50, file_delete_delay_ms=0)


class Crash(BaseException):
    """The process is gone: nothing that follows is done."""


class CrashAfter:
    """Lets so many file operations through and then ends everything."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def wrap(self, operation: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*arguments: object, **options: object) -> None:
            if self.left == 0:
                raise Crash
            self.left -= 1
            operation(*arguments, **options)

        return wrapped


def filled(folder: Path) -> PartitionLog:
    log = open_log(folder, COMPACT)
    for n in range(25):
        write(log, (f"key {n % 9}", f"{n}"))
        if n % 10 == 3:
            batch = keyed(
                ("key 1", "aborted"), producer_id=5, producer_epoch=0, base_sequence=n // 10, transactional=True
            )
            append(log, batch)
            end_transaction(log, False, producer_id=5)
    log.roll(NOW)
    write(log, ("active", "1"))
    return log


def without_aborted(log: PartitionLog) -> list[tuple[int, str | None, str | None]]:
    return [record for record in records(log) if record[2] != "aborted"]


def test_a_crash_at_any_rename_or_removal_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = filled(tmp_path / "original")
    expected_latest = latest(without_aborted(original))
    shutil.copytree(tmp_path / "original", tmp_path / "clean")
    reference = open_log(tmp_path / "clean", COMPACT)
    clean(reference)
    expected = records(reference)
    crashes = 0
    while True:
        folder = tmp_path / f"crash {crashes}"
        shutil.copytree(tmp_path / "original", folder)
        log = open_log(folder, COMPACT)
        crash = CrashAfter(crashes)
        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", crash.wrap(os.rename))
            patched.setattr(os, "unlink", crash.wrap(os.unlink))
            try:
                clean(log)
                finished = True
            except Crash:
                finished = False
        again = open_log(folder, COMPACT)
        survived = without_aborted(again)
        assert latest(survived) == expected_latest
        assert [offset for offset, _, _ in survived] == sorted({offset for offset, _, _ in survived})
        assert not any(name.endswith((".cleaned", ".swap", ".deleted")) for name in files(again))
        assert again.log_end_offset == original.log_end_offset
        clean(again)
        assert records(again) == expected
        shutil.rmtree(folder)
        if finished:
            break
        crashes += 1
    assert crashes > 20


def test_a_crash_during_the_recovery_of_a_swap_is_recovered_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path / "log")
    expected_latest = latest(without_aborted(log))
    crash = CrashAfter(5)
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", crash.wrap(os.rename))
        with pytest.raises(Crash):
            clean(log)
    assert any(name.endswith(".log.swap") for name in files(log))
    for operations in range(100):
        crash = CrashAfter(operations)
        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", crash.wrap(os.rename))
            patched.setattr(os, "unlink", crash.wrap(os.unlink))
            try:
                again = open_log(tmp_path / "log", COMPACT)
                break
            except Crash:
                continue
    assert operations > 3
    assert latest(without_aborted(again)) == expected_latest
    assert not any(name.endswith(".swap") for name in files(again))


def test_a_swap_comes_too_late_when_retention_was_faster(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    rounds = clean_round(plan(log), lambda count: None)
    group = next(rounds)
    assert isinstance(group, CleanedGroup)
    log.delete_records(log.segments[2].base_offset, NOW)
    before = all_bytes(log)
    assert not log.replace_segments(group.base_offsets, NOW)
    assert all_bytes(log) == before
    assert not list(log.folder.glob("*.cleaned"))


def test_old_files_go_after_their_delay_and_readers_keep_theirs(tmp_path: Path) -> None:
    log = filled(tmp_path / "log")
    before = log.read(0, 1 << 20)
    data = before.read()
    clean(log)
    assert log.purge(NOW) > 0
    assert before.read() == data
    assert latest(without_aborted(log)) == latest(without_aborted(open_log(tmp_path / "log", COMPACT)))
