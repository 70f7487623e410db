"""Copies one partition, from where the target's ends to wherever the source's goes on to.

Nothing is remembered: the target's log end is the position. Whenever it has been looked up, at the start and after
every error, the last records before it are compared with the source's at the same offsets. That finds a target which is
no copy, and one that somebody else has written to.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.client.cluster import Backoff
from penstock.client.types import OffsetSpec
from penstock.mirror.failures import TopicStopped, Unsettled
from penstock.mirror.pieces import CorruptSource, cut
from penstock.mirror.source import read
from penstock.records.batch import CorruptBatch
from penstock.wire.errors import KafkaError, OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.mirror.source import Chunk, Feed
    from penstock.mirror.writer import Writer
    from penstock.records.record import Record

TAIL = 100
"""Offsets before the end that must hold the same records on both sides."""


MOVES_START = 1_000
"""If the source has deleted more than so many offsets before they were copied, the target's log start moves too."""


class StartMoved(Exception):
    """What the target ends with is gone at the source: begin anew at the source's log start offset."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        self.start = start
        self.end = end


class Fills(Protocol):
    """Moves the end of a partition on by offsets that no reader sees."""

    async def fill(self, writer: Writer, upto: int) -> None: ...


class MayBeCompacted(Protocol):
    """What is known of the topic."""

    @property
    def is_compacted(self) -> bool: ...


@dataclass(slots=True)
class Progress:
    """How far a partition is. `end` is -1 until the target has been looked at."""

    end: int = -1
    source_end: int = -1
    records: int = 0
    bytes: int = 0
    expired: int = 0
    """Offsets whose records the source deleted before they were copied."""
    trouble: str = ""
    """What the last attempt failed with, while it is being repeated."""
    left_to_tasks: int = 0
    """How many offsets the tasks of a bulk copy still have to copy, before the target is looked at."""

    @property
    def lag(self) -> int:
        if self.left_to_tasks:
            return self.left_to_tasks
        return max(self.source_end - self.end, 0) if self.end >= 0 and self.source_end >= 0 else -1


class PartitionCopy:
    """`ends_at` is where a task of a bulk copy stops; the mirror itself goes on for as long as it runs."""

    def __init__(
        self, target: Admin, feed: Feed, writer: Writer, filler: Fills, topic: MayBeCompacted, *, ends_at: int = -1
    ) -> None:
        self.tp = feed.tp
        self.progress = Progress()
        self._target = target
        self._feed = feed
        self._writer = writer
        self._filler = filler
        self._topic = topic
        self._ends_at = ends_at

    @property
    def is_compacted(self) -> bool:
        return self._topic.is_compacted

    @property
    def planned(self) -> int:
        """How far the mirror has written, or is writing; the target has nothing from there on."""
        return max(self._writer.planned, self._writer.reserved)

    async def run(self, busy: asyncio.Semaphore) -> None:
        """Copy until cancelled, or to the end that was given; raises TopicStopped when it cannot go on."""
        backoff = Backoff(self._target.config)
        try:
            while True:
                try:
                    async with busy:
                        await self._writer.look()
                        await self._check_tail()
                    self._feed.seek(self._writer.end)
                    self.progress.end = self._writer.end
                    await self._copy(backoff)
                    return
                except Unsettled as error:
                    self.progress.trouble = str(error)
                    await asyncio.sleep(backoff.next_pause())
                except KafkaError as error:
                    if not error.retriable:
                        raise TopicStopped(f"{self.tp} cannot be mirrored: {error}") from error
                    self.progress.trouble = str(error)
                    await asyncio.sleep(backoff.next_pause())
                except (CorruptSource, CorruptBatch) as error:
                    raise TopicStopped(
                        f"{self.tp} is damaged at the source: {error}. Repair it there (a replica may be whole), or "
                        "exclude the topic"
                    ) from error
        finally:
            await self._writer.drop()

    async def _copy(self, backoff: Backoff) -> None:
        feed, writer, progress = self._feed, self._writer, self.progress
        position = writer.end  # where the source's next batch begins, of all that was taken from the feed
        while True:
            if not feed.chunks or self._is_behind_end(position):
                # Nothing is waiting, so this is the moment to have everything acknowledged and the last gap filled.
                await writer.flush()
                if position > writer.end:
                    await self._filler.fill(writer, position)
                self._reached()
                backoff.reset()
                if self._is_behind_end(position):
                    return
            chunk = await feed.next()
            position = await self._write(chunk, position)
            progress.source_end = max(feed.stable_end, position)
            self._reached()

    def _is_behind_end(self, position: int) -> bool:
        return 0 <= self._ends_at <= position

    async def _write(self, chunk: Chunk, position: int) -> int:
        if chunk.skipped_to >= 0:
            gone = max(chunk.skipped_to - max(position, chunk.position), 0)
            self.progress.expired += gone
            if gone > MOVES_START:
                await self._writer.flush()
                raise StartMoved(chunk.skipped_to, self._writer.end)
            return max(position, chunk.skipped_to)
        pieces, after = cut(chunk.data, position, chunk.aborted, self._ends_at)
        for piece in pieces:
            if piece.first > self._writer.planned:
                await self._filler.fill(self._writer, piece.first)
            await self._writer.send(piece)
            self.progress.records += piece.count
            self.progress.bytes += len(piece.data)
            self._reached()
        return after

    def _reached(self) -> None:
        self.progress.end = self._writer.end
        self.progress.source_end = max(self._feed.stable_end, self.progress.source_end, self._writer.end)
        self.progress.trouble = ""

    async def _check_tail(self) -> None:
        tp, end = self.tp, self._writer.end
        if end == 0:
            return
        source = self._feed.source.admin
        bounds = await source.list_offsets({tp: OffsetSpec.LATEST})
        last = bounds[tp].offset
        if end > last:
            raise TopicStopped(_not_a_copy(f"{tp} ends at offset {end:,} at the target, and at {last:,} at the source"))
        first = (await source.list_offsets({tp: OffsetSpec.EARLIEST}))[tp].offset
        first = max(first, (await self._target.list_offsets({tp: OffsetSpec.EARLIEST}))[tp].offset, end - TAIL)
        if first >= end:
            return
        try:
            theirs, ours = await read(source, tp, first, end), await read(self._target, tp, first, end)
        except OffsetOutOfRange as error:
            raise Unsettled(f"retention has just taken records of {tp}") from error
        different = first_difference(theirs, ours, is_compacted=self.is_compacted)
        if different is not None:
            raise TopicStopped(_not_a_copy(f"{tp} holds something else at offset {different:,} than the source"))


def first_difference(theirs: list[Record], ours: list[Record], *, is_compacted: bool) -> int | None:
    """The first offset at which two sides disagree. Compaction may have taken a record from either of them."""
    if not is_compacted:
        for one, other in zip(theirs, ours, strict=False):
            if one != other:
                return min(one.offset, other.offset)
        shorter, longer = sorted((theirs, ours), key=len)
        return longer[len(shorter)].offset if len(shorter) < len(longer) else None
    known = {record.offset: record for record in theirs}
    for record in ours:
        if known.get(record.offset, record) != record:
            return record.offset
    return None


def _not_a_copy(what: str) -> str:
    return (
        f"{what}: the target is no copy, or somebody else has written to it. Delete the topic at the target to have it "
        "copied again, or exclude it"
    )
