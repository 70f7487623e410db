"""A share group as a streaming source: `readStream.format("penstock").option("share.group", "graders")`.

Spark wants batches that can be read again; a share group hands out each record once. The two meet like this:

1. The driver takes records in `latestOffset`. Which they are is the offset that Spark writes to its log before the
   batch runs, so the batch is fixed, whatever happens to the locks.
2. Tasks read these offsets with ordinary fetches: records stay in the log whatever their state in a group. A task that
   is run again, and a batch that is replayed after a restart, read the same rows.
3. When Spark calls `latestOffset(start)`, the batch that ended at `start` is in its commit log. Only then are its
   records accepted. (`commit` comes a batch later, and never for the last one.)
4. If the acceptance is lost on the way, the records come again. The offset therefore carries those that were committed
   but not yet seen to be accepted; what comes again and is among them is accepted at once and not processed again.
5. Locks are renewed in the background for as long as a batch runs. When the query is stopped, Spark ends this process
   with SIGTERM, and what is held is released. When it is killed, the broker sees the connection go and releases.
   The process that replays the batch takes its records back first.

What remains: while no driver runs, another member of the group may take records of a batch that is not committed yet
and finish them too. A sink that keeps (topic, partition, offset) can tell.
"""

from __future__ import annotations

import logging
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.client.admin import Admin, ResourceType
from penstock.client.errors import UsageError
from penstock.client.types import TopicPartition
from penstock.spark.fetching import FetchSettings
from penstock.spark.holding import (
    Holder,
    JsonPlaces,
    LoopThread,
    Places,
    count,
    from_json,
    runs_of,
    to_json,
    union,
    without,
)
from penstock.spark.options import SourceOptions
from penstock.spark.planning import ClusterView
from penstock.spark.ranges import OffsetRange, Offsets, split_ranges
from penstock.spark.worker import group_lag

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("penstock.spark")

_JOIN_MS = 5_000.0  # for the first records of a process: it has to join the group first
_WAIT_MS = 500.0
_RECOVER_ROUNDS = 10
_SILENT_ROUNDS = 180  # a minute and a half: a member that died keeps its partitions for 45 s by default
_WIDEST_HOLE = 10_000  # offsets that are fetched and thrown away rather than asked around
_LONGEST_MEMORY = 100_000  # committed records that may come again; more are not remembered

JsonOffset = dict[str, int | JsonPlaces]


@dataclass(frozen=True, slots=True)
class BatchOffset:
    """What Spark logs: the number of the batch, its records, and those committed before that may come again."""

    number: int = 0
    taken: Places = field(default_factory=dict)
    recent: Places = field(default_factory=dict)

    def to_json(self) -> JsonOffset:
        return {"batch": self.number, "taken": to_json(self.taken), "recent": to_json(self.recent)}

    @classmethod
    def from_json(cls, text: JsonOffset) -> BatchOffset:
        number, taken, recent = text["batch"], text["taken"], text["recent"]
        assert isinstance(number, int)
        assert isinstance(taken, dict)
        assert isinstance(recent, dict)
        return cls(number, from_json(taken), from_json(recent))


@dataclass
class RunsPartition(InputPartition):
    """What a task gets: a range to fetch, and the runs of offsets in it that are wanted."""

    wanted: OffsetRange
    runs: list[tuple[int, int]]


class ShareStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one process for as long as the query runs; copies of it travel to tasks, without the share consumer."""

    def __init__(self, options: SourceOptions) -> None:
        if options.subscription.partitions:
            raise UsageError("share.group goes with subscribe or subscribePattern: the group assigns the partitions")
        self._options = options
        self._thread: LoopThread | None = None
        self._holder: Holder | None = None
        self._unaccepted: Places = {}
        self._spare: Places = {}
        self._next: BatchOffset | None = None
        self._target: Offsets | None = None
        self._joined = False

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options}

    # Life

    def _running(self) -> tuple[LoopThread, Holder]:
        if self._thread is None or self._holder is None:
            options = self._options
            _on_sigterm(_exit)  # else `stop` might never be called
            with ClusterView(options.bootstrap_servers, options.client_id, security=options.security) as view:
                topics = sorted({tp.topic for tp in view.partitions(options.subscription)})
            self._thread = LoopThread("penstock-share")
            self._holder = self._thread.make(
                lambda: Holder(options.bootstrap_servers, options.share_group, options.client_id, options.security)
            )
            if options.starting.kind == "earliest":
                self._thread.run(_begin_at_the_oldest(options))
            self._thread.run(self._holder.start(topics))
        return self._thread, self._holder

    def stop(self) -> None:
        # Spark closes its end and then sends SIGTERM: that must not tear this apart, or the group would wait for us.
        _on_sigterm(signal.SIG_IGN)
        if self._thread is not None and self._holder is not None:
            thread, holder = self._thread, self._holder
            self._thread = self._holder = None
            thread.run(holder.close())
            thread.stop()

    # Where the stream is

    def initialOffset(self) -> JsonOffset:  # noqa: N802
        return BatchOffset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_offsets_per_trigger or self._options.share_max_records)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        options = self._options
        with ClusterView(options.bootstrap_servers, options.client_id, security=options.security) as view:
            self._target = view.latest(view.partitions(options.subscription), options.isolation)

    def latestOffset(self, start: JsonOffset, limit: ReadLimit) -> JsonOffset:  # noqa: N802
        begun = BatchOffset.from_json(start)
        if self._next is not None and self._next.number == begun.number + 1:
            return self._next.to_json()  # asked again before that batch ran; it is still held
        self._settle(begun)
        fresh = self._take(limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.share_max_records)
        if not fresh:
            return start
        self._next = BatchOffset(begun.number + 1, fresh, _bounded(self._unaccepted))
        return self._next.to_json()

    def _settle(self, begun: BatchOffset) -> None:
        """Accept what Spark has committed."""
        thread, holder = self._running()
        committed = union(begun.taken, begun.recent)
        self._unaccepted = without(committed, thread.run(holder.accept(committed)))
        self._next = None

    def _take(self, limit: int) -> Places:
        """Records for the next batch. What comes only because it comes again must not look like the end."""
        thread, holder = self._running()
        fresh, self._spare = self._spare, {}
        silent_rounds = 0
        while not fresh:
            got = self._gather(limit)
            if not got:
                silent_rounds += 1
                if self._is_over(silent_rounds):
                    break
                continue
            again = without(got, without(got, self._unaccepted))
            if again:
                self._unaccepted = without(self._unaccepted, thread.run(holder.accept(again)))
            fresh = without(got, again)
            late = self._beyond_target(fresh)
            if late:
                thread.run(holder.release(late))
                fresh = without(fresh, late)
                if not fresh:
                    break
        return fresh

    def _gather(self, limit: int) -> Places:
        thread, holder = self._running()
        got = thread.run(holder.gather(limit, _WAIT_MS if self._joined else _JOIN_MS))
        self._joined = True
        return got

    def _is_over(self, silent_rounds: int) -> bool:
        """Whether to leave it at nothing. An availableNow query must not end while others hold what they may give
        back, such as a query before this one that is just going."""
        if self._target is None or silent_rounds >= _SILENT_ROUNDS:
            return True
        thread, _ = self._running()
        return not thread.run(_lag(self._options, tuple(sorted({tp.topic for tp in self._target}))))

    def _beyond_target(self, places: Places) -> Places:
        """Records that were produced after an availableNow query began."""
        if self._target is None:
            return {}
        late = {tp: {o for o in offsets if o >= self._target.get(tp, 0)} for tp, offsets in places.items()}
        return {tp: offsets for tp, offsets in late.items() if offsets}

    # What a batch reads

    def partitions(self, start: JsonOffset, end: JsonOffset) -> list[RunsPartition]:
        batch = BatchOffset.from_json(end)
        if batch.number == BatchOffset.from_json(start).number:
            return []
        if self._next is None or self._next.number != batch.number:
            self._take_back(batch)
        return split_places(batch.taken, self._options)

    def _take_back(self, batch: BatchOffset) -> None:
        """A batch of a process before this one is run again: lock its records again, so that nobody else gets them."""
        thread, holder = self._running()
        for _ in range(_RECOVER_ROUNDS):
            missing = count(without(batch.taken, holder.held))
            if not missing:
                break
            got = self._gather(missing)
            if not got:
                _log.warning("%d records of batch %d are not ours to lock any more", missing, batch.number)
                break
            again = without(got, without(got, batch.recent))
            if again:
                thread.run(holder.accept(again))
        self._spare = without(holder.held, batch.taken)
        self._next = batch

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RunsPartition):  # Spark makes up a partition where there is none
            return iter(())
        return read_runs(partition, self._options)

    def commit(self, end: JsonOffset) -> None:
        """Comes a batch late, and never for the last one; `latestOffset` does its work."""


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


def _on_sigterm(handler: signal.Handlers | Callable[[int, FrameType | None], None]) -> None:
    if threading.current_thread() is threading.main_thread():  # nobody else may set it
        signal.signal(signal.SIGTERM, handler)


def _admin(options: SourceOptions) -> Admin:
    return Admin(options.security.given(), bootstrap_servers=options.bootstrap_servers, client_id=options.client_id)


async def _begin_at_the_oldest(options: SourceOptions) -> None:
    async with _admin(options) as admin:
        await admin.alter_configs(ResourceType.GROUP, options.share_group, {"share.auto.offset.reset": "earliest"})


async def _lag(options: SourceOptions, topics: tuple[str, ...]) -> int | None:
    async with _admin(options) as admin:
        return await group_lag(admin, options.share_group, topics)


def _bounded(places: Places) -> Places:
    """The newest of them, as many as are remembered."""
    total = count(places)
    if total <= _LONGEST_MEMORY:
        return places
    return {
        tp: set(sorted(offsets)[-math.floor(_LONGEST_MEMORY * len(offsets) / total) :])
        for tp, offsets in places.items()
    }


def split_places(places: Places, options: SourceOptions) -> list[RunsPartition]:
    """Tasks for a set of records: one per partition, more where the source's options ask for it."""
    covers: list[OffsetRange] = []
    runs: dict[TopicPartition, list[tuple[int, int]]] = {}
    for tp in sorted(places):
        runs[tp] = runs_of(places[tp])
        first, last = runs[tp][0]
        for begin, end in runs[tp][1:]:
            if begin - last > _WIDEST_HOLE:
                covers.append(OffsetRange(tp.topic, tp.partition, first, last + 1))
                first = begin
            last = end
        covers.append(OffsetRange(tp.topic, tp.partition, first, last + 1))
    pieces = split_ranges(covers, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    tasks = []
    for piece in pieces:
        inside = [
            (max(first, piece.start), min(last, piece.end - 1))
            for first, last in runs[TopicPartition(piece.topic, piece.partition)]
            if first < piece.end and last >= piece.start
        ]
        if inside:
            tasks.append(RunsPartition(piece, inside))
    return tasks


def read_runs(partition: RunsPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of the wanted offsets."""
    import numpy as np
    import pyarrow as pa

    from penstock.spark.reading import read_range

    # The group decided about transactions when it handed the records out, by its own isolation level.
    settings = FetchSettings(
        bootstrap_servers=options.bootstrap_servers,
        client_id=options.client_id,
        fetch_bytes=options.fetch_bytes,
        poll_timeout_ms=options.poll_timeout_ms,
        fail_on_data_loss=options.fail_on_data_loss,
        security=options.security,
    )
    columns = options.columns if "offset" in options.columns else (*options.columns, "offset")
    firsts = np.array([first for first, _ in partition.runs])
    lasts = np.array([last for _, last in partition.runs])
    for batch in read_range(partition.wanted, settings, columns, check_crcs=options.check_crcs):
        offsets = batch.column("offset").to_numpy()
        run = np.searchsorted(firsts, offsets, side="right") - 1
        wanted = (run >= 0) & (offsets <= lasts[np.maximum(run, 0)])
        rows = batch if wanted.all() else batch.filter(pa.array(wanted))
        yield rows.select(list(options.columns))
