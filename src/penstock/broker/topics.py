"""A topic, and a partition of it that this broker hosts.

That a topic exists, with how many partitions, is one thing; which of them this process hosts is another. `Topic` keeps
them apart: `has_partition` is about the cluster, `hosted` about this broker. A partition whose leadership was lost is
not hosted until it is gained again, though its log stays open.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from penstock import guard
from penstock.records.batch import parse_header
from penstock.records.validation import ProduceRules
from penstock.storage.contract import Appended, AppendOrigin, Log, LogConfig
from penstock.wire.errors import (
    FencedLeaderEpoch,
    InvalidTopic,
    KafkaError,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)

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
    """A partition that this broker hosts: its log, and who waits for it."""

    __slots__ = ("index", "log", "on_leadership", "topic", "waiters")

    def __init__(self, topic: Topic, index: int, partition_log: Log) -> None:
        self.topic = topic
        self.index = index
        self.log = partition_log
        self.log.on_high_watermark = self.wake
        self.log.on_leadership = self._leadership_changed
        self.on_leadership: Callable[[Partition], None] | None = None
        """Called after leadership was lost or gained, before those who wait look again."""
        self.waiters: dict[Waiter, None] = {}
        """In the order in which they came."""

    @property
    def leader_epoch(self) -> int:
        return self.log.leader_epoch

    def wake(self) -> None:
        """Tell everybody who waits on this partition to look again."""
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            guard.attempt("waking who waits for a partition", waiter.wake)

    def _leadership_changed(self) -> None:
        self.topic.host(self)
        if self.on_leadership is not None:
            self.on_leadership(self)
        self.wake()

    def append_internal(self, batch: bytearray, now_ms: int) -> Appended:
        """Append a batch of the broker's own, such as a coordinator's records."""
        header = parse_header(batch)
        appended = self.log.append(memoryview(batch), header, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        if self.waiters:
            self.wake()
        return appended


class Topic:
    __slots__ = (
        "_hosted",
        "_open",
        "configs",
        "is_internal",
        "log_config",
        "min_insync_replicas",
        "name",
        "partition_count",
        "rules",
        "topic_id",
    )

    def __init__(self, name: str, topic_id: bytes, configs: dict[str, str], partition_count: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        self.partition_count = partition_count
        """How many partitions there are, wherever they are hosted."""
        self.is_internal = name in INTERNAL_TOPICS
        self._open: dict[int, Partition] = {}
        self._hosted: dict[int, Partition] = {}
        self.log_config: LogConfig
        self.rules: ProduceRules
        self.min_insync_replicas: int
        """How many brokers there must be for `acks=all`, where leaders move."""

    def has_partition(self, index: int) -> bool:
        return 0 <= index < self.partition_count

    def hosted(self, index: int) -> Partition:
        """A partition that is led from here. Raises what a client is told if it is not, or does not exist."""
        partition = self._hosted.get(index)
        if partition is None:
            raise NotLeaderOrFollower() if self.has_partition(index) else UnknownTopicOrPartition()
        return partition

    def readable(self, index: int) -> Partition:
        """As `hosted`, and also a partition of which this broker may read what it knows, without leading it now."""
        partition = self._hosted.get(index)
        if partition is None:
            partition = self._open.get(index)
            if partition is None or not partition.log.is_readable:
                return self.hosted(index)
        return partition

    def find_hosted(self, index: int) -> Partition | None:
        return self._hosted.get(index)

    def find_open(self, index: int) -> Partition | None:
        """A partition whose log is open here, whoever leads it."""
        return self._open.get(index)

    def hosted_partitions(self) -> list[Partition]:
        return list(self._hosted.values())

    def open_partitions(self) -> list[Partition]:
        """Those whose logs are open here, whoever leads them, in the order of their indexes."""
        return [self._open[index] for index in sorted(self._open)]

    def host(self, partition: Partition) -> None:
        """Serve a partition whose log is open here, as long as it is led from here."""
        self._open[partition.index] = partition
        if partition.log.is_leader:
            self._hosted[partition.index] = partition
        else:
            self._hosted.pop(partition.index, None)

    def give_up(self, partition: Partition) -> None:
        """Another broker has taken over, and its log is not open here any more."""
        self._open.pop(partition.index, None)
        self._hosted.pop(partition.index, None)


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


def leader_epoch_error(requested: int, current: int) -> KafkaError:
    """Why a request that names leader epoch `asked` is refused."""
    return FencedLeaderEpoch() if requested < current else UnknownLeaderEpoch()
