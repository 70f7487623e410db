"""Open files and whole-file writes."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.log.files import OpenFiles, SegmentFile, pread_all, write_file


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
