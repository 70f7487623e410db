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

    def add(self, offset: int, kind: int) -> None:
        """Decide about one offset; the last word before sending counts."""
        self._types[offset] = kind

    def add_run(self, first: int, last: int, kind: int) -> None:
        self._runs.append((first, last, kind))

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
        types = dict(self._types)
        for first, last, kind in self._runs:
            for offset in range(first, last + 1):
                types.setdefault(offset, kind)
        made: list[AckBatch] = []
        run: list[int] = []
        first = -1
        for offset in sorted(types):
            if run and offset != first + len(run):
                made.append(_batch(first, run))
                run = []
            if not run:
                first = offset
            run.append(types[offset])
        made.append(_batch(first, run))
        return made


def _batch(first: int, types: list[int]) -> AckBatch:
    last = first + len(types) - 1
    return AckBatch(first, last, types[:1] if types.count(types[0]) == len(types) else types)
