from __future__ import annotations

from hypothesis import given, settings

from penstock.client.assignors import (
    MemberSubscription,
    assign_roundrobin,
)
from penstock.client.types import TopicPartition
from tests.client.assignors.random_groups import (
    Group,
    equal_groups,
)


@settings(max_examples=150, deadline=None)
@given(group=equal_groups())
def test_equal_subscriptions_get_equal_shares(group: Group) -> None:
    counts, members = group
    sizes = [len(mine) for mine in assign_roundrobin(counts, members).values()]
    assert max(sizes) - min(sizes) <= 1


def test_partitions_are_dealt_out_in_turn_and_those_who_do_not_want_one_are_passed_over() -> None:
    members = {
        "m1": MemberSubscription(("a",)),
        "m2": MemberSubscription(("a", "b")),
        "m3": MemberSubscription(("b",)),
    }
    assert assign_roundrobin({"a": 3, "b": 2}, members) == {
        "m1": [TopicPartition("a", 0), TopicPartition("a", 2)],
        "m2": [TopicPartition("a", 1), TopicPartition("b", 0)],
        "m3": [TopicPartition("b", 1)],
    }
