"""Copies what a partition is behind by in many tasks at once, before the mirror itself goes on.

One process copies at the speed of one core. So partitions that are far behind are first shared out among tasks, which
Spark runs on as many cores and machines as it has. The mirror prepares topics, notes and configs as always and holds
the lease; a task writes with the mirror's producer id. Its appends are conditional like all that a mirror writes (see
`writer`), so a task that is started twice, or that outlives its mirror for a moment, doubles nothing. It writes nothing
from the offset on at which the partition ended when the tasks began.

A task holds no lease, so it cannot fill gaps: it gives a partition back at the first one. Whatever else goes wrong is
left to the mirror too, which looks at each partition when the tasks have ended, compares its last records, and copies
the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.client.admin import Admin
from penstock.client.types import IsolationLevel, OffsetSpec, TopicPartition
from penstock.mirror.copying import PartitionCopy, StartMoved
from penstock.mirror.failures import TopicStopped
from penstock.mirror.source import Source
from penstock.mirror.writer import Writer
from penstock.wire.errors import KafkaError

if TYPE_CHECKING:
    from penstock.mirror.notes import Note

WORTH_A_TASK = 10_000
"""A partition that is fewer offsets behind is left to the mirror."""
_AT_ONCE = 16
"""How many of its partitions a task copies at a time."""
_LOOK_EVERY_S = 1.0

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Part:
    """A partition and how far it is to be copied."""

    topic: str
    partition: int
    topic_id: bytes
    producer_id: int
    producer_epoch: int
    is_compacted: bool
    begins_at: int
    ends_at: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def offsets(self) -> int:
        return self.ends_at - self.begins_at


@dataclass(frozen=True, slots=True)
class Copied:
    """What a task wrote into a partition."""

    tp: TopicPartition
    records: int
    bytes: int


Spread = Callable[[Settings, Settings, Sequence[Part]], Awaitable[list[Copied]]]
"""Runs `copy_parts` for each of the `shares` of the parts, somewhere else, and returns what all of them did."""


class Bulk:
    """The driver's side: chooses the parts, has them copied, and lets the mirror go on."""

    def __init__(self, from_: Settings, to: Settings, spread: Spread) -> None:
        self.failure = ""
        """Why the tasks did not finish, if they did not; the mirror copies what is left."""
        self.copied: list[Copied] = []
        self._from = from_
        self._to = to
        self._spread = spread
        self._done = asyncio.Event()

    async def wait(self) -> None:
        """Return once no task writes to the target any more."""
        await self._done.wait()

    async def run(
        self,
        from_: Admin,
        to: Admin,
        copies: Iterable[tuple[PartitionCopy, bytes]],
        notes: Mapping[TopicPartition, Note],
    ) -> None:
        """Copy what is there now of all partitions that are far behind."""
        waiting = {copy.tp: (copy, topic_id) for copy, topic_id in copies}
        try:
            parts = await choose(from_, to, waiting, notes)
            if parts:
                await self._copy(to, parts, {tp: copy for tp, (copy, _) in waiting.items()})
        except KafkaError as error:
            self.failure = f"no tasks were started ({error}): the mirror copies everything itself"
        finally:
            for copy, _ in waiting.values():
                copy.progress.left_to_tasks = 0
            self._done.set()

    async def _copy(self, to: Admin, parts: list[Part], copies: Mapping[TopicPartition, PartitionCopy]) -> None:
        work = asyncio.ensure_future(self._spread(self._from, self._to, parts))
        try:
            while not work.done():
                with contextlib.suppress(KafkaError):
                    ends = await to.list_offsets({part.tp: OffsetSpec.LATEST for part in parts})
                    for part in parts:
                        progress = copies[part.tp].progress
                        progress.left_to_tasks = max(part.ends_at - ends[part.tp].offset, 0)
                        progress.records = max(ends[part.tp].offset - part.begins_at, 0)
                await asyncio.wait({work}, timeout=_LOOK_EVERY_S)
        finally:
            work.cancel()
        try:
            self.copied = await work
        except Exception as error:
            self.failure = f"the tasks did not finish ({error}): what they have left is copied by the mirror itself"
        for part in parts:
            copies[part.tp].progress.records = 0
        for done in self.copied:
            copies[done.tp].progress.records = done.records
            copies[done.tp].progress.bytes = done.bytes


async def choose(
    from_: Admin,
    to: Admin,
    copies: Mapping[TopicPartition, tuple[PartitionCopy, bytes]],
    notes: Mapping[TopicPartition, Note],
) -> list[Part]:
    """The partitions that are worth a task."""
    latest = dict.fromkeys(copies, OffsetSpec.LATEST)
    if not latest:
        return []
    theirs = await from_.list_offsets(latest, isolation=IsolationLevel.READ_COMMITTED)
    ours = await to.list_offsets(latest)
    parts = [
        Part(
            tp.topic,
            tp.partition,
            topic_id,
            notes[tp].producer_id,
            notes[tp].producer_epoch,
            copy.is_compacted,
            ours[tp].offset,
            theirs[tp].offset,
        )
        for tp, (copy, topic_id) in copies.items()
    ]
    return [part for part in parts if part.offsets >= WORTH_A_TASK]


def shares(parts: Iterable[Part], tasks: int) -> list[list[Part]]:
    """The parts in at most so many shares of about the same number of offsets; the largest part of each comes first."""
    found: list[list[Part]] = [[] for _ in range(max(tasks, 1))]
    lightest = [(0, at) for at in range(len(found))]
    for part in sorted(parts, key=lambda each: each.offsets, reverse=True):
        weight, at = heapq.heappop(lightest)
        found[at].append(part)
        heapq.heappush(lightest, (weight + part.offsets, at))
    return [share for share in found if share]


# In a task


def copy_parts(from_: Settings, to: Settings, parts: Sequence[Part]) -> list[Copied]:
    """Copy a share. Returns when each of its parts is copied, or cannot be copied without the mirror."""
    return asyncio.run(_copy_parts(from_, to, parts))


async def _copy_parts(from_: Settings, to: Settings, parts: Sequence[Part]) -> list[Copied]:
    async with Admin(from_) as source, Admin(to) as target:
        topics = {part.topic for part in parts}
        for admin in (source, target):
            admin.cluster.want(topics)
            await admin.cluster.retrying(admin.cluster.refresh)
        reader = Source(source)
        reading = asyncio.create_task(reader.run())
        busy = asyncio.Semaphore(_AT_ONCE)
        work = asyncio.gather(*(_copy_part(target, reader, part, busy) for part in parts))
        either: set[asyncio.Future[Any]] = {reading, work}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            return await work
        finally:
            for each in (reading, work):
                each.cancel()
            await asyncio.gather(reading, work, return_exceptions=True)


async def _copy_part(target: Admin, reader: Source, part: Part, busy: asyncio.Semaphore) -> Copied:
    async with busy:
        copy = PartitionCopy(
            target,
            reader.open(part.tp, part.topic_id),
            Writer(target, part.tp, part.producer_id, part.producer_epoch),
            _NoFilling(),
            part,
            ends_at=part.ends_at,
        )
        try:
            with contextlib.suppress(_GapMet, StartMoved, TopicStopped):
                await copy.run(asyncio.Semaphore())
        finally:
            reader.shut(part.tp)
        return Copied(part.tp, copy.progress.records, copy.progress.bytes)


class _GapMet(Exception):
    pass


class _NoFilling:
    async def fill(self, writer: Writer, upto: int) -> None:
        await writer.flush()
        raise _GapMet
