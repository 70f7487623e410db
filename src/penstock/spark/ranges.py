"""Ranges of offsets, and how they become tasks.

One task reads one range of one partition. Without more said, each topic-partition is one range, and only very large
ones are cut. With `maxRecordsPerPartition` a range is cut into equal pieces of at most that size. With `minPartitions`
above the number of ranges, the large ones are cut in proportion to their size and the small ones left whole. These are
the rules of Spark's own Kafka source, so that a job keeps its number of tasks when it changes the format.

A size is a number of offsets, not of records: compaction and transactions leave gaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from penstock.client.types import TopicPartition

# A partition with more than this is cut even when nobody asked: one task would keep a core busy while others idle.
LARGEST_RANGE = 5_000_000

Offsets = dict[TopicPartition, int]
JsonOffsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition with `start` <= offset < `end`."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = bytes(16)

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def split_ranges(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
    largest: int = LARGEST_RANGE,
) -> list[OffsetRange]:
    """The ranges of the tasks; empty ranges are dropped."""
    pieces = [piece for piece in ranges if piece.size > 0]
    limit = max_records if max_records is not None else (largest if min_partitions is None else None)
    if limit is not None:
        pieces = [part for piece in pieces for part in cut(piece, math.ceil(piece.size / limit))]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    ideal = sum(piece.size for piece in pieces) / min_partitions
    large = [piece for piece in pieces if piece.size > ideal]
    total = sum(piece.size for piece in large)
    count = max(min_partitions - (len(pieces) - len(large)), 1)
    split: list[OffsetRange] = []
    for piece in pieces:
        parts = round(piece.size / total * count) if piece.size > ideal else 1
        split.extend(cut(piece, max(parts, 1)))
    return split


def cut(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    """A range in `parts` pieces whose sizes differ by one at most."""
    parts = min(max(parts, 1), max(piece.size, 1))
    bounds = [piece.start + piece.size * part // parts for part in range(parts + 1)]
    return [OffsetRange(piece.topic, piece.partition, start, end, piece.topic_id) for start, end in pairwise(bounds)]


def limit_rows(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], rows: int) -> Offsets:
    """The end of a micro-batch of about `rows` offsets: every partition gets its share of them, by its backlog."""
    backlog = {tp: max(end - start.get(tp, end), 0) for tp, end in latest.items()}
    total = sum(backlog.values())
    if total <= rows:
        return dict(latest)
    limited: Offsets = {}
    for tp, size in backlog.items():
        share = rows * size / total
        # A partition with a small share must not starve: one record is more than none.
        step = math.ceil(share) if share < 1 else math.floor(share)
        limited[tp] = min(start.get(tp, latest[tp]) + step, latest[tp])
    return limited


def to_json(offsets: Mapping[TopicPartition, int]) -> JsonOffsets:
    """{"topic": {"0": 17}}, the form in which Spark's Kafka source keeps offsets."""
    topics: JsonOffsets = {}
    for tp in sorted(offsets):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return topics


def from_json(topics: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
