"""Deadlines by key, in virtual time.

A timer has a key (what it is about) and a deadline; scheduling the same key again moves it. The heap may hold stale
entries of moved or cancelled timers: an entry counts only while it agrees with `_deadlines`. Stale entries are dropped
when they surface, and the heap is rebuilt when they outnumber the live ones, so that heartbeats (which move a timer
each time) cannot grow it without bound.

A command ends timers before its records are written. If they cannot be written nothing has happened, and what the
command ended is set again (`restore`): else a member that could not be removed would stay for ever.
"""

from __future__ import annotations

import heapq
from enum import Enum, auto
from typing import NamedTuple


class TimerKind(Enum):
    CLASSIC_SESSION = auto()  # a classic member's heartbeats, or a pending member id that never joined
    CLASSIC_JOIN = auto()  # the join phase of a rebalance
    CLASSIC_SYNC = auto()  # members that joined must also sync
    CONSUMER_SESSION = auto()
    CONSUMER_REBALANCE = auto()  # a member must give up partitions within its rebalance timeout
    CONSUMER_JOIN = auto()  # a classic member of a consumer group was told to rejoin
    CONSUMER_SYNC = auto()  # a classic member of a consumer group joined and must sync
    CONSUMER_ASSIGN = auto()  # compute the target assignment of a group
    CONSUMER_REGEX = auto()  # resolve the regular expressions of a group
    SHARE_SESSION = auto()
    SHARE_INITIALIZE = auto()  # share-partition state is being initialized
    OFFSETS_EXPIRY = auto()


_OF_RECORDED_MEMBERS = frozenset(
    [
        TimerKind.CONSUMER_SESSION,
        TimerKind.CONSUMER_REBALANCE,
        TimerKind.CONSUMER_JOIN,
        TimerKind.CONSUMER_SYNC,
        TimerKind.CONSUMER_ASSIGN,
        TimerKind.SHARE_SESSION,
    ]
)
"""Of groups whose members come and go with records. A classic group's do so in memory, whatever can be written."""


class TimerKey(NamedTuple):
    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Timers:
    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._tie_breaker = 0
        self._ended: dict[TimerKey, int] = {}
        """What the command that is under way has ended."""

    def settle(self) -> None:
        """What was ended so far stays so: the command has done what it wanted, or another one begins."""
        if self._ended:
            self._ended.clear()

    def restore(self, earliest_ms: int) -> None:
        """What the command wanted to write could not be written: set its timers again, for a while from now."""
        for key, deadline_ms in self._ended.items():
            if key.kind in _OF_RECORDED_MEMBERS:
                self.schedule_if_absent(key, max(deadline_ms, earliest_ms))
        self._ended.clear()

    def schedule(self, key: TimerKey, deadline_ms: int) -> None:
        self._deadlines[key] = deadline_ms
        self._tie_breaker += 1
        heapq.heappush(self._heap, (deadline_ms, self._tie_breaker, key))
        if len(self._heap) > 2 * len(self._deadlines) + 64:
            self._rebuild()

    def schedule_if_absent(self, key: TimerKey, deadline_ms: int) -> None:
        if key not in self._deadlines:
            self.schedule(key, deadline_ms)

    def cancel(self, key: TimerKey) -> None:
        deadline_ms = self._deadlines.pop(key, None)
        if deadline_ms is not None:
            self._ended[key] = deadline_ms

    def is_scheduled(self, key: TimerKey) -> bool:
        return key in self._deadlines

    def deadline_ms(self, key: TimerKey) -> int | None:
        return self._deadlines.get(key)

    def next_deadline_ms(self) -> int | None:
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> TimerKey | None:
        """Take out the earliest timer whose deadline has come."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        key = heapq.heappop(self._heap)[2]
        self._ended[key] = self._deadlines.pop(key)
        return key

    def _drop_stale(self) -> None:
        while self._heap and self._deadlines.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _rebuild(self) -> None:
        self._heap = [(deadline_ms, index, key) for index, (key, deadline_ms) in enumerate(self._deadlines.items())]
        self._tie_breaker = len(self._heap)
        heapq.heapify(self._heap)
