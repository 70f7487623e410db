"""A segment's lookups, with and without the window of recent batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.files import DiskReader, OpenFiles, SegmentFile
from penstock.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from penstock.records.batch import patch_append
from tests.log.log_helpers import plain


def build(folder: Path, sizes: list[int], gaps: list[int], interval: int) -> tuple[Segment, list[tuple[int, int, int]]]:
    """A segment of batches with gaps between their offsets, as compaction leaves them: (first, last, position) each."""
    segment = Segment.create(str(folder), 100, OpenFiles(), created_ms=0, index_interval_bytes=interval)
    offset = 100
    batches = []
    for size, gap in zip(sizes, gaps, strict=True):
        offset += gap
        batch = plain(*["x"] * size)
        patch_append(batch, 0, offset, 0)
        batches.append((offset, offset + size - 1, segment.size))
        segment.append(batch, offset + size - 1, 0)
        offset += size
    return segment, batches


@settings(max_examples=50, deadline=None)
@given(
    shape=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=60),
    interval=st.integers(0, 1000),
    mode=st.sampled_from(["fresh", "frozen", "rebuilt"]),
)
def test_every_offset_and_every_byte_limit_is_found(
    tmp_path_factory: pytest.TempPathFactory, shape: list[tuple[int, int]], interval: int, mode: str
) -> None:
    sizes, gaps = zip(*shape, strict=True)
    segment, batches = build(tmp_path_factory.mktemp("segment"), list(sizes), list(gaps), interval)
    if mode == "frozen":
        segment.freeze()
    elif mode == "rebuilt":
        segment.freeze()
        segment.rebuild_indexes()
    for offset in range(100, batches[-1][1] + 3):
        expected = next((position for _, last, position in batches if last >= offset), segment.size)
        assert segment.position_of(offset) == expected
    starts = [position for _, _, position in batches] + [segment.size]
    for limit in range(0, segment.size + 50, 13):
        start = starts[min(limit % 7, len(starts) - 1)]
        expected = max([start, *(each for each in starts if each <= limit)])
        assert segment.whole_batches_end(start, max(limit, start)) == expected


def test_the_window_of_recent_batches_is_bounded(tmp_path: Path) -> None:
    segment, batches = build(tmp_path, [1] * 1000, [0] * 1000, 4096)
    assert len(segment._tail_offsets) < 256
    for first, _, position in batches[::37]:
        assert segment.position_of(first) == position


class UnusedReader(DiskReader):
    def read(self, file: SegmentFile, size: int, position: int) -> bytes:
        pytest.fail("the disk is read")


def test_an_empty_segment_of_an_earlier_run_is_appended_to_without_a_look_at_the_disk(tmp_path: Path) -> None:
    """Whatever its indexes hold: a second segment with its base offset would be the same file."""
    Segment.create(str(tmp_path), 100, OpenFiles(), created_ms=0, index_interval_bytes=0)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
        (tmp_path / f"{100:020d}{suffix}").write_bytes(bytes(48))
    open_files = OpenFiles()
    open_files.reader = UnusedReader()
    segment = Segment(str(tmp_path), 100, 0, open_files, created_ms=0, index_interval_bytes=0, has_txn_index=True)
    segment.prepare_to_append()
    batch = plain("x")
    patch_append(batch, 0, 100, 0)
    segment.append(batch, 100, 5)
    assert (segment.largest_timestamp(), segment.index_entries, segment.txn_index.entries) == (5, 0, [])
