"""Moves leaders where an administrator wants them: elections of preferred leaders, and reassignments of replicas.

Both are changes of rows in the catalog, of which the brokers hear at once. An election names another leader; commits of
the former are fenced from then on, and it stops serving when it hears of it. A reassignment names other replicas; a
leader that is not among them hands over to the first that is there, and until then the reassignment is under way.
Nothing is copied: the records are where all brokers can read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.storage_errors import changing
from penstock.catalog.shared import Move, Placement
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.topics import Topic
    from penstock.catalog.shared import SharedCatalog

_PREFERRED = 0


class Verdict(NamedTuple):
    """What a request for one partition comes to: a move to be made, or what the client is told instead."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    move: Move | None = None


class UnderWay(NamedTuple):
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class LeaderMoves:
    def __init__(self, cluster: ClusterView, catalog: SharedCatalog) -> None:
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
        return Verdict(move=Move(topic.topic_id, index, Placement(replicas[0], tuple(replicas))))

    def reassign(self, topic: Topic, index: int, replicas: Sequence[int] | None) -> Verdict:
        leader = self._cluster.leader(topic, index)
        now = self._cluster.assigned(topic, index)
        if replicas is None:
            if self.under_way(topic, index) is None or leader is None:
                return Verdict(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            return Verdict(move=Move(topic.topic_id, index, Placement(leader.node_id, (leader.node_id, *now[1:]))))
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
        holder = replicas[0] if leader is None else leader.node_id
        return Verdict(move=Move(topic.topic_id, index, Placement(holder, tuple(replicas))))

    def under_way(self, topic: Topic, index: int) -> UnderWay | None:
        leader, replicas = self._cluster.leader(topic, index), self._cluster.assigned(topic, index)
        if leader is None or not replicas or leader.node_id in replicas:
            return None
        if not set(replicas) & set(self._cluster.node_ids):
            return None  # it was taken over, and goes back when one of them is there
        return UnderWay(index, [leader.node_id, *replicas], list(replicas), [leader.node_id])

    def make(self, moves: Sequence[Move]) -> None:
        """Raises KafkaStorageError, and then nothing has moved."""
        if moves:
            with changing("leaders of partitions"):
                self._catalog.move_partitions(moves)


_NOT_NEEDED = Verdict(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
