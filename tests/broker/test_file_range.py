"""A range of a file is probed without blocking, and read by a thread if it is on disk only."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from penstock.broker.file_range import FileRange, until_cached, when_cached
from penstock.broker.world import LoopWorld
from penstock.log.files import SegmentFile

WAIT_SECONDS = 20.0


@pytest.fixture
def stored(tmp_path: Path) -> FileRange:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(2 << 20))
    return FileRange(SegmentFile(str(path)), 4096, 1 << 20)


def world() -> LoopWorld:
    return LoopWorld(asyncio.get_running_loop())


def evict(stored: FileRange) -> None:
    os.fsync(stored.file.fd)
    os.posix_fadvise(stored.file.fd, 0, 0, os.POSIX_FADV_DONTNEED)


async def test_a_range_in_memory_is_ready_at_once(stored: FileRange) -> None:
    stored.warm_up()
    stored.is_warm = False
    assert when_cached(world(), stored, pytest.fail)
    await asyncio.wait_for(until_cached(world(), stored), WAIT_SECONDS)


async def test_a_range_on_disk_only_is_read_by_a_thread_before_its_reader_goes_on(
    stored: FileRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    evict(stored)
    readers: list[threading.Thread] = []
    warm_up = FileRange.warm_up

    def watched(self: FileRange) -> None:
        readers.append(threading.current_thread())
        warm_up(self)

    monkeypatch.setattr(FileRange, "warm_up", watched)
    await asyncio.wait_for(until_cached(world(), stored), WAIT_SECONDS)
    assert readers, "the range was not evicted: nothing was shown"
    assert threading.current_thread() not in readers
    assert stored.is_cached()


async def test_the_reader_goes_on_although_the_thread_could_not_read(
    stored: FileRange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: FileRange) -> None:
        raise OSError("the disk is tired")

    monkeypatch.setattr(os, "preadv", _would_block)
    monkeypatch.setattr(FileRange, "warm_up", fails)
    await asyncio.wait_for(until_cached(world(), stored), WAIT_SECONDS)
    assert stored.is_cached(), "the next attempt must not ask again, but fail or succeed"


def _would_block(*_: object) -> int:
    raise BlockingIOError
