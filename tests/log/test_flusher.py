"""Group commit, with a real event loop and real files."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from penstock.log.errors import StorageError
from penstock.log.flusher import Flusher
from penstock.log.partition import PartitionLog
from penstock.log.results import Appended
from tests.log.log_helpers import append, open_log, plain


class SlowLog:
    """A log whose disk answers when the test lets it."""

    def __init__(self, failure: StorageError | None = None) -> None:
        self.recovery_point = 0
        self.end = 0
        self.syncing = threading.Event()
        self.go_on = threading.Semaphore(0)
        self.failure = failure

    def append(self) -> Appended:
        self.end += 1
        return Appended(self.end - 1, self.end - 1, -1, 0, False, self.end)

    def sync(self) -> None:
        end = self.end
        self.syncing.set()
        assert self.go_on.acquire(timeout=30)
        if self.failure is not None:
            raise self.failure
        self.recovery_point = end


async def until(condition: asyncio.Event) -> None:
    await asyncio.wait_for(condition.wait(), 30)


async def flushed(flusher: Flusher, log: PartitionLog, appended: Appended) -> StorageError | None:
    done: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    flusher.request(log, appended.position, done.set_result)
    return await asyncio.wait_for(done, 30)


def no_failure(error: StorageError) -> None:
    raise error


async def test_a_callback_comes_when_the_append_is_on_disk(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    flusher = Flusher(asyncio.get_running_loop().call_soon_threadsafe, no_failure)
    appended = append(log, plain("a"))
    assert log.recovery_point == 0
    assert await flushed(flusher, log, appended) is None
    assert log.recovery_point == 1
    assert await flushed(flusher, log, appended) is None
    flusher.close()
    assert flusher.syncs == 1


async def test_appends_that_gather_during_a_sync_share_the_next_one() -> None:
    log = SlowLog()
    loop = asyncio.get_running_loop()
    flusher = Flusher(loop.call_soon_threadsafe, no_failure)
    answered: list[int] = []
    all_done = asyncio.Event()

    def answer(number: int, error: StorageError | None) -> None:
        assert error is None
        answered.append(number)
        if len(answered) == 50:
            all_done.set()

    flusher.request(log, log.append().position, lambda error: answer(0, error))
    await loop.run_in_executor(None, log.syncing.wait, 30)
    for number in range(1, 50):
        flusher.request(log, log.append().position, lambda error, number=number: answer(number, error))  # type: ignore[misc]
    assert answered == []
    log.go_on.release()
    log.go_on.release()
    await until(all_done)
    assert answered == list(range(50))
    assert flusher.syncs == 2
    flusher.close()


async def test_a_failed_sync_is_reported_to_everyone_and_never_as_success() -> None:
    failure = StorageError("the disk is gone")
    log = SlowLog(failure)
    fatal: list[StorageError] = []
    answers: asyncio.Queue[StorageError | None] = asyncio.Queue()
    flusher = Flusher(asyncio.get_running_loop().call_soon_threadsafe, fatal.append)
    flusher.request(log, log.append().position, answers.put_nowait)
    flusher.request(log, log.append().position, answers.put_nowait)
    log.go_on.release()
    for _ in range(2):
        assert await asyncio.wait_for(answers.get(), 30) is failure
    # A later sync may well succeed. It proves nothing about what the failed one lost.
    log.failure = None
    log.go_on.release()
    flusher.request(log, log.append().position, answers.put_nowait)
    assert await asyncio.wait_for(answers.get(), 30) is failure
    flusher.close()
    assert fatal == [failure]


async def test_a_callback_that_raises_does_not_cost_those_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    log = SlowLog()
    loop = asyncio.get_running_loop()
    flusher = Flusher(loop.call_soon_threadsafe, no_failure)
    answers: asyncio.Queue[StorageError | None] = asyncio.Queue()

    def fail(_: StorageError | None) -> None:
        raise ValueError("a fault of this callback alone")

    flusher.request(log, log.append().position, answers.put_nowait)
    await loop.run_in_executor(None, log.syncing.wait, 30)
    flusher.request(log, log.append().position, fail)
    flusher.request(log, log.append().position, answers.put_nowait)
    log.go_on.release()
    log.go_on.release()
    for _ in range(2):
        assert await asyncio.wait_for(answers.get(), 30) is None
    flusher.close()
    assert "a fault of this callback alone" in caplog.text


async def test_a_sync_that_fails_in_an_unknown_way_is_reported_to_everyone_as_a_failed_one() -> None:
    log = SlowLog()
    log.failure = ValueError("a fault of the log")  # type: ignore[assignment]
    fatal: list[StorageError] = []
    answers: asyncio.Queue[StorageError | None] = asyncio.Queue()
    flusher = Flusher(asyncio.get_running_loop().call_soon_threadsafe, fatal.append)
    for _ in range(2):
        flusher.request(log, log.append().position, answers.put_nowait)
        log.go_on.release()
        failure = await asyncio.wait_for(answers.get(), 30)
        assert "a fault of the log" in str(failure)
    flusher.close()
    assert fatal == [failure]


async def test_closing_waits_for_what_is_under_way(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    flusher = Flusher(asyncio.get_running_loop().call_soon_threadsafe, no_failure)
    answers: list[StorageError | None] = []
    for value in "abc":
        flusher.request(log, append(log, plain(value)).position, answers.append)
    flusher.close()
    await asyncio.sleep(0)
    assert answers == [None, None, None]
    assert log.recovery_point == 3


async def test_rolled_segments_are_synced_in_the_background(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    flusher = Flusher(asyncio.get_running_loop().call_soon_threadsafe, no_failure)
    log.on_roll = flusher.request_sync
    append(log, plain("a"))
    log.roll(0)
    flusher.close()
    assert log.recovery_point == 1


def test_a_real_sync_error_is_a_storage_error(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    log.folder.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        log.sync()


def test_a_log_that_was_deleted_in_the_meantime_is_no_failure(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    log.delete(bytes(16))
    log.sync()
