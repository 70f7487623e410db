"""Runs the event-sourced coordinators over their internal topics.

A coordinator (groups, transactions, share state) is split into shards, one per partition of its internal topic. Each
command on a shard yields `Effects`; this module is what makes them happen, in the order that keeps memory and log the
same: append the records as one batch, replay them into the shard, and send the replies when the batch is on disk (or
at once, where the command says that they need not wait).

Loading. A shard is loaded when the broker starts (or when its topic is created) by replaying its partition, a slice per
turn of the event loop so that the broker keeps serving; until then its commands raise COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock.broker.topics import Partition, Topic
from penstock.coordination.effects import Effects
from penstock.records.batch import BatchHeader, CorruptBatch, iter_headers
from penstock.records.builder import build_batch
from penstock.records.control import ControlType, parse_control
from penstock.records.record import iter_records
from penstock.storage.contract import Callback as FlushCallback
from penstock.storage.contract import StorageError
from penstock.wire.errors import CoordinatorLoadInProgress, ErrorCode, KafkaError, RecordListTooLarge
from penstock.wire.hashing import coordinator_partition

if TYPE_CHECKING:
    from penstock.broker.server import Broker

log = logging.getLogger("penstock.coordinator")

# A slice of this size takes tens of milliseconds to replay: so long at most does a request wait behind it.
_LOAD_BYTES = 256 << 10
_RETRY_SECONDS = 1.0


class Shard(Protocol):
    """What this module needs of a shard; see the rooms groups, transactions and queues."""

    def replay(self, key: bytes, value: bytes | None, producer_id: int = -1) -> None: ...

    def replay_end_marker(self, producer_id: int, commit: bool) -> None: ...

    def loaded(self, now_ms: int) -> Effects: ...

    def tick(self, now_ms: int) -> Effects: ...

    def next_deadline_ms(self) -> int | None: ...

    def append_failed(self, effects: Effects, error: ErrorCode) -> Effects: ...


S = TypeVar("S", bound=Shard)


class ShardHandle(Generic[S]):
    """A shard, the partition that keeps its records, and its timer."""

    __slots__ = ("_deadline_ms", "_runtime", "_stopped", "_timer", "index", "is_loaded", "partition", "shard")

    def __init__(self, runtime: CoordinatorRuntime[S], index: int, partition: Partition, shard: S) -> None:
        self._runtime = runtime
        self.index = index
        self.partition = partition
        self.shard = shard
        self.is_loaded = False
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms: int | None = None
        self._stopped = False

    def run(self, effects: Effects) -> bool:
        """Carry out what a command asked for. False when its records could not be written."""
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
            broker = self._runtime.broker
            delay_ms = max(0, deadline_ms - broker.now_ms())
            self._timer = broker.loop.call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._deadline_ms = None
        self.run(self.shard.tick(self._runtime.broker.now_ms()))

    def finish_loading(self) -> None:
        """Do what follows from the records that were read; what cannot be written is tried again."""
        broker = self._runtime.broker
        try:
            self.is_loaded = self._runtime.carry_out(self, self.shard.loaded(broker.now_ms()))
        except KafkaError as error:  # no producer id to be had at the moment
            log.error("cannot finish loading %s-%d: %s", self._runtime.topic_name, self.index, error)
        if self.is_loaded:
            self._reschedule()
            self._runtime.shard_loaded()
        elif not self._stopped:
            self._timer = broker.loop.call_later(_RETRY_SECONDS, self.finish_loading)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        broker: Broker,
        topic_name: str,
        partitions: int,
        topic_configs: Mapping[str, str],
        make_shard: Callable[[int], S],
        on_action: Callable[[ShardHandle[S], object], None] | None = None,
        *,
        actions_wait: bool = False,
    ) -> None:
        """`actions_wait`: the actions of a command are for when its records are on disk."""
        self.broker = broker
        self.topic_name = topic_name
        self._partitions = partitions
        self._topic_configs = topic_configs
        self._make_shard = make_shard
        self._on_action = on_action
        self._actions_wait = actions_wait
        self._topic: Topic | None = None
        self._handles: list[ShardHandle[S]] = []
        self._load_task: asyncio.Task[None] | None = None
        self._all_loaded = asyncio.Event()
        self.skipped_records = 0
        """Records that could not be read and were left out, each reported in the log."""
        broker.on_topic_deleted.append(self._topic_deleted)

    # -- the topic and its shards ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the shards of a topic that is there already."""
        topic = self.broker.topics.find(self.topic_name)
        if topic is not None:
            self._open(topic)

    def topic(self) -> Topic:
        """The internal topic, created on first use."""
        topic = self.broker.topics.find(self.topic_name)
        if topic is None:
            topic = self.broker.topics.create(self.topic_name, self._partitions, self._topic_configs)
        if topic is not self._topic:
            self._open(topic)
        return topic

    def _topic_deleted(self, topic: Topic) -> None:
        """An admin may delete even this topic. Its state is gone then, and the next use starts from nothing."""
        if topic is self._topic:
            self._close()

    def _close(self) -> None:
        self._topic = None
        if self._load_task is not None:
            self._load_task.cancel()
            self._load_task = None
        for handle in self._handles:
            handle.stop()
        self._handles = []
        self._all_loaded.set()

    def _open(self, topic: Topic) -> None:
        self._close()
        self._all_loaded.clear()
        self._topic = topic
        self._handles = [
            ShardHandle(self, partition.index, partition, self._make_shard(partition.index))
            for partition in topic.partitions
        ]
        unread = []
        for handle in self._handles:
            if handle.partition.log.log_end_offset == handle.partition.log.log_start_offset:
                handle.finish_loading()
            else:
                unread.append(handle)
        if unread:
            self._load_task = self.broker.loop.create_task(self._load(unread))

    def partition_for(self, name: str) -> int:
        # Not the partitions of the topic, which may have grown since: ids must not move while the broker runs.
        self.topic()
        return coordinator_partition(name, len(self._handles))

    def find(self, name: str) -> ShardHandle[S]:
        """The loaded shard that is responsible for a group or transactional id."""
        return self._loaded(self.partition_for(name))

    def handle(self, index: int) -> ShardHandle[S]:
        self.topic()
        return self._loaded(index)

    def _loaded(self, index: int) -> ShardHandle[S]:
        handle = self._handles[index]
        if not handle.is_loaded:
            raise CoordinatorLoadInProgress()
        return handle

    def loaded_handles(self) -> list[ShardHandle[S]]:
        return [handle for handle in self._handles if handle.is_loaded]

    async def wait_until_loaded(self) -> None:
        if self.is_loading:
            await self._all_loaded.wait()

    def shard_loaded(self) -> None:
        if not self.is_loading:
            self._all_loaded.set()

    @property
    def is_loading(self) -> bool:
        return any(not handle.is_loaded for handle in self._handles)

    # -- effects ---------------------------------------------------------------------------------------------------

    def carry_out(self, handle: ShardHandle[S], effects: Effects) -> bool:
        on_durable: Callable[[FlushCallback], None] | None = None
        if effects.records:
            try:
                on_durable = self._append(handle, effects)
            except (StorageError, KafkaError) as error:
                log.error("cannot write to %s-%d: %s", self.topic_name, handle.index, error)
                self._fail(handle, effects, error)
                return False
            producer_id = effects.transaction.producer_id if effects.transaction is not None else -1
            for key, value in effects.records:
                handle.shard.replay(key, value, producer_id)
        elif effects.actions and self._actions_wait and self.broker.flush_acks_all:
            # They follow from records that were read after a start, and those may be in the page cache only.
            state_log = handle.partition.log
            on_durable = partial(self.broker.flush, state_log, state_log.log_end_offset)
        if not self._actions_wait:
            self._act(handle, effects)
        if effects.replies or (self._actions_wait and effects.actions):
            if on_durable is None or not (effects.replies_wait or effects.actions):
                self._conclude(handle, effects)
            else:
                on_durable(partial(self._conclude, handle, effects))
        return True

    def _act(self, handle: ShardHandle[S], effects: Effects) -> None:
        if self._on_action is not None:
            for action in effects.actions:
                self._on_action(handle, action)

    def _conclude(self, handle: ShardHandle[S], effects: Effects, failure: StorageError | None = None) -> None:
        """The records are on disk, or will never be. Nobody else's request comes between replies and actions."""
        if failure is not None:
            self._fail(handle, effects, failure)
            return
        effects.send()
        if self._actions_wait:
            self._act(handle, effects)

    def _append(self, handle: ShardHandle[S], effects: Effects) -> Callable[[FlushCallback], None] | None:
        """Append the records. Returns how to be told of their durability, or None when there is nothing to wait for."""
        now_ms = self.broker.now_ms()
        transaction = effects.transaction
        batch = build_batch(
            ((now_ms, record.key, record.value, ()) for record in effects.records),
            producer_id=transaction.producer_id if transaction is not None else -1,
            producer_epoch=transaction.producer_epoch if transaction is not None else -1,
            transactional=transaction is not None,
        )
        appended = self.broker.append_internal(handle.partition, batch, now_ms)
        if not self.broker.flush_acks_all:
            return None
        return lambda callback: self.broker.flush(handle.partition.log, appended.position, callback)

    def _fail(self, handle: ShardHandle[S], effects: Effects, failure: Exception) -> None:
        # What does not fit will not fit the next time: the client must not be told to try again.
        too_large = isinstance(failure, RecordListTooLarge)
        code = ErrorCode.UNKNOWN_SERVER_ERROR if too_large else ErrorCode.COORDINATOR_NOT_AVAILABLE
        others = handle.shard.append_failed(effects, code)
        effects.fail(code)
        others.send()

    # -- loading ---------------------------------------------------------------------------------------------------

    async def _load(self, handles: Iterable[ShardHandle[S]]) -> None:
        for handle in handles:
            try:
                await self._load_one(handle)
            except StorageError:
                log.exception("cannot load %s-%d", self.topic_name, handle.index)
                continue
            handle.finish_loading()

    async def _load_one(self, handle: ShardHandle[S]) -> None:
        partition_log = handle.partition.log
        offset = partition_log.log_start_offset
        end = partition_log.log_end_offset
        while offset < end:
            data = partition_log.read_bytes(offset, _LOAD_BYTES)
            if not data:
                break
            for position, header in iter_headers(data):
                self._replay_batch(handle, data, position, header)
                offset = header.next_offset
            await asyncio.sleep(0)

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
                        handle.shard.replay(bytes(record.key), record.value, producer_id)
                except ValueError as error:
                    self._skip(handle, record.offset, error)
        except CorruptBatch as error:
            self._skip(handle, header.base_offset, error)

    def _skip(self, handle: ShardHandle[S], offset: int, error: Exception) -> None:
        self.skipped_records += 1
        log.error("skipped offset %d of %s-%d: %s", offset, self.topic_name, handle.index, error)

    async def stop(self) -> None:
        """No timer fires any more; what is still under way can be written."""
        if self._load_task is not None:
            self._load_task.cancel()
        for handle in self._handles:
            handle.stop()
