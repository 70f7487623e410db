"""The small values that the client's calls take and return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Headers = tuple[tuple[str, bytes | None], ...]

NO_TOPIC_ID = bytes(16)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers per topic, as requests name them."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


@dataclass(slots=True, frozen=True)
class SubscriptionPattern:
    """A pattern of topic names that the *broker* matches, in the syntax of RE2 and always against the whole name.

    For `Consumer.subscribe` with `group_protocol="consumer"` (KIP-848). The consumer learns only about topics that
    match, and all members of a group see a new topic at the same time. RE2 has no look-around and no back-references.
    For patterns that the client matches, with both group protocols, use `re.compile(…)`.
    """

    pattern: str


class OffsetAndMetadata(NamedTuple):
    """What a group commits for a partition: the offset of the *next* record to read."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 with acks=0, which has no response."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record as read. `delivery_count` is 0 except from a `ShareConsumer`, where the first delivery is 1."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int  # a TimestampType
    key: K | None
    value: V | None
    headers: Headers
    leader_epoch: int = -1
    delivery_count: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record was read from."""
        return TopicPartition(self.topic, self.partition)


class Node(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


class IsolationLevel(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(IntEnum):
    """Special timestamps of ListOffsets; any other timestamp is milliseconds since 1970."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
