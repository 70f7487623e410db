"""The topics and partitions that this broker hosts, in memory: the one place that knows both catalog and storage.

The catalog says which topics there are; the storage keeps a log for each partition. Creating a topic is logs first,
catalog last; deleting is catalog first, logs last: a crash in between leaves logs that no topic owns, which the next
start removes or sets aside.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from penstock import guard
from penstock.catalog import Catalog, TopicRow
from penstock.records.validation import ProduceRules
from penstock.storage.contract import Log, LogConfig, Storage
from penstock.wire.errors import (
    FencedLeaderEpoch,
    InvalidPartitions,
    InvalidTopic,
    KafkaError,
    TopicAlreadyExists,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.config import Configs

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"  # of Kafka's controllers; never one of ours
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})

MAX_NAME = 249
MAX_PARTITIONS = 100_000
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class Waiter(Protocol):
    """Somebody who waits for a partition to grow, or for its transactions to end."""

    def wake(self) -> None: ...


class Partition:
    __slots__ = ("index", "log", "topic", "waiters")

    def __init__(self, topic: Topic, index: int, partition_log: Log) -> None:
        self.topic = topic
        self.index = index
        self.log = partition_log
        self.log.on_high_watermark = self.wake
        self.waiters: set[Waiter] = set()

    @property
    def leader_epoch(self) -> int:
        return self.log.leader_epoch

    def wake(self) -> None:
        """Tell everybody who waits on this partition to look again."""
        waiters, self.waiters = self.waiters, set()
        for waiter in waiters:
            guard.attempt("waking who waits for a partition", waiter.wake)


class Topic:
    __slots__ = ("configs", "is_internal", "log_config", "name", "partitions", "rules", "topic_id")

    def __init__(self, name: str, topic_id: bytes, configs: dict[str, str]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        self.is_internal = name in INTERNAL_TOPICS
        self.partitions: list[Partition] = []
        self.log_config: LogConfig
        self.rules: ProduceRules


def check_name(name: str) -> None:
    """Raise InvalidTopic with Kafka's reason unless `name` may be a topic's name."""
    if not name:
        raise InvalidTopic("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopic(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > MAX_NAME:
        raise InvalidTopic(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_NAME}"
        )
    if not _NAME.fullmatch(name):
        raise InvalidTopic(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


def leader_epoch_error(asked: int, current: int) -> KafkaError:
    """Why a request that names leader epoch `asked` is refused."""
    return FencedLeaderEpoch() if asked < current else UnknownLeaderEpoch()


class Topics:
    def __init__(self, storage: Storage, catalog: Catalog, configs: Configs) -> None:
        self._storage = storage
        self._catalog = catalog
        self._configs = configs
        self._config = configs.broker
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self.listeners: list[Callable[[], None]] = []
        """Called after topics were created, deleted or grew."""

    # -- looking up ------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def get(self, name: str) -> Topic:
        topic = self._by_name.get(name)
        if topic is None:
            check_name(name)
            raise UnknownTopicOrPartition()
        return topic

    def partition(self, name: str, index: int) -> Partition:
        topic = self.get(name)
        if not 0 <= index < len(topic.partitions):
            raise UnknownTopicOrPartition()
        return topic.partitions[index]

    def all(self) -> list[Topic]:
        return [self._by_name[name] for name in sorted(self._by_name)]

    def __iter__(self) -> Iterable[Topic]:
        return iter(self._by_name.values())

    def is_internal(self, name: str) -> bool:
        return name in INTERNAL_TOPICS

    def colliding(self, name: str) -> list[str]:
        """Topics whose names differ from `name` only in '.' and '_', which metrics could not tell apart."""
        if "." not in name and "_" not in name:
            return []
        plain = name.replace(".", "_")
        return [other for other in self._by_name if other != name and other.replace(".", "_") == plain]

    # -- changing --------------------------------------------------------------------------------------------------

    def get_or_create(self, name: str) -> Topic:
        """The topic for a client that may create it by asking."""
        topic = self._by_name.get(name)
        if topic is not None:
            return topic
        check_name(name)
        if not self._config.auto_create_topics_enable or name in INTERNAL_TOPICS:
            raise UnknownTopicOrPartition()
        if self.colliding(name):
            raise InvalidTopic(f"Topic '{name}' collides with existing topics: {', '.join(self.colliding(name))}")
        return self.create(name, self._config.num_partitions, {})

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        if name in self._by_name:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        if not 0 < partitions <= MAX_PARTITIONS:
            raise InvalidPartitions(f"Number of partitions must be between 1 and {MAX_PARTITIONS}.")
        topic = Topic(name, uuid.uuid4().bytes, dict(configs))
        self._resolve(topic)
        for index in range(partitions):
            topic.partitions.append(self._open_partition(topic, index))
        self._catalog.create_topic(name, topic.topic_id, partitions, topic.configs)
        self._add(topic)
        self._changed()
        return topic

    def delete(self, topic: Topic) -> list[Callable[[], None]]:
        """Take a topic out of use. Returns what frees the space of its records, to be run in a thread."""
        self._catalog.delete_topic(topic.topic_id)
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        leftovers = []
        for partition in topic.partitions:
            leftovers.append(self._storage.delete_log(partition.log))
            partition.wake()
        self._changed()
        return leftovers

    def grow(self, topic: Topic, partitions: int) -> None:
        grown = [self._open_partition(topic, index) for index in range(len(topic.partitions), partitions)]
        self._catalog.set_partitions(topic.topic_id, partitions)
        topic.partitions.extend(grown)
        self._changed()

    def set_configs(self, topic: Topic, configs: Mapping[str, str]) -> None:
        self._catalog.set_topic_configs(topic.topic_id, dict(configs))
        topic.configs = dict(configs)
        self.resolve(topic)

    def resolve(self, topic: Topic) -> None:
        """Work out a topic's configs anew, after its own or the broker's have changed."""
        self._resolve(topic)
        for partition in topic.partitions:
            partition.log.update_config(topic.log_config)

    def _changed(self) -> None:
        for listener in self.listeners:
            listener()

    # -- opening ---------------------------------------------------------------------------------------------------

    def open_all(self) -> None:
        for row in self._catalog.topics():
            self._open_topic(row)
        self._storage.opened()

    def _open_topic(self, row: TopicRow) -> None:
        topic = Topic(row.name, row.topic_id, dict(row.configs))
        self._resolve(topic)
        for index in range(row.partitions):
            topic.partitions.append(self._open_partition(topic, index))
        self._add(topic)

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def _resolve(self, topic: Topic) -> None:
        values = self._configs.resolve_topic(topic.configs)
        expiration_ms = self._config.producer_id_expiration_ms
        topic.log_config = replace(LogConfig.from_configs(values), producer_id_expiration_ms=expiration_ms)
        topic.rules = ProduceRules.from_configs(values)

    def _open_partition(self, topic: Topic, index: int) -> Partition:
        return Partition(topic, index, self._storage.open_log(topic.name, index, topic.topic_id, topic.log_config))
