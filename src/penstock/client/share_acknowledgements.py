"""The acknowledgements of a share consumer, until the broker has confirmed them.

Acknowledgements are kept per partition, by offset or as whole runs, and are sent as batches: a run of offsets with one
type for all or one for each. An offset must not occur twice in a request: one wrong acknowledgement fails all of the
partition's. For the same reason the expiry of each lock is kept: an offset whose lock has expired must not be sent
together with others that are still locked.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from math import inf
from typing import NamedTuple

UNDECIDED = -1  # never sent
GAP = 0  # an offset that was acquired but holds no record for anybody: a marker, or one that compaction removed

_FEW_LOCKS = 64


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
    """Those of one partition that wait to be sent, and the offsets that nobody has decided about yet.

    `types` has, by offset, the decision about each record that was delivered to be decided one by one.
    """

    __slots__ = ("_first_end", "_locks", "_most_locks", "_runs", "types")

    def __init__(self) -> None:
        self.types: dict[int, int] = {}
        self._runs: list[tuple[int, int, int]] = []
        self._locks: list[tuple[int, int, float]] = []  # first, last, when their lock ends; the latest counts
        self._most_locks = _FEW_LOCKS  # before it is worth looking which are still needed
        self._first_end = inf  # no lock ends sooner

    def __bool__(self) -> bool:
        """Whether there is anything to send."""
        if self._runs:
            return True
        # Those that were decided first are first, mostly, so this seldom looks at more than one.
        return any(kind != UNDECIDED for kind in self.types.values())

    @property
    def has_undecided(self) -> bool:
        return UNDECIDED in self.types.values()

    def await_decision(self, first: int, last: int) -> None:
        undecided = dict.fromkeys(range(first, last + 1), UNDECIDED)
        if self.types:
            self.types.update(undecided)
        else:
            self.types = undecided

    def add(self, offset: int, kind: int) -> None:
        """Decide about one offset; the last word before sending counts."""
        self.types[offset] = kind

    def add_run(self, first: int, last: int, kind: int) -> None:
        self._runs.append((first, last, kind))

    def locked(self, first: int, last: int, until: float) -> None:
        """These offsets are locked until then. Without this an offset counts as locked for ever."""
        self._locks.append((first, last, until))
        self._first_end = min(self._first_end, until)
        if len(self._locks) > self._most_locks:
            self._forget_locks_of_others()

    def run_out(self, now: float) -> set[int]:
        """Those whose locks have ended: somebody else may have them."""
        if self._first_end >= now:
            return set()
        return {offset for offset, until in self._forget_locks_of_others().items() if until < now}

    def _forget_locks_of_others(self) -> dict[int, float]:
        """Keep the locks only of what is still here; returns when each ends."""
        here = self.offsets()
        ends: dict[int, float] = {}
        for first, last, until in self._locks:
            for offset in range(first, last + 1):
                if offset in here:
                    ends[offset] = max(until, ends.get(offset, until))
        by_end: dict[float, list[int]] = {}
        for offset in sorted(ends):
            by_end.setdefault(ends[offset], []).append(offset)
        self._locks = [(*run, until) for until, offsets in by_end.items() for run in runs_of(offsets)]
        self._most_locks = 2 * len(self._locks) + _FEW_LOCKS
        self._first_end = min(by_end, default=inf)
        return ends

    def take(self) -> Acknowledgements:
        """All there are, to be sent; what is undecided stays."""
        taken = Acknowledgements()
        taken._runs, self._runs = self._runs, []
        taken.types, self.types = self.types, {}
        if taken.has_undecided:
            self.types = {offset: kind for offset, kind in taken.types.items() if kind == UNDECIDED}
            taken.types = {offset: kind for offset, kind in taken.types.items() if kind != UNDECIDED}
        else:
            self._locks.clear()
            self._first_end = inf
        return taken

    def split_off(self, offsets: Collection[int]) -> Acknowledgements:
        """Those of `offsets`, which are no longer here; without gaps, as nobody waits to hear of them."""
        split = Acknowledgements()
        split.types = {offset: kind for offset, kind in self.types.items() if offset in offsets}
        self.types = {offset: kind for offset, kind in self.types.items() if offset not in offsets}
        runs, self._runs = self._runs, []
        for first, last, kind in runs:
            for offset in range(first, last + 1):
                if offset in offsets:
                    split.types.setdefault(offset, kind)
            kept = [offset for offset in range(first, last + 1) if offset not in offsets]
            self._runs += [(*run, kind) for run in runs_of(kept)]
        split.types = {offset: kind for offset, kind in split.types.items() if kind != GAP}
        return split

    def offsets(self) -> set[int]:
        """All of them, undecided ones included."""
        found = set(self.types)
        for first, last, _ in self._runs:
            found.update(range(first, last + 1))
        return found

    def count(self) -> int:
        return len(self.types) + sum(last - first + 1 for first, last, _ in self._runs)

    def batches(self) -> list[AckBatch]:
        """In order, each offset once. Neighbouring offsets share a batch, which has one type if they agree."""
        if not self.types:
            return [AckBatch(first, last, [kind]) for first, last, kind in sorted(self._runs)]
        types = self.types
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
