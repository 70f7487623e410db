"""A disk under a broker whose page cache a test owns."""

from __future__ import annotations

import os
import threading
import time

import pytest

from penstock import portable

_PAGE = 4096
_EVENT_LOOP = "penstock-broker"
_DROPS = 10
_PAUSE_SECONDS = 0.01

Page = tuple[int, int]
"""Inode and number."""


def drop_from_memory(fd: int) -> None:
    """Have the kernel forget the pages of a file. It may keep some that are busy, so it is told repeatedly."""
    os.fsync(fd)
    for _ in range(_DROPS):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        time.sleep(_PAUSE_SECONDS)


class ColdDisk:
    """Whatever was not read since `forget` is on disk only. It knows whom it has kept waiting.

    Only reads go through it, not writes: what was appended is as cold as the rest until somebody reads it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._in_memory: set[Page] | None = None
        self.waited: list[str] = []
        """The names of the threads that waited for the disk."""
        self._read_at, self._preadv = portable.read_at, os.preadv
        monkeypatch.setattr(portable, "read_at", self._read)
        monkeypatch.setattr(os, "preadv", self._read_without_waiting)

    def forget(self) -> None:
        self._in_memory = set()
        self.waited.clear()

    def remember_all(self) -> None:
        self._in_memory = None

    def check(self) -> None:
        assert self.waited, "nothing was on disk only: nothing was shown"
        assert _EVENT_LOOP not in self.waited

    def _read(self, fd: int, size: int, offset: int) -> bytes:
        memory = self._in_memory
        if memory is not None and size:
            inode = os.fstat(fd).st_ino
            wanted = {(inode, page) for page in range(offset // _PAGE, (offset + size - 1) // _PAGE + 1)}
            if not wanted <= memory:
                self.waited.append(threading.current_thread().name)
                memory |= wanted
        return self._read_at(fd, size, offset)

    def _read_without_waiting(self, fd: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        memory = self._in_memory
        [buffer] = buffers
        if memory is None or offset >= os.fstat(fd).st_size or not len(buffer):
            return self._preadv(fd, buffers, offset)
        inode = os.fstat(fd).st_ino
        page = first = offset // _PAGE
        while page * _PAGE < offset + len(buffer) and (inode, page) in memory:
            page += 1
        if page == first:
            raise BlockingIOError
        return self._preadv(fd, [memoryview(buffer)[: page * _PAGE - offset]], offset)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> ColdDisk:
    return ColdDisk(monkeypatch)
