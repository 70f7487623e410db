"""Leaders are spread evenly, stick to their brokers, and replicas are in several racks."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.shared import NOBODY, BrokerRow, HostAndPort, Move, PartitionRow, Placement
from penstock.cluster.placement import Node, balance, hand_over, nodes_of, place, rescue, retire, take_over

ID = bytes(16)
NODES = [Node(1), Node(2), Node(3)]

nodes = st.lists(
    st.builds(Node, st.integers(0, 9), st.sampled_from([None, "a", "b", "c"])),
    min_size=1,
    max_size=6,
    unique_by=lambda node: node.node_id,
)
leaders = st.lists(st.integers(-1, 9), max_size=60)


def rows_led_by(leaders: list[int]) -> list[PartitionRow]:
    return [PartitionRow(ID, index, leader, 0, (leader,)) for index, leader in enumerate(leaders)]


def applied(rows: list[PartitionRow], moves: list[Move]) -> list[PartitionRow]:
    placed = {(move.topic_id, move[1]): move.placement.leader for move in moves}
    return [row._replace(leader=placed.get((row.topic_id, row[1]), row.leader)) for row in rows]


def spread(rows: list[PartitionRow], nodes: list[Node]) -> int:
    led = Counter(row.leader for row in rows)
    counts = [led[node.node_id] for node in nodes]
    return max(counts) - min(counts)


@given(nodes, st.integers(1, 40), st.integers(1, 4))
def test_new_partitions_are_spread_evenly(nodes: list[Node], count: int, replication: int) -> None:
    placements = place(count, replication, nodes, {})
    assert len(placements) == count
    led = Counter(placement.leader for placement in placements)
    assert max(led.values()) - min(led[node.node_id] for node in nodes) <= 1
    for leader, replicas in placements:
        assert replicas[0] == leader
        assert len(set(replicas)) == len(replicas) == min(replication, len(nodes))


@given(nodes, st.integers(1, 20), st.integers(2, 4))
def test_replicas_are_in_as_many_racks_as_there_are(nodes: list[Node], count: int, replication: int) -> None:
    nodes = [node._replace(rack=node.rack or "a") for node in nodes]
    rack_of = {node.node_id: node.rack for node in nodes}
    for _, replicas in place(count, replication, nodes, {}):
        racks = {rack_of[node_id] for node_id in replicas}
        assert len(racks) == min(len(replicas), len(set(rack_of.values())))


@given(nodes, leaders)
def test_new_partitions_go_to_those_who_lead_least(nodes: list[Node], leaders: list[int]) -> None:
    led = Counter(leaders)
    [(leader, _)] = place(1, 1, nodes, led)
    assert led[leader] == min(led[node.node_id] for node in nodes)


def test_without_brokers_a_partition_has_no_leader() -> None:
    assert place(1, 3, [], {}) == [Placement(NOBODY, ())]


@given(nodes, leaders)
def test_only_what_is_orphaned_is_taken_over_and_all_of_it(nodes: list[Node], leaders: list[int]) -> None:
    rows = rows_led_by(leaders)
    alive = {node.node_id for node in nodes}
    moves = take_over(rows, nodes)
    assert {move[1] for move in moves} == {row[1] for row in rows if row.leader not in alive}
    assert all(row.leader in alive for row in applied(rows, moves))
    assert moves == take_over(rows, nodes)


def test_a_replica_takes_over_and_the_partitions_of_one_broker_go_to_several() -> None:
    rows = [PartitionRow(ID, index, 1, 0, (1, 2, 3)) for index in range(6)]
    assert Counter(move.placement.leader for move in take_over(rows, NODES[1:])) == {2: 3, 3: 3}
    only_three = [row._replace(replicas=(1, 3)) for row in rows]
    assert {move.placement.leader for move in take_over(only_three, NODES[1:])} == {3}


def test_replicas_stay_when_a_partition_is_taken_over() -> None:
    [move] = take_over([PartitionRow(ID, 0, 1, 4, (1, 2))], NODES[1:])
    assert move == Move(ID, 0, Placement(2, (1, 2)))


@given(nodes, leaders)
def test_balancing_ends_with_even_leaders_and_then_rests(nodes: list[Node], leaders: list[int]) -> None:
    rows = rows_led_by(leaders)
    rows = applied(rows, take_over(rows, nodes))
    balanced = applied(rows, balance(rows, nodes, 1000))
    assert spread(balanced, nodes) <= 1
    assert balance(balanced, nodes, 1000) == []


@given(nodes, leaders, st.integers(0, 5))
def test_balancing_moves_no_more_than_it_may_and_no_more_than_it_needs(
    nodes: list[Node], leaders: list[int], limit: int
) -> None:
    rows = rows_led_by(leaders)
    rows = applied(rows, take_over(rows, nodes))
    moves = balance(rows, nodes, limit)
    assert len(moves) <= limit
    if spread(rows, nodes) <= 1:
        assert moves == []
    assert len({move[:2] for move in balance(rows, nodes, 1000)}) == len(balance(rows, nodes, 1000))


@given(nodes, st.integers(1, 20), st.integers(2, 4), st.sampled_from(["a", "b", "c"]))
def test_replicas_stay_in_as_many_racks_when_a_broker_joins(
    nodes: list[Node], count: int, replication: int, rack: str
) -> None:
    nodes = [node._replace(rack=node.rack or "a") for node in nodes]
    rows = [
        PartitionRow(ID, index, leader, 0, replicas)
        for index, (leader, replicas) in enumerate(place(count, replication, nodes, {}))
    ]
    nodes = [*nodes, Node(10, rack)]
    rack_of = {node.node_id: node.rack for node in nodes}
    for move in balance(rows, nodes, 1000):
        before, after = rows[move[1]].replicas, move.placement.replicas
        assert move.placement.leader in after
        assert len(set(after)) == len(before)
        assert len({rack_of[each] for each in after}) >= len({rack_of[each] for each in before})


@given(nodes, st.integers(1, 20), st.integers(1, 4))
def test_a_broker_that_is_retired_is_replaced_without_a_move(nodes: list[Node], count: int, replication: int) -> None:
    nodes = [node._replace(rack=node.rack or "a") for node in nodes]
    rows = [
        PartitionRow(ID, index, leader, 0, replicas)
        for index, (leader, replicas) in enumerate(place(count, replication, [*nodes, Node(10, "c")], {}))
    ]
    rack_of = {node.node_id: node.rack for node in nodes}
    changed = retire(10, rows, nodes)
    assert [row for row, _ in changed] == [row for row in rows if 10 in row.replicas]
    for row, replicas in changed:
        kept = [each for each in row.replicas if each != 10]
        assert list(replicas[: len(kept)]) == kept
        assert len(set(replicas)) == len(replicas) == min(len(row.replicas), len(nodes))
        assert len({rack_of[each] for each in replicas}) == min(len(replicas), len(set(rack_of.values())))


def test_a_broker_that_comes_back_gets_the_partitions_that_prefer_it() -> None:
    rows = [PartitionRow(ID, index, 2, 0, (2, 1)) for index in range(2)]
    rows += [PartitionRow(ID, index, 2, 0, (1, 2)) for index in range(2, 4)]
    assert {move[1] for move in balance(rows, NODES[:2], 10)} == {2, 3}


def test_brokers_that_are_gone_or_draining_get_nothing() -> None:
    brokers = [BrokerRow(n, 1, "i", "r", {"PLAINTEXT": HostAndPort("h", n)}, is_live=n != 2) for n in (1, 2, 3)]
    assert nodes_of(brokers, frozenset({3})) == [Node(1, "r")]


def brokers(*node_ids: int, gone: tuple[int, ...] = (), starting: tuple[int, ...] = ()) -> list[BrokerRow]:
    at = {"PLAINTEXT": HostAndPort("h", 9092)}
    return [
        BrokerRow(node_id, 1, "i", None, {} if node_id in starting else at, is_live=node_id not in gone)
        for node_id in node_ids
    ]


def test_what_a_dead_broker_led_is_rescued_and_what_the_living_lead_stays() -> None:
    rows = rows_led_by([1, 2, 3, 4])
    moves = rescue(brokers(1, 2, 3, 4, gone=(1,), starting=(3,)), rows, frozenset({4}))
    assert moves == [Move(ID, 0, Placement(2, (1,)))]


def test_the_last_broker_is_given_what_the_dead_led_though_it_is_draining() -> None:
    rows = rows_led_by([1, 2])
    assert rescue(brokers(1, 2, gone=(1,)), rows, frozenset({2})) == [Move(ID, 0, Placement(2, (1,)))]


def test_a_draining_broker_gives_everything_away_in_portions() -> None:
    rows, cluster = rows_led_by([1] * 5 + [2]), brokers(1, 2, 3)
    moves = hand_over(1, cluster, rows, frozenset({1}), 3)
    assert [move.placement.leader for move in moves] == [3, 2, 3]
    assert hand_over(2, cluster, rows, frozenset({1}), 3) == [], "it is not its own"
    assert hand_over(1, brokers(1), rows, frozenset({1}), 3) == [], "there is nobody else"


def test_a_partition_goes_back_to_its_replica_that_is_there_again() -> None:
    row = PartitionRow(ID, 0, 2, 5, (1, 3))
    moves = hand_over(2, brokers(1, 2, 3), [row], frozenset(), 9, is_balancing=False)
    assert moves == [Move(ID, 0, Placement(1, (1, 3)))]
    assert hand_over(2, brokers(1, 2, 3, gone=(1, 3)), [row], frozenset(), 9) == []


def test_a_leader_hands_over_to_the_elected_when_that_one_is_there() -> None:
    row = PartitionRow(ID, 0, 2, 5, (1, 2, 3), elected=1)
    moves = hand_over(2, brokers(1, 2, 3), [row], frozenset(), 9, is_balancing=False)
    assert moves == [Move(ID, 0, Placement(1, (1, 2, 3)))]
    assert hand_over(2, brokers(1, 2, 3, gone=(1,)), [row], frozenset(), 9, is_balancing=False) == []
    assert hand_over(1, brokers(1, 2, 3), [row._replace(leader=1)], frozenset(), 9, is_balancing=False) == []


def test_who_takes_over_from_a_leader_that_is_gone_is_the_elected() -> None:
    row = PartitionRow(ID, 0, 2, 5, (1, 2, 3), elected=3)
    assert rescue(brokers(1, 2, 3, gone=(2,)), [row], frozenset()) == [Move(ID, 0, Placement(3, (1, 2, 3)))]


def test_who_leads_too_many_gives_its_own_away_and_its_replicas_follow() -> None:
    rows, cluster = rows_led_by([1, 1, 1, 1, 2]), brokers(1, 2, 3)
    moves = hand_over(1, cluster, rows, frozenset(), 9)
    assert len(moves) == 2
    assert all(move.placement.replicas == (move.placement.leader,) for move in moves)
    assert hand_over(2, cluster, rows, frozenset(), 9) == []
    assert hand_over(1, cluster, rows, frozenset(), 9, is_balancing=False) == []
    left = [row for row in rows if row.leader == 1]
    assert len(left) - len(moves) == 2
