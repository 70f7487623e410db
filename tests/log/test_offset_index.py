"""The offset index, in memory and mapped from its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.offset_index import OffsetIndex


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
def test_a_mapped_index_answers_like_the_one_in_memory(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int]]
) -> None:
    offsets = sorted({offset for offset, _ in entries})
    positions = sorted({position for _, position in entries})
    index = filled(*zip(offsets, positions, strict=False))
    path = str(tmp_path_factory.mktemp("index") / "x.index")
    Path(path).write_bytes(index.to_bytes())
    mapped, loaded = OffsetIndex.mapped(path), OffsetIndex.loaded(path)
    assert mapped is not None
    assert loaded is not None
    assert len(mapped) == len(loaded) == len(index)
    for value in [0, *offsets, *positions]:
        for other in (mapped, loaded):
            assert other.lookup(value) == index.lookup(value)
            assert other.before_position(value) == index.before_position(value)
            assert other.offset_at_or_after(value) == index.offset_at_or_after(value)
    assert mapped.to_bytes() == index.to_bytes()


def test_a_file_of_an_odd_size_or_none_at_all_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"123456789")
    for name in ("odd", "missing"):
        assert OffsetIndex.mapped(str(tmp_path / name)) is None
        assert OffsetIndex.loaded(str(tmp_path / name)) is None


def test_a_last_entry_beyond_the_segment_is_implausible() -> None:
    assert filled((4, 100)).is_plausible(101)
    assert not filled((4, 100)).is_plausible(100)
    assert OffsetIndex().is_plausible(0)
