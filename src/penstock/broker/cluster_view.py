"""What this broker knows of its cluster: the brokers, the topics, who leads which partition, what is hosted here.

Handlers and coordinators look things up here; what changes the topics is the `TopicManager`. There is one broker so
far, which hosts and leads every partition, but nobody outside of this module may rely on that: a partition that exists
need not be hosted here, and then `hosted` raises NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock import guard
from penstock.broker.listeners import Address
from penstock.broker.topics import Partition, Topic, check_name
from penstock.wire.errors import NotLeaderOrFollower, UnknownTopicOrPartition


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """A broker as the clients of one listener see it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Leader(NamedTuple):
    node_id: int
    epoch: int


class ClusterView:
    def __init__(self, cluster_id: str, node_id: int, rack: str | None) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.on_topics_changed: list[Callable[[], None]] = []
        """Called after topics were created, deleted or grew."""
        self.on_leadership_changed: list[Callable[[Partition], None]] = []
        """Called after this broker has lost the leadership of a partition, or gained it."""
        self._rack = rack
        self._advertised: dict[str, Address] = {}
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}

    # -- brokers ---------------------------------------------------------------------------------------------------

    def advertise(self, listener_name: str, address: Address) -> None:
        """Say under which address this broker is reached by those who come through a listener."""
        self._advertised[listener_name] = address

    @property
    def bootstrap(self) -> str:
        """What to put into a client's `bootstrap.servers`."""
        return ",".join(f"{address.host}:{address.port}" for address in self._advertised.values())

    def this_broker(self, listener_name: str) -> BrokerEndpoint:
        address = self._advertised[listener_name]
        return BrokerEndpoint(self.node_id, address.host, address.port, self._rack)

    def brokers(self, listener_name: str) -> list[BrokerEndpoint]:
        """All brokers that clients of this listener can talk to."""
        return [self.this_broker(listener_name)]

    @property
    def controller_id(self) -> int:
        return self.node_id

    # -- topics ----------------------------------------------------------------------------------------------------

    def find_topic(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def topic(self, name: str) -> Topic:
        """A topic that has to exist. Raises what a client is told if it does not."""
        topic = self._by_name.get(name)
        if topic is None:
            check_name(name)
            raise UnknownTopicOrPartition()
        return topic

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def colliding_topics(self, name: str) -> list[str]:
        """Topics whose names differ from `name` only in '.' and '_', which metrics could not tell apart."""
        if "." not in name and "_" not in name:
            return []
        plain = name.replace(".", "_")
        return [other for other in self._by_name if other != name and other.replace(".", "_") == plain]

    # -- partitions ------------------------------------------------------------------------------------------------

    def hosted(self, name: str, index: int) -> Partition:
        """A partition that is led from here. Raises what a client is told if it is not, or does not exist."""
        return self.topic(name).hosted(index)

    def hosted_partitions(self) -> Iterator[Partition]:
        for topic in self.topics():
            yield from topic.hosted_partitions()

    def leader(self, topic: Topic, index: int) -> Leader | None:
        """Who leads a partition that exists, and since which epoch; None while that is not known."""
        try:
            return Leader(self.node_id, topic.hosted(index).leader_epoch)
        except NotLeaderOrFollower:
            return None

    def replicas(self, topic: Topic, index: int) -> list[int]:
        """The brokers that keep a partition, its leader first."""
        return [self.node_id]

    # -- changes, made by the topic manager ------------------------------------------------------------------------

    def add_topic(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def remove_topic(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]

    def topics_changed(self) -> None:
        for callback in self.on_topics_changed:
            callback()

    def leadership_changed(self, partition: Partition) -> None:
        what = f"following the leadership of {partition.topic.name}-{partition.index}"
        for callback in self.on_leadership_changed:
            guard.attempt(what, callback, partition)
