"""State batches laid over one another.

An update of a share-partition's state names only the ranges that changed. Laid over what was known, the higher delivery
count wins, and at the same count the higher state: a record never becomes less delivered, nor less done.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import pairwise

from penstock.queues.transitions import StateBatch


def merge_batches(start_offset: int, known: Sequence[StateBatch], updates: Sequence[StateBatch]) -> list[StateBatch]:
    """Disjoint batches in order, nothing below the start offset, neighbors that are alike joined."""
    if not updates:
        return _clipped(start_offset, known)
    if not known or updates[0].first_offset > known[-1].last_offset:
        ordered = all(a.last_offset < b.first_offset for a, b in pairwise(updates))
        if ordered:
            return _joined(_clipped(start_offset, [*known, *updates]))
    return _joined(_sweep(_clipped(start_offset, sorted([*known, *updates]))))


def _clipped(start_offset: int, batches: Iterable[StateBatch]) -> list[StateBatch]:
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    ]


def _sweep(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """Walk the edges from left to right; between two edges the strongest of the batches that lie there holds."""
    edges = sorted({edge for batch in batches for edge in (batch.first_offset, batch.last_offset + 1)})
    by_start = sorted(batches)
    merged: list[StateBatch] = []
    lying: list[tuple[int, int, int]] = []
    position = 0
    for edge, next_edge in pairwise(edges):
        while position < len(by_start) and by_start[position].first_offset == edge:
            batch = by_start[position]
            heapq.heappush(lying, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            position += 1
        while lying and lying[0][2] < edge:
            heapq.heappop(lying)
        if lying:
            merged.append(StateBatch(edge, next_edge - 1, -lying[0][1], -lying[0][0]))
    return merged


def _joined(batches: Iterable[StateBatch]) -> list[StateBatch]:
    joined: list[StateBatch] = []
    for batch in batches:
        if joined and joined[-1].last_offset + 1 == batch.first_offset and joined[-1][2:] == batch[2:]:
            joined[-1] = joined[-1]._replace(last_offset=batch.last_offset)
        else:
            joined.append(batch)
    return joined
