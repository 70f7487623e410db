"""Who leads which partition: even, sticky, in several racks, and the same answer to the same question.

`place` is for new partitions, `take_over` for those whose leader is gone or leaving, `balance` for leaders that are
unevenly spread, `retire` for replicas on a broker that does not come back. A partition's replicas are the brokers that
would take over, the preferred leader first. The records are in the object store, so that any broker can lead any
partition, and a move copies nothing: it costs a pause, and the reading of what is not yet in segments. So nothing moves
without a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from penstock.catalog.shared import NOBODY, BrokerRow, Move, PartitionRow, Placement

Replicas: TypeAlias = tuple[int, ...]

BALANCE_LIMIT = 100
"""How many moves are thought out at a time."""


class Node(NamedTuple):
    """A broker that may lead."""

    node_id: int
    rack: str | None = None


def nodes_of(brokers: Iterable[BrokerRow], draining: frozenset[int] = frozenset()) -> list[Node]:
    """Those that may be given partitions: they are live, and have said where they are reached."""
    return [
        Node(row.node_id, row.rack) for row in brokers if row.is_live and row.endpoints and row.node_id not in draining
    ]


def place(count: int, replication: int, nodes: Sequence[Node], led: Mapping[int, int]) -> list[Placement]:
    """Placements for `count` new partitions, each with as many replicas as are wanted and there are brokers.

    `led` says how many partitions each broker leads already.
    """
    leads, keeps = Counter(led), Counter(led)
    return [_new(replication, nodes, leads, keeps) for _ in range(count)]


def _new(replication: int, nodes: Sequence[Node], leads: Counter[int], keeps: Counter[int]) -> Placement:
    left = list(nodes)
    chosen: list[Node] = []
    while left and len(chosen) < max(replication, 1):
        if chosen:
            racks = Counter(node.rack for node in chosen)
            best = min(
                left, key=lambda node: (node.rack is not None and racks[node.rack], keeps[node.node_id], node.node_id)
            )
        else:
            best = min(left, key=lambda node: (leads[node.node_id], keeps[node.node_id], node.node_id))
            leads[best.node_id] += 1
        left.remove(best)
        chosen.append(best)
        keeps[best.node_id] += 1
    replicas = tuple(node.node_id for node in chosen)
    return Placement(replicas[0] if replicas else NOBODY, replicas)


def take_over(
    partitions: Sequence[PartitionRow], nodes: Sequence[Node], kept: frozenset[int] = frozenset()
) -> list[Move]:
    """Leaders for the partitions whose leader is not among `nodes`: a replica if one is there, the least loaded first.

    Replicas stay as they are, so that a broker that comes back is the preferred leader again. Without any broker
    nothing moves: whoever comes next takes over. What the brokers in `kept` lead, they keep.
    """
    if not nodes:
        return []
    alive = {node.node_id for node in nodes}
    leads = Counter(row.leader for row in partitions)
    moves = []
    for row in partitions:
        if row.leader in alive or row.leader in kept:
            continue
        candidates = [node_id for node_id in row.replicas if node_id in alive] or sorted(alive)
        candidates = [row.elected] if row.elected in alive else candidates
        best = min(candidates, key=lambda node_id: (leads[node_id], node_id))
        leads[best] += 1
        moves.append(_to(row, best))
    return moves


def rescue(brokers: Sequence[BrokerRow], partitions: Sequence[PartitionRow], draining: frozenset[int]) -> list[Move]:
    """Leaders for the partitions whose leader is not live. Those of brokers that are starting or draining stay."""
    nodes = nodes_of(brokers, draining) or nodes_of(brokers)
    return take_over(partitions, nodes, frozenset(row.node_id for row in brokers if row.is_live))


def hand_over(
    node_id: int,
    brokers: Sequence[BrokerRow],
    partitions: Sequence[PartitionRow],
    draining: frozenset[int],
    limit: int,
    *,
    is_balancing: bool = True,
) -> list[Move]:
    """At most `limit` partitions that a broker gives away by itself: when it drains, when an administrator has elected
    another leader or named other replicas, or when it leads too many.

    Only the leader gives a partition away while it lives: it stops serving first, so that no two brokers serve it.
    """
    nodes = nodes_of(brokers, draining)
    own = [row for row in partitions if row.leader == node_id]
    if node_id in draining:
        others = [node for node in nodes if node.node_id != node_id]
        leads = [row for row in partitions if row.leader != node_id]
        return take_over([*own, *leads], others, frozenset(row.leader for row in leads))[:limit]
    alive = {node.node_id for node in nodes}
    targets = [(row, _target(row, node_id, alive)) for row in own]
    moves = [_to(row, leader) for row, leader in targets if leader is not None]
    if not moves and is_balancing and node_id in alive:
        mine = {row[:2] for row in own}
        moves = [move for move in balance(partitions, nodes, BALANCE_LIMIT) if move[:2] in mine]
    return moves[:limit]


def balance(partitions: Sequence[PartitionRow], nodes: Sequence[Node], limit: int) -> list[Move]:
    """At most `limit` moves that even out how many partitions each broker leads, back to preferred leaders first.

    Afterwards the brokers lead equally many, but for one, if the limit allows it. What is even already stays.
    """
    alive = sorted(node.node_id for node in nodes)
    racks = {node.node_id: node.rack for node in nodes}
    led: dict[int, list[PartitionRow]] = {node_id: [] for node_id in alive}
    for row in partitions:
        if row.leader in led:
            led[row.leader].append(row)
    moves: list[Move] = []
    while alive and len(moves) < limit:
        most = max(alive, key=lambda node_id: (len(led[node_id]), -node_id))
        least = min(alive, key=lambda node_id: (len(led[node_id]), node_id))
        if len(led[most]) - len(led[least]) < 2:
            break
        row = min(led[most], key=lambda row: (_wish(row, least), row[:2]))
        led[most].remove(row)
        # Who leads is among the replicas: else the partition would go back to one of them.
        moved = row._replace(leader=least, replicas=_with(least, row.replicas, racks))
        led[least].append(moved)
        moves.append(_to(moved, least))
    return moves


def retire(
    node_id: int, partitions: Iterable[PartitionRow], nodes: Sequence[Node]
) -> list[tuple[PartitionRow, Replicas]]:
    """Replicas without a broker that does not come back: where there is another one for its place, it comes last.

    Who leads stays: nothing moves.
    """
    rows = list(partitions)
    keeps = Counter(each for row in rows for each in row.replicas)
    changed = []
    for row in rows:
        if node_id not in row.replicas:
            continue
        left = tuple(each for each in row.replicas if each != node_id)
        racks = Counter(node.rack for node in nodes if node.node_id in left)
        others = [node for node in nodes if node.node_id != node_id and node.node_id not in left]
        if others:
            best = min(
                others, key=lambda node: (node.rack is not None and racks[node.rack], keeps[node.node_id], node.node_id)
            )
            keeps[best.node_id] += 1
            left = (*left, best.node_id)
        if left:
            changed.append((row, left))
    return changed


def _target(row: PartitionRow, node_id: int, alive: Collection[int]) -> int | None:
    """Who is to lead in place of a broker, by what administrators want."""
    if row.elected != node_id and row.elected in alive:
        return row.elected
    if node_id in row.replicas:
        return None
    return next((each for each in row.replicas if each in alive), None)


def _with(node_id: int, replicas: tuple[int, ...], racks: Mapping[int, str | None]) -> tuple[int, ...]:
    """The replicas with this broker among them: in the place of one in its rack if there is one, else of the last."""
    if node_id in replicas:
        return replicas
    rack = racks[node_id]
    mates = [place for place, each in enumerate(replicas) if rack is not None and racks.get(each) == rack]
    place = mates[-1] if mates else len(replicas) - 1
    return (*replicas[:place], node_id, *replicas[place + 1 :])


def _to(row: PartitionRow, leader: int) -> Move:
    topic_id, index = row[:2]
    return Move(topic_id, index, Placement(leader, row.replicas))


def _wish(row: PartitionRow, node_id: int) -> int:
    """How well a partition fits a broker, the best first."""
    return row.replicas.index(node_id) if node_id in row.replicas else len(row.replicas)
