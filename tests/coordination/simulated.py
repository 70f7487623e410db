"""Time, tasks and an internal topic in memory: a coordinator runtime without an event loop and without a disk."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial

from penstock.records.batch import iter_headers
from penstock.wire.errors import KafkaError, KafkaStorageError, NotLeaderOrFollower


@dataclass(order=True)
class Timer:
    at_ms: float
    number: int
    callback: Callable[[], object] = field(compare=False)
    is_cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.is_cancelled = True


class Task:
    def __init__(self, work: Coroutine[object, None, None]) -> None:
        self._work = work
        self.is_done = False

    def cancel(self) -> bool:
        self._work.close()
        self.is_done = True
        return True

    def step(self) -> None:
        try:
            self._work.send(None)
        except StopIteration:
            self.is_done = True


class SimulatedTime:
    """Timers fire and tasks go on when the test says so."""

    def __init__(self) -> None:
        self._now_ms = 1_000_000.0
        self._numbers = itertools.count()
        self._timers: list[Timer] = []
        self._tasks: list[Task] = []
        self.timers_set = 0

    def now_ms(self) -> int:
        return int(self._now_ms)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> Timer:
        self.timers_set += 1
        timer = Timer(self._now_ms + seconds * 1000, next(self._numbers), partial(callback, *args))
        heapq.heappush(self._timers, timer)
        return timer

    def call_soon(self, callback: Callable[..., object], *args: object) -> Timer:
        return self.call_later(0, callback, *args)

    def new_id(self) -> bytes:
        return next(self._numbers).to_bytes(16, "big")

    def spawn(self, work: Coroutine[object, None, None]) -> Task:
        task = Task(work)
        self._tasks.append(task)
        return task

    def pass_ms(self, ms: int) -> None:
        end_ms = self._now_ms + ms
        while self._timers and self._timers[0].at_ms <= end_ms:
            timer = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                self._now_ms = max(self._now_ms, timer.at_ms)
                timer.callback()
        self._now_ms = end_ms

    def run_tasks(self) -> None:
        for task in self._tasks:
            while not task.is_done:
                task.step()
        self._tasks.clear()


class SimulatedLog:
    """A partition of an internal topic. What is appended is durable when the test calls `sync`."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.batches: list[bytes] = []
        self.failure: KafkaError | None = None
        self.syncs_at_once = True
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.durable_offset = 0
        self.appended_ms = 0
        self.read_bytes_max = 0
        self.is_leader = True
        self.can_lose_appends = False
        self._waits: list[tuple[int, Callable[[Exception | None], None]]] = []

    @property
    def is_durable(self) -> bool:
        return self.durable_offset >= self.log_end_offset

    def append(self, batch: bytearray, now_ms: int) -> int:
        self.appended_ms = now_ms
        if self.failure is not None:
            raise self.failure
        batch[0:8] = self.log_end_offset.to_bytes(8, "big")
        self.batches.append(bytes(batch))
        [(_, header)] = iter_headers(self.batches[-1])
        self.log_end_offset = header.next_offset
        return self.log_end_offset

    async def read(self, offset: int, max_bytes: int) -> bytes:
        assert self.log_start_offset <= offset < self.log_end_offset, "nothing is read beyond the end"
        self.read_bytes_max = max(self.read_bytes_max, max_bytes)
        if self.failure is not None:
            raise self.failure
        for batch in self.batches:
            [(_, header)] = iter_headers(batch)
            if header.next_offset > offset:
                return batch
        return b""

    def when_durable(self, position: int, then: Callable[[Exception | None], None]) -> None:
        assert self.log_start_offset <= position <= self.log_end_offset, "nobody waits for what was not appended"
        self._waits.append((position, then))
        if self.syncs_at_once:
            self.sync()

    def make_durable_soon(self) -> None:
        """Nothing in this log happens by itself."""

    def delete_records(self, offset: int) -> None:
        self.log_start_offset = offset

    def cut(self) -> None:
        """Lose what is not durable."""
        self.batches = [batch for batch in self.batches if _next_offset(batch) <= self.durable_offset]
        self.log_end_offset = self.durable_offset

    def sync(self, failure: Exception | None = None) -> None:
        self.durable_offset = self.log_end_offset
        self.fail(failure)

    def fail(self, failure: Exception | None) -> None:
        """Tell everybody who waits."""
        waits, self._waits = self._waits, []
        for _, then in waits:
            then(failure)


def _next_offset(batch: bytes) -> int:
    [(_, header)] = iter_headers(batch)
    return header.next_offset


class SimulatedTopic:
    name = "__state"

    def __init__(self, partitions: int = 2) -> None:
        self._partitions = partitions
        self.logs: list[SimulatedLog] | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._on_leadership: list[Callable[[int], None]] = []

    def find(self) -> list[SimulatedLog] | None:
        return self.logs

    def create(self) -> list[SimulatedLog]:
        self.logs = [SimulatedLog(index) for index in range(self._partitions)]
        return self.logs

    def delete(self) -> None:
        for callback in self._callbacks:
            callback()
        self.logs = None

    def on_deleted(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def on_leadership(self, callback: Callable[[int], None]) -> None:
        self._on_leadership.append(callback)

    def lose(self, log: SimulatedLog) -> None:
        """Another broker leads from now on, and what is not durable is lost."""
        log.is_leader = False
        log.cut()
        self._leadership_changed(log)
        log.fail(NotLeaderOrFollower())

    def gain(self, log: SimulatedLog) -> None:
        log.is_leader = True
        self._leadership_changed(log)

    def refuse(self, log: SimulatedLog) -> None:
        """What is not durable is lost; this broker goes on leading."""
        log.cut()
        self._leadership_changed(log)
        log.fail(KafkaStorageError("refused"))

    def _leadership_changed(self, log: SimulatedLog) -> None:
        for callback in self._on_leadership:
            callback(log.index)
