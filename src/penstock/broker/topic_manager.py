"""Creates, grows and deletes topics, and applies their configs: the one place that changes catalog and storage alike.

The catalog says which topics there are; the storage keeps a log for each partition. Creating a topic is logs first,
catalog last; deleting is catalog first, logs last: a crash in between leaves logs that no topic owns, which the next
start removes or sets aside. A change that catalog or storage refuse leaves nothing behind, and raises the KafkaError
that the client is told.

Where several brokers share the catalog it says who leads which partition, and a broker opens the logs of those that it
is to lead. `follow` applies what others have changed: it rereads topics and partitions, and does what is different.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock import guard
from penstock.broker.storage_errors import changing
from penstock.broker.topics import INTERNAL_TOPICS, MAX_PARTITIONS, Partition, Topic, check_name
from penstock.catalog.contract import ConfigChange
from penstock.catalog.shared import FIRST_LEADER_EPOCH, LeaderEpoch, Move, PartitionRow, Placement
from penstock.records.validation import ProduceRules
from penstock.storage.contract import LogConfig, Storage, StorageError
from penstock.wire.errors import (
    InvalidPartitions,
    InvalidTopic,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import Configs
    from penstock.broker.foundation import Shared
    from penstock.broker.world import World
    from penstock.catalog.contract import Catalog, TopicRow


class TopicManager:
    def __init__(
        self,
        cluster: ClusterView,
        storage: Storage,
        catalog: Catalog,
        configs: Configs,
        world: World,
        shared: Shared | None = None,
    ) -> None:
        """`shared`: the catalog, if other brokers use it too."""
        self._shared = shared
        self._leased = None if shared is None else shared.storage
        self._cluster = cluster
        self._storage = storage
        self._catalog = catalog
        self._configs = configs
        self._config = configs.broker
        self._world = world
        self.on_topic_deleted: list[Callable[[Topic], None]] = []
        """Called while the topic can still be looked up, when it is certain that it goes."""
        configs.listeners.append(self._resolve_all)

    def open_all(self) -> None:
        if self._shared is not None:
            self._follow(self._shared)
        else:
            for row in self._catalog.topics():
                topic = self._known(row)
                for index in range(row.partitions):
                    topic.host(self._open(topic, index))
                self._cluster.add_topic(topic)
        self._storage.opened()

    def _known(self, row: TopicRow) -> Topic:
        topic = Topic(row.name, row.topic_id, dict(row.configs), row.partitions)
        self._resolve(topic)
        return topic

    # -- topics ----------------------------------------------------------------------------------------------------

    def get_or_create(self, name: str) -> Topic:
        """The topic for a client that may create it by asking."""
        topic = self._cluster.find_topic(name)
        if topic is not None:
            return topic
        check_name(name)
        if not self._config.auto_create_topics_enable or name in INTERNAL_TOPICS:
            raise UnknownTopicOrPartition()
        collisions = self._cluster.colliding_topics(name)
        if collisions:
            raise InvalidTopic(f"Topic '{name}' collides with existing topics: {', '.join(collisions)}")
        replicas = min(self._config.default_replication_factor, len(self._cluster.replica_ids))
        try:
            return self.create(name, self._config.num_partitions, {}, replication_factor=replicas)
        except TopicAlreadyExists as error:  # another broker was faster
            topic = self._cluster.find_topic(name)
            if topic is None:  # and this one has not heard of it
                raise UnknownTopicOrPartition from error
            return topic

    def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        *,
        replication_factor: int = 1,
        placements: Sequence[Placement] = (),
    ) -> Topic:
        """`placements` are chosen by the client, or else here, if there is anything to choose."""
        if self._cluster.find_topic(name) is not None:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        if not 0 < partitions <= MAX_PARTITIONS:
            raise InvalidPartitions(f"Number of partitions must be between 1 and {MAX_PARTITIONS}.")
        topic = Topic(name, self._world.new_id(), dict(configs), partitions)
        self._resolve(topic)
        placements = placements or self._place(partitions, replication_factor)
        with changing(f"topic {name}"), self._opened(topic, self._here(0, partitions, placements)) as added:
            if self._shared is None:
                self._catalog.create_topic(name, topic.topic_id, partitions, topic.configs)
            else:
                self._shared.catalog.create_topic(name, topic.topic_id, partitions, topic.configs, placements)
        self._host(topic, added)
        self._cluster.add_topic(topic)
        self._cluster.set_rows(topic, _rows(topic, 0, placements))
        self._cluster.topics_changed()
        return topic

    def delete(self, topic: Topic) -> None:
        """Take a topic out of use. The space of its records is freed by a thread."""
        with changing(f"topic {topic.name}"):
            self._catalog.delete_topic(topic.topic_id)
        self._forget(topic)
        self._cluster.topics_changed()

    def _forget(self, topic: Topic) -> None:
        """A topic has been deleted, here or by another broker."""
        for callback in self.on_topic_deleted:
            guard.attempt(f"clearing up after the topic {topic.name}", callback, topic)
        self._cluster.remove_topic(topic)
        partitions = topic.open_partitions()
        self._delete_logs(partitions)
        for partition in partitions:
            partition.wake()

    def grow(self, topic: Topic, partitions: int, placements: Sequence[Placement] = ()) -> None:
        have = topic.partition_count
        placements = placements or self._place(partitions - have, len(self._cluster.replicas(topic, 0)))
        with (
            changing(f"topic {topic.name}"),
            self._opened(topic, self._here(have, partitions - have, placements)) as added,
        ):
            if self._shared is None:
                self._catalog.set_partitions(topic.topic_id, partitions)
            else:
                self._shared.catalog.set_partitions(topic.topic_id, partitions, placements)
        topic.partition_count = partitions
        self._cluster.add_rows(topic, _rows(topic, have, placements))
        self._host(topic, added)
        self._cluster.topics_changed()

    def _host(self, topic: Topic, added: Iterable[Partition]) -> None:
        for partition in added:
            topic.host(partition)
            if self._leased is not None:
                self._leased.leads_since(partition.log, FIRST_LEADER_EPOCH)

    def _place(self, partitions: int, replication_factor: int) -> Sequence[Placement]:
        if self._shared is None:
            return ()
        return self._shared.place(partitions, replication_factor, self._cluster.led_by())

    def _here(self, first: int, count: int, placements: Sequence[Placement]) -> list[int]:
        """Those of new partitions that this broker is to lead."""
        if self._shared is None:
            return list(range(first, first + count))
        return [first + at for at, placement in enumerate(placements) if placement.leader == self._cluster.node_id]

    # -- what other brokers change ---------------------------------------------------------------------------------

    def follow(self) -> None:
        """Apply what the catalog says by now. Raises CatalogError or StorageError; the rest follows the next time."""
        assert self._shared is not None
        if self._follow(self._shared):
            self._cluster.topics_changed()

    def _follow(self, shared: Shared) -> bool:
        """Whether topics were created, deleted or grew."""
        found = {row.topic_id: row for row in shared.catalog.topics()}
        # Read after the topics: each of them comes with its rows, or has been deleted meanwhile.
        rows: dict[bytes, list[PartitionRow]] = defaultdict(list)
        for each in shared.catalog.partitions():
            rows[each.topic_id].append(each)
        is_changed = False
        for topic in self._cluster.topics():
            if topic.topic_id not in found:
                self._forget(topic)
                is_changed = True
        failure: StorageError | None = None
        raised: list[LeaderEpoch] = []
        for row in found.values():
            known = self._cluster.known_topic(row.topic_id)
            topic = known or self._known(row)
            is_changed |= known is None or topic.partition_count < row.partitions
            topic.partition_count = max(topic.partition_count, row.partitions)
            if topic.configs != row.configs:
                topic.configs = dict(row.configs)
                self._apply_configs(topic)
            if known is None:
                self._cluster.add_topic(topic)
            self._cluster.set_rows(topic, rows[row.topic_id])
            try:
                raised += self._take_office(topic, rows[row.topic_id])
            except StorageError as error:
                failure = error
        if raised:
            shared.catalog.raise_leader_epochs(self._cluster.node_id, raised)
        if failure is not None:
            raise failure
        return is_changed

    def _take_office(self, topic: Topic, rows: Iterable[PartitionRow]) -> Iterator[LeaderEpoch]:
        """Open the logs that this broker is to lead, and give up those that it is not to lead any more."""
        for row in rows:
            partition = topic.find_open(row.partition_index)
            if row.leader != self._cluster.node_id:
                if partition is not None:
                    self._resign(partition)
                continue
            if partition is None:
                partition = self._open(topic, row.partition_index)
                topic.host(partition)
                self._cluster.leadership_changed(partition)
            if self._leased is not None:
                self._leased.leads_since(partition.log, row.leader_epoch)
            elif partition.log.is_leader and partition.leader_epoch > row.leader_epoch:
                yield LeaderEpoch(topic.topic_id, row.partition_index, partition.leader_epoch)

    def give_up(self, moves: Sequence[Move]) -> None:
        """Close the logs of partitions that this broker is about to hand over."""
        for topic_id, index, _ in moves:
            topic = self._cluster.known_topic(topic_id)
            partition = None if topic is None else topic.find_open(index)
            if partition is not None:
                self._resign(partition)

    def _resign(self, partition: Partition) -> None:
        topic, log = partition.topic, partition.log
        log.on_leadership = log.on_high_watermark = None
        topic.give_up(partition)
        guard.attempt(f"giving up {topic.name}-{partition.index}", self._storage.resign, log)
        self._cluster.leadership_changed(partition)
        partition.wake()

    # -- logs ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self, topic: Topic, indexes: Iterable[int]) -> Iterator[list[Partition]]:
        """New partitions, of which the catalog learns inside the block; their logs go again if that fails."""
        added: list[Partition] = []
        try:
            for index in indexes:
                added.append(self._open(topic, index))  # noqa: PERF401 - known one by one, in case the next fails
            yield added
        except Exception:
            self._delete_logs(added)
            raise

    def _open(self, topic: Topic, index: int) -> Partition:
        log = self._storage.open_log(topic.name, index, topic.topic_id, topic.log_config)
        partition = Partition(topic, index, log)
        partition.on_leadership = self._cluster.leadership_changed
        return partition

    def _delete_logs(self, partitions: Iterable[Partition]) -> None:
        leftovers: list[Callable[[], None]] = []

        def delete(partition: Partition) -> None:
            leftovers.append(self._storage.delete_log(partition.log))

        for partition in partitions:
            guard.attempt(f"deleting the log of {partition.topic.name}-{partition.index}", delete, partition)
        self._world.in_thread(lambda: _run_all(leftovers))

    # -- configs ---------------------------------------------------------------------------------------------------

    def change_configs(self, topic: Topic, change: ConfigChange) -> None:
        """Change a topic's configs. Raises ConfigError if it may not have what would be set."""

        def checked(found: Mapping[str, str]) -> Mapping[str, str]:
            configs = change(found)
            self._configs.check_topic(configs)
            return configs

        with changing(f"the configs of topic {topic.name}"):
            topic.configs = self._catalog.change_topic_configs(topic.topic_id, checked)
        self._apply_configs(topic)

    def _resolve_all(self) -> None:
        """The broker's configs, which are the defaults of the topics', have changed."""
        for topic in self._cluster.topics():
            self._apply_configs(topic)

    def _apply_configs(self, topic: Topic) -> None:
        self._resolve(topic)
        for partition in topic.open_partitions():
            partition.log.update_config(topic.log_config)

    def _resolve(self, topic: Topic) -> None:
        values = self._configs.resolve_topic(topic.configs)
        expiration_ms = self._config.producer_id_expiration_ms
        topic.log_config = replace(LogConfig.from_configs(values), producer_id_expiration_ms=expiration_ms)
        topic.rules = ProduceRules.from_configs(values)
        topic.min_insync_replicas = int(values["min.insync.replicas"])


def _rows(topic: Topic, first: int, placements: Sequence[Placement]) -> list[PartitionRow]:
    return [
        PartitionRow(topic.topic_id, index, leader, FIRST_LEADER_EPOCH, replicas)
        for index, (leader, replicas) in enumerate(placements, first)
    ]


def _run_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        guard.attempt("removing a deleted log", function)
