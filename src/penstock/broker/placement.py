"""Which broker is to lead a new partition.

Owners that are fixed get the partitions of a topic in turn, those with the fewest first, so that every topic is spread
and topics of one partition are too. `PlacePartitions` is what the topic manager asks; where leaders move, they are
spread over the brokers that are there at the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from penstock.catalog.shared import Placement
from penstock.cluster.placement import Node
from penstock.cluster.placement import place as place_among

PlacePartitions: TypeAlias = Callable[[int, int, Mapping[int, int]], list[Placement]]
"""Given how many partitions there are to be, how many replicas each, and how many each broker leads already."""


def among_fixed_owners(owners: Sequence[int]) -> PlacePartitions:
    """Each partition is kept by one broker, for ever."""

    def place(partitions: int, replication_factor: int, led: Mapping[int, int]) -> list[Placement]:
        here: Counter[int] = Counter()
        placements = []
        for _ in range(partitions):
            owner = min(owners, key=lambda each: (here[each], led.get(each, 0), each))
            here[owner] += 1
            placements.append(Placement(owner, (owner,)))
        return placements

    return place


def among_members(nodes: Callable[[], Sequence[Node]]) -> PlacePartitions:
    """Each partition is led by one of the brokers that are there, and any other may take over."""

    def place(partitions: int, replication_factor: int, led: Mapping[int, int]) -> list[Placement]:
        return place_among(partitions, replication_factor, nodes(), led)

    return place
