"""The time index."""

from __future__ import annotations

from pathlib import Path

from penstock.log.files import DiskReader
from penstock.log.time_index import TimeIndex, read_last_entry, stored_offset_before


def filled(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex()
    for timestamp, offset in entries:
        index.maybe_append(timestamp, offset)
    return index


def test_the_file_format_is_kafkas() -> None:
    assert filled((0x0102030405060708, 9)).to_bytes().hex() == "010203040506070800000009"


def test_only_growing_timestamps_are_added() -> None:
    index = filled((-1, 0), (10, 1), (10, 5), (9, 6), (11, 7))
    assert len(index) == 2
    assert index.last() == (11, 7)
    assert filled((10, 1)).last() == (10, 1)
    assert filled((10, 1), (11, 2), (12, 3)).last() == (12, 3)
    assert TimeIndex().last() == (-1, -1)


def test_a_lookup_gives_an_offset_before_which_everything_is_older() -> None:
    index = filled((10, 3), (20, 8))
    assert [index.offset_before(timestamp) for timestamp in (5, 10, 11, 20, 21)] == [-1, -1, 3, 3, 8]


def test_it_is_read_back_whole_or_only_its_last_entry(tmp_path: Path) -> None:
    path = tmp_path / "x.timeindex"
    path.write_bytes(filled((10, 3), (20, 8)).to_bytes())
    loaded = TimeIndex.loaded(str(path), DiskReader())
    assert loaded is not None
    assert loaded.to_bytes() == path.read_bytes()
    assert read_last_entry(str(path), DiskReader()) == (20, 8)
    path.write_bytes(b"")
    assert read_last_entry(str(path), DiskReader()) == (-1, -1)
    path.write_bytes(b"odd")
    assert read_last_entry(str(path), DiskReader()) is None
    assert TimeIndex.loaded(str(path), DiskReader()) is None
    assert read_last_entry(str(tmp_path / "missing"), DiskReader()) is None


def test_an_index_in_a_file_answers_like_the_one_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.timeindex"
    index = filled((10, 4), (20, 8), (30, 12))
    path.write_bytes(index.to_bytes())
    for timestamp in (5, 10, 11, 20, 25, 30, 31):
        assert stored_offset_before(str(path), timestamp, DiskReader()) == index.offset_before(timestamp)
    path.write_bytes(b"odd")
    assert stored_offset_before(str(path), 30, DiskReader()) == -1
    assert stored_offset_before(str(tmp_path / "missing"), 30, DiskReader()) == -1
