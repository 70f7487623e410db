"""Open files, reads that do not wait, and whole-file writes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.log.errors import ColdRead, FolderInUse
from penstock.log.files import (
    DiskReader,
    FolderLock,
    Hold,
    OpenFiles,
    RetiredFiles,
    SegmentFile,
    pread_all,
    write_file,
)


class Owner:
    def __init__(self, path: Path, cache: OpenFiles) -> None:
        path.write_bytes(path.name.encode())
        self.file: SegmentFile | None = SegmentFile(str(path))
        self.file_used = False
        cache.opened(self)


def test_the_first_owner_that_was_not_used_lets_go(tmp_path: Path) -> None:
    cache = OpenFiles(2)
    first, second = Owner(tmp_path / "1", cache), Owner(tmp_path / "2", cache)
    first.file_used = True
    Owner(tmp_path / "3", cache)
    assert first.file is not None
    assert second.file is None
    assert len(cache) == 2


def test_owners_in_use_make_room_in_the_end(tmp_path: Path) -> None:
    cache = OpenFiles(2)
    owners = [Owner(tmp_path / str(number), cache) for number in range(2)]
    for owner in owners:
        owner.file_used = True
    third = Owner(tmp_path / "third", cache)
    assert third.file is not None
    assert sum(owner.file is not None for owner in owners) == 1


def test_a_file_closes_when_its_last_holder_lets_go(tmp_path: Path) -> None:
    cache = OpenFiles(1)
    owner = Owner(tmp_path / "1", cache)
    reader = owner.file
    assert reader is not None
    cache.forget(owner)
    os.unlink(tmp_path / "1")
    assert pread_all(reader, 10, 0) == b"1"
    fd = reader.fd
    del reader
    assert not os.path.exists(f"/proc/self/fd/{fd}")


def test_a_whole_file_write_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old and longer")
    write_file(str(path), b"new", sync=True)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("x", b"new")]


def test_retired_files_go_when_their_time_has_come(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    retired = RetiredFiles(Hold())
    retired.add([str(tmp_path / "a"), str(tmp_path / "missing")], 10)
    retired.add([str(tmp_path / "b")], 20)
    assert {path.name for path in tmp_path.iterdir()} == {"a.deleted", "b.deleted"}
    assert [retired.purge(now_ms) for now_ms in (9, 10, 19, 20, 30)] == [0, 1, 0, 1, 0]
    assert list(tmp_path.iterdir()) == []


def test_a_second_process_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    script = "import sys, pathlib; from penstock.log.files import FolderLock; FolderLock(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", script, str(tmp_path)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode != 0
    assert "FolderInUse" in second.stderr
    lock.release()
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def test_the_same_process_cannot_lock_it_twice_either(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(FolderInUse):
        FolderLock(tmp_path)
    lock.release()
    FolderLock(tmp_path).release()


@pytest.fixture
def stored(tmp_path: Path) -> SegmentFile:
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(200)))
    return SegmentFile(str(path))


@pytest.fixture
def reader() -> DiskReader:
    """One that must not wait."""
    reader = DiskReader()
    reader.may_wait = False
    return reader


def refuse(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def preadv(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "preadv", preadv)


def test_what_is_in_memory_is_read_at_once(stored: SegmentFile, reader: DiskReader) -> None:
    os.pread(stored.fd, 200, 0)
    assert reader.read(stored, 3, 5) == b"\5\6\7"
    assert reader.read(stored, 10, 198) == b"\xc6\xc7"
    assert reader.read(stored, 10, 200) == b""


def test_what_was_fetched_is_read_although_the_kernel_has_dropped_it_again(
    stored: SegmentFile, reader: DiskReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a broker that is short of memory would fetch for ever."""
    refuse(monkeypatch, errno.EAGAIN)
    for position in (5, 100):
        with pytest.raises(ColdRead) as cold:
            reader.read(stored, 3, position)
        for fetch in cold.value.fetches:
            fetch()
    assert reader.read(stored, 3, 5) == b"\5\6\7"
    assert reader.read(stored, 3, 100) == b"\x64\x65\x66"


def test_what_was_fetched_is_not_taken_for_what_was_written_since(
    stored: SegmentFile, reader: DiskReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, errno.EAGAIN)
    with pytest.raises(ColdRead) as cold:
        reader.read(stored, 3, 5)
    for fetch in cold.value.fetches:
        fetch()
    os.utime(stored.fd, (1, 1))
    with pytest.raises(ColdRead):
        reader.read(stored, 3, 5)


def test_a_reader_waits_where_the_file_system_cannot_tell_what_is_in_memory(
    stored: SegmentFile, reader: DiskReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, errno.EOPNOTSUPP)
    assert reader.read(stored, 3, 5) == b"\5\6\7"


def test_a_disk_that_cannot_be_read_is_an_error(
    stored: SegmentFile, reader: DiskReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        reader.read(stored, 3, 5)
