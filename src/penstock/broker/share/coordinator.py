"""The share coordinator (KIP-932) at work: keeps what of each share-partition survives a crash.

Its shards run over `__share_group_state` like every coordinator's. The rules are those of `penstock.queues.state`; this
module runs them for the windows of this broker, which write with every change, for administrators, and for the group
coordinator. It also deletes what no restart needs any more, and sees to it after a start that no group is past the end
of its log.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from penstock.broker.share.gathering import Gathering
from penstock.broker.share.insisting import insist
from penstock.broker.topics import SHARE_STATE_TOPIC, Topic
from penstock.coordination.effects import Effects, Respond
from penstock.coordination.runtime import CoordinatorRuntime, ShardHandle, StateLog
from penstock.queues.sessions import TopicIdPartition
from penstock.queues.state import UNKNOWN, ShareGroupState, SharePartitionKey, ShareStateShard
from penstock.queues.transitions import StateWrite
from penstock.wire import messages as m
from penstock.wire.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    GroupIdNotFound,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.share.elsewhere import ShareStateElsewhere
    from penstock.broker.share.metrics import ShareMetrics
    from penstock.broker.state_topic import MakeTopic
    from penstock.broker.world import Timer, World
    from penstock.groups.share.protocol import InitializeShareState

log = logging.getLogger("penstock.share")

V = TypeVar("V")
Handle = ShardHandle[ShareStateShard]
Outcome = Callable[[KafkaError | None], None]
Codes = Callable[[dict[TopicIdPartition, ErrorCode]], None]
States = Callable[[dict[TopicIdPartition, ShareGroupState | ErrorCode | None]], None]

_READING_SECONDS = 10.0
"""How long the answer of a coordinator elsewhere is waited for, and kept for the fetch that wanted it."""
_MAX_READING = 1000
_COMPARING_AGAIN_SECONDS = 1.0

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


class Ownership(NamedTuple):
    """What the owner of a share-partition shows with each of its writes."""

    key: SharePartitionKey
    state_partition: int
    """The partition of the state topic that keeps it."""
    state_epoch: int


class ShareCoordinator:
    def __init__(
        self,
        make_topic: MakeTopic,
        cluster: ClusterView,
        world: World,
        config: BrokerConfig,
        metrics: ShareMetrics,
        on_state_changed: Callable[[SharePartitionKey, KafkaError], None],
        on_states_lost: Callable[[int, KafkaError], None],
        elsewhere: ShareStateElsewhere,
    ) -> None:
        """`on_state_changed` is called for a state that is no longer what the share-partition's owner thinks it is,
        `on_states_lost` with a partition of the state topic of which that is true for all that it keeps."""
        self._cluster = cluster
        self._world = world
        self._config = config
        self._metrics = metrics
        self._on_state_changed = on_state_changed
        self._on_states_lost = on_states_lost
        self._elsewhere = elsewhere
        self._reading: dict[SharePartitionKey, _Reading] = {}
        self._unflushed: dict[StateLog, None] = {}
        self._flush_timer: Timer | None = None
        self._pruned: dict[int, int] = {}
        self._prune_timer: Timer | None = None
        self._log_ends: dict[TopicIdPartition, int] = {}
        """Where the logs ended when the broker started, as long as not every stored state was compared with them."""
        self._compared: set[int] = set()
        state_topic = make_topic(
            SHARE_STATE_TOPIC,
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            },
        )
        self.runtime: CoordinatorRuntime[ShareStateShard] = CoordinatorRuntime(world, state_topic, self._make_shard)
        self.runtime.on_given_up = self._shard_given_up

    def _make_shard(self, index: int) -> ShareStateShard:
        return ShareStateShard(
            self.partition_exists,
            self._config.share_coordinator_snapshot_update_records_per_snapshot,
            self._config.share_coordinator_cold_partition_snapshot_interval_ms,
        )

    def _shard_given_up(self, index: int) -> None:
        self._pruned.pop(index, None)
        self._on_states_lost(index, CoordinatorNotAvailable())

    def start(self) -> None:
        if self._cluster.find_topic(SHARE_STATE_TOPIC) is not None:
            self._log_ends = {
                (partition.topic.topic_id, partition.index): partition.log.high_watermark
                for partition in self._cluster.hosted_partitions()
            }
        self.runtime.start()
        self.runtime.when_loaded(self._compare_all)
        self._prune_timer = self._world.call_later(self._prune_seconds, self._prune)

    def stop(self) -> None:
        for timer in (self._prune_timer, self._flush_timer):
            if timer is not None:
                timer.cancel()  # every log is synced at the end of the stop
        self.runtime.stop()

    def partition_exists(self, topic_id: bytes, index: int) -> bool:
        topic = self._cluster.topic_by_id(topic_id)
        return topic is not None and topic.has_partition(index)

    def handle(self, key: SharePartitionKey) -> Handle:
        """The shard that keeps a share-partition. Raises COORDINATOR_LOAD_IN_PROGRESS until it is loaded."""
        handle = self.runtime.find(coordinator_key(key))
        if self._log_ends and not self._compare(handle):
            raise CoordinatorLoadInProgress()
        return handle

    # -- for the owners of share-partitions -----------------------------------------------------------------------

    def take_over(self, key: SharePartitionKey, leader_epoch: int) -> tuple[Ownership, ShareGroupState]:
        """The stored state for a new owner, who fences the one before. Raises what stands in the way.

        Where another broker keeps the state, that is CoordinatorLoadInProgress until it has answered.
        """
        try:
            handle = self.handle(key)
        except NotCoordinator:
            return self._take_over_elsewhere(key, leader_epoch)
        results: list[m.ReadShareGroupStateResponse.PartitionResult] = []
        if not handle.run(handle.shard.read(results.append, key, leader_epoch)):
            raise CoordinatorNotAvailable()
        if results and results[0].error_code != ErrorCode.NONE:
            raise _error_of(results[0])
        state = handle.shard.get(key)
        assert state is not None
        return Ownership(key, handle.index, state.state_epoch), state

    def _take_over_elsewhere(self, key: SharePartitionKey, leader_epoch: int) -> tuple[Ownership, ShareGroupState]:
        now = self._world.monotonic()
        state_partition = self.state_partition(key)
        reading = self._reading.get(key)
        if reading is not None and reading.is_of_use(leader_epoch, now):
            if reading.answer is None:
                raise CoordinatorLoadInProgress()
            del self._reading[key]
            if isinstance(reading.answer, KafkaError):
                raise _SEEN_BY_CLIENTS.get(reading.answer.code, UnknownServerError)(reading.answer.message)
            return Ownership(key, state_partition, reading.answer.state_epoch), reading.answer
        node_id = self._elsewhere.keeper(state_partition)
        if len(self._reading) >= _MAX_READING:
            self._reading = {known: each for known, each in self._reading.items() if each.is_of_use(-1, now)}
            if len(self._reading) >= _MAX_READING:
                raise CoordinatorLoadInProgress()
        reading = self._reading[key] = _Reading(leader_epoch, now + _READING_SECONDS)
        self._elsewhere.read(node_id, key, leader_epoch, reading.answered)
        raise CoordinatorLoadInProgress()

    def _write_elsewhere(self, owner: Ownership, leader_epoch: int, write: StateWrite, outcome: Outcome) -> None:
        node_id = self._elsewhere.keeper(owner.state_partition)

        def written(error: KafkaError | None) -> None:
            if error is None:
                outcome(None)
                return
            self._on_state_changed(owner.key, NotLeaderOrFollower())
            outcome(_SEEN_BY_CLIENTS.get(error.code, UnknownServerError)(error.message))

        self._metrics.state_writes += 1
        self._elsewhere.write(node_id, owner.key, owner.state_epoch, leader_epoch, write, written)

    def write(self, owner: Ownership, leader_epoch: int, write: StateWrite, outcome: Outcome) -> bool:
        """Remember a change; raises what stands in the way.

        True: it is as durable as configured. False: not yet, and the outcome will be told. A queue delivers at least
        once, so by default nobody waits for the disk here: it follows a moment later. Where what was appended can be
        lost while the broker runs on, everybody waits: a record that was accepted must not come again.
        """
        try:
            handle = self.runtime.handle(owner.state_partition)
        except NotCoordinator:
            self._write_elsewhere(owner, leader_epoch, write, outcome)
            return False
        except KafkaError:
            raise CoordinatorNotAvailable from None
        reply = _WriteReply(outcome)
        effects = handle.shard.write(
            reply,
            owner.key,
            state_epoch=owner.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            batches=write.batches,
            now_ms=self._world.now_ms(),
        )
        if not effects.records:
            effects.send()
            assert reply.result is not None
            self._world.call_soon(self._on_state_changed, owner.key, NotLeaderOrFollower())
            raise _error_of(reply.result)
        flush_interval_ms = self._flush_interval_ms(handle.log)
        if flush_interval_ms:
            effects.replies.clear()
        self._metrics.state_writes += 1
        if not handle.run(effects):
            raise CoordinatorNotAvailable
        if flush_interval_ms:
            self._flush_within(flush_interval_ms, handle.log)
            return True
        reply.is_awaited = reply.result is None
        return not reply.is_awaited

    def confirm_early(self, state_log: StateLog, effects: Effects) -> None:
        """Have a write of another broker confirmed as those of this one are: before it is on disk, if the configs allow
        it, and then it gets there soon."""
        flush_interval_ms = self._flush_interval_ms(state_log)
        if flush_interval_ms and effects.records:
            effects.replies_wait = False
            self._flush_within(flush_interval_ms, state_log)

    def _flush_interval_ms(self, state_log: StateLog) -> int:
        return 0 if state_log.can_lose_appends else self._config.penstock_share_flush_interval_ms

    def _flush_within(self, interval_ms: int, state_log: StateLog) -> None:
        if not self._unflushed:
            self._flush_timer = self._world.call_later(interval_ms / 1000, self._flush_state)
        self._unflushed[state_log] = None

    def _flush_state(self) -> None:
        for state_log in self._unflushed:
            state_log.make_durable_soon()
        self._unflushed.clear()

    # -- for the group coordinator and for administrators ----------------------------------------------------------

    def initialize(self, action: InitializeShareState, done: Codes) -> None:
        """Begin the state of share-partitions, anew or where there is none. `done` is called when it is durable."""
        group_id = action.group_id
        named = {(topic_id, index): at for topic_id, each in action.start_offsets.items() for index, at in each.items()}

        def attempt(pending: Mapping[TopicIdPartition, int], answered: Codes) -> None:
            here, elsewhere = self._apart(group_id, pending)
            gathering = Gathering({}, len(here) + len(elsewhere), answered)
            now_ms = self._world.now_ms()
            for tp, start_offset in here.items():
                command = partial(
                    ShareStateShard.initialize,
                    key=(group_id, *tp),
                    state_epoch=action.state_epoch,
                    start_offset=start_offset,
                    now_ms=now_ms,
                    anew=tp[0] in action.anew,
                )
                self._run((group_id, *tp), command, gathering)
            for node_id, there in elsewhere.items():
                self._elsewhere.begin(node_id, action, there, gathering.add)

        insist(self._world, named, attempt, done)

    def delete(self, group_id: str, partitions: Mapping[bytes, Collection[int]], done: Codes) -> None:
        named = {(topic_id, index): None for topic_id, indexes in partitions.items() for index in indexes}

        def attempt(pending: Mapping[TopicIdPartition, None], answered: Codes) -> None:
            here, elsewhere = self._apart(group_id, pending)
            gathering = Gathering({}, len(here) + len(elsewhere), answered)
            for tp in here:
                key = (group_id, *tp)
                self._run(key, partial(ShareStateShard.delete, key=key), gathering)
            for node_id, there in elsewhere.items():
                self._elsewhere.delete(node_id, group_id, there, gathering.add)

        insist(self._world, named, attempt, done)

    def _apart(
        self, group_id: str, pending: Mapping[TopicIdPartition, V]
    ) -> tuple[dict[TopicIdPartition, V], dict[int, dict[TopicIdPartition, V]]]:
        """What is kept here, and what by which other broker."""
        here: dict[TopicIdPartition, V] = {}
        elsewhere: dict[int, dict[TopicIdPartition, V]] = {}
        for tp, value in pending.items():
            node_id = self._keeper_elsewhere((group_id, *tp))
            (here if node_id is None else elsewhere.setdefault(node_id, {}))[tp] = value
        return here, elsewhere

    def state_partition(self, key: SharePartitionKey) -> int:
        """The partition of the state topic that keeps a share-partition."""
        return self.runtime.partition_for(coordinator_key(key))

    def _keeper_elsewhere(self, key: SharePartitionKey) -> int | None:
        """The other broker that keeps a share-partition's state, if one is known to."""
        if not self._cluster.is_shared:
            return None
        return self._cluster.leader_elsewhere(SHARE_STATE_TOPIC, self.state_partition(key))

    def states(self, group_id: str, partitions: Iterable[TopicIdPartition], done: States) -> None:
        """The states of share-partitions, wherever they are kept: None for one that has none, or what went wrong.

        `done` is called at once, unless some of them are kept elsewhere.
        """
        found: dict[TopicIdPartition, ShareGroupState | ErrorCode | None] = {}
        elsewhere: dict[int, list[TopicIdPartition]] = {}
        for tp in partitions:
            key = (group_id, *tp)
            node_id = self._keeper_elsewhere(key)
            if node_id is not None:
                elsewhere.setdefault(node_id, []).append(tp)
                continue
            found[tp] = self.handle(key).shard.get(key)
        gathering = Gathering(found, len(elsewhere), done)
        for node_id, there in elsewhere.items():
            self._elsewhere.summaries(node_id, group_id, there, gathering.add)

    def _run(self, key: SharePartitionKey, command: Command, gathering: Gathering[TopicIdPartition, ErrorCode]) -> None:
        tp = (key[1], key[2])
        try:
            handle = self.handle(key)
        except KafkaError as error:
            gathering.add({tp: error.code})
            return
        effects = command(handle.shard, lambda result: gathering.add({tp: ErrorCode(result.error_code)}))
        changes = bool(effects.records)
        handle.run(effects)
        if changes:
            self._on_state_changed(key, NotLeaderOrFollower())

    def topic_deleted(self, topic: Topic) -> None:
        for handle in self.runtime.loaded_handles():
            effects = handle.shard.topics_deleted({topic.topic_id})
            if effects.records:
                handle.run(effects)

    # -- the state topic -------------------------------------------------------------------------------------------

    def _compare_all(self) -> None:
        """See to it that no group is past the end of its log, before the log can grow over that by another restart."""
        are_compared = True
        for handle in self.runtime.loaded_handles():
            are_compared &= self._compare(handle)
            if not handle.log.is_durable:
                # Confirmed by a process that was killed before it flushed them: their time is long up.
                handle.log.make_durable_soon()
        if are_compared:
            self._log_ends.clear()
            self._compared.clear()
        else:
            self._world.call_later(_COMPARING_AGAIN_SECONDS, self._compare_all)

    def _compare(self, handle: Handle) -> bool:
        """False where the storage refuses to note what has to be noted: nobody may use these states until it does."""
        if handle.index in self._compared:
            return True
        effects = handle.shard.bring_back(lambda key: self._log_ends.get(key[1:]), self._world.now_ms())
        if effects.records:
            number = len(effects.records)
            if not handle.run(effects):
                return False
            log.warning(
                "%d share-partitions were past the end of their logs, which lost records: they return to the end",
                number,
            )
            handle.log.make_durable_soon()
        self._compared.add(handle.index)
        return True

    @property
    def _prune_seconds(self) -> float:
        return self._config.share_coordinator_state_topic_prune_interval_ms / 1000

    def _prune(self) -> None:
        """Delete the records of the state topic that no restart needs any more."""
        self._prune_timer = self._world.call_later(self._prune_seconds, self._prune)
        if self.runtime.skipped_records:
            return
        for handle in self.runtime.loaded_handles():
            if handle.log.can_lose_appends and not handle.log.is_durable:
                continue  # what makes older records superfluous may yet be lost
            offset = handle.log.log_end_offset - handle.shard.records_needed()
            if offset > max(handle.log.log_start_offset, self._pruned.get(handle.index, 0)):
                handle.log.delete_records(offset)
                self._pruned[handle.index] = offset


class _Reading:
    """A state that another broker was requested for."""

    __slots__ = ("_leader_epoch", "_until", "answer")

    def __init__(self, leader_epoch: int, until: float) -> None:
        self._leader_epoch = leader_epoch
        self._until = until
        self.answer: ShareGroupState | KafkaError | None = None

    def answered(self, answer: ShareGroupState | KafkaError) -> None:
        self.answer = answer

    def is_of_use(self, leader_epoch: int, now: float) -> bool:
        return now < self._until and leader_epoch in (UNKNOWN, self._leader_epoch)


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
