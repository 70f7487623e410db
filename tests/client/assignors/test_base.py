from __future__ import annotations

from penstock.client.assignors.base import MemberSubscription, all_partitions, ordered_members
from penstock.client.types import TopicPartition


def test_static_members_come_first_by_their_instance_then_the_others_by_id() -> None:
    members = {
        "c": MemberSubscription(()),
        "b": MemberSubscription((), group_instance_id="2"),
        "a": MemberSubscription(()),
        "d": MemberSubscription((), group_instance_id="1"),
    }
    assert ordered_members(members) == ["d", "b", "a", "c"]


def test_only_partitions_that_somebody_reads_and_that_exist_are_handed_out() -> None:
    members = {"m1": MemberSubscription(("b", "gone")), "m2": MemberSubscription(("a", "b"))}
    assert all_partitions({"b": 2, "a": 1, "unread": 9}, members) == [
        TopicPartition("a", 0),
        TopicPartition("b", 0),
        TopicPartition("b", 1),
    ]
