"""The offset index, in memory and mapped from its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.files import DiskReader, SegmentFile
from penstock.log.offset_index import OffsetIndex, StoredIndex


def filled(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex()
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_the_file_format_is_kafkas() -> None:
    assert filled((1, 2), (0x01020304, 5)).to_bytes().hex() == "00000001000000020102030400000005"


def test_lookups_find_the_last_entry_at_or_below() -> None:
    index = filled((4, 100), (9, 200))
    assert [index.lookup(offset) for offset in (0, 3, 4, 8, 9, 50)] == [
        (-1, 0),
        (-1, 0),
        (4, 100),
        (4, 100),
        (9, 200),
        (9, 200),
    ]
    assert [index.before_position(position) for position in (99, 100, 199, 200)] == [
        (-1, 0),
        (4, 100),
        (4, 100),
        (9, 200),
    ]
    assert [index.offset_at_or_after(position) for position in (0, 100, 101, 201)] == [4, 4, 9, -1]


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=50))
def test_an_index_in_a_file_answers_like_the_one_in_memory(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int]]
) -> None:
    offsets = sorted({offset for offset, _ in entries})
    positions = sorted({position for _, position in entries})
    index = filled(*zip(offsets, positions, strict=False))
    path = str(tmp_path_factory.mktemp("index") / "x.index")
    Path(path).write_bytes(index.to_bytes())
    stored, loaded = StoredIndex.opened(path, DiskReader()), OffsetIndex.loaded(path, DiskReader())
    assert stored is not None
    assert loaded is not None
    assert len(stored) == len(loaded) == len(index)
    for value in [0, *offsets, *positions]:
        for other in (stored, loaded):
            assert other.lookup(value) == index.lookup(value)
            assert other.before_position(value) == index.before_position(value)
            assert other.offset_at_or_after(value) == index.offset_at_or_after(value)
    assert loaded.to_bytes() == index.to_bytes()


def test_an_index_of_many_pages_answers_like_the_one_in_memory(tmp_path: Path) -> None:
    entries = [(10 * slot + 4, 4096 * slot + 7) for slot in range(2000)]
    index = filled(*entries)
    path = str(tmp_path / "x.index")
    Path(path).write_bytes(index.to_bytes())
    stored = StoredIndex.opened(path, DiskReader())
    assert stored is not None
    for slot in [0, 1, 1999, 511, 512, 513, 1023, 1024, 1025, 1500, 3]:
        offset, position = entries[slot]
        for step in (-1, 0, 1):
            assert stored.lookup(offset + step) == index.lookup(offset + step)
            assert stored.before_position(position + step) == index.before_position(position + step)
            assert stored.offset_at_or_after(position + step) == index.offset_at_or_after(position + step)
    last_position = entries[-1][1]
    assert [stored.is_plausible(size) for size in (last_position, last_position + 1)] == [False, True]


def test_a_file_of_an_odd_size_or_none_at_all_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"123456789")
    for name in ("odd", "missing"):
        assert StoredIndex.opened(str(tmp_path / name), DiskReader()) is None
        assert OffsetIndex.loaded(str(tmp_path / name), DiskReader()) is None


def test_a_last_entry_beyond_the_segment_is_implausible() -> None:
    assert filled((4, 100)).is_plausible(101)
    assert not filled((4, 100)).is_plausible(100)
    assert OffsetIndex().is_plausible(0)
    assert filled((0, 0)).is_plausible(1)
    assert not filled((-1, 0)).is_plausible(1)
    assert not filled((0, -1)).is_plausible(1)


def test_the_page_that_was_used_last_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "x.index")
    Path(path).write_bytes(filled(*((slot, 10 * slot) for slot in range(1200))).to_bytes())
    reader = DiskReader()
    stored = StoredIndex.opened(path, reader)
    assert stored is not None
    reads: list[int] = []
    read = DiskReader.read

    def counted(self: DiskReader, file: SegmentFile, size: int, position: int) -> bytes:
        reads.append(position)
        return read(self, file, size, position)

    monkeypatch.setattr(DiskReader, "read", counted)
    for offset in (5, 600, 601, 1100, 1101, 6, 7):
        assert stored.lookup(offset) == (offset, 10 * offset)
    assert reads == [512 * 8, 1024 * 8, 0]
