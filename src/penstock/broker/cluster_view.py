"""What this broker knows of its cluster: the brokers, the topics, who leads which partition, what is hosted here.

Handlers and coordinators look things up here; what changes the topics is the `TopicManager`. A broker without others
hosts and leads every partition, but nobody outside of this module may rely on that: a partition that exists need not be
hosted here, and then `hosted` raises NOT_LEADER_OR_FOLLOWER.

Where several brokers share a catalog (`is_shared`) the view knows the others, and who leads what, from the rows of the
catalog. About what this broker leads itself its log knows best. A topic that nobody here has heard of may have been
created by another broker a moment ago, so a look-up that finds nothing looks again when `on_missing` has caught up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock import guard
from penstock.broker.listeners import Address
from penstock.broker.topics import Partition, Topic, check_name
from penstock.catalog.shared import NOBODY, BrokerRow, PartitionRow
from penstock.cluster.placement import Node
from penstock.wire.errors import UnknownTopicOrPartition


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
        self.is_shared = False
        """Whether other brokers may belong to this cluster, now or later."""
        self.leaders_move = False
        """Whether any broker can lead any partition: the records are where all brokers can read them."""
        self.on_missing: Callable[[], None] | None = None
        """Called for a topic that is not known here, and may be elsewhere."""
        self.holds_lease: Callable[[], bool] = lambda: True
        """Whether this broker is a member of the cluster now."""
        self.inter_broker_listener_name = ""
        self._others: dict[int, BrokerRow] = {}
        self._rows: dict[bytes, dict[int, PartitionRow]] = {}
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
        """All brokers that clients of this listener can talk to, by node id."""
        here = self.this_broker(listener_name)
        if not self._others:
            return [here]
        others = [self.broker(node_id, listener_name) for node_id in self._others]
        found = [each for each in others if each is not None]
        if not found or not self._is_left_behind:
            found.append(here)
        return sorted(found, key=lambda each: each.node_id)

    def broker(self, node_id: int, listener_name: str) -> BrokerEndpoint | None:
        """Under which address clients of this listener reach a broker; None if they cannot."""
        if node_id == self.node_id:
            return self.this_broker(listener_name)
        row = self._others.get(node_id)
        if row is None or not row.is_live or listener_name not in row.endpoints:
            return None
        address = row.endpoints[listener_name]
        return BrokerEndpoint(node_id, address.host, address.port, row.rack)

    @property
    def node_ids(self) -> list[int]:
        """The brokers that are alive, as far as is known here, this one among them."""
        return sorted({self.node_id, *(row.node_id for row in self._others.values() if row.is_live)})

    @property
    def nodes(self) -> list[Node]:
        """The same, with their racks."""
        others = [Node(row.node_id, row.rack) for row in self._others.values() if row.is_live]
        return sorted([Node(self.node_id, self._rack), *others])

    def has_left(self, node_id: int) -> bool:
        """Whether a broker was a member of the cluster, and is none now."""
        row = self._others.get(node_id)
        return row is not None and not row.is_live

    @property
    def replica_ids(self) -> list[int]:
        """The brokers that may be replicas of a partition."""
        return self.node_ids if self.leaders_move else [self.node_id]

    @property
    def controller_id(self) -> int:
        """To whom administrators send changes. Any broker carries them out, but one after the other is best."""
        alive = self.node_ids
        if self._is_left_behind:
            alive.remove(self.node_id)
        return alive[0]

    @property
    def _is_left_behind(self) -> bool:
        """Whether this broker has lost its lease, and others are there, as far as it knows.

        Clients are sent to them: one that goes on asking this broker would not hear who has taken over.
        """
        return not self.holds_lease() and any(row.is_live for row in self._others.values())

    @property
    def advertised(self) -> dict[str, Address]:
        """The addresses of this broker, by listener."""
        return dict(self._advertised)

    @property
    def inter_broker_listener(self) -> str:
        """The listener by which brokers reach each other."""
        return self.inter_broker_listener_name or next(iter(self._advertised))

    def set_brokers(self, rows: Iterable[BrokerRow]) -> None:
        """Who belongs to the cluster, by the catalog."""
        self._others = {row.node_id: row for row in rows if row.node_id != self.node_id}

    @property
    def is_first_broker(self) -> bool:
        """Whether this is the live broker with the lowest id: exactly one of the cluster is."""
        return all(row.node_id > self.node_id for row in self._others.values() if row.is_live)

    def catch_up(self) -> None:
        """Hear of what other brokers have changed up to now, before a decision that rests on it for good."""
        if self.on_missing is not None:
            self.on_missing()

    # -- topics ----------------------------------------------------------------------------------------------------

    def find_topic(self, name: str) -> Topic | None:
        topic = self._by_name.get(name)
        if topic is None and self.on_missing is not None:
            self.catch_up()
            topic = self._by_name.get(name)
        return topic

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        topic = self._by_id.get(topic_id)
        if topic is None and self.on_missing is not None:
            self.catch_up()
            topic = self._by_id.get(topic_id)
        return topic

    def known_topic(self, topic_id: bytes) -> Topic | None:
        """As `topic_by_id`, without looking again."""
        return self._by_id.get(topic_id)

    def topic(self, name: str) -> Topic:
        """A topic that has to exist. Raises what a client is told if it does not."""
        topic = self._by_name.get(name) or self.find_topic(name)
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
        partition = topic.find_hosted(index)
        if partition is not None:
            return Leader(self.node_id, partition.leader_epoch)
        row = self._row(topic, index)
        other = None if row is None else self._others.get(row.leader)
        return Leader(row.leader, row.leader_epoch) if row is not None and other is not None and other.is_live else None

    def leader_elsewhere(self, name: str, index: int) -> int | None:
        """The other broker that leads a partition; None where it is this one, or where nobody is known to."""
        topic = self._by_name.get(name)
        leader = None if topic is None or not topic.has_partition(index) else self.leader(topic, index)
        return None if leader is None or leader.node_id == self.node_id else leader.node_id

    def replicas(self, topic: Topic, index: int) -> list[int]:
        """The brokers that keep a partition, the preferred leader first."""
        row = self._row(topic, index)
        if row is None:
            return [self.node_id]
        if row.leader in row.replicas or row.leader == NOBODY:
            return list(row.replicas)
        return [row.leader, *row.replicas[:-1]]  # none of them is there, and another broker has taken over

    def assigned(self, topic: Topic, index: int) -> list[int]:
        """The replicas by the catalog, whoever leads."""
        row = self._row(topic, index)
        return [] if row is None else list(row.replicas)

    def replaced(self, topic: Topic, index: int) -> tuple[int, ...]:
        """The replicas before a reassignment that is under way; none if there is none."""
        row = self._row(topic, index)
        return () if row is None else row.replaced

    def in_sync_replicas(self, topic: Topic, index: int) -> list[int]:
        """Those of the brokers that keep a partition which could lead it now."""
        replicas = self.replicas(topic, index)
        if not self._others:
            return replicas
        alive = self.in_sync_ids()
        return [node_id for node_id in replicas if node_id in alive]

    def in_sync_ids(self) -> set[int]:
        """The brokers that could lead now."""
        alive = set(self.node_ids)
        if self._is_left_behind:
            alive.remove(self.node_id)
        return alive

    def led_by(self) -> Counter[int]:
        """How many partitions each broker is to lead, by the catalog."""
        return Counter(row.leader for rows in self._rows.values() for row in rows.values() if row.leader != NOBODY)

    def rows(self) -> list[PartitionRow]:
        """What the catalog says of all partitions."""
        return [row for rows in self._rows.values() for row in rows.values()]

    def _row(self, topic: Topic, index: int) -> PartitionRow | None:
        rows = self._rows.get(topic.topic_id)
        return None if rows is None else rows.get(index)

    def set_rows(self, topic: Topic, rows: Iterable[PartitionRow]) -> None:
        """Who leads the partitions of a topic, and who may, by the catalog."""
        self._rows[topic.topic_id] = {row.partition_index: row for row in rows}

    def add_rows(self, topic: Topic, rows: Iterable[PartitionRow]) -> None:
        self._rows.setdefault(topic.topic_id, {}).update({row.partition_index: row for row in rows})

    # -- changes, made by the topic manager ------------------------------------------------------------------------

    def add_topic(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def remove_topic(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        self._rows.pop(topic.topic_id, None)

    def topics_changed(self) -> None:
        for callback in self.on_topics_changed:
            callback()

    def leadership_changed(self, partition: Partition) -> None:
        what = f"following the leadership of {partition.topic.name}-{partition.index}"
        for callback in self.on_leadership_changed:
            guard.attempt(what, callback, partition)
