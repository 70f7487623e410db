"""Reading a topic's records from a place on: all of them or those that pass a filter, at most so many of them kept.

A search reads whole batches as bytes and decodes those that may hold a hit (`filters`). It hands out events, and holds
neither records that have been handed out nor more than a few megabytes of those to come, however long the topic is. A
search that was interrupted goes on from its `Place`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.client.batches import RecordBatch
from penstock.client.consumer import Consumer
from penstock.client.types import ConsumerRecord, TopicPartition
from penstock.console.filters import Filter
from penstock.records.batch import CorruptBatch
from penstock.records.record import records_section

T = TypeVar("T")
NEVER = 2**63 - 1
_BATCH_RECORDS = 1_000  # decoded between two looks at the event loop
_TURN_SECONDS = 0.02
_REPORT_SECONDS = 0.25
_MOST_ROWS_AT_ONCE = 100
_MOST_BYTES_AT_ONCE = 8 << 20
_MOST_SEARCHES = 100
_MOST_NEWEST = 2_000
_INFLATED = 20  # what a compressed batch may become, for the patterns of a search
_MOST_PLACES = 64  # of one search
_MOST_RANGES = 20_000  # in all places of one search


@dataclass(slots=True)
class Place:
    """Where a search stands: the next offset of each partition and the offset to stop at, and what was found so far."""

    topic: str
    ranges: dict[int, tuple[int, int]]
    scanned: int = 0
    total: int = 0
    hits: int = 0
    firsts: dict[int, int] = field(default_factory=dict)
    """Where the partitions begin, for a search that goes back in time."""

    @property
    def is_endless(self) -> bool:
        return any(end == NEVER for _, end in self.ranges.values())

    def copy(self) -> Place:
        return replace(self, ranges=dict(self.ranges))


class Places:
    """Where searches can go on: of each the last few places that its reader was told, by an id.

    A page that was hidden knows the id of the last event that it received, which need not be the last that was sent.
    The places themselves stay here, because that of a topic with thousands of partitions fits into no address.
    """

    def __init__(self) -> None:
        self._searches: OrderedDict[str, deque[tuple[int, Place]]] = OrderedDict()

    def begin(self) -> str:
        """The name of a new search."""
        name = secrets.token_urlsafe(9)
        self._searches[name] = deque()
        while len(self._searches) > _MOST_SEARCHES:
            self._searches.popitem(last=False)
        return name

    def keep(self, search: str, place: Place) -> str:
        """Remember a place as it is now; returns its id."""
        known = self._searches.setdefault(search, deque())
        if known and known[-1][1] == place:
            return f"{search}.{known[-1][0]}"
        number = known[-1][0] + 1 if known else 0
        known.append((number, place.copy()))
        while len(known) > max(2, min(_MOST_PLACES, _MOST_RANGES // max(len(place.ranges), 1))):
            known.popleft()
        return f"{search}.{number}"

    def find(self, number: str) -> Place | None:
        """The place of an id, for a search that goes on there."""
        search, _, wanted = number.rpartition(".")
        for known, place in self._searches.get(search, ()):
            if str(known) == wanted:
                self._searches.move_to_end(search)
                return place.copy()
        return None


@dataclass(slots=True)
class Found:
    """Hits since the last event, the newest of them if there are too many, and where the search stands."""

    place: Place
    records: list[ConsumerRecord[bytes, bytes]] = field(default_factory=list)
    seconds: float = 0.0


async def search(
    consumer: Consumer[bytes, bytes], place: Place, record_filter: Filter | None, show: int
) -> AsyncIterator[Found]:
    """Hits as they are found, the first `show` of them (of an endless search the newest), and progress four times a
    second. Hits beyond those are counted; without a filter the search ends there."""
    started = reported_at = time.monotonic()
    shown = held = 0
    waiting: deque[ConsumerRecord[bytes, bytes]] = deque(maxlen=_MOST_ROWS_AT_ONCE if place.is_endless else None)
    left = {TopicPartition(place.topic, number): bounds for number, bounds in place.ranges.items()}
    left = {tp: (at, end) for tp, (at, end) in left.items() if at < end}
    consumer.assign(left)
    for tp, (at, _) in left.items():
        consumer.seek(tp, at)
    while left:
        batches = await consumer.poll_batches(_REPORT_SECONDS * 1000, max_records=_BATCH_RECORDS)
        turn, is_idle = time.monotonic(), not batches
        batches.reverse()
        while batches:
            batch = (
                batches.pop()
            )  # which holds its records once they are decoded: it goes when they have been looked at
            tp = batch.topic_partition
            if tp not in left:
                continue
            at, end = left[tp]
            hits, position = await _find(batch, end, record_filter), batch.next_offset
            if not place.is_endless and len(hits) > show - shown:
                taken = hits[: show - shown]
                if record_filter is None:
                    hits, position = taken, taken[-1].offset + 1 if taken else at
            else:
                taken = hits
            place.hits += len(hits)
            waiting.extend(taken)
            held += sum(len(record.value or b"") for record in taken)
            shown += len(taken)
            _advance(consumer, place, left, tp, position)
            if held >= _MOST_BYTES_AT_ONCE and left:
                del batch, hits, taken
                yield Found(place, list(waiting), time.monotonic() - started)
                waiting.clear()
                held = 0
            if time.monotonic() - turn > _TURN_SECONDS:
                await asyncio.sleep(0)
                turn = time.monotonic()
        if is_idle:
            for tp in list(left):
                _advance(consumer, place, left, tp, await consumer.position(tp))
        now = time.monotonic()
        is_over = not left or (record_filter is None and shown >= show and not place.is_endless)
        is_first = bool(waiting) and shown == len(waiting)
        if is_over or is_first or len(waiting) >= _MOST_ROWS_AT_ONCE or now - reported_at >= _REPORT_SECONDS:
            reported_at, held = now, 0
            yield Found(place, list(waiting), now - started)
            waiting.clear()
        if is_over:
            return
        await asyncio.sleep(0)


async def _find(batch: RecordBatch, end: int, record_filter: Filter | None) -> list[ConsumerRecord[bytes, bytes]]:
    """The same as `find`, in a thread where the patterns of the filter may take long."""
    clock = record_filter.clock if record_filter is not None else None
    size = len(batch.raw) * (_INFLATED if batch.header.is_compressed else 1)
    if clock is not None and clock.is_dear(size):
        return await asyncio.to_thread(find, batch, end, record_filter)
    return find(batch, end, record_filter)


def find(batch: RecordBatch, end: int, record_filter: Filter | None) -> list[ConsumerRecord[bytes, bytes]]:
    """The records of a batch before `end` that pass."""
    try:
        if record_filter is None:
            return [record for record in batch.records if record.offset < end]
        if record_filter.clock is not None:
            record_filter.clock.begin()
        if record_filter.screen is not None and not record_filter.screen(records_section(batch.raw, 0, batch.header)):
            return []
        return [record for record in batch.records if record.offset < end and record_filter.passes(record)]
    except CorruptBatch as error:
        raise ValueError(
            f"The batch at {batch.topic_partition} offset {batch.header.base_offset} cannot be read: {error}"
        ) from None


def _advance(
    consumer: Consumer[bytes, bytes],
    place: Place,
    left: dict[TopicPartition, tuple[int, int]],
    tp: TopicPartition,
    position: int,
) -> None:
    at, end = left[tp]
    if position <= at:
        return
    reached = min(position, end)
    place.scanned += reached - at
    place.ranges[tp.partition] = left[tp] = (reached, end)
    if reached >= end:
        del left[tp]
        del place.ranges[tp.partition]
        consumer.pause(tp)


async def newest(
    consumer: Consumer[bytes, bytes], place: Place, limit: int, keep: Callable[[ConsumerRecord[bytes, bytes]], T]
) -> list[T]:
    """The newest records of a place that holds few, the newest first. Afterwards the place holds those before them.

    Each is kept as what `keep` makes of it: whole, fifty records may be gigabytes.
    """
    found: list[tuple[int, int, int, T]] = []
    before, ends = place.hits, {number: end for number, (_, end) in place.ranges.items()}
    async for event in search(consumer, place, None, show=NEVER):
        found += [(each.timestamp, each.offset, each.partition, keep(each)) for each in event.records]
        found.sort(key=lambda each: each[:3], reverse=True)
        del found[limit:]
    for _, offset, partition, _ in found:
        ends[partition] = min(offset, ends[partition])
    place.hits = before + len(found)
    place.ranges = few_before(place.firsts, ends, limit)
    return [kept for *_, kept in found]


def few_before(first: Mapping[int, int], end: Mapping[int, int], limit: int) -> dict[int, tuple[int, int]]:
    """The last offsets before an end, `limit` of each partition, or fewer where there are many partitions."""
    each = max(1, min(limit, _MOST_NEWEST // max(len(end), 1)))
    ranges = {number: (max(first.get(number, 0), last - each), last) for number, last in end.items()}
    return {number: (at, last) for number, (at, last) in ranges.items() if at < last}


def ranges_of(
    first: Mapping[int, int], end: Mapping[int, int], at: Mapping[int, int] | int, *, endless: bool = False
) -> dict[int, tuple[int, int]]:
    """What to read of each partition: from `at`, kept between its first and its end offset."""
    found = {}
    for number, last in end.items():
        start = at if isinstance(at, int) else at.get(number, last)
        found[number] = (min(max(start, first.get(number, 0)), last), NEVER if endless else last)
    return found
