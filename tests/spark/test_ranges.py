"""Cutting ranges of offsets into tasks: pure arithmetic, checked against the rules of Spark's own source."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.types import TopicPartition
from penstock.spark.ranges import OffsetRange, cut, from_json, limit_rows, split_ranges, to_json


def sizes(ranges: list[OffsetRange]) -> list[int]:
    return [piece.size for piece in ranges]


def test_one_task_per_partition_and_none_for_empty_ones() -> None:
    ranges = [OffsetRange("t", 0, 5, 10), OffsetRange("t", 1, 7, 7), OffsetRange("t", 2, 0, 3)]
    assert split_ranges(ranges) == [ranges[0], ranges[2]]


def test_max_records_cuts_into_equal_pieces() -> None:
    assert sizes(split_ranges([OffsetRange("t", 0, 0, 10)], max_records=4)) == [3, 3, 4]


def test_min_partitions_cuts_the_skewed_partition_and_leaves_small_ones_whole() -> None:
    ranges = [OffsetRange("t", 0, 0, 10_000), OffsetRange("t", 1, 0, 10), OffsetRange("t", 2, 0, 10)]
    split = split_ranges(ranges, min_partitions=6)
    assert sizes(split) == [2500, 2500, 2500, 2500, 10, 10]
    assert {piece.partition for piece in split[:4]} == {0}


def test_a_huge_partition_is_cut_although_nobody_asked() -> None:
    assert len(split_ranges([OffsetRange("t", 0, 0, 12_000_000)])) == 3


def test_ten_thousand_partitions_are_split_at_once() -> None:
    ranges = [OffsetRange("t", number, 0, number) for number in range(10_000)]
    assert sum(sizes(split_ranges(ranges, min_partitions=20_000))) == sum(range(10_000))


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), min_size=1, max_size=20),
    st.none() | st.integers(1, 100),
    st.none() | st.integers(10_000, 10**6),
)
def test_pieces_cover_every_offset_once_and_in_order(
    starts: list[tuple[int, int]], min_partitions: int | None, max_records: int | None
) -> None:
    ranges = [OffsetRange("t", number, start, start + size) for number, (start, size) in enumerate(starts)]
    split = split_ranges(ranges, min_partitions=min_partitions, max_records=max_records)
    for piece in ranges:
        mine = [part for part in split if part.partition == piece.partition]
        if piece.size:
            assert mine[0].start == piece.start
            assert mine[-1].end == piece.end
            assert all(before.end == after.start for before, after in pairwise(mine))
        else:
            assert not mine
    if max_records is not None:
        assert max(sizes(split), default=0) <= max_records


def test_a_range_is_never_cut_into_more_pieces_than_it_has_offsets() -> None:
    assert sizes(cut(OffsetRange("t", 0, 0, 2), 5)) == [1, 1]


def test_a_micro_batch_takes_from_each_partition_by_its_backlog() -> None:
    a, b, c = (TopicPartition("t", number) for number in range(3))
    end = limit_rows({a: 0, b: 0, c: 5}, {a: 900, b: 100, c: 5}, 100)
    assert end == {a: 90, b: 10, c: 5}


def test_a_partition_with_little_is_not_starved() -> None:
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    assert limit_rows({a: 0, b: 0}, {a: 1_000_000, b: 1}, 10)[b] == 1


def test_offsets_go_to_json_and_back() -> None:
    offsets = {TopicPartition("a", 1): 5, TopicPartition("a", 0): 2, TopicPartition("b.c", 0): 9}
    assert to_json(offsets) == {"a": {"0": 2, "1": 5}, "b.c": {"0": 9}}
    assert from_json(to_json(offsets)) == offsets
