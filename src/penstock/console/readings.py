"""What the pages read of a cluster, gathered in few requests and kept for a moment.

Several tabs look at the same numbers, so a reading is shared by everybody who wants it within a second of it being
taken. Rates are the difference between two readings.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from penstock.client.admin import Admin
from penstock.client.metadata import TopicInfo
from penstock.client.types import OffsetSpec, TopicPartition
from penstock.wire.errors import KafkaError

T = TypeVar("T")
_FRESH_SECONDS = 1.0
_RATE_SECONDS = 10.0  # that a rate looks back over
_SHORTEST_SECONDS = 1.5  # over which a rate means anything
_APART_SECONDS = 1.0
_FORGOTTEN_SECONDS = 60.0


class Cached(Generic[T]):
    """A reading that is taken at most once a second, however many ask."""

    def __init__(self, read: Callable[[], Awaitable[T]], fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._read = read
        self._fresh_seconds = fresh_seconds
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._at = float("-inf")

    async def get(self) -> T:
        async with self._lock:
            if self._value is None or time.monotonic() - self._at > self._fresh_seconds:
                self._value = await self._read()
                self._at = time.monotonic()
            return self._value

    def forget(self) -> None:
        """Read anew next time: something was changed."""
        self._at = float("-inf")


@dataclass(slots=True)
class Offsets:
    """First and end offsets of partitions; those that could not be read are left out."""

    first: dict[TopicPartition, int] = field(default_factory=dict)
    end: dict[TopicPartition, int] = field(default_factory=dict)

    def records(self, tp: TopicPartition) -> int:
        if tp not in self.first or tp not in self.end:
            return -1
        return self.end[tp] - self.first[tp]


async def read_offsets(admin: Admin, topics: list[TopicInfo]) -> Offsets:
    """The offsets of all partitions that have a leader."""
    led = [
        TopicPartition(topic.name, number)
        for topic in topics
        for number, info in topic.partitions.items()
        if info.leader >= 0
    ]
    if not led:
        return Offsets()
    first, end = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.EARLIEST))),
        admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.LATEST))),
    )
    return Offsets({tp: o.offset for tp, o in first.items()}, {tp: o.offset for tp, o in end.items()})


async def read_sizes(admin: Admin) -> dict[TopicPartition, int] | None:
    """Bytes of every partition; None where this user may not see them."""
    try:
        folders = await admin.describe_log_dirs()
    except KafkaError:
        return None
    sizes: dict[TopicPartition, int] = {}
    for folder in folders:
        for tp, size in folder.sizes.items():
            sizes[tp] = max(size, sizes.get(tp, 0))  # replicas hold the same records
    return sizes


async def read_both(admin: Admin, topics: list[TopicInfo]) -> tuple[Offsets, dict[TopicPartition, int] | None]:
    """Offsets and sizes at once: with thousands of partitions either takes a while."""
    return await asyncio.gather(read_offsets(admin, topics), read_sizes(admin))


def topic_rates(rates: Rates, offsets: Offsets) -> dict[str, float]:
    """Records per second by topic, from end offsets."""
    ends: dict[str, list[int]] = {}
    for tp, end in offsets.end.items():
        ends.setdefault(tp.topic, []).append(end)
    # A partition that is created, or has no leader for a moment, begins another count.
    counters = {f"topic {topic}/{len(each)}": float(sum(each)) for topic, each in ends.items()}
    found = rates.update(counters)
    return {topic: found[name] for topic, each in ends.items() if (name := f"topic {topic}/{len(each)}") in found}


class Rates:
    """Rates of counters that are read now and then, by several pages at once.

    A rate is over the last seconds, so that it does not jump with each reading. A counter that nobody has read for a
    minute is forgotten; until then a page that reads other counters takes nothing away from it.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._readings: dict[str, deque[tuple[float, float]]] = {}
        self._swept = 0.0

    def update(self, counters: Mapping[str, float], *, may_fall: bool = False) -> dict[str, float]:
        """Rates per second for those counters that were read before. What falls has begun anew, unless it may fall."""
        now = self._now()
        rates: dict[str, float] = {}
        for name, value in counters.items():
            readings = self._readings.setdefault(name, deque())
            while len(readings) > 1 and now - readings[1][0] >= _RATE_SECONDS:
                readings.popleft()
            if readings and now - readings[0][0] >= _SHORTEST_SECONDS:
                began, before = readings[0]
                rate = (value - before) / (now - began)
                rates[name] = rate if may_fall else max(0.0, rate)
            if not readings or now - readings[-1][0] >= _APART_SECONDS:
                readings.append((now, value))
        self._sweep(now)
        return rates

    def _sweep(self, now: float) -> None:
        if now - self._swept < _FORGOTTEN_SECONDS / 4:
            return
        self._swept = now
        self._readings = {
            name: readings for name, readings in self._readings.items() if now - readings[-1][0] < _FORGOTTEN_SECONDS
        }
