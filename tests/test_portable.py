from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock import portable


def test_the_ways_that_only_linux_has_are_used_where_they_are() -> None:
    if hasattr(os, "pread"):
        assert portable.read_at is os.pread
        assert portable.write_at is os.pwrite
    if hasattr(os, "fdatasync"):
        assert portable.datasync is os.fdatasync


def test_reads_and_writes_at_a_position_without_calls_for_it(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT | portable.OPEN_FLAGS)
    try:
        assert portable._write_at(fd, b"hello", 3) == 5
        assert portable._read_at(fd, 4, 2) == b"\0hel"
        assert portable._read_at(fd, 10, 100) == b""
    finally:
        os.close(fd)


def test_a_buffer_is_filled_from_a_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    fd = os.open(tmp_path / "file", os.O_RDONLY | portable.OPEN_FLAGS)
    try:
        buffer = bytearray(4)
        assert portable.read_into_at(fd, memoryview(buffer), 8) == 2
        assert buffer == b"89\0\0"
        monkeypatch.delattr(os, "preadv", raising=False)
        assert portable.read_into_at(fd, memoryview(buffer), 4) == 4
        assert buffer == b"4567"
    finally:
        os.close(fd)


def test_a_system_that_cannot_tell_what_is_in_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable, "_NO_WAIT", None)
    with pytest.raises(portable.CannotTell):
        portable.read_cached(0, bytearray(1), 0)


def test_a_locked_file_is_refused_to_others(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT | portable.OPEN_FLAGS) for _ in range(2))
    try:
        portable.lock_file(first)
        with pytest.raises(OSError):
            portable.lock_file(second)
    finally:
        os.close(first)
        os.close(second)


def test_space_is_reported(tmp_path: Path) -> None:
    space = portable.disk_space(tmp_path)
    assert 0 < space.usable_bytes <= space.total_bytes
