"""The simple assignor of share groups: nobody idle, no partition forgotten, little moved."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.assignors import AssignorMember
from penstock.groups.share.assignor import simple

TOPIC = b"t" * 16
OTHER = b"o" * 16


def group(count: int, topics: frozenset[bytes] = frozenset([TOPIC])) -> list[AssignorMember]:
    return [AssignorMember(f"m{index:02d}", topics) for index in range(count)]


@given(st.integers(1, 30), st.integers(1, 30))
def test_every_partition_has_a_member_and_every_member_a_partition(members: int, partitions: int) -> None:
    made = simple(group(members), {TOPIC: frozenset(range(partitions))})
    holders = [sum(p in m.get(TOPIC, ()) for m in made.values()) for p in range(partitions)]
    assert min(holders) >= 1
    assert max(holders) <= math.ceil(members / partitions)
    sizes = [len(m.get(TOPIC, ())) for m in made.values()]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 12))
def test_after_members_come_or_go_all_is_covered_again(before: int, after: int, partitions: int) -> None:
    assignable = {TOPIC: frozenset(range(partitions))}
    first = simple(group(before), assignable)
    members = [
        AssignorMember(member.member_id, member.topics, first.get(member.member_id, {})) for member in group(after)
    ]
    second = simple(members, assignable)
    covered = {p for m in second.values() for p in m.get(TOPIC, ())}
    assert covered == set(range(partitions))
    if partitions:
        assert all(m.get(TOPIC) for m in second.values()) or after > partitions * math.ceil(after / partitions)


def test_one_partition_is_shared_by_all() -> None:
    made = simple(group(5), {TOPIC: frozenset({0})})
    assert all(m == {TOPIC: frozenset({0})} for m in made.values())


def test_only_initialized_partitions_are_assigned() -> None:
    assert simple(group(1), {}) == {"m00": {}}


def test_a_settled_group_stays_as_it_is() -> None:
    assignable = {TOPIC: frozenset(range(7))}
    first = simple(group(3), assignable)
    again = [AssignorMember(m.member_id, m.topics, first[m.member_id]) for m in group(3)]
    assert simple(again, assignable) == first


def test_with_different_subscriptions_each_topic_is_shared_among_its_own() -> None:
    members = [AssignorMember("both", frozenset([TOPIC, OTHER])), AssignorMember("one", frozenset([TOPIC]))]
    made = simple(members, {TOPIC: frozenset({0, 1}), OTHER: frozenset({0})})
    assert made["both"][OTHER] == {0}
    assert OTHER not in made["one"]
    assert made["both"][TOPIC] | made["one"][TOPIC] == {0, 1}
