"""Rules that the assignors keep for every group, found by random ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from penstock.client.assignors import (
    assign_cooperative_sticky,
    assign_range,
    assign_roundrobin,
    assign_sticky,
)
from tests.client.assignors.random_groups import (
    AssignFunction,
    Group,
    check_complete,
    mixed_groups,
)

ALL = [assign_range, assign_roundrobin, assign_sticky, assign_cooperative_sticky]


@pytest.mark.parametrize("assign", ALL)
@settings(max_examples=150, deadline=None)
@given(group=mixed_groups())
def test_every_partition_goes_to_exactly_one_subscriber(assign: AssignFunction, group: Group) -> None:
    counts, members = group
    check_complete(counts, members, assign(counts, members))


@pytest.mark.parametrize("assign", ALL)
@settings(max_examples=50, deadline=None)
@given(group=mixed_groups())
def test_the_same_group_gets_the_same_assignment(assign: AssignFunction, group: Group) -> None:
    counts, members = group
    backwards = dict(reversed(members.items()))
    first, second = assign(counts, members), assign(counts, backwards)
    assert {name: set(mine) for name, mine in first.items()} == {name: set(mine) for name, mine in second.items()}
