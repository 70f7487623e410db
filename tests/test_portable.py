from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(
    ("total_gb", "low_mb"), [(1, 100), (5, 500), (10, 1000), (20, 1074), (100, 5000), (1000, 50_000)]
)
def test_space_is_low_when_a_twentieth_is_left_or_less_than_a_gigabyte(total_gb: int, low_mb: int) -> None:
    assert portable.Space(total_gb * 10**9, int(low_mb * 0.99) * 10**6).is_low
    assert not portable.Space(total_gb * 10**9, int(low_mb * 1.01) * 10**6).is_low


def test_a_boot_has_a_name_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert portable.boot_session() == portable.boot_session()
    if os.path.exists("/proc/sys/kernel/random/boot_id"):
        assert portable.boot_session()


def test_a_system_without_names_of_boots_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(portable, "_BOOT_ID", str(tmp_path / "none"))
    monkeypatch.setattr(portable, "c_function", lambda name: None)
    assert portable.boot_session() is None


def test_macos_names_a_boot_by_a_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def sysctlbyname(name: bytes, value: Any, size: Any, new: object, new_size: object) -> int:
        assert name == b"kern.bootsessionuuid"
        value.value = b"4B7F"
        return 0

    monkeypatch.setattr(portable, "_BOOT_ID", str(tmp_path / "none"))
    monkeypatch.setattr(portable, "c_function", lambda name: sysctlbyname)
    assert portable.boot_session() == b"4B7F"


def test_functions_of_the_c_library_are_found_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    assert portable.c_function("no_such_function_anywhere") is None

    def refuse(name: object, **_: object) -> object:
        raise TypeError("argument of type 'NoneType' is not iterable")  # what Windows answers to CDLL(None)

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert portable.c_function("getpid") is None


def test_cores_are_counted_where_no_affinity_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert portable.cores() >= 1
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert portable.cores() == (os.cpu_count() or 1)
