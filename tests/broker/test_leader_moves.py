"""Elections and reassignments move leaders, or say why not, in Kafka's words."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.cluster_view import ClusterView
from penstock.broker.leader_moves import LeaderMoves, UnderWay
from penstock.broker.topics import Topic
from penstock.catalog.memory import MemoryCatalog
from penstock.catalog.shared import BrokerRow, Direction, HostAndPort, Move, PartitionRow, Placement
from penstock.wire.errors import BrokerIdNotRegistered, ErrorCode, InvalidRequest

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
def view(topic: Topic) -> ClusterView:
    view = ClusterView("c", 1, None)
    at = {"PLAINTEXT": HostAndPort("h", 1)}
    view.set_brokers([BrokerRow(node_id, 1, "i", None, at, is_live=node_id != 9) for node_id in (2, 3, 9)])
    view.add_topic(topic)
    view.set_rows(topic, ROWS)
    return view


@pytest.fixture
def catalog() -> MemoryCatalog:
    catalog = MemoryCatalog()
    catalog.create_topic("orders", ID, len(ROWS), {}, [Placement(row.leader, row.replicas) for row in ROWS])
    return catalog


@pytest.fixture
def moves(view: ClusterView, catalog: MemoryCatalog) -> LeaderMoves:
    return LeaderMoves(view, catalog)


def test_a_preferred_leader_is_elected_if_it_is_there_and_does_not_lead(moves: LeaderMoves, topic: Topic) -> None:
    assert moves.elect(topic, 0, PREFERRED).code is ErrorCode.ELECTION_NOT_NEEDED
    assert moves.elect(topic, 2, PREFERRED).code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    verdict = moves.elect(topic, 1, PREFERRED)
    assert (verdict.code, verdict.direction) == (ErrorCode.NONE, Direction(ID, 1, elected=2))


async def test_an_election_is_over_when_the_elected_leads_or_the_time_is_up(
    moves: LeaderMoves, catalog: MemoryCatalog, topic: Topic, view: ClusterView
) -> None:
    directions = [Direction(ID, 1, elected=2), Direction(ID, 4, elected=2)]
    moves.give(directions)
    assert [row.elected for row in catalog.partitions()] == [-1, 2, -1, -1, 2]
    waiting = asyncio.create_task(moves.until_elected(directions, 0.5))
    await asyncio.sleep(0)
    catalog.move_partitions([Move(ID, 1, Placement(2, (2, 3)))])
    view.set_rows(topic, catalog.partitions())
    assert await waiting == directions[1:], "nobody has handed over the other one"


def test_an_unclean_election_is_never_needed(moves: LeaderMoves, topic: Topic) -> None:
    assert moves.elect(topic, 0, UNCLEAN).code is ErrorCode.ELECTION_NOT_NEEDED
    assert moves.elect(topic, 4, UNCLEAN).code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_a_reassignment_is_under_way_until_one_of_the_new_replicas_leads(
    moves: LeaderMoves, catalog: MemoryCatalog, topic: Topic, view: ClusterView
) -> None:
    def give(index: int, replicas: list[int] | None) -> None:
        direction = moves.reassign(topic, index, replicas).direction
        assert direction is not None
        moves.give([direction])
        view.set_rows(topic, catalog.partitions())

    give(0, [2, 1])
    assert moves.under_way(topic, 0) is None, "the leader is among them"
    give(0, [3, 1])
    assert moves.under_way(topic, 0) == UnderWay(0, [3, 1, 2], [3], [2])
    give(0, [1])
    assert moves.under_way(topic, 0) == UnderWay(0, [1, 2], [], [2]), "compared with what was there at first"
    give(0, None)
    assert moves.under_way(topic, 0) is None
    assert view.assigned(topic, 0) == [2, 1]
    assert moves.reassign(topic, 0, None).code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_broker_that_does_not_come_back_is_replaced_among_the_replicas(
    moves: LeaderMoves, catalog: MemoryCatalog
) -> None:
    with pytest.raises(InvalidRequest, match="Broker 2 is running: stop it first"):
        moves.retire(2)
    with pytest.raises(BrokerIdNotRegistered, match="Broker ID 77 is not currently registered"):
        moves.retire(77)
    before = catalog.partitions()
    moves.retire(9)
    after = catalog.partitions()
    assert [row.replicas for row in after] == [(2, 3), (2, 3), (2, 1), (3,), (1,)]
    assert [(row.leader, row.leader_epoch) for row in after] == [(row.leader, row.leader_epoch) for row in before]


def test_replicas_that_another_broker_has_chosen_a_moment_ago_stay(
    moves: LeaderMoves, catalog: MemoryCatalog, view: ClusterView, topic: Topic
) -> None:
    catalog.direct_partitions([Direction(ID, 2, (3, 9), ())])
    view.on_missing = lambda: view.set_rows(topic, catalog.partitions())
    moves.retire(9)
    assert 9 not in catalog.partitions()[2].replicas
    assert catalog.partitions()[2].replicas[0] == 3


@pytest.mark.parametrize("replicas", [[], [2, 2], [7]])
def test_replicas_that_cannot_be_are_refused(moves: LeaderMoves, topic: Topic, replicas: list[int]) -> None:
    assert moves.reassign(topic, 0, replicas).code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
