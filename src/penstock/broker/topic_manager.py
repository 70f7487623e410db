"""Creates, grows and deletes topics, and applies their configs: the one place that changes catalog and storage alike.

The catalog says which topics there are; the storage keeps a log for each partition. Creating a topic is logs first,
catalog last; deleting is catalog first, logs last: a crash in between leaves logs that no topic owns, which the next
start removes or sets aside. A change that catalog or storage refuse leaves nothing behind, and raises the KafkaError
that the client is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock import guard
from penstock.broker.storage_errors import changing
from penstock.broker.topics import INTERNAL_TOPICS, MAX_PARTITIONS, Partition, Topic, check_name
from penstock.records.validation import ProduceRules
from penstock.storage.contract import LogConfig, Storage
from penstock.wire.errors import InvalidPartitions, InvalidTopic, TopicAlreadyExists, UnknownTopicOrPartition

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import Configs
    from penstock.broker.world import World
    from penstock.catalog.contract import Catalog


class TopicManager:
    def __init__(
        self, cluster: ClusterView, storage: Storage, catalog: Catalog, configs: Configs, world: World
    ) -> None:
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
        for row in self._catalog.topics():
            topic = Topic(row.name, row.topic_id, dict(row.configs), row.partitions)
            self._resolve(topic)
            for index in range(row.partitions):
                topic.host(self._open(topic, index))
            self._cluster.add_topic(topic)
        self._storage.opened()

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
        return self.create(name, self._config.num_partitions, {})

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        if self._cluster.find_topic(name) is not None:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        if not 0 < partitions <= MAX_PARTITIONS:
            raise InvalidPartitions(f"Number of partitions must be between 1 and {MAX_PARTITIONS}.")
        topic = Topic(name, self._world.new_id(), dict(configs), partitions)
        self._resolve(topic)
        with changing(f"topic {name}"), self._opened(topic, range(partitions)) as added:
            self._catalog.create_topic(name, topic.topic_id, partitions, topic.configs)
        for partition in added:
            topic.host(partition)
        self._cluster.add_topic(topic)
        self._cluster.topics_changed()
        return topic

    def delete(self, topic: Topic) -> None:
        """Take a topic out of use. The space of its records is freed by a thread."""
        with changing(f"topic {topic.name}"):
            self._catalog.delete_topic(topic.topic_id)
        for callback in self.on_topic_deleted:
            guard.attempt(f"clearing up after the topic {topic.name}", callback, topic)
        self._cluster.remove_topic(topic)
        partitions = topic.open_partitions()
        self._delete_logs(partitions)
        for partition in partitions:
            partition.wake()
        self._cluster.topics_changed()

    def grow(self, topic: Topic, partitions: int) -> None:
        new = range(topic.partition_count, partitions)
        with changing(f"topic {topic.name}"), self._opened(topic, new) as added:
            self._catalog.set_partitions(topic.topic_id, partitions)
        topic.partition_count = partitions
        for partition in added:
            topic.host(partition)
        self._cluster.topics_changed()

    @contextmanager
    def _opened(self, topic: Topic, indexes: range) -> Iterator[list[Partition]]:
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

    def set_configs(self, topic: Topic, configs: Mapping[str, str]) -> None:
        with changing(f"the configs of topic {topic.name}"):
            self._catalog.set_topic_configs(topic.topic_id, dict(configs))
        topic.configs = dict(configs)
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


def _run_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        guard.attempt("removing a deleted log", function)
