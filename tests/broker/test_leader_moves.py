"""Elections and reassignments move leaders, or say why not, in Kafka's words."""

from __future__ import annotations

import pytest

from penstock.broker.cluster_view import ClusterView
from penstock.broker.leader_moves import LeaderMoves, UnderWay
from penstock.broker.topics import Topic
from penstock.catalog.memory import MemoryCatalog
from penstock.catalog.shared import BrokerRow, HostAndPort, PartitionRow, Placement
from penstock.wire.errors import ErrorCode

ID = bytes(range(16))
PREFERRED, UNCLEAN = 0, 1
ROWS = [
    PartitionRow(ID, 0, 2, 0, (2, 3)),
    PartitionRow(ID, 1, 3, 0, (2, 3)),
    PartitionRow(ID, 2, 2, 0, (9, 2)),
    PartitionRow(ID, 3, 2, 0, (3,)),
    PartitionRow(ID, 4, 9, 0, (9,)),
]


@pytest.fixture
def topic() -> Topic:
    return Topic("orders", ID, {}, len(ROWS))


@pytest.fixture
def moves(topic: Topic) -> LeaderMoves:
    view = ClusterView("c", 1, None)
    at = {"PLAINTEXT": HostAndPort("h", 1)}
    view.set_brokers([BrokerRow(node_id, 1, "i", None, at, is_live=node_id != 9) for node_id in (2, 3, 9)])
    view.add_topic(topic)
    view.set_rows(topic, ROWS)
    catalog = MemoryCatalog()
    catalog.create_topic("orders", ID, len(ROWS), {}, [Placement(row.leader, row.replicas) for row in ROWS])
    return LeaderMoves(view, catalog)


def test_a_preferred_leader_is_elected_if_it_is_there_and_does_not_lead(moves: LeaderMoves, topic: Topic) -> None:
    assert moves.elect(topic, 0, PREFERRED).code is ErrorCode.ELECTION_NOT_NEEDED
    assert moves.elect(topic, 2, PREFERRED).code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    verdict = moves.elect(topic, 1, PREFERRED)
    assert verdict.code is ErrorCode.NONE
    assert verdict.move is not None
    moves.make([verdict.move])
    row = moves._catalog.partitions()[1]
    assert (row.leader, row.leader_epoch, row.replicas) == (2, 1, (2, 3))


def test_an_unclean_election_is_never_needed(moves: LeaderMoves, topic: Topic) -> None:
    assert moves.elect(topic, 0, UNCLEAN).code is ErrorCode.ELECTION_NOT_NEEDED
    assert moves.elect(topic, 4, UNCLEAN).code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_a_reassignment_names_replicas_and_is_under_way_until_one_of_them_leads(
    moves: LeaderMoves, topic: Topic
) -> None:
    verdict = moves.reassign(topic, 0, [3, 1])
    assert verdict.move is not None
    assert verdict.move.placement == Placement(2, (3, 1)), "the leader hands over by itself"
    assert moves.under_way(topic, 0) is None
    assert moves.under_way(topic, 3) == UnderWay(3, [2, 3], [3], [2])
    cancelled = moves.reassign(topic, 3, None)
    assert cancelled.move is not None
    assert cancelled.move.placement == Placement(2, (2,))
    assert moves.reassign(topic, 0, None).code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("replicas", [[], [2, 2], [7]])
def test_replicas_that_cannot_be_are_refused(moves: LeaderMoves, topic: Topic, replicas: list[int]) -> None:
    assert moves.reassign(topic, 0, replicas).code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
