"""The internal topics of coordinators, as `coordination.runtime` sees them: found, created, appended to, read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.broker.cold_reads import until_fetched
from penstock.broker.file_range import FileRange, until_cached
from penstock.broker.histogram import Histogram
from penstock.broker.metrics import Metric
from penstock.broker.storage_errors import error_for_clients
from penstock.broker.topics import SHARE_STATE_TOPIC
from penstock.storage.contract import ColdRead, FetchSlice, StorageError
from penstock.wire.errors import CoordinatorNotAvailable, KafkaStorageError, NotLeaderOrFollower, TopicAlreadyExists

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.durability import Durability
    from penstock.broker.topic_manager import TopicManager
    from penstock.broker.topics import Partition, Topic
    from penstock.broker.world import World
    from penstock.coordination.runtime import StateLog, StateTopic

MakeTopic = Callable[[str, int, int, Mapping[str, str]], "StateTopic"]
"""Gives a coordinator its internal topic, by name, number of partitions and configs."""


class StateWrites:
    """How the writes to one internal topic went."""

    __slots__ = ("failed", "failing_since", "longest", "times", "written")

    def __init__(self) -> None:
        self.written = self.failed = 0
        self.times = Histogram()
        self.longest = 0.0
        self.failing_since: float | None = None

    def succeeded(self) -> None:
        self.written += 1
        self.failing_since = None

    def took(self, seconds: float) -> None:
        self.times.add(seconds)
        self.longest = max(self.longest, seconds)

    def did_not_succeed(self, now: float) -> None:
        self.failed += 1
        if self.failing_since is None:
            self.failing_since = now


class PartitionStateLog:
    """One partition of an internal topic."""

    __slots__ = ("_durability", "_partition", "_world", "_writes")

    def __init__(self, partition: Partition, durability: Durability, world: World, writes: StateWrites) -> None:
        self._partition = partition
        self._writes = writes
        self._durability = durability
        self._world = world

    @property
    def index(self) -> int:
        return self._partition.index

    @property
    def log_start_offset(self) -> int:
        return self._partition.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._partition.log.log_end_offset

    @property
    def is_durable(self) -> bool:
        return self._partition.log.is_durable

    @property
    def is_leader(self) -> bool:
        return self._partition.log.is_leader

    @property
    def can_lose_appends(self) -> bool:
        return self._durability.can_lose_appends

    def append(self, batch: bytearray, now_ms: int) -> int:
        try:
            position = self._partition.append_internal(batch, now_ms).position
        except StorageError as error:
            self._writes.did_not_succeed(self._world.monotonic())
            raise error_for_clients(error) from error
        self._writes.succeeded()
        return position

    async def read(self, offset: int, max_bytes: int) -> bytes:
        await asyncio.sleep(0)
        try:
            found = await self._find(offset, max_bytes)
            if not found.size and not self._partition.log.is_durable and self.can_lose_appends:
                await self._until_durable()
                found = await self._find(offset, max_bytes)
            if found.file is not None:
                await until_cached(self._world, FileRange(found.file, found.position, found.size))
            return found.read()
        except StorageError as error:
            raise error_for_clients(error) from error

    async def _find(self, offset: int, max_bytes: int) -> FetchSlice:
        while True:
            try:
                return self._partition.log.read(offset, max_bytes)
            except ColdRead as cold:
                await until_fetched(self._world, cold)

    async def _until_durable(self) -> None:
        """What lies above the high watermark is read when it is committed."""
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def ended(failure: Exception | None) -> None:
            if not durable.done():
                durable.set_result(None)

        self.when_durable(self.log_end_offset, ended)
        await durable

    def when_durable(self, position: int, then: Callable[[Exception | None], None]) -> None:
        began = self._world.precise()

        def ended(failure: StorageError | None) -> None:
            if failure is None:
                self._writes.took(self._world.precise() - began)
            else:
                self._writes.did_not_succeed(self._world.monotonic())
            then(None if failure is None else error_for_clients(failure))

        self._durability.when_durable([(self._partition.log, position)], ended)

    def make_durable_soon(self) -> None:
        self._durability.begin(self._partition.log)

    def delete_records(self, offset: int) -> None:
        try:
            self._partition.log.delete_records(offset, self._world.now_ms())
        except StorageError as error:
            raise error_for_clients(error) from error


class LogElsewhere:
    """One partition of an internal topic that another broker leads, or nobody."""

    __slots__ = ("index",)

    log_start_offset = log_end_offset = 0
    is_durable = True
    is_leader = can_lose_appends = False

    def __init__(self, index: int) -> None:
        self.index = index

    def append(self, batch: bytearray, now_ms: int) -> int:
        raise NotLeaderOrFollower

    async def read(self, offset: int, max_bytes: int) -> bytes:
        raise NotLeaderOrFollower

    def when_durable(self, position: int, then: Callable[[Exception | None], None]) -> None:
        then(NotLeaderOrFollower())

    def make_durable_soon(self) -> None:
        pass

    def delete_records(self, offset: int) -> None:
        raise NotLeaderOrFollower


class InternalTopic:
    """The internal topic of one coordinator, which is created on first use."""

    def __init__(
        self, owner: InternalTopics, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        self.name = name
        self._owner = owner
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._configs = configs

    def find(self) -> list[StateLog] | None:
        topic = self._owner.cluster.find_topic(self.name)
        return None if topic is None else self._owner.logs(topic)

    def create(self) -> list[StateLog]:
        try:
            replicas = min(self._replication_factor, len(self._owner.cluster.replica_ids))
            topic = self._owner.topics.create(self.name, self._partitions, self._configs, replication_factor=replicas)
        except TopicAlreadyExists:  # another broker was faster
            found = self._owner.cluster.find_topic(self.name)
            if found is None:
                raise CoordinatorNotAvailable from None
            topic = found
        except KafkaStorageError as error:
            raise CoordinatorNotAvailable(error.message) from error
        return self._owner.logs(topic)

    def on_deleted(self, callback: Callable[[], None]) -> None:
        def deleted(topic: Topic) -> None:
            if topic.name == self.name:
                callback()

        self._owner.topics.on_topic_deleted.append(deleted)

    def on_leadership(self, callback: Callable[[int], None]) -> None:
        def changed(partition: Partition) -> None:
            if partition.topic.name == self.name:
                callback(partition.index)

        self._owner.cluster.on_leadership_changed.append(changed)


class InternalTopics:
    """Gives each coordinator its topic."""

    def __init__(
        self,
        cluster: ClusterView,
        topics: TopicManager,
        durability: Durability,
        world: World,
    ) -> None:
        self.cluster = cluster
        self.topics = topics
        self._durability = durability
        self._world = world
        self._writes: dict[str, StateWrites] = {}

    def metrics(self) -> Iterator[Metric]:
        written = Metric("penstock_coordinator_writes_total")
        failed = Metric("penstock_coordinator_write_failures_total")
        times = Metric("penstock_coordinator_write_time_ms")
        failing = Metric("penstock_coordinator_writes_failing_seconds")
        now = self._world.monotonic()
        for name, writes in sorted(self._writes.items()):
            written.add(writes.written, name)
            failed.add(writes.failed, name)
            times.add_histogram(writes.times, name)
            failing.add(0 if writes.failing_since is None else now - writes.failing_since, name)
        yield from (written, failed, times, failing)
        share = self._writes.get(SHARE_STATE_TOPIC) or StateWrites()
        count = share.times.count
        name = "kafka_server_share_coordinator_metrics_write_latency_"
        yield Metric(name + "avg").add(share.times.milliseconds / count if count else 0)
        yield Metric(name + "max").add(share.longest * 1000)

    def success_ages(self) -> dict[str, float]:
        """Since when writes to each internal topic have not succeeded; 0 while they do."""
        now = self._world.monotonic()
        return {
            f"writes to {name}": 0.0 if writes.failing_since is None else now - writes.failing_since
            for name, writes in self._writes.items()
        }

    def topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> InternalTopic:
        """It has as many replicas as there are brokers when it is created, and no more than `replication_factor`."""
        return InternalTopic(self, name, partitions, replication_factor, configs)

    def logs(self, topic: Topic) -> list[StateLog]:
        """One for each partition, also for those of other brokers."""
        writes = self._writes.setdefault(topic.name, StateWrites())
        logs: list[StateLog] = []
        for index in range(topic.partition_count):
            partition = topic.find_open(index)
            if partition is None:
                logs.append(LogElsewhere(index))
            else:
                logs.append(PartitionStateLog(partition, self._durability, self._world, writes))
        return logs
