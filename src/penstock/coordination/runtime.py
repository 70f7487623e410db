"""Runs event-sourced coordinators over their internal topics.

A coordinator (groups, transactions, share state) is split into shards, one per partition of its internal topic. Each
command on a shard yields `Effects`; the runtime makes them happen, in the order that keeps memory and log the same:
append the records as one batch, replay them into the shard, and send the replies when the batch is durable (or at once,
where the command says that they need not wait).

Loading. A shard is loaded when the broker starts (or when its topic is created) by replaying its partition, slice by
slice so that the broker keeps serving; until then its commands raise COORDINATOR_LOAD_IN_PROGRESS.

Losing. Another broker may become the leader of a partition, or what was appended may be refused later. Memory is ahead
of the log then, so the shard is given up: whoever waits for it gets NOT_COORDINATOR (or COORDINATOR_NOT_AVAILABLE), its
timers stop, and what still refers to it is refused. A partition that is led from here gets a new shard, which is loaded
as after a start; until one is, its commands raise NOT_COORDINATOR. Where this can happen (`can_lose_appends`) every
reply, also of a command that writes nothing, waits until the log is durable up to where it ended when it was computed.

Time, tasks and the log are handed in (`Scheduler`, `StateTopic`, `StateLog`): the runtime knows neither an event loop
nor a disk, and a test runs it with neither.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from penstock import guard
from penstock.coordination.effects import Effects
from penstock.records.batch import BatchHeader, CorruptBatch, iter_headers
from penstock.records.builder import build_batch
from penstock.records.control import ControlType, parse_control
from penstock.records.record import iter_records
from penstock.wire.errors import (
    CoordinatorLoadInProgress,
    ErrorCode,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    RecordListTooLarge,
)
from penstock.wire.hashing import coordinator_partition

log = logging.getLogger("penstock.coordinator")

# A slice of this size takes tens of milliseconds to replay: so long at most does a request wait behind it.
_LOAD_BYTES = 256 << 10
_RETRY_SECONDS = 1.0
_LOAD_PAUSE_SECONDS_MAX = 60.0


class Cancellable(Protocol):
    def cancel(self) -> object: ...


class Scheduler(Protocol):
    """The time, timers and tasks."""

    def now_ms(self) -> int: ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Cancellable: ...

    def spawn(self, work: Coroutine[object, None, None]) -> Cancellable:
        """Run a coroutine beside everything else."""


class StateLog(Protocol):
    """One partition of an internal topic."""

    @property
    def index(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def is_durable(self) -> bool:
        """Whether everything that was appended so far is durable."""

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""

    @property
    def can_lose_appends(self) -> bool:
        """Whether what was appended and is not durable can be lost while the broker runs on."""

    def append(self, batch: bytearray, now_ms: int) -> int:
        """Append a batch; the offset up to which the log has to become durable. Raises KafkaError."""

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from this offset on, at least one. Raises KafkaError. Others are served meanwhile."""

    def when_durable(self, position: int, then: Callable[[Exception | None], None]) -> None:
        """Call back when the log is as durable up to this offset as configured, or cannot become so."""

    def make_durable_soon(self) -> None:
        """Begin to make the log durable although nobody waits for it yet."""

    def delete_records(self, offset: int) -> None:
        """Delete everything below an offset. Raises KafkaError."""


class StateTopic(Protocol):
    """The internal topic of one coordinator."""

    @property
    def name(self) -> str: ...

    def find(self) -> Sequence[StateLog] | None:
        """The logs of all its partitions, in their order, or None while there is no such topic."""

    def create(self) -> Sequence[StateLog]: ...

    def on_deleted(self, callback: Callable[[], None]) -> None:
        """Have `callback` called whenever the topic has been deleted."""

    def on_leadership(self, callback: Callable[[int], None]) -> None:
        """Have `callback` called with a partition whose leadership was lost or gained: its log's tail is void."""


class Shard(Protocol):
    """What the runtime needs of a shard; see the packages groups, transactions and queues."""

    def replay(self, key: bytes, value: bytes | None, producer_id: int = -1, *, written_ms: int) -> None:
        """Apply a record that was written at this time."""

    def replay_end_marker(self, producer_id: int, commit: bool) -> None: ...

    def loaded(self, now_ms: int) -> Effects: ...

    def tick(self, now_ms: int) -> Effects: ...

    def next_deadline_ms(self) -> int | None: ...

    def unload(self, error: ErrorCode) -> Effects:
        """The shard is given up: the replies to those who wait for something of it."""

    def append_failed(self, effects: Effects, error: ErrorCode) -> Effects:
        """The records of these effects could not be written: the replies to those who would wait for them in vain."""


S = TypeVar("S", bound=Shard)


class ShardHandle(Generic[S]):
    """A shard, the log that keeps its records, and its timer."""

    __slots__ = (
        "_deadline_ms",
        "_runtime",
        "_stopped",
        "_timer",
        "is_given_up",
        "is_loaded",
        "loading",
        "log",
        "shard",
    )

    def __init__(self, runtime: CoordinatorRuntime[S], state_log: StateLog, shard: S) -> None:
        self._runtime = runtime
        self.log = state_log
        self.shard = shard
        self.is_loaded = False
        self.is_given_up = False
        """Its log was lost, or cut: what it knows is void, and nothing it requests happens."""
        self.loading: Cancellable | None = None
        self._timer: Cancellable | None = None
        self._deadline_ms: int | None = None
        self._stopped = False

    @property
    def index(self) -> int:
        return self.log.index

    def run(self, effects: Effects) -> bool:
        """Carry out the effects of a command. False when its records could not be written."""
        if self.is_given_up:
            self._runtime.refuse(effects)
            return False
        written = self._runtime.carry_out(self, effects)
        self._reschedule()
        return written

    def _reschedule(self) -> None:
        if self._stopped:
            return
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms == self._deadline_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadline_ms = deadline_ms
        if deadline_ms is not None:
            scheduler = self._runtime.scheduler
            delay_ms = max(0, deadline_ms - scheduler.now_ms())
            self._timer = scheduler.call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._deadline_ms = None
        what = f"the timer of {self._runtime.topic_name}-{self.index}"
        if not guard.attempt(what, self._run_tick) and self._timer is None and not self._stopped:
            self._timer = self._runtime.scheduler.call_later(_RETRY_SECONDS, self._tick)

    def _run_tick(self) -> None:
        self.run(self.shard.tick(self._runtime.scheduler.now_ms()))

    def finish_loading(self) -> None:
        """Do what follows from the records that were read; what cannot be written is tried again."""
        if self.is_given_up:
            return
        scheduler = self._runtime.scheduler
        try:
            self.is_loaded = self._runtime.carry_out(self, self.shard.loaded(scheduler.now_ms()))
        except KafkaError as error:  # no producer id to be had at the moment
            log.error("cannot finish loading %s-%d: %s", self._runtime.topic_name, self.index, error)
        if self.is_loaded:
            self._reschedule()
            self._runtime.shard_loaded()
        elif not self._stopped:
            self._timer = scheduler.call_later(_RETRY_SECONDS, self.finish_loading)

    def load_again_later(self, seconds: float, load: Callable[[], None]) -> None:
        if not self._stopped:
            self._timer = self._runtime.scheduler.call_later(seconds, load)

    def stop(self) -> None:
        self._stopped = True
        if self.loading is not None:
            self.loading.cancel()
            self.loading = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def give_up(self) -> None:
        self.is_given_up = True
        self.is_loaded = False
        self.stop()


class LoadTimes:
    """How long it took to load something, each time since the start."""

    __slots__ = ("count", "longest_ms", "total_ms")

    def __init__(self) -> None:
        self.count = self.total_ms = self.longest_ms = 0

    def add(self, took_ms: int) -> None:
        self.count += 1
        self.total_ms += took_ms
        self.longest_ms = max(self.longest_ms, took_ms)

    @property
    def average_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        scheduler: Scheduler,
        topic: StateTopic,
        make_shard: Callable[[int], S],
        on_action: Callable[[ShardHandle[S], object], None] | None = None,
        *,
        actions_wait: bool = False,
    ) -> None:
        """`actions_wait`: the actions of a command are for when its records are durable."""
        self.scheduler = scheduler
        self._topic = topic
        self._answering = f"an answer of {topic.name}"
        self._make_shard = make_shard
        self._on_action = on_action
        self._actions_wait = actions_wait
        self._handles: list[ShardHandle[S]] = []
        self._loading: Cancellable | None = None
        self._awaiting_load: list[Callable[[], None]] = []
        self.loads = LoadTimes()
        self.skipped_records = 0
        """Records that could not be read and were left out, each reported in the log."""
        # An administrator may delete even this topic. Its state is gone then, and the next use starts from nothing.
        topic.on_deleted(self._close)
        topic.on_leadership(self._leadership_changed)
        self.on_given_up: Callable[[int], None] | None = None
        """Called with a partition whose shard was given up: whatever was derived from it is void."""

    @property
    def topic_name(self) -> str:
        return self._topic.name

    # -- the topic and its shards ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the shards of a topic that is there already."""
        logs = self._topic.find()
        if logs is not None:
            self._open(logs)

    def ensure_topic(self) -> None:
        """Create the internal topic on first use."""
        if not self._handles:
            self._open(self._topic.find() or self._topic.create())

    def _close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        for handle in self._handles:
            handle.stop()
        self._handles = []
        self.shard_loaded()

    def _open(self, logs: Sequence[StateLog]) -> None:
        self._close()
        self._handles = [ShardHandle(self, state_log, self._make_shard(state_log.index)) for state_log in logs]
        unread = []
        for handle in self._handles:
            if not handle.log.is_leader:
                continue
            if handle.log.log_end_offset == handle.log.log_start_offset:
                handle.finish_loading()
            else:
                unread.append(handle)
        if unread:
            self._loading = self.scheduler.spawn(self._load(unread))

    def _leadership_changed(self, index: int) -> None:
        if index >= len(self._handles):
            return  # of a topic that has grown, or that nobody uses yet
        before = self._handles[index]
        logs = self._topic.find()
        state_log = before.log if logs is None else logs[index]
        handle = self._handles[index] = ShardHandle(self, state_log, self._make_shard(index))
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if handle.log.is_leader else ErrorCode.NOT_COORDINATOR
        before.give_up()
        self._send(before.shard.unload(error))
        if self.on_given_up is not None:
            self.on_given_up(index)
        if handle.log.is_leader:
            handle.loading = self.scheduler.spawn(self._load([handle]))
        self.shard_loaded()

    def refuse(self, effects: Effects) -> None:
        """The shard that wants this was given up."""
        for reply in effects.replies:
            guard.attempt(self._answering, reply.fail, ErrorCode.NOT_COORDINATOR)

    def partition_for(self, name: str) -> int:
        """The partition that is responsible for a group or transactional id, whoever leads it."""
        # Not the partitions of the topic, which may have grown since: ids must not move while the broker runs.
        self.ensure_topic()
        return coordinator_partition(name, len(self._handles))

    def find(self, name: str) -> ShardHandle[S]:
        """The loaded shard that is responsible for a group or transactional id."""
        return self._loaded(self.partition_for(name))

    def handle(self, index: int) -> ShardHandle[S]:
        self.ensure_topic()
        return self._loaded(index)

    def _loaded(self, index: int) -> ShardHandle[S]:
        handle = self._handles[index]
        if not handle.is_loaded:
            raise CoordinatorLoadInProgress() if handle.log.is_leader else NotCoordinator()
        return handle

    def loaded_handles(self) -> list[ShardHandle[S]]:
        return [handle for handle in self._handles if handle.is_loaded]

    @property
    def is_loading(self) -> bool:
        return self.loading_count > 0

    @property
    def loaded_count(self) -> int:
        return sum(handle.is_loaded for handle in self._handles)

    @property
    def loading_count(self) -> int:
        return sum(not handle.is_loaded and handle.log.is_leader for handle in self._handles)

    def when_loaded(self, then: Callable[[], None]) -> None:
        """Call `then` when no shard is loading: at once, if none is."""
        if self.is_loading:
            self._awaiting_load.append(then)
        else:
            then()

    def shard_loaded(self) -> None:
        if not self.is_loading:
            awaiting, self._awaiting_load = self._awaiting_load, []
            for then in awaiting:
                guard.attempt(f"what waited until {self.topic_name} was loaded", then)

    # -- effects ---------------------------------------------------------------------------------------------------

    def carry_out(self, handle: ShardHandle[S], effects: Effects) -> bool:
        position: int | None = None
        if effects.records:
            try:
                position = self._append(handle, effects)
            except KafkaError as error:
                log.error("cannot write to %s-%d: %s", self.topic_name, handle.index, error)
                self._fail(handle, effects, error)
                return False
            producer_id = effects.transaction.producer_id if effects.transaction is not None else -1
            now_ms = self.scheduler.now_ms()
            for key, value in effects.records:
                handle.shard.replay(key, value, producer_id, written_ms=now_ms)
        elif (effects.actions and self._actions_wait) or (handle.log.can_lose_appends and not handle.log.is_durable):
            # They follow from records that were read after a start, and those may be in the page cache only; or from
            # records that are not durable yet, and may never be.
            position = handle.log.log_end_offset
        if not self._actions_wait:
            self._act(handle, effects)
        if effects.replies or (self._actions_wait and effects.actions):
            may_wait = effects.replies_wait or effects.actions or handle.log.can_lose_appends
            if position is None or not may_wait:
                self._conclude(handle, effects, None)
            else:
                handle.log.when_durable(position, partial(self._conclude, handle, effects))
        return True

    def _act(self, handle: ShardHandle[S], effects: Effects) -> None:
        if self._on_action is not None:
            for action in effects.actions:
                guard.attempt(f"an action of {self.topic_name}-{handle.index}", self._on_action, handle, action)

    def _conclude(self, handle: ShardHandle[S], effects: Effects, failure: Exception | None) -> None:
        """The records are durable, or will never be. Nobody else's request comes between replies and actions."""
        if failure is not None:
            self._fail(handle, effects, failure)
            return
        self._send(effects)
        if self._actions_wait and not handle.is_given_up:
            self._act(handle, effects)

    def _append(self, handle: ShardHandle[S], effects: Effects) -> int:
        now_ms = self.scheduler.now_ms()
        transaction = effects.transaction
        batch = build_batch(
            ((now_ms, record.key, record.value, ()) for record in effects.records),
            producer_id=transaction.producer_id if transaction is not None else -1,
            producer_epoch=transaction.producer_epoch if transaction is not None else -1,
            transactional=transaction is not None,
        )
        return handle.log.append(batch, now_ms)

    def _fail(self, handle: ShardHandle[S], effects: Effects, failure: Exception) -> None:
        # What does not fit will not fit the next time: the client must not be told to try again.
        if isinstance(failure, RecordListTooLarge):
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        elif isinstance(failure, NotLeaderOrFollower):
            code = ErrorCode.NOT_COORDINATOR
        else:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        others = Effects() if handle.is_given_up else handle.shard.append_failed(effects, code)
        for reply in effects.replies:
            guard.attempt(self._answering, reply.fail, code)
        self._send(others)

    def _send(self, effects: Effects) -> None:
        for reply in effects.replies:
            guard.attempt(self._answering, reply.send)

    def when_settled(self, then: Callable[[Exception | None], None]) -> None:
        """Call `then` when what the shards know by now is durable, or cannot become so; at once if nothing can be lost.

        For answers from memory that are no effects of a command.
        """
        behind = [h for h in self._handles if h.is_loaded and h.log.can_lose_appends and not h.log.is_durable]
        if not behind:
            then(None)
            return
        settled = _Countdown(len(behind), then)
        for handle in behind:
            handle.log.when_durable(handle.log.log_end_offset, settled.one)

    # -- loading ---------------------------------------------------------------------------------------------------

    async def _load(self, handles: Iterable[ShardHandle[S]], attempt: int = 1) -> None:
        for handle in handles:
            began_ms = self.scheduler.now_ms()
            try:
                await self._load_one(handle)
                handle.finish_loading()
                self.loads.add(max(0, self.scheduler.now_ms() - began_ms))
            except NotLeaderOrFollower:
                log.info("%s-%d is led by another broker", self.topic_name, handle.index)
            except Exception:
                pause = min(_RETRY_SECONDS * 2**attempt, _LOAD_PAUSE_SECONDS_MAX)
                text = "cannot load %s-%d; it is tried again in %d seconds"
                log.exception(text, self.topic_name, handle.index, pause)
                handle.load_again_later(pause, partial(self._load_again, handle, attempt + 1))

    def _load_again(self, before: ShardHandle[S], attempt: int) -> None:
        """From the beginning: what was read of the log may have been applied in part."""
        handle = self._handles[before.index] = ShardHandle(self, before.log, self._make_shard(before.index))
        handle.loading = self.scheduler.spawn(self._load([handle], attempt))

    async def _load_one(self, handle: ShardHandle[S]) -> None:
        offset = handle.log.log_start_offset
        end = handle.log.log_end_offset
        while offset < end and not handle.is_given_up:
            data = await handle.log.read(offset, _LOAD_BYTES)
            if not data:
                break
            for position, header in iter_headers(data):
                self._replay_batch(handle, data, position, header)
                offset = header.next_offset

    def _replay_batch(self, handle: ShardHandle[S], data: bytes, position: int, header: BatchHeader) -> None:
        try:
            if header.is_control:
                for record in iter_records(data, position):
                    kind = parse_control(record).kind
                    if kind in (ControlType.ABORT, ControlType.COMMIT):
                        handle.shard.replay_end_marker(header.producer_id, kind == ControlType.COMMIT)
                return
            producer_id = header.producer_id if header.is_transactional else -1
            for record in iter_records(data, position):
                try:
                    if record.key is not None:
                        written_ms = record.timestamp
                        handle.shard.replay(bytes(record.key), record.value, producer_id, written_ms=written_ms)
                except ValueError as error:
                    self._skip(handle, record.offset, error)
        except CorruptBatch as error:
            self._skip(handle, header.base_offset, error)

    def _skip(self, handle: ShardHandle[S], offset: int, error: Exception) -> None:
        self.skipped_records += 1
        log.error("skipped offset %d of %s-%d: %s", offset, self.topic_name, handle.index, error)

    def stop(self) -> None:
        """No timer fires any more; what is still under way can be written."""
        if self._loading is not None:
            self._loading.cancel()
        for handle in self._handles:
            handle.stop()


class _Countdown:
    """Calls once: when all have succeeded, or when the first has failed."""

    __slots__ = ("_missing", "_then")

    def __init__(self, missing: int, then: Callable[[Exception | None], None]) -> None:
        self._missing = missing
        self._then: Callable[[Exception | None], None] | None = then

    def one(self, failure: Exception | None) -> None:
        self._missing -= 1
        if self._then is not None and (failure is not None or not self._missing):
            then, self._then = self._then, None
            then(failure)
