"""Partitions whose last stable offset stands still below the high watermark: readers of committed records wait there.

The protocol only answers this partition by partition, and a transaction that its coordinator has forgotten may hang in
any of them. So a look goes over a bounded number: those of open transactions, those that were held back before, and the
next ones in turn, until all have been looked at. One look serves all tabs of a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from weakref import WeakKeyDictionary

from penstock.client.admin import Admin
from penstock.client.types import IsolationLevel, OffsetSpec, TopicPartition
from penstock.console.readings import Cached
from penstock.console.session import Session
from penstock.wire.errors import KafkaError

IN_TURN = 2_000
_MOST_HELD = 200
_AT_ONCE = 16
_FRESH_SECONDS = 1.5
_LISTED_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Held:
    """A partition that is held back; the producer is None where this user may not see who holds it."""

    tp: TopicPartition
    stable: int
    end: int
    producer: int | None
    start: int


@dataclass(frozen=True, slots=True)
class Look:
    held: Sequence[Held]
    left_out: int
    """Partitions that are held back, beyond those that are listed."""
    seen: int
    total: int


class HeldBack:
    def __init__(self, admin: Callable[[], Awaitable[Admin]]) -> None:
        self._admin = admin
        self._open: set[TopicPartition] = set()
        self._known: set[TopicPartition] = set()
        self._next = 0
        self._seen = 0
        self._partitions = Cached(self._led, _LISTED_SECONDS)
        self._look = Cached(self._look_again, _FRESH_SECONDS)

    async def look(self, of_open_transactions: Iterable[TopicPartition]) -> Look:
        self._open = set(of_open_transactions)
        return await self._look.get()

    def forget(self) -> None:
        """Look anew next time: a transaction was aborted."""
        self._look.forget()

    async def _led(self) -> list[TopicPartition]:
        admin = await self._admin()
        return [
            TopicPartition(info.name, number)
            for info in await admin.list_topics(include_internal=True)
            for number, known in info.partitions.items()
            if known.leader >= 0
        ]

    async def _look_again(self) -> Look:
        every = await self._partitions.get()
        turn = (every + every)[self._next : self._next + min(IN_TURN, len(every))]
        first = islice(sorted(self._open | self._known), IN_TURN)
        looked_at = dict.fromkeys([*first, *turn], int(OffsetSpec.LATEST))
        if not looked_at:
            return Look([], 0, 0, 0)
        admin = await self._admin()
        ends, stable = await asyncio.gather(
            admin.list_offsets(looked_at), admin.list_offsets(looked_at, isolation=IsolationLevel.READ_COMMITTED)
        )
        behind = sorted(tp for tp in looked_at if tp in ends and tp in stable and stable[tp].offset < ends[tp].offset)
        self._known = {*behind, *(self._known - looked_at.keys())}
        self._next = (self._next + len(turn)) % len(every) if every else 0
        self._seen = min(len(every), self._seen + len(turn))
        few = asyncio.Semaphore(_AT_ONCE)

        async def held(tp: TopicPartition) -> Held | None:
            async with few:
                try:
                    producers = (await admin.describe_producers([tp]))[tp]
                except KafkaError:
                    return Held(tp, stable[tp].offset, ends[tp].offset, None, -1)
            starts = [
                (each.current_transaction_start_offset, each.producer_id)
                for each in producers
                if each.current_transaction_start_offset >= 0
            ]
            if not starts:
                return None  # it has ended meanwhile
            start, producer = min(starts)
            return Held(tp, stable[tp].offset, ends[tp].offset, producer, start)

        found = await asyncio.gather(*(held(tp) for tp in behind[:_MOST_HELD]))
        left_out = len(self._known) - min(len(behind), _MOST_HELD)
        return Look([each for each in found if each is not None], left_out, self._seen, len(every))


_of_sessions: WeakKeyDictionary[Session, HeldBack] = WeakKeyDictionary()


def held_back(session: Session) -> HeldBack:
    """What this session has seen so far."""
    if session not in _of_sessions:
        _of_sessions[session] = HeldBack(session.admin)
    return _of_sessions[session]
