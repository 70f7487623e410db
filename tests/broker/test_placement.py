"""Where new partitions go when owners are fixed."""

from __future__ import annotations

from collections import Counter

from penstock.broker.placement import among_fixed_owners
from penstock.catalog.shared import Placement


def test_a_topics_partitions_are_spread_evenly_each_with_one_owner() -> None:
    placements = among_fixed_owners((1, 2, 3))(7, 1, {})
    assert sorted(Counter(each.leader for each in placements).values()) == [2, 2, 3]
    assert all(each.replicas == (each.leader,) for each in placements)


def test_topics_of_one_partition_go_to_who_leads_least() -> None:
    place = among_fixed_owners((1, 2))
    led: Counter[int] = Counter()
    for _ in range(6):
        [placement] = place(1, 1, led)
        led[placement.leader] += 1
    assert led == {1: 3, 2: 3}
    assert place(1, 1, {1: 5, 2: 4}) == [Placement(2, (2,))]


def test_brokers_that_are_no_owners_get_nothing() -> None:
    assert {each.leader for each in among_fixed_owners((1, 2))(4, 1, {3: 0})} == {1, 2}
