"""One topic of the mirror: prepared at the target, then a `PartitionCopy` for each partition.

A topic that the target does not have is created. Where a partition's records begin above offset 0, the target's
partition is moved there first: records without key and value take the offsets and are deleted at once
(DeleteRecords), under a note that says so, and before the topic has its configs, so that neither its size limits nor
its cleanup policy matter. A topic that the target has already must be a copy as far as it goes; `PartitionCopy` checks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.client.types import OffsetSpec, TopicPartition
from penstock.mirror.configs import TopicConfigs
from penstock.mirror.copying import PartitionCopy, Progress, StartMoved
from penstock.mirror.failures import TopicStopped, Unsettled
from penstock.mirror.notes import Note
from penstock.mirror.pieces import empty
from penstock.mirror.source import first_offsets, recreated
from penstock.mirror.writer import Writer
from penstock.records.codecs import Codec
from penstock.wire.errors import KafkaError, TopicAlreadyExists

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.metadata import TopicInfo
    from penstock.mirror.bulk import Bulk
    from penstock.mirror.filling import Filler
    from penstock.mirror.lease import Lease
    from penstock.mirror.source import Source

_EMPTY_AT_ONCE = 50_000
_RETRY_S = 1.0


@dataclass(slots=True)
class Parts:
    """What all topics of a mirror share."""

    from_: Admin
    to: Admin
    source: Source
    lease: Lease
    filler: Filler
    producer_id: int
    producer_epoch: int
    notes: dict[TopicPartition, Note]
    bulk: Bulk | None = None
    """Tasks that copy first, if there are any."""
    holds_configs: bool = True
    """Whether some configs are held at other values (`configs.HELD`); no longer after the cut-over."""
    busy: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(32))
    """How many partitions may begin at a time."""


class TopicMirror:
    def __init__(self, parts: Parts, info: TopicInfo) -> None:
        self.name = info.name
        self.topic_id = info.topic_id
        self.configs = TopicConfigs(parts.from_, parts.to, info.name)
        self.partitions: dict[int, PartitionCopy] = {}
        self.problem: str | None = None
        """Why this topic has stopped."""
        self.is_prepared = False
        self._parts = parts
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def progress(self) -> dict[TopicPartition, Progress]:
        return {copy.tp: copy.progress for copy in self.partitions.values()}

    async def update(self, info: TopicInfo) -> None:
        """Bring the target's topic to what the source's is now, and begin to copy partitions that are new."""
        if self.problem is not None:
            return
        try:
            if info.topic_id != self.topic_id:
                raise recreated(self.name)
            await self._prepare(info)
        except TopicStopped as stop:
            await self.stop(str(stop))
        except KafkaError as error:
            if not error.retriable:
                await self.stop(f"the topic {self.name} cannot be mirrored: {error}")

    async def stop(self, problem: str | None = None) -> None:
        """End all copying; with a problem, for good."""
        self.problem = problem or self.problem
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for copy in self.partitions.values():
            self._parts.source.shut(copy.tp)

    def settled(self, offset_of: Mapping[TopicPartition, int]) -> bool:
        """Whether each partition is acknowledged up to an offset."""
        return all(
            tp.partition in self.partitions and self.partitions[tp.partition].progress.end >= offset
            for tp, offset in offset_of.items()
        )

    # Preparing

    async def _prepare(self, info: TopicInfo) -> None:
        numbers = sorted(info.partitions)
        await self._at_target(len(numbers))
        new = [number for number in numbers if number not in self.partitions]
        if new:
            tps = [TopicPartition(self.name, number) for number in new]
            for tp in tps:
                await self._check_note(tp)
            await self._note(tps)
            for tp in tps:
                await self._move_start(tp)
        await self.configs.copy(is_held=self._parts.holds_configs)
        for number in new:
            self._begin(TopicPartition(self.name, number))
        self.is_prepared = True

    async def _at_target(self, count: int) -> None:
        """See that the target's topic is there, with as many partitions."""
        to = self._parts.to
        await to.cluster.refresh_all()
        info = to.cluster.metadata.topics.get(self.name)
        if info is None:
            with contextlib.suppress(TopicAlreadyExists):
                await to.create_topic(self.name, count)
            await to.cluster.topic(self.name)
            to.cluster.want([self.name])
            return
        to.cluster.want([self.name])
        if len(info.partitions) > count:
            raise TopicStopped(
                f"the topic {self.name} has {len(info.partitions)} partitions at the target, and {count} at the "
                "source. Delete it at the target, or exclude it"
            )
        if len(info.partitions) < count:
            outcome = await to.create_partitions({self.name: count})
            if (error := outcome.get(self.name)) is not None:
                raise error
            while to.cluster.metadata.partition_count(self.name) < count:
                await to.cluster.refresh([self.name])

    async def _check_note(self, tp: TopicPartition) -> None:
        note = self._parts.notes.get(tp)
        if note is not None and note.topic_id != self.topic_id.hex():
            latest = await self._parts.to.list_offsets({tp: OffsetSpec.LATEST})
            if latest[tp].offset > 0:
                raise recreated(self.name)
            del self._parts.notes[tp]

    async def _note(self, tps: list[TopicPartition]) -> None:
        """Say whose batches these partitions will hold, and where those that are empty will begin."""
        parts = self._parts
        latest = await parts.to.list_offsets(dict.fromkeys(tps, OffsetSpec.LATEST))
        starts = await first_offsets(parts.from_, tps, self.topic_id)
        missing: dict[TopicPartition, Note] = {}
        for tp in tps:
            note = parts.notes.get(tp)
            moves = latest[tp].offset == 0 < starts[tp]
            if note is None:
                note = Note(self.topic_id.hex(), parts.producer_id, parts.producer_epoch)
            elif not moves or note.filling_to >= 0:
                continue
            missing[tp] = replace(note, filling_to=starts[tp]) if moves else note
        if missing:
            await self._commit({tp: (note, latest[tp].offset) for tp, note in missing.items()})

    async def _commit(self, notes: Mapping[TopicPartition, tuple[Note, int]]) -> None:
        lease = self._parts.lease
        while True:
            with contextlib.suppress(Unsettled):
                await lease.commit({lease.name: {tp: note.commit(offset) for tp, (note, offset) in notes.items()}})
                break
        self._parts.notes.update({tp: note for tp, (note, _) in notes.items()})

    async def _move_start(self, tp: TopicPartition) -> None:
        """Give a partition its new log start offset, if its note names one. No record before it is kept."""
        parts = self._parts
        note = parts.notes[tp]
        start = note.filling_to
        if start < 0:
            return
        writer = Writer(parts.to, tp, note.producer_id, note.producer_epoch)
        try:
            while True:
                try:
                    await writer.look()
                    while writer.planned < start:
                        count = min(start - writer.planned, _EMPTY_AT_ONCE)
                        await writer.send(empty(writer.planned, count, 0, Codec.GZIP))
                        await asyncio.sleep(0)
                    await writer.flush()
                    break
                except Unsettled:
                    await asyncio.sleep(_RETRY_S / 10)
        finally:
            await writer.drop()
        await parts.to.delete_records({tp: start})
        await self._commit({tp: (replace(note, filling_to=-1), start)})

    def _begin(self, tp: TopicPartition) -> None:
        parts = self._parts
        note = parts.notes[tp]
        copy = PartitionCopy(
            parts.to,
            parts.source.open(tp, self.topic_id),
            Writer(parts.to, tp, note.producer_id, note.producer_epoch),
            parts.filler,
            self.configs,
        )
        self.partitions[tp.partition] = copy
        task = asyncio.create_task(self._run(copy), name=f"penstock-mirror-{tp}")
        self._tasks.append(task)

    async def _run(self, copy: PartitionCopy) -> None:
        tp = copy.tp
        try:
            if self._parts.bulk is not None:
                await self._parts.bulk.wait()
            while True:
                try:
                    await copy.run(self._parts.busy)
                except StartMoved as moved:
                    await self._commit({tp: (replace(self._parts.notes[tp], filling_to=moved.start), moved.end)})
                    await self._move_start(tp)
        except TopicStopped as stop:
            await self.stop(str(stop))
