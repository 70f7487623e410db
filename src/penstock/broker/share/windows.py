"""The windows of this broker's share-partitions: made when a fetch first names them, forgotten when nobody needs them.

A window (`LiveSharePartition`) is made from the state that the share coordinator keeps. It is forgotten when the group
has no session left here and nothing is in flight, and dropped when its state has changed below it, or when another
broker leads the partition or keeps its state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.cold_reads import when_fetched
from penstock.broker.share.configs import duration_ms
from penstock.broker.share.live import LiveSharePartition, steady_ms
from penstock.broker.topics import Partition, Topic
from penstock.queues.sessions import TopicIdPartition
from penstock.queues.share_partition import SharePartition
from penstock.queues.state import UNKNOWN, SharePartitionKey
from penstock.storage.contract import ColdRead
from penstock.wire.errors import (
    CoordinatorLoadInProgress,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
)

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.share.configs import ShareConfigs
    from penstock.broker.share.coordinator import ShareCoordinator
    from penstock.broker.share.dead_letters import DeadLetters
    from penstock.broker.share.metrics import ShareMetrics
    from penstock.broker.world import World

log = logging.getLogger("penstock.share")

CACHE_BYTES = 256 << 20
_CACHE_SHARES_MIN = 8


class ShareWindows:
    coordinator: ShareCoordinator
    """Set by whoever builds both: the coordinator tells the windows when a state has changed."""

    def __init__(
        self,
        cluster: ClusterView,
        world: World,
        configs: ShareConfigs,
        dead_letters: DeadLetters,
        metrics: ShareMetrics,
    ) -> None:
        self._cluster = cluster
        self._world = world
        self._configs = configs
        self._dead_letters = dead_letters
        self._metrics = metrics
        self._started_ms = steady_ms(world)
        self._live: dict[SharePartitionKey, LiveSharePartition] = {}
        self._by_group: dict[str, dict[SharePartitionKey, LiveSharePartition]] = {}
        self._fetching: dict[SharePartitionKey, BaseException | None] = {}
        """Windows whose start is looked up in records that threads bring into memory; why a thread could not."""

    def all(self) -> Iterable[LiveSharePartition]:
        return self._live.values()

    def groups(self) -> list[str]:
        return sorted(self._by_group)

    def of_group(self, group_id: str) -> list[LiveSharePartition]:
        return list(self._by_group.get(group_id, {}).values())

    def find(self, group_id: str, partition: TopicIdPartition) -> LiveSharePartition | None:
        """The window of a partition for a group, if it is in use."""
        return self._live.get((group_id, *partition))

    def open(self, group_id: str, partition: TopicIdPartition) -> LiveSharePartition:
        """The window of a partition for a group, made from its stored state if need be.

        Raises CoordinatorLoadInProgress while it is worth another try in a moment.
        """
        key = (group_id, *partition)
        found = self._live.get(key)
        if found is None:
            try:
                found = self._live[key] = self._load(key, self.partition(partition))
            except ColdRead as cold:
                self._fetch(key, cold)
                raise CoordinatorLoadInProgress() from None
            self._by_group.setdefault(group_id, {})[key] = found
            self._metrics.tallies.opened(found)
        return found

    def partition(self, partition: TopicIdPartition) -> Partition:
        """A partition that a request names. Raises what is wrong with it, if anything."""
        topic = self._cluster.topic_by_id(partition[0])
        if topic is None:
            raise UnknownTopicId()
        return topic.hosted(partition[1])

    def cache_bytes_max(self) -> int:
        """How much one window may keep of the batches below it: an equal part of what all of them may."""
        return CACHE_BYTES // max(_CACHE_SHARES_MIN, len(self._live))

    def _load(self, key: SharePartitionKey, partition: Partition) -> LiveSharePartition:
        started_ms = steady_ms(self._world)
        self._cluster.catch_up()  # where a new window begins may have been set through another broker a moment ago
        settings = self._configs.settings(key[0])
        ownership, state = self.coordinator.take_over(key, partition.leader_epoch)
        is_new = state.start_offset == UNKNOWN
        start_offset = self._reset_offset(settings.auto_offset_reset, partition) if is_new else state.start_offset
        core = SharePartition.restore(start_offset, state.batches)
        live = LiveSharePartition(
            ownership,
            partition,
            core,
            world=self._world,
            configs=self._configs,
            coordinator=self.coordinator,
            dead_letters=self._dead_letters,
            metrics=self._metrics,
            cache_bytes_max=self.cache_bytes_max,
        )
        if settings.retry_backoff is not None:
            core.wait_anew(settings.retry_backoff, self._started_ms)
            live.tick()
        if is_new:
            live.write_start_offset()
        interrupted = core.archiving()
        if interrupted:
            self._dead_letters.resume(live, interrupted, settings)
        self._metrics.partition_loaded(steady_ms(self._world) - started_ms)
        log.debug(
            "loaded the window of group %r in %s-%d at offset %d, leader epoch %d",
            key[0],
            partition.topic.name,
            key[2],
            start_offset,
            partition.leader_epoch,
        )
        return live

    def _fetch(self, key: SharePartitionKey, cold: ColdRead) -> None:
        """Have threads fetch what the window needs, once however many ask for it. Raises why they could not."""

        def fetched(failure: BaseException | None) -> None:
            if failure is not None:
                self._fetching[key] = failure
            else:
                del self._fetching[key]

        if self._fetching.get(key) is not None:
            raise KafkaStorageError(str(self._fetching.pop(key)))
        if key not in self._fetching:
            self._fetching[key] = None
            when_fetched(self._world, cold, fetched)

    def _reset_offset(self, policy: str, partition: Partition) -> int:
        """Where `share.auto.offset.reset` lets a group begin."""
        if policy == "earliest":
            return partition.log.log_start_offset
        if policy.startswith("by_duration:"):
            since_ms = self._world.now_ms() - duration_ms(policy.partition(":")[2])
            found = partition.log.offset_for_timestamp(max(0, since_ms))
            return found.offset if found is not None else partition.log.high_watermark
        return partition.log.high_watermark

    def drop(self, key: SharePartitionKey, error: KafkaError) -> None:
        """Forget a window whose state has changed below it; who waits for it is told."""
        live = self._forget(key)
        if live is not None:
            place = (live.partition.topic.name, key[2])
            log.debug("dropped the window of group %r in %s-%d: %s", key[0], *place, type(error).__name__)
            for fetch in live.waiting.all():
                fetch.partition_lost((key[1], key[2]), error)

    def leadership_changed(self, partition: Partition) -> None:
        """Forget the windows of a partition that another broker leads now, or that is led from here anew."""
        for key in [key for key, live in self._live.items() if live.partition is partition]:
            self.drop(key, NotLeaderOrFollower())

    def states_lost(self, state_partition: int, error: KafkaError) -> None:
        """Forget the windows that were made from one partition of the state topic: their last writes may be lost."""
        for key in [key for key, live in self._live.items() if live.state_partition == state_partition]:
            self.drop(key, error)

    def topic_deleted(self, topic: Topic) -> None:
        for key in [key for key in self._live if key[1] == topic.topic_id]:
            self.drop(key, UnknownTopicId())

    def forget_idle(self, group_id: str) -> None:
        for live in self.of_group(group_id):
            if live.is_idle:
                self._forget(live.key)

    def close(self) -> None:
        for live in self._live.values():
            live.close()

    def _forget(self, key: SharePartitionKey) -> LiveSharePartition | None:
        live = self._live.pop(key, None)
        if live is not None:
            live.close()
            self._metrics.tallies.forgotten(live)
            of_group = self._by_group[key[0]]
            del of_group[key]
            if not of_group:
                del self._by_group[key[0]]
        return live
