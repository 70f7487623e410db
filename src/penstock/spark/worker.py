"""One worker of a share group, as it runs inside a Spark task: a share consumer, some handlers at a time, counters.

Everything that matters about a record is the share group's business: who has it, for how long, how often it was tried.
So a worker keeps nothing. If its process is killed, the broker sees the connection go, gives the records it held to
others, and Spark starts the task anew.

"Until empty" means that the group has no lag: every record is done or given up, including those that other workers
hold just now, because a worker that holds one may yet die. A worker that finds nothing for a while asks for the lag;
where the broker cannot tell it (before Kafka 4.3), it ends after a longer silence.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial

from penstock.client.admin import Admin
from penstock.client.security import SecurityConfig
from penstock.client.share_consumer import Reject, ShareConsumer
from penstock.client.types import ConsumerRecord, OffsetSpec, TopicPartition
from penstock.spark.control import Attempt, ControlAddress, Counters, Line
from penstock.spark.security import NO_SECURITY
from penstock.wire.errors import GroupIdNotFound, KafkaError

Record = ConsumerRecord[bytes, bytes]
Handler = Callable[[Record], Awaitable[object] | object]

_TICK_S = 0.25
_REPORT_EVERY_S = 0.5
_SILENCE_WITHOUT_LAG_S = 5.0
_LONGEST_HANDLER_MS = 24 * 3_600_000  # locks are renewed meanwhile, so a slow handler is no reason to be put out


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every task of a job is told."""

    bootstrap_servers: str
    topics: tuple[str, ...]
    group: str
    concurrency: int
    until_empty: bool
    ends_at: float | None = None  # seconds since 1970; the same for a task that is started anew
    idle_ms: int = 500
    control: ControlAddress | None = None
    security: SecurityConfig = NO_SECURITY
    tracing: bool = False


async def run_worker(job: Job, handler: Handler, attempt: Attempt) -> Counters:
    """Take records until the job ends; returns what was done."""
    stop = asyncio.Event()
    line = Line(stop)
    if job.control is not None:
        await line.connect(job.control, attempt)
    with ThreadPoolExecutor(job.concurrency, "penstock-worker") as pool:
        counted = _Counted(handler, pool)
        try:
            await _call(handler, "open")
            if job.tracing:
                from penstock.client.tracing import export_spans

                export_spans("penstock-work")  # unless the handler has set a provider
            async with ShareConsumer(
                job.security.given(),
                bootstrap_servers=job.bootstrap_servers,
                client_id=f"penstock-work-{attempt.task}",
                group_id=job.group,
                share_acknowledgement_mode="explicit",
                max_poll_interval_ms=_LONGEST_HANDLER_MS,
                enable_tracing=job.tracing,
            ) as consumer:
                consumer.subscribe(job.topics)
                consumer.set_acknowledgement_commit_callback(counted.answered)
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(_watch(job, counted, line, stop))
                    await consumer.run(counted, concurrency=job.concurrency, stop=stop)
                    watching.cancel()
        finally:
            await _call(handler, "close")
            if job.tracing:
                from penstock.client.tracing import flush_spans

                await asyncio.to_thread(flush_spans)
            line.tell(counted.counters)
            await line.close()
    return counted.counters


class _Counted:
    """Calls the handler, in a thread unless it is a coroutine function, and counts how it ended."""

    def __init__(self, handler: Handler, pool: ThreadPoolExecutor) -> None:
        self.counters = Counters()
        self.running = 0
        self.last_end = time.monotonic()
        self._handler = handler
        self._pool = pool
        call = getattr(handler, "__call__", handler)  # noqa: B004 - an object whose __call__ is a coroutine function
        self._is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)

    async def __call__(self, record: Record) -> None:
        self.running += 1
        self.counters.redelivered += record.delivery_count > 1
        try:
            if self._is_async:
                result = self._handler(record)
            else:
                call = partial(copy_context().run, self._handler, record)  # which span the record's is
                result = await asyncio.get_running_loop().run_in_executor(self._pool, call)
            if inspect.isawaitable(result):
                await result
            self.counters.accepted += 1
        except Reject:
            self.counters.rejected += 1
            raise
        except BaseException:
            self.counters.released += 1
            raise
        finally:
            self.running -= 1
            self.last_end = time.monotonic()

    def answered(self, offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
        if error is not None:
            self.counters.unconfirmed += sum(len(each) for each in offsets.values())

    def idle_s(self) -> float:
        return 0.0 if self.running else time.monotonic() - self.last_end


async def _watch(job: Job, counted: _Counted, line: Line, stop: asyncio.Event) -> None:
    """Ends the worker when its time is over or nothing is left, and tells the driver how it goes."""
    reported_at = time.monotonic()
    reached = {"bootstrap_servers": job.bootstrap_servers, **job.security.given()}
    async with Admin(reached, client_id="penstock-work") as admin:
        while not stop.is_set():
            await asyncio.sleep(_TICK_S)
            if time.monotonic() - reported_at >= _REPORT_EVERY_S:
                line.tell(counted.counters)
                reported_at = time.monotonic()
            over = job.ends_at is not None and time.time() >= job.ends_at
            if over or (job.until_empty and await _is_empty(admin, job, counted.idle_s())):
                stop.set()


async def _is_empty(admin: Admin, job: Job, idle_s: float) -> bool:
    if idle_s * 1000 < job.idle_ms:
        return False
    try:
        lag = await group_lag(admin, job.group, job.topics)
    except KafkaError as error:
        if not error.retriable:
            raise
        return False
    return lag == 0 or (lag is None and idle_s >= _SILENCE_WITHOUT_LAG_S)


async def group_lag(admin: Admin, group: str, topics: tuple[str, ...]) -> int | None:
    """How many records of these topics a share group has not done yet; None when the broker cannot tell."""
    wanted = [
        TopicPartition(topic, number)
        for topic in topics
        for number in sorted((await admin.describe_topic(topic)).partitions)
    ]
    try:
        offsets = await admin.list_share_group_offsets(group, wanted)
    except GroupIdNotFound:
        return None
    untouched = [tp for tp in wanted if tp not in offsets or offsets[tp].lag < 0]
    if untouched:
        # A group starts in a partition with the first record it takes there; in an empty one it may never start.
        first = await admin.list_offsets(dict.fromkeys(untouched, OffsetSpec.EARLIEST))
        last = await admin.list_offsets(dict.fromkeys(untouched, OffsetSpec.LATEST))
        if any(first[tp].offset < last[tp].offset for tp in untouched):
            return None
    return sum(offsets[tp].lag for tp in wanted if tp not in untouched)


async def _call(handler: Handler, name: str) -> None:
    """Call the handler's `open` or `close`, if it has one: once per task, for what its records share."""
    method = getattr(handler, name, None)
    if callable(method):
        result = method()
        if inspect.isawaitable(result):
            await result
