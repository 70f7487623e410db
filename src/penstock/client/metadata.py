"""What the client knows about the cluster: brokers, topics, who leads which partition.

A `Metadata` is a snapshot that only `merge` moves forward. A response with an older leader epoch than the one known for
a partition came from a broker that lags behind, and does not change the partition (KIP-320).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.types import NO_TOPIC_ID, Node, TopicPartition
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode


class PartitionInfo(NamedTuple):
    partition: int
    leader: int  # -1: no leader at the moment
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    error_code: int


@dataclass(slots=True)
class TopicInfo:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: dict[int, PartitionInfo]
    authorized_operations: int = -(2**31)


@dataclass(slots=True)
class Metadata:
    cluster_id: str | None = None
    controller_id: int = -1
    nodes: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)  # topic id -> name
    errors: dict[str, int] = field(default_factory=dict)  # topics that the last answer refused

    def leader(self, tp: TopicPartition) -> int:
        """The node that leads a partition, or -1."""
        topic = self.topics.get(tp.topic)
        info = topic.partitions.get(tp.partition) if topic else None
        return info.leader if info and info.leader in self.nodes else -1

    def leader_epoch(self, tp: TopicPartition) -> int:
        topic = self.topics.get(tp.topic)
        info = topic.partitions.get(tp.partition) if topic else None
        return info.leader_epoch if info else -1

    def topic_id(self, name: str) -> bytes:
        topic = self.topics.get(name)
        return topic.topic_id if topic else NO_TOPIC_ID

    def partition_count(self, name: str) -> int:
        """How many partitions a topic has; 0 when it is not known."""
        topic = self.topics.get(name)
        return len(topic.partitions) if topic else 0

    def merge(self, answer: m.MetadataResponse, everything: bool) -> None:
        """Take an answer in; `everything` says that it lists all topics, so that those it lacks are gone."""
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        self.nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
        if everything:
            listed = {topic.name for topic in answer.topics}
            for name in [name for name in self.topics if name not in listed]:
                self.drop(name)
        for topic in answer.topics:
            self._merge_topic(topic)

    def drop(self, name: str) -> None:
        gone = self.topics.pop(name, None)
        if gone is not None:
            self.names.pop(gone.topic_id, None)

    def _merge_topic(self, topic: m.MetadataResponse.MetadataResponseTopic) -> None:
        name = topic.name
        if name is None:
            return
        if topic.error_code:
            self.errors[name] = topic.error_code
            if topic.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
                self.drop(name)
            return
        self.errors.pop(name, None)
        known = self.topics.get(name)
        if known is not None and known.topic_id != topic.topic_id:
            self.drop(name)  # deleted and created again: epochs start over
            known = None
        partitions: dict[int, PartitionInfo] = {}
        for p in topic.partitions:
            info = PartitionInfo(
                p.partition_index,
                p.leader_id,
                p.leader_epoch,
                p.replica_nodes,
                p.isr_nodes,
                p.offline_replicas,
                p.error_code,
            )
            before = known.partitions.get(info.partition) if known else None
            partitions[info.partition] = before if before and before.leader_epoch > info.leader_epoch else info
        self.topics[name] = TopicInfo(
            name, topic.topic_id, topic.is_internal, partitions, topic.topic_authorized_operations
        )
        if topic.topic_id != NO_TOPIC_ID:
            self.names[topic.topic_id] = name
