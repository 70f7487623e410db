"""A range of a file is probed without blocking, and read by a thread if it is on disk only."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from penstock.broker.file_range import FileRange, until_cached, when_cached
from penstock.broker.world import LoopWorld
from penstock.log.files import SegmentFile
from tests.broker.cold_disk import drop_from_memory

WAIT_SECONDS = 20.0
SIZE = 3 << 20


@pytest.fixture
def stored(tmp_path: Path) -> FileRange:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(2 << 20))
    return FileRange(SegmentFile(str(path)), 4096, 1 << 20)


def world() -> LoopWorld:
    return LoopWorld(asyncio.get_running_loop())


def evict(stored: FileRange) -> None:
    drop_from_memory(stored.file.fd)


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


@pytest.fixture
def file(tmp_path: Path) -> SegmentFile:
    path = tmp_path / "segment"
    path.write_bytes(bytes(SIZE))
    return SegmentFile(str(path), os.O_RDONLY)


def cold_from(cold: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the kernel have the bytes of a file in memory only up to an offset; what is probed is recorded."""
    probed: list[int] = []

    def preadv(fd: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        probed.append(offset)
        if offset >= cold:
            raise BlockingIOError
        return len(buffers[0])

    monkeypatch.setattr(os, "preadv", preadv)
    return probed


def test_a_range_is_cold_when_any_part_of_it_is(file: SegmentFile, monkeypatch: pytest.MonkeyPatch) -> None:
    cold_from(2 << 20, monkeypatch)
    assert FileRange(file, 0, 1 << 20).is_cached()
    assert not FileRange(file, 0, SIZE).is_cached()


def test_the_last_byte_is_looked_at(file: SegmentFile, monkeypatch: pytest.MonkeyPatch) -> None:
    probed = cold_from(1000, monkeypatch)
    assert not FileRange(file, 0, 1001).is_cached()
    assert probed == [0, 1000]


def test_a_range_that_was_warmed_up_is_not_probed_again(file: SegmentFile, monkeypatch: pytest.MonkeyPatch) -> None:
    probed = cold_from(0, monkeypatch)
    part = FileRange(file, 0, SIZE)
    assert not part.is_cached()
    part.warm_up()
    assert part.is_cached()
    assert len(probed) == 1


def test_a_file_system_that_cannot_be_probed_is_used_as_it_is(
    file: SegmentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "preadv", preadv)
    assert FileRange(file, 0, SIZE).is_cached()


def test_a_range_behind_the_end_of_the_file_does_not_keep_a_thread_reading(file: SegmentFile) -> None:
    part = FileRange(file, SIZE - 10, 1000)
    part.warm_up()
    assert part.is_cached()


def test_the_file_stays_open_as_long_as_the_range(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    part = FileRange(SegmentFile(str(path), os.O_RDONLY), 2, 3)
    path.unlink()
    assert os.pread(part.file.fd, part.size, part.position) == b"234"
