"""The starts of logs are on disk before anybody hears so, and what has gathered shares one write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.log.checkpoints import LOG_START_OFFSETS, read_checkpoint
from penstock.log.errors import StorageError
from penstock.log.partition import PartitionLog
from penstock.storage import checkpoint
from penstock.storage.checkpoint import Checkpoints, Progress
from penstock.storage.saving import Saving
from penstock.threads import SystemThreads, Thread
from tests.log.log_helpers import NOW, append, open_log, plain


class ThreadsOfTheTest(SystemThreads):
    """A thread runs when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Callable[[], object]] = []

    def start(self, name: str, run: Callable[[], object]) -> Thread:
        self.begun.append(run)
        return _Begun()

    def run_next(self) -> None:
        self.begun.pop(0)()


class _Begun:
    def is_alive(self) -> bool:
        return False

    def join(self, timeout: float | None = None) -> None:
        """It is run by the test."""


class Folder:
    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG_START_OFFSETS
        self.log = open_log(folder)
        for _ in range(3):
            append(self.log, plain("a"))
        self.threads = ThreadsOfTheTest()
        self.checkpoints = Checkpoints(folder)
        self.saving = Saving(self.checkpoints, self._logs, lambda function: function(), self.threads)
        self.heard: list[tuple[str, StorageError | None]] = []

    def _logs(self) -> list[PartitionLog]:
        return [self.log]

    def delete_below(self, offset: int, who: str = "somebody") -> None:
        self.log.delete_records(offset, NOW)
        self.saving.when_starts_are_saved(lambda failure: self.heard.append((who, failure)))

    @property
    def on_disk(self) -> list[int]:
        return list(read_checkpoint(self.path).values())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_start_is_on_disk_when_somebody_hears_of_it(folder: Folder) -> None:
    folder.delete_below(1)
    assert (folder.heard, folder.on_disk) == ([], [])
    folder.threads.run_next()
    assert (folder.heard, folder.on_disk) == ([("somebody", None)], [1])


def test_what_gathers_while_one_is_written_shares_the_next_write(folder: Folder) -> None:
    folder.delete_below(1, "first")
    folder.delete_below(2, "second")
    folder.delete_below(3, "third")
    assert len(folder.threads.begun) == 1
    folder.threads.run_next()
    assert folder.heard == [("first", None)]
    folder.threads.run_next()
    assert folder.heard == [("first", None), ("second", None), ("third", None)]
    assert (folder.on_disk, folder.threads.begun) == ([3], [])


def test_whoever_waits_hears_that_it_cannot_be_written_and_may_try_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = StorageError("no space left on device")

    def fail(path: Path, offsets: object) -> None:
        raise failure

    with monkeypatch.context() as full:
        full.setattr(checkpoint, "write_checkpoint", fail)
        folder.delete_below(1)
        folder.threads.run_next()
    assert folder.heard == [("somebody", failure)]
    folder.delete_below(1, "again")
    folder.threads.run_next()
    assert (folder.heard[1:], folder.on_disk) == ([("again", None)], [1])


def test_a_start_that_moves_while_all_checkpoints_are_written_follows_them(folder: Folder) -> None:
    folder.saving.begin()
    folder.delete_below(2)
    folder.saving.begin()
    assert len(folder.threads.begun) == 1
    folder.threads.run_next()
    assert (folder.heard, folder.on_disk) == ([], [])
    folder.threads.run_next()
    assert (folder.heard, folder.on_disk) == ([("somebody", None)], [2])


def test_a_write_that_fails_in_an_unexpected_way_does_not_end_all_writing(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(progress: Progress) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(folder.checkpoints, "write_starts", fail)
        folder.delete_below(1)
        with pytest.raises(RuntimeError):
            folder.threads.run_next()
    folder.delete_below(2, "again")
    folder.threads.run_next()
    assert folder.on_disk == [2]


def test_who_still_waits_at_the_end_hears_when_all_is_written(folder: Folder) -> None:
    folder.delete_below(1, "first")
    folder.delete_below(2, "second")
    folder.saving.close()
    assert (folder.heard, folder.on_disk) == ([("second", None)], [2])
