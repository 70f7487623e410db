"""Everything this broker knows about share groups: sessions, windows, and the share coordinator behind them.

A window (`LiveSharePartition`) is made by the first fetch that names it, from the state that the share coordinator
keeps, and is forgotten when the group has no session left here and nothing is in flight. The share coordinator's shards
run over `__share_group_state` like every coordinator's (`coordination.runtime`).
"""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.connection import Connection
from penstock.broker.features import SHARE_VERSION
from penstock.broker.share.configs import ShareConfigs, duration_ms
from penstock.broker.share.dead_letters import DeadLetters
from penstock.broker.share.fetch import ShareFetch, unknown_partition
from penstock.broker.share.live import LiveSharePartition, Outcome
from penstock.broker.share.metrics import ShareMetrics
from penstock.broker.topics import SHARE_STATE_TOPIC, Partition, Topic
from penstock.coordination.effects import Effects, Respond
from penstock.coordination.runtime import CoordinatorRuntime, ShardHandle, StateLog
from penstock.queues.sessions import ShareSession, ShareSessions, TopicIdPartition
from penstock.queues.settings import ShareSettings
from penstock.queues.share_partition import SharePartition
from penstock.queues.state import UNKNOWN, SharePartitionKey, ShareStateShard
from penstock.queues.transitions import StateWrite
from penstock.wire import messages as m
from penstock.wire.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    GroupIdNotFound,
    KafkaError,
    NotLeaderOrFollower,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.server import Broker

log = logging.getLogger("penstock.share")

Handle = ShardHandle[ShareStateShard]

_CACHE_BYTES = 256 << 20
_CACHE_SHARES_MIN = 8

# What a client sees when the share coordinator refuses its partition's owner.
_SEEN_BY_CLIENTS: dict[int, type[KafkaError]] = {
    ErrorCode.NOT_COORDINATOR: CoordinatorNotAvailable,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: CoordinatorNotAvailable,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: CoordinatorNotAvailable,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupIdNotFound,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopicOrPartition,
    ErrorCode.FENCED_LEADER_EPOCH: NotLeaderOrFollower,
    ErrorCode.FENCED_STATE_EPOCH: NotLeaderOrFollower,
}


class _Result(Protocol):
    """What the results of the share coordinator's commands have in common."""

    @property
    def error_code(self) -> int: ...

    @property
    def error_message(self) -> str | None: ...


Command = Callable[[ShareStateShard, Respond[_Result]], Effects]


class ShareGroups:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.sessions = ShareSessions()
        self.parked: dict[ShareSession, ShareFetch] = {}
        self.metrics = ShareMetrics(self)
        self.dead_letters = DeadLetters(self)
        self.configs = ShareConfigs(broker)
        self._live: dict[SharePartitionKey, LiveSharePartition] = {}
        self._live_by_group: dict[str, dict[SharePartitionKey, LiveSharePartition]] = {}
        self._unflushed: set[StateLog] = set()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._pruned: dict[int, int] = {}
        self._prune_timer: asyncio.TimerHandle | None = None
        self._started_ms = broker.now_ms()
        self._log_ends: dict[TopicIdPartition, int] = {}
        """Where the logs ended when the broker started, as long as not every stored state was compared with them."""
        self._compared: set[int] = set()
        config = broker.config
        self.runtime: CoordinatorRuntime[ShareStateShard] = CoordinatorRuntime(
            broker.world,
            broker.internal_topics.topic(
                SHARE_STATE_TOPIC,
                config.share_coordinator_state_topic_num_partitions,
                {
                    "cleanup.policy": "delete",
                    "retention.ms": "-1",
                    "compression.type": "producer",
                    "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                    "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
                },
            ),
            self._make_shard,
        )

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.broker.loop

    @property
    def fetch_max_bytes(self) -> int:
        return self.broker.config.fetch_max_bytes

    @property
    def _prune_seconds(self) -> float:
        return self.broker.config.share_coordinator_state_topic_prune_interval_ms / 1000

    @property
    def max_sessions(self) -> int:
        return self.broker.config.group_share_max_share_sessions

    def now_ms(self) -> int:
        return self.broker.now_ms()

    def cache_bytes_max(self) -> int:
        """How much one window may keep of the batches below it: an equal part of what all of them may."""
        return _CACHE_BYTES // max(_CACHE_SHARES_MIN, len(self._live))

    def settings(self, group_id: str) -> ShareSettings:
        return self.configs.settings(group_id)

    def start(self) -> None:
        self.configs.start()
        if self.broker.topics.find(SHARE_STATE_TOPIC) is not None:
            self._log_ends = {
                (topic.topic_id, partition.index): partition.log.log_end_offset
                for topic in self.broker.topics.all()
                for partition in topic.partitions
            }
        self.runtime.start()
        self.runtime.when_loaded(self._compare_all)
        self.broker.on_connection_closed.append(self._connection_closed)
        self.broker.on_topic_deleted.append(self._topic_deleted)
        self.broker.features.listeners.append(self._features_changed)
        self.broker.metrics.register(self.metrics.collect)
        self.broker.monitoring.register("/share-groups", self._view)
        self._prune_timer = self.loop.call_later(self._prune_seconds, self._prune)

    def _features_changed(self) -> None:
        """Where share groups are switched off, nobody can acknowledge: what members hold comes back."""
        if not self.broker.features.level(SHARE_VERSION):
            for session in self.sessions.all():
                self.close_session(session)

    def stop(self) -> None:
        """What members hold comes back while it can still be written: the next start finds it with its deliveries."""
        if self._prune_timer is not None:
            self._prune_timer.cancel()
        for session in self.sessions.all():
            self.close_session(session)
        for live in list(self._live.values()):
            live.close()
        if self._flush_timer is not None:
            self._flush_timer.cancel()  # every log is synced at the end of the stop
        self.runtime.stop()

    # -- windows ---------------------------------------------------------------------------------------------------

    def live(self, group_id: str, partition: TopicIdPartition) -> LiveSharePartition:
        """The window of a partition for a group, made from its stored state if need be."""
        key = (group_id, *partition)
        found = self._live.get(key)
        if found is None:
            error = unknown_partition(self, partition)
            if error is not None:
                raise error
            found = self._live[key] = self._load(key)
            self._live_by_group.setdefault(group_id, {})[key] = found
        return found

    def live_now(self, group_id: str, partition: TopicIdPartition) -> LiveSharePartition | None:
        return self._live.get((group_id, *partition))

    def lives(self) -> Iterable[LiveSharePartition]:
        return self._live.values()

    def lives_of(self, group_id: str) -> list[LiveSharePartition]:
        return list(self._live_by_group.get(group_id, {}).values())

    def _load(self, key: SharePartitionKey) -> LiveSharePartition:
        started_ms = self.now_ms()
        topic = self.broker.topics.by_id(key[1])
        assert topic is not None
        partition = topic.partitions[key[2]]
        handle = self.handle(key)
        results: list[m.ReadShareGroupStateResponse.PartitionResult] = []
        if not handle.run(handle.shard.read(results.append, key, partition.leader_epoch)):
            raise CoordinatorNotAvailable()
        if results and results[0].error_code != ErrorCode.NONE:
            raise _error_of(results[0])
        state = handle.shard.get(key)
        assert state is not None
        is_new = state.start_offset == UNKNOWN
        start_offset = self._reset_offset(key[0], partition) if is_new else state.start_offset
        core = SharePartition.restore(start_offset, state.batches)
        live = LiveSharePartition(self, key, partition, core, state.state_epoch)
        backoff = self.settings(key[0]).retry_backoff
        if backoff is not None:
            core.wait_anew(backoff, self._started_ms)
            live.tick()
        if is_new:
            live.write_start_offset()
        interrupted = core.archiving()
        if interrupted:
            self.dead_letters.resume(live, interrupted, self.settings(key[0]))
        self.metrics.partition_loaded(self.now_ms() - started_ms)
        return live

    def _reset_offset(self, group_id: str, partition: Partition) -> int:
        """Where `share.auto.offset.reset` lets a group begin."""
        policy = self.settings(group_id).auto_offset_reset
        if policy == "earliest":
            return partition.log.log_start_offset
        if policy.startswith("by_duration:"):
            since_ms = self.now_ms() - duration_ms(policy.partition(":")[2])
            found = partition.log.offset_for_timestamp(max(0, since_ms))
            return found.offset if found is not None else partition.log.high_watermark
        return partition.log.high_watermark

    def drop(self, key: SharePartitionKey, error: KafkaError) -> None:
        """Forget a window whose state has changed below it; who waits for it is told."""
        live = self._forget(key)
        if live is not None:
            for fetch in live.waiting.all():
                fetch.partition_lost((key[1], key[2]), error)

    def _forget(self, key: SharePartitionKey) -> LiveSharePartition | None:
        live = self._live.pop(key, None)
        if live is not None:
            live.close()
            of_group = self._live_by_group[key[0]]
            del of_group[key]
            if not of_group:
                del self._live_by_group[key[0]]
        return live

    def _drop_idle(self, group_id: str) -> None:
        if not self.sessions.in_group(group_id):
            for live in self.lives_of(group_id):
                if live.is_idle:
                    self._forget(live.key)

    # -- sessions --------------------------------------------------------------------------------------------------

    def close_session(self, session: ShareSession) -> None:
        if self.sessions.close(session):
            self._release(session)

    def _release(self, session: ShareSession) -> None:
        fetch = self.parked.get(session)
        if fetch is not None:
            fetch.give_up()
        for live in self.lives_of(session.group_id):
            live.release(session.member_id)
        self._drop_idle(session.group_id)

    def _connection_closed(self, connection: Connection) -> None:
        for session in self.sessions.disconnected(connection):
            self.metrics.session_evictions += 1
            self._release(session)

    # -- the share coordinator -------------------------------------------------------------------------------------

    def _make_shard(self, index: int) -> ShareStateShard:
        return ShareStateShard(
            self.partition_exists,
            self.broker.config.share_coordinator_snapshot_update_records_per_snapshot,
            self.broker.config.share_coordinator_cold_partition_snapshot_interval_ms,
        )

    def partition_exists(self, topic_id: bytes, index: int) -> bool:
        topic = self.broker.topics.by_id(topic_id)
        return topic is not None and 0 <= index < len(topic.partitions)

    def handle(self, key: SharePartitionKey) -> Handle:
        handle = self.runtime.find(coordinator_key(key))
        if self._log_ends:
            self._compare(handle)
        return handle

    def _compare_all(self) -> None:
        """See to it that no group is past the end of its log, before the log can grow over that by another restart."""
        for handle in self.runtime.loaded_handles():
            self._compare(handle)
        self._log_ends.clear()
        self._compared.clear()

    def _compare(self, handle: Handle) -> None:
        if handle.index in self._compared:
            return
        self._compared.add(handle.index)
        effects = handle.shard.bring_back(lambda key: self._log_ends.get(key[1:]), self.now_ms())
        if effects.records:
            log.warning(
                "%d share-partitions were past the end of their logs, which have lost records: they go back to the end",
                len(effects.records),
            )
            handle.run(effects)
            handle.log.make_durable_soon()

    def state_partition(self, key: SharePartitionKey) -> int:
        """The partition of the state topic that keeps a share-partition."""
        return self.runtime.partition_for(coordinator_key(key))

    def write(self, live: LiveSharePartition, write: StateWrite, outcome: Outcome) -> bool:
        """Have the share coordinator remember a change; raises what stands in the way.

        True: it is as durable as configured. False: not yet, and the outcome will be told. A queue delivers at least
        once, so by default nobody waits for the disk here: it follows a moment later.
        """
        try:
            handle = self.runtime.handle(live.state_partition)
        except KafkaError:
            raise CoordinatorNotAvailable from None
        reply = _WriteReply(outcome)
        effects = handle.shard.write(
            reply,
            live.key,
            state_epoch=live.state_epoch,
            leader_epoch=live.partition.leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            batches=write.batches,
            now_ms=self.now_ms(),
        )
        if not effects.records:
            effects.send()
            assert reply.result is not None
            self.loop.call_soon(self.drop, live.key, NotLeaderOrFollower())
            raise _error_of(reply.result)
        flush_interval_ms = self.broker.config.penstock_share_flush_interval_ms
        if flush_interval_ms:
            effects.replies.clear()
        self.metrics.state_writes += 1
        if not handle.run(effects):
            raise CoordinatorNotAvailable
        if flush_interval_ms:
            self._flush_within(flush_interval_ms, handle.log)
            return True
        reply.is_awaited = reply.result is None
        return not reply.is_awaited

    def _flush_within(self, interval_ms: int, state_log: StateLog) -> None:
        if not self._unflushed:
            self._flush_timer = self.loop.call_later(interval_ms / 1000, self._flush_state)
        self._unflushed.add(state_log)

    def _flush_state(self) -> None:
        for state_log in self._unflushed:
            state_log.make_durable_soon()
        self._unflushed.clear()

    def initialize(
        self, group_id: str, state_epoch: int, start_offsets: Mapping[bytes, Mapping[int, int]]
    ) -> dict[TopicIdPartition, ErrorCode]:
        """Begin the state of share-partitions, wiping what was in flight."""
        results: dict[TopicIdPartition, ErrorCode] = {}
        for topic_id, partitions in start_offsets.items():
            for index, start_offset in partitions.items():
                key = (group_id, topic_id, index)
                command = partial(
                    ShareStateShard.initialize,
                    key=key,
                    state_epoch=state_epoch,
                    start_offset=start_offset,
                    now_ms=self.now_ms(),
                )
                results[topic_id, index] = self._run(key, command)
                self.drop(key, NotLeaderOrFollower())
        return results

    def delete(self, group_id: str, partitions: Mapping[bytes, Collection[int]]) -> dict[TopicIdPartition, ErrorCode]:
        results: dict[TopicIdPartition, ErrorCode] = {}
        for topic_id, indexes in partitions.items():
            for index in indexes:
                key = (group_id, topic_id, index)
                command = partial(ShareStateShard.delete, key=key)
                results[topic_id, index] = self._run(key, command)
                self.drop(key, NotLeaderOrFollower())
        return results

    def _run(self, key: SharePartitionKey, command: Command) -> ErrorCode:
        try:
            handle = self.handle(key)
        except KafkaError as error:
            return error.code
        results: list[_Result] = []
        if not handle.run(command(handle.shard, results.append)):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode(results[0].error_code) if results else ErrorCode.NONE

    def _topic_deleted(self, topic: Topic) -> None:
        for key in [key for key in self._live if key[1] == topic.topic_id]:
            self.drop(key, UnknownTopicId())
        for handle in self.runtime.loaded_handles():
            effects = handle.shard.topics_deleted({topic.topic_id})
            if effects.records:
                handle.run(effects)

    def _prune(self) -> None:
        """Delete the records of the state topic that no restart needs any more."""
        self._prune_timer = self.loop.call_later(self._prune_seconds, self._prune)
        if self.runtime.skipped_records:
            return
        for handle in self.runtime.loaded_handles():
            offset = handle.log.log_end_offset - handle.shard.records_needed()
            if offset > max(handle.log.log_start_offset, self._pruned.get(handle.index, 0)):
                handle.log.delete_records(offset)
                self._pruned[handle.index] = offset

    # -- for people who look ---------------------------------------------------------------------------------------

    def _view(self, query: Mapping[str, str]) -> object:
        """The windows of a group, row by row: what `penstock share inspect` draws."""
        group_id = query.get("group")
        if group_id is None:
            return sorted(self._live_by_group)
        now_ms = self.now_ms()
        return [
            {
                "topic": live.partition.topic.name,
                "partition": live.key[2],
                "startOffset": live.core.start_offset,
                "endOffset": live.core.acquired_end_offset,
                "logEndOffset": live.partition.log.log_end_offset,
                "waitingFetches": len(live.waiting),
                "maxRecordLocks": self.settings(group_id).max_record_locks,
                "deliveryCountLimit": self.settings(group_id).delivery_count_limit,
                "records": [
                    {
                        "offset": row.offset,
                        "state": row.state,
                        "deliveryCount": row.delivery_count,
                        "memberId": row.member_id,
                        "remainingMs": row.remaining_ms,
                    }
                    for row in live.core.view(now_ms)
                ],
            }
            for live in sorted(self.lives_of(group_id), key=lambda live: (live.partition.topic.name, live.key[2]))
        ]


class _WriteReply:
    """The coordinator's word on a write, told to the one who waits unless it came while the write was running."""

    __slots__ = ("_outcome", "is_awaited", "result")

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.is_awaited = False
        self.result: _Result | None = None

    def __call__(self, result: _Result) -> None:
        self.result = result
        if self.is_awaited:
            self._outcome(_error_of(result) if result.error_code != ErrorCode.NONE else None)


def _error_of(result: _Result) -> KafkaError:
    return _SEEN_BY_CLIENTS.get(result.error_code, UnknownServerError)(result.error_message or "")


def coordinator_key(key: SharePartitionKey) -> str:
    """The name by which a share-partition finds its partition of the state topic."""
    group_id, topic_id, partition = key
    return f"{group_id}:{urlsafe_b64encode(topic_id).rstrip(b'=').decode()}:{partition}"
