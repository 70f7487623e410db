"""What a share consumer has decided about records, until the broker knows.

Acknowledgements are kept per partition, by offset or as whole runs, and travel as batches: a run of offsets with one
type for all or one for each. An offset must not be named twice in a request: one wrong acknowledgement fails all of
the partition's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

GAP = 0  # an offset that was acquired but holds no record for anybody: a marker, or one that compaction removed


class AcknowledgeType(IntEnum):
    ACCEPT = 1  # done
    RELEASE = 2  # not done: deliver it again
    REJECT = 3  # never to be delivered again
    RENEW = 4  # still at it: keep the lock


class AckBatch(NamedTuple):
    first_offset: int
    last_offset: int
    types: list[int]


class Acknowledgements:
    """Those of one partition that wait to be sent."""

    __slots__ = ("_runs", "_types")

    def __init__(self) -> None:
        self._types: dict[int, int] = {}
        self._runs: list[tuple[int, int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._types or self._runs)

    def __contains__(self, offset: int) -> bool:
        return offset in self._types or any(first <= offset <= last for first, last, _ in self._runs)

    def add(self, offset: int, kind: int) -> None:
        """Decide about one offset; the last word before sending counts."""
        self._types[offset] = kind

    def add_run(self, first: int, last: int, kind: int) -> None:
        self._runs.append((first, last, kind))

    def take(self) -> Acknowledgements:
        """All there are, to be sent; none are left."""
        taken = Acknowledgements()
        taken._types, self._types = self._types, {}
        taken._runs, self._runs = self._runs, []
        return taken

    def offsets(self) -> set[int]:
        found = set(self._types)
        for first, last, _ in self._runs:
            found.update(range(first, last + 1))
        return found

    def count(self) -> int:
        return len(self._types) + sum(last - first + 1 for first, last, _ in self._runs)

    def batches(self) -> list[AckBatch]:
        """In order, each offset once. Neighbouring offsets share a batch, which has one type if they agree."""
        if not self._types:
            return [AckBatch(first, last, [kind]) for first, last, kind in sorted(self._runs)]
        types = self._types
        if self._runs:
            types = dict(types)
            for first, last, kind in self._runs:
                for offset in range(first, last + 1):
                    types.setdefault(offset, kind)
        offsets = sorted(types)
        return [_batch(types, first, last) for first, last in runs_of(offsets)]


def _batch(types: dict[int, int], first: int, last: int) -> AckBatch:
    kinds = list(map(types.__getitem__, range(first, last + 1)))
    return AckBatch(first, last, kinds[:1] if kinds.count(kinds[0]) == len(kinds) else kinds)


def runs_of(offsets: list[int]) -> list[tuple[int, int]]:
    """Ascending offsets as (first, last) pairs without holes."""
    if not offsets:
        return []
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        return [(offsets[0], offsets[-1])]
    runs: list[tuple[int, int]] = []
    first = before = offsets[0]
    for offset in offsets[1:]:
        if offset != before + 1:
            runs.append((first, before))
            first = offset
        before = offset
    runs.append((first, before))
    return runs
