"""Queues on Spark: workers of a share group as long-running Spark tasks.

    from penstock.spark import work

    summary = work("images", "resize", resize, parallelism=64)

Spark gives slots, retries, and the environment on many machines; the share group hands each record to one worker at a
time, redelivers what was not done, and counts attempts. There may be many more workers than partitions.

`parallelism` is how many handlers run at once, over all. They are spread over as many tasks as Spark has slots, each a
share consumer of its own; a task runs its share of them side by side, in threads or as coroutines.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.admin import Admin, ResourceType
from penstock.client.config import DEFAULT_BOOTSTRAP
from penstock.client.errors import UsageError
from penstock.spark.control import Attempt, Control, Counters
from penstock.spark.security import security_of
from penstock.spark.worker import Handler, Job, group_lag, run_worker

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# A worker process that dies fails its task. Spark's local mode gives up at the first failure unless told otherwise.
LOCAL_MASTER = "local[*,4]"

_RESULT = "task INT, attempt INT, counters STRING"
_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class WorkSummary:
    """What all workers of a `work` call did together; `str` makes one line of it."""

    topics: tuple[str, ...]
    group: str
    tasks: int
    attempts: int
    """How often tasks were started: more than `tasks` if some failed and were started again."""
    seconds: float
    counters: Counters
    """How many records were `accepted`, `released`, `rejected` and `redelivered`, and how many stayed `unconfirmed`."""
    lag_before: int | None
    """Records that waited in the group before the call, or None if the broker cannot tell."""
    lag_after: int | None

    @property
    def records_per_second(self) -> float:
        """Records handled per second of the call."""
        return self.counters.handled / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        done = self.counters
        lag = "unknown" if self.lag_after is None else f"{self.lag_after:,}"
        return (
            f"{done.accepted:,} accepted, {done.released:,} released, {done.rejected:,} rejected by {self.tasks} tasks "
            f"in {self.seconds:.1f} s ({self.records_per_second:,.0f} records/s); lag {lag}"
        )


def work(
    topic: str | Sequence[str],
    group: str,
    handler: Handler,
    parallelism: int = 8,
    *,
    bootstrap_servers: str = DEFAULT_BOOTSTRAP,
    security: Mapping[str, object] | None = None,
    until_empty: bool = True,
    seconds: float | None = None,
    stop: threading.Event | None = None,
    tasks: int | None = None,
    auto_offset_reset: str | None = None,
    spark: SparkSession | None = None,
    on_progress: Callable[[Counters], object] | None = None,
    tracing: bool = False,
) -> WorkSummary:
    """Call `handler` for every record of the topics that the share group hands out, on Spark.

    A record is accepted when the handler returns, released for another delivery when it raises, rejected when it
    raises `Reject`; its lock is renewed while the handler runs. The handler is a function or a coroutine function of
    one record, or an object that is called so and may have `open` and `close`, called once per task.

    By default the call returns when nothing is left to do. With `until_empty=False` it goes on until `stop` is set,
    `seconds` are over, or Ctrl-C. Handlers that run then are waited for.

    `security` are the client's settings of TLS and SASL, by their names.

    A group that is new begins with the newest records unless `auto_offset_reset="earliest"` is given, which sets the
    group's own config.

    With `tracing`, each call of the handler is a span of OpenTelemetry that links to the one that sent the record. A
    task exports its spans by OTLP, as OpenTelemetry's environment variables say, unless the handler's `open` has set
    a tracer provider.
    """
    topics = (topic,) if isinstance(topic, str) else tuple(topic)
    _check(topics, group, parallelism, tasks)
    if spark is None:
        from penstock.spark.session import session

        spark = session("penstock work", LOCAL_MASTER)
    secured = security_of(security)
    reached = {"bootstrap_servers": bootstrap_servers, **secured.given()}
    lag_before = asyncio.run(_prepare(reached, topics, group, auto_offset_reset))
    count = min(parallelism, tasks or _slots(spark))
    control = _listen(spark)
    started = time.monotonic()
    try:
        job = Job(
            bootstrap_servers=bootstrap_servers,
            topics=topics,
            group=group,
            concurrency=math.ceil(parallelism / count),
            until_empty=until_empty,
            ends_at=None if seconds is None else time.time() + seconds,
            control=control.address,
            security=secured,
            tracing=tracing,
        )
        done = _Run(spark, job, handler, count).result(control, stop, on_progress)
    finally:
        control.close()
    counters = Counters()
    for each in done.values():
        counters.add(each)
    lag_after = asyncio.run(_prepare(reached, topics, group, None))
    elapsed = time.monotonic() - started
    return WorkSummary(topics, group, count, len(done), elapsed, counters, lag_before, lag_after)


def _check(topics: tuple[str, ...], group: str, parallelism: int, tasks: int | None) -> None:
    if not topics or not all(topics):
        raise UsageError("work needs a topic: work('images', 'resize', handler)")
    if not group:
        raise UsageError("work needs the name of a share group: work('images', 'resize', handler)")
    if parallelism < 1 or (tasks is not None and tasks < 1):
        raise UsageError(f"parallelism is {parallelism} and tasks is {tasks}; both must be at least 1")


async def _prepare(reached: Mapping[str, object], topics: tuple[str, ...], group: str, reset: str | None) -> int | None:
    """Set where a new group begins, if asked; returns the group's lag."""
    async with Admin(reached, client_id="penstock-work") as admin:
        if reset is not None:
            await admin.alter_configs(ResourceType.GROUP, group, {"share.auto.offset.reset": reset})
        return await group_lag(admin, group, topics)


def _slots(spark: SparkSession) -> int:
    return max(int(spark.sparkContext.defaultParallelism), 1)


def _listen(spark: SparkSession) -> Control:
    context = spark.sparkContext
    local = str(context.master).startswith("local")
    host = "127.0.0.1" if local else str(context.getConf().get("spark.driver.host", "127.0.0.1"))
    return Control(host, "127.0.0.1" if local else "")


class _Run:
    """The Spark job in a thread of its own, so that the caller's can hear Ctrl-C and tell of progress."""

    def __init__(self, spark: SparkSession, job: Job, handler: Handler, tasks: int) -> None:
        self._spark = spark
        self._work = task_function(job, handler)
        self._tasks = tasks
        self._rows: dict[Attempt, Counters] = {}
        self._failure: BaseException | None = None

    def result(
        self, control: Control, stop: threading.Event | None, on_progress: Callable[[Counters], object] | None
    ) -> dict[Attempt, Counters]:
        """Counters by attempt. Those of an attempt that was killed are the last that it told."""
        thread = threading.Thread(target=self._run, name="penstock-work", daemon=True)
        thread.start()
        while thread.is_alive():
            try:
                thread.join(_TICK_S)
                if on_progress is not None:
                    on_progress(control.total())
                if stop is not None and stop.is_set():
                    control.stop_tasks()
            except KeyboardInterrupt:
                control.stop_tasks()
        if self._failure is not None:
            raise self._failure
        return {**control.heard(), **self._rows}

    def _run(self) -> None:
        try:
            frame = self._spark.range(0, self._tasks, 1, self._tasks).mapInArrow(self._work, _RESULT)
            for row in frame.collect():
                self._rows[Attempt(row.task, row.attempt)] = Counters.from_json(row.counters)
        except BaseException as error:
            self._failure = error


def task_function(job: Job, handler: Handler) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task runs: one worker, and one row at the end."""

    def run(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        if not sum(batch.num_rows for batch in rows):
            return
        context = TaskContext.get()
        assert context is not None
        attempt = Attempt(context.partitionId(), context.attemptNumber())
        counters = asyncio.run(run_worker(job, handler, attempt))
        columns = [
            pa.array([attempt.task], pa.int32()),
            pa.array([attempt.number], pa.int32()),
            pa.array([counters.as_json()]),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["task", "attempt", "counters"])

    return run
