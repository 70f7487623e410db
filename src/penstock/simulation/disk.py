"""The disk of a simulated world: appends are there at once, and survive a power cut when they were synced.

It is the engine in memory with the durability of the embedded one: readers see an append before it is on disk, a sync
takes its time and answers everybody who waits, a killed process loses nothing, and a power cut loses a part of what was
not synced, of each log as much as chance decides, by whole batches. What a log remembers besides its batches (producer
state, aborted transactions) is rebuilt from them after every crash, as the embedded engine does.

Files themselves are not simulated: torn and damaged ones, and their recovery, have tests of their own.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.producer_state import ProducerState
from penstock.log.recovery import read_marker
from penstock.records.batch import CONTROL
from penstock.simulation.node import Loss
from penstock.storage.contract import Callback, Log, LogConfig
from penstock.storage.memory import MemoryLog, MemoryStorage

_SYNC_SECONDS = (0.0005, 0.012)


class DiskLog(MemoryLog):
    def __init__(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> None:
        super().__init__(topic, partition, topic_id, config)
        self.durable_end = 0
        """Everything below this offset survives a power cut."""

    @property
    def is_durable(self) -> bool:
        return self.durable_end >= self.log_end_offset

    def undurable_end(self, producer_id: int) -> int | None:
        entry = self._producers.entries.get(producer_id)
        if entry is None or entry.last_data_offset < self.durable_end:
            return None
        return entry.last_data_offset + 1

    def crashed(self, end_offset: int, now_ms: int) -> None:
        """What is left of the log after its process died: the batches below this offset."""
        kept = bisect_left(self._last_offsets, end_offset)
        del self._batches[kept:], self._headers[kept:], self._last_offsets[kept:]
        self.log_end_offset = self.high_watermark = max(end_offset, self.log_start_offset)
        self.on_high_watermark = self.on_leadership = None
        self._producers = ProducerState()
        self._epochs = LeaderEpochs(None)
        self._aborted, self._ended = [], []
        for batch, header in zip(self._batches, self._headers, strict=True):
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
            marker = read_marker(batch) if header.attributes & CONTROL else None
            completed = self._producers.replay(header, marker, now_ms)
            if completed is not None and completed.aborted:
                self._aborted.append(completed.index_entry())

    def possible_ends(self) -> list[int]:
        """Where the log may end after a power cut."""
        first = bisect_left(self._last_offsets, self.durable_end)
        return [self.durable_end, *(last + 1 for last in self._last_offsets[first:])]


class Disk(MemoryStorage):
    """See `contract.Storage`. One process at a time has it; `attach` gives it to the next."""

    can_lose_appends = False

    def __init__(self, chance: random.Random) -> None:
        super().__init__(lambda callback: None)
        self.may_have_lost_writes = False
        self.syncs = 0
        self.on_synced: Callable[[DiskLog], object] | None = None
        """Called with each log that has been synced, before anybody else hears of it."""
        self.is_stalled = False
        """While it is, no sync comes to its end."""
        self._chance = chance
        self._requested: dict[int, DiskLog] = {}
        self._answers: list[tuple[DiskLog, int, Callback]] = []
        self._is_syncing = False

    def attach(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._call_soon = call_soon
        self._call_later = call_later
        self._requested.clear()
        self._answers.clear()
        self._is_syncing = False

    def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> DiskLog:
        stored = self._stored.get((topic, partition))
        if stored is None or stored.topic_id != topic_id:
            stored = self._stored[topic, partition] = DiskLog(topic, partition, topic_id, config)
        assert isinstance(stored, DiskLog)
        stored.update_config(config)
        self._logs[topic, partition] = stored
        return stored

    def logs_of(self, topic: str) -> dict[int, DiskLog]:
        """The logs of a topic by partition, for whoever looks from outside."""
        found = {partition: log for (name, partition), log in sorted(self._stored.items()) if name == topic}
        return {partition: log for partition, log in found.items() if isinstance(log, DiskLog)}

    # -- durability ------------------------------------------------------------------------------------------------

    def when_durable(self, log: Log, position: int, callback: Callback) -> None:
        assert isinstance(log, DiskLog)
        if position <= log.durable_end:
            self._call_soon(partial(callback, None))
            return
        self._answers.append((log, position, callback))
        self.make_durable_soon(log)

    def make_durable_soon(self, log: Log) -> None:
        assert isinstance(log, DiskLog)
        self._requested[id(log)] = log
        self._sync()

    def _sync(self) -> None:
        if self._is_syncing or not self._requested:
            return
        self._is_syncing = True
        ends = [(log, log.log_end_offset) for log in self._requested.values()]
        self._requested.clear()
        self._sync_next(ends)

    def _sync_next(self, ends: list[tuple[DiskLog, int]]) -> None:
        """One log after the other, in any order: a power cut may come between them."""
        seconds = self._chance.uniform(*_SYNC_SECONDS)
        self._call_later(seconds, partial(self._synced, ends.pop(self._chance.randrange(len(ends))), ends))

    def _synced(self, done: tuple[DiskLog, int], ends: list[tuple[DiskLog, int]]) -> None:
        if self.is_stalled:
            self._call_later(_SYNC_SECONDS[1], partial(self._synced, done, ends))
            return
        self.syncs += 1
        log, end = done
        log.durable_end = max(log.durable_end, end)
        if self.on_synced is not None:
            self.on_synced(log)
        if ends:
            self._sync_next(ends)
        else:
            self._round_is_over()

    def _round_is_over(self) -> None:
        self._is_syncing = False
        waiting, self._answers = self._answers, []
        for log, position, callback in waiting:
            if position <= log.durable_end:
                self._call_soon(partial(callback, None))
            else:
                self._answers.append((log, position, callback))
        self._sync()

    def resign(self, log: Log) -> None:
        del self._logs[log.topic, log.partition]

    def lost_writes_settled(self) -> None:
        self.may_have_lost_writes = False

    def close(self) -> None:
        for log in self._logs.values():
            assert isinstance(log, DiskLog)
            log.durable_end = log.log_end_offset
        self._logs.clear()

    # -- crashes ---------------------------------------------------------------------------------------------------

    def process_died(self, now_ms: int) -> None:
        """The operating system keeps what was written."""
        for log in self._crashed():
            log.crashed(log.log_end_offset, now_ms)

    def power_cut(self, now_ms: int) -> list[Loss]:
        """Lose a part of what was not synced. Every log is led under a new epoch afterwards."""
        losses = []
        for log in self._crashed():
            end, before = self._chance.choice(log.possible_ends()), log.log_end_offset
            log.crashed(end, now_ms)
            log.durable_end = log.log_end_offset
            log.leader_epoch += 1
            if end < before:
                losses.append(Loss(log.topic, log.partition, end, before))
        self.may_have_lost_writes = True
        return losses

    def _crashed(self) -> list[DiskLog]:
        self._logs.clear()
        return [log for log in self._stored.values() if isinstance(log, DiskLog)]
