from __future__ import annotations

from hypothesis import given, settings

from penstock.client.assignors import (
    MemberSubscription,
    assign_range,
)
from penstock.client.types import TopicPartition
from tests.client.assignors.random_groups import (
    Group,
    equal_groups,
)


@settings(max_examples=100, deadline=None)
@given(group=equal_groups())
def test_range_is_even_within_each_topic(group: Group) -> None:
    counts, members = group
    assignment = assign_range(counts, members)
    for topic in {topic for member in members.values() for topic in member.topics}:
        sizes = [sum(tp.topic == topic for tp in mine) for mine in assignment.values()]
        assert max(sizes) - min(sizes) <= 1
        for mine in assignment.values():
            numbers = [tp.partition for tp in mine if tp.topic == topic]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


def test_range_follows_the_order_of_static_members_first() -> None:
    members = {
        "zebra": MemberSubscription(("a",), group_instance_id="1"),
        "ant": MemberSubscription(("a",)),
    }
    assert assign_range({"a": 3}, members) == {
        "zebra": [TopicPartition("a", 0), TopicPartition("a", 1)],
        "ant": [TopicPartition("a", 2)],
    }
