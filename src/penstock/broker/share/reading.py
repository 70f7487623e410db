"""Reads a log for somebody on the event loop who must not wait for the disk.

A read of records that are on disk only raises `NotInMemory`; a thread brings them into memory, and then the reader is
called, so that it tries again. What a thread has read is not probed a second time: the next read of it goes through,
even if memory is so short that the kernel has dropped it again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.broker.cold_reads import when_fetched
from penstock.broker.file_range import FileRange, when_cached
from penstock.broker.world import World
from penstock.storage.contract import ColdRead, FetchSlice, IsolationLevel, Log, SegmentFile


class NotInMemory(Exception):
    """The records are on disk only. Whoever reads is called when it is worth another try."""


class LogReader:
    def __init__(self, partition_log: Log, world: World, when_warm: Callable[[], None]) -> None:
        self._log = partition_log
        self._world = world
        self._when_warm = when_warm
        self._cold: dict[tuple[SegmentFile, int], FileRange] = {}
        """What threads read, or have read for somebody who has not come back yet, by file and position."""
        self._fetching: set[int] = set()
        """Offsets whose place in the log threads look up."""
        self._failure: BaseException | None = None
        """Why a thread could not: whoever reads next is told."""

    def read(self, offset: int, max_bytes: int, isolation: int = IsolationLevel.READ_UNCOMMITTED) -> FetchSlice:
        """Find whole batches from an offset on, which can be read now."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if offset in self._fetching:
            raise NotInMemory
        try:
            found = self._log.read(offset, max_bytes, isolation=isolation)
        except ColdRead as cold:
            self._fetching.add(offset)
            when_fetched(self._world, cold, partial(self._fetched, offset))
            raise NotInMemory from None
        if found.file is not None and not self._is_in_memory(found.file, found):
            raise NotInMemory
        return found

    def _fetched(self, offset: int, failure: BaseException | None) -> None:
        self._fetching.discard(offset)
        self._failure = failure
        self._when_warm()

    def _is_in_memory(self, file: SegmentFile, found: FetchSlice) -> bool:
        place = (file, found.position)
        cold = self._cold.get(place)
        if cold is not None:
            if cold.is_warm:
                del self._cold[place]
            return cold.is_warm
        span = FileRange(file, found.position, found.size)
        if when_cached(self._world, span, self._when_warm):
            return True
        self._cold = {known: other for known, other in self._cold.items() if not other.is_warm}
        self._cold[place] = span
        return False
