"""Moves leaders where an administrator wants them: elections of preferred leaders, and reassignments of replicas.

Both are directions in the catalog, of which the brokers hear at once. The leader carries them out: it closes its log
first and then hands over, so that no two brokers serve a partition (`membership`). An election names the broker to hand
over to. A reassignment names other replicas; a leader that is not among them hands over to the first that is there, and
until then the reassignment is under way, and can be taken back. Nothing is copied: the records are where all brokers
can read them. So a broker that is unregistered for good is replaced among the replicas at once, and nobody has to name
them one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.broker.storage_errors import changing
from penstock.catalog.shared import Direction
from penstock.cluster.placement import retire
from penstock.wire.errors import BrokerIdNotRegistered, ErrorCode, InvalidRequest

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.topics import Topic

_PREFERRED = 0
_LOOK_SECONDS = 0.05
_ELECTION_SECONDS_MAX = 30.0


class DirectableCatalog(Protocol):
    def direct_partitions(self, directions: Collection[Direction]) -> None:
        """See `catalog.leases.MemberCatalog`."""


class Verdict(NamedTuple):
    """What a request for one partition comes to: a direction to be given, or what the client is told instead."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    direction: Direction | None = None


class UnderWay(NamedTuple):
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class LeaderMoves:
    def __init__(self, cluster: ClusterView, catalog: DirectableCatalog) -> None:
        self._cluster = cluster
        self._catalog = catalog

    def elect(self, topic: Topic, index: int, election_type: int) -> Verdict:
        leader = self._cluster.leader(topic, index)
        replicas = self._cluster.assigned(topic, index)
        if election_type != _PREFERRED:
            if leader is not None:
                return _NOT_NEEDED
            return Verdict(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No broker is there that could lead.")
        if not replicas or (leader is not None and leader.node_id == replicas[0]):
            return _NOT_NEEDED
        if replicas[0] not in self._cluster.node_ids:
            return Verdict(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"The preferred leader {replicas[0]} is not there."
            )
        return Verdict(direction=Direction(topic.topic_id, index, elected=replicas[0]))

    def reassign(self, topic: Topic, index: int, replicas: Sequence[int] | None) -> Verdict:
        leader = self._cluster.leader(topic, index)
        before = self._cluster.replaced(topic, index)
        if replicas is None:
            if not before:
                return Verdict(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            return Verdict(direction=Direction(topic.topic_id, index, before, ()))
        if not replicas:
            return Verdict(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment is empty.")
        if len(set(replicas)) != len(replicas):
            return Verdict(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The assignment includes a broker more than once.")
        for node_id in replicas:
            if node_id not in self._cluster.node_ids:
                return Verdict(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"The assignment includes broker {node_id}, but no such broker is registered.",
                )
        is_done = leader is not None and leader.node_id in replicas
        before = () if is_done else before or tuple(self._cluster.assigned(topic, index))
        return Verdict(direction=Direction(topic.topic_id, index, tuple(replicas), before))

    def retire(self, node_id: int) -> None:
        """Give the places among replicas of a broker that has left to others, since it does not come back.

        Raises BrokerIdNotRegistered, InvalidRequest while it runs, or KafkaStorageError.
        """
        if node_id in self._cluster.node_ids:
            raise InvalidRequest(f"Broker {node_id} is running: stop it first.")
        if not self._cluster.has_left(node_id):
            raise BrokerIdNotRegistered(f"Broker ID {node_id} is not currently registered")
        self._cluster.catch_up()  # replicas that were chosen through another broker a moment ago are not taken back
        changed = retire(node_id, self._cluster.rows(), self._cluster.nodes)
        self.give([Direction(*row[:2], replicas, elected=row.elected) for row, replicas in changed])

    def under_way(self, topic: Topic, index: int) -> UnderWay | None:
        before, after = self._cluster.replaced(topic, index), self._cluster.assigned(topic, index)
        if not before:
            return None
        removing = [node_id for node_id in before if node_id not in after]
        return UnderWay(index, [*after, *removing], [node_id for node_id in after if node_id not in before], removing)

    def give(self, directions: Sequence[Direction]) -> None:
        """Raises KafkaStorageError, and then nothing moves."""
        if directions:
            with changing("leaders of partitions"):
                self._catalog.direct_partitions(directions)

    async def until_elected(self, directions: Sequence[Direction], timeout_seconds: float) -> list[Direction]:
        """Wait for the leaders that were elected; return those that do not lead in time."""
        deadline = asyncio.get_running_loop().time() + min(timeout_seconds, _ELECTION_SECONDS_MAX)
        left = list(directions)
        while left := [each for each in left if not self._leads(each)]:
            if asyncio.get_running_loop().time() >= deadline:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return left

    def _leads(self, direction: Direction) -> bool:
        topic = self._cluster.known_topic(direction.topic_id)
        leader = None if topic is None else self._cluster.leader(topic, direction.partition_index)
        return topic is None or (leader is not None and leader.node_id == direction.elected)


_NOT_NEEDED = Verdict(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
