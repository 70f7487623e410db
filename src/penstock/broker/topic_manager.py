"""Creates, grows and deletes topics, and applies their configs: the one place that changes catalog and storage alike.

The catalog says which topics there are; the storage keeps a log for each partition. Creating a topic is logs first,
catalog last; deleting is catalog first, logs last: a crash in between leaves logs that no topic owns, which the next
start removes or sets aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock import guard
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
        """Called while the topic is still there."""
        configs.listeners.append(self._resolve_all)

    def open_all(self) -> None:
        for row in self._catalog.topics():
            topic = Topic(row.name, row.topic_id, dict(row.configs), row.partitions)
            self._resolve(topic)
            self._host(topic, range(row.partitions))
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
        self._host(topic, range(partitions))
        self._catalog.create_topic(name, topic.topic_id, partitions, topic.configs)
        self._cluster.add_topic(topic)
        self._cluster.topics_changed()
        return topic

    def delete(self, topic: Topic) -> None:
        """Take a topic out of use. The space of its records is freed by a thread."""
        for callback in self.on_topic_deleted:
            guard.attempt(f"clearing up after the topic {topic.name}", callback, topic)
        self._catalog.delete_topic(topic.topic_id)
        self._cluster.remove_topic(topic)
        leftovers = []
        for partition in topic.hosted_partitions():
            leftovers.append(self._storage.delete_log(partition.log))
            partition.wake()
        self._cluster.topics_changed()
        self._world.in_thread(lambda: _run_all(leftovers))

    def grow(self, topic: Topic, partitions: int) -> None:
        added = self._open(topic, range(topic.partition_count, partitions))
        self._catalog.set_partitions(topic.topic_id, partitions)
        topic.partition_count = partitions
        for partition in added:
            topic.host(partition)
        self._cluster.topics_changed()

    def _host(self, topic: Topic, indexes: range) -> None:
        for partition in self._open(topic, indexes):
            topic.host(partition)

    def _open(self, topic: Topic, indexes: range) -> list[Partition]:
        return [
            Partition(topic, index, self._storage.open_log(topic.name, index, topic.topic_id, topic.log_config))
            for index in indexes
        ]

    # -- configs ---------------------------------------------------------------------------------------------------

    def set_configs(self, topic: Topic, configs: Mapping[str, str]) -> None:
        self._catalog.set_topic_configs(topic.topic_id, dict(configs))
        topic.configs = dict(configs)
        self._apply_configs(topic)

    def _resolve_all(self) -> None:
        """The broker's configs, which are the defaults of the topics', have changed."""
        for topic in self._cluster.topics():
            self._apply_configs(topic)

    def _apply_configs(self, topic: Topic) -> None:
        self._resolve(topic)
        for partition in topic.hosted_partitions():
            partition.log.update_config(topic.log_config)

    def _resolve(self, topic: Topic) -> None:
        values = self._configs.resolve_topic(topic.configs)
        expiration_ms = self._config.producer_id_expiration_ms
        topic.log_config = replace(LogConfig.from_configs(values), producer_id_expiration_ms=expiration_ms)
        topic.rules = ProduceRules.from_configs(values)


def _run_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        guard.attempt("removing a deleted log", function)
