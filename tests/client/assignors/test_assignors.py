"""Rules that the assignors keep for every group, found by random ones."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.assignors import (
    Assignment,
    MemberSubscription,
    assign_cooperative_sticky,
    assign_range,
    assign_roundrobin,
    assign_sticky,
)
from penstock.client.assignors.base import AssignFunction
from penstock.client.assignors.sticky import StickyAssignor, pack_user_data, unpack_user_data
from penstock.client.types import TopicPartition

ALL = [assign_range, assign_roundrobin, assign_sticky, assign_cooperative_sticky]
_topics = ["a", "b", "c", "d"]
_counts = st.dictionaries(st.sampled_from(_topics), st.integers(0, 7), min_size=1)
_names = st.lists(st.sampled_from([f"m{n}" for n in range(8)]), min_size=1, max_size=8, unique=True)
_same_topics = st.lists(st.sampled_from(_topics), min_size=1, unique=True)


@st.composite
def equal_groups(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, MemberSubscription]]:
    """Everybody subscribes to the same topics."""
    counts, names, topics = draw(_counts), draw(_names), tuple(draw(_same_topics))
    return counts, {name: MemberSubscription(topics) for name in names}


@st.composite
def mixed_groups(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, MemberSubscription]]:
    """Subscriptions of their own, some members static."""
    counts, names = draw(_counts), draw(_names)
    return counts, {
        name: MemberSubscription(
            tuple(draw(_same_topics)), group_instance_id=f"i{name}" if draw(st.booleans()) else None
        )
        for name in names
    }


def check_complete(counts: dict[str, int], members: dict[str, MemberSubscription], assignment: Assignment) -> None:
    """Everything that somebody reads goes to exactly one of those who read it."""
    assert set(assignment) == set(members)
    wanted = {
        TopicPartition(topic, number)
        for member in members.values()
        for topic in member.topics
        for number in range(counts.get(topic, 0))
    }
    given_out = [tp for mine in assignment.values() for tp in mine]
    assert Counter(given_out) == Counter(wanted)
    for name, mine in assignment.items():
        assert {tp.topic for tp in mine} <= set(members[name].topics)


def with_ownership(
    members: dict[str, MemberSubscription], assignment: Assignment, generation: int = 1
) -> dict[str, MemberSubscription]:
    return {
        name: MemberSubscription(m.topics, tuple(assignment.get(name, [])), generation, m.group_instance_id)
        for name, m in members.items()
    }


@pytest.mark.parametrize("assign", ALL)
@settings(max_examples=150, deadline=None)
@given(group=mixed_groups())
def test_every_partition_goes_to_exactly_one_subscriber(
    assign: AssignFunction, group: tuple[dict[str, int], dict[str, MemberSubscription]]
) -> None:
    counts, members = group
    check_complete(counts, members, assign(counts, members))


@pytest.mark.parametrize("assign", ALL)
@settings(max_examples=50, deadline=None)
@given(group=mixed_groups())
def test_the_same_group_gets_the_same_assignment(
    assign: AssignFunction, group: tuple[dict[str, int], dict[str, MemberSubscription]]
) -> None:
    counts, members = group
    backwards = dict(reversed(members.items()))
    first, second = assign(counts, members), assign(counts, backwards)
    assert {name: set(mine) for name, mine in first.items()} == {name: set(mine) for name, mine in second.items()}


@pytest.mark.parametrize("assign", [assign_roundrobin, assign_sticky])
@settings(max_examples=150, deadline=None)
@given(group=equal_groups())
def test_equal_subscriptions_get_equal_shares(
    assign: AssignFunction, group: tuple[dict[str, int], dict[str, MemberSubscription]]
) -> None:
    counts, members = group
    sizes = [len(mine) for mine in assign(counts, members).values()]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=100, deadline=None)
@given(group=equal_groups())
def test_range_is_even_within_each_topic(group: tuple[dict[str, int], dict[str, MemberSubscription]]) -> None:
    counts, members = group
    assignment = assign_range(counts, members)
    for topic in {topic for member in members.values() for topic in member.topics}:
        sizes = [sum(tp.topic == topic for tp in mine) for mine in assignment.values()]
        assert max(sizes) - min(sizes) <= 1
        for mine in assignment.values():
            numbers = [tp.partition for tp in mine if tp.topic == topic]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


@settings(max_examples=150, deadline=None)
@given(group=mixed_groups(), data=st.data())
def test_sticky_is_as_even_as_the_subscriptions_allow(
    group: tuple[dict[str, int], dict[str, MemberSubscription]], data: st.DataObject
) -> None:
    counts, members = group
    before = assign_sticky(counts, members)
    leaver = data.draw(st.sampled_from(sorted(members)))
    left = {name: member for name, member in with_ownership(members, before).items() if name != leaver}
    if not left:
        return
    assignment = assign_sticky(counts, left)
    check_complete(counts, left, assignment)
    for rich, much in assignment.items():
        for poor, little in assignment.items():
            if len(much) >= len(little) + 2:
                assert not {tp.topic for tp in much} & set(left[poor].topics), (rich, poor)


@settings(max_examples=150, deadline=None)
@given(group=equal_groups())
def test_sticky_moves_nothing_when_nothing_changed(
    group: tuple[dict[str, int], dict[str, MemberSubscription]],
) -> None:
    counts, members = group
    before = assign_sticky(counts, members)
    after = assign_sticky(counts, with_ownership(members, before))
    assert {name: set(mine) for name, mine in after.items()} == {name: set(mine) for name, mine in before.items()}


@settings(max_examples=150, deadline=None)
@given(group=equal_groups(), data=st.data())
def test_when_a_member_leaves_only_its_partitions_move(
    group: tuple[dict[str, int], dict[str, MemberSubscription]], data: st.DataObject
) -> None:
    counts, members = group
    if len(members) < 2:
        return
    before = assign_sticky(counts, members)
    leaver = data.draw(st.sampled_from(sorted(members)))
    left = {name: member for name, member in with_ownership(members, before).items() if name != leaver}
    after = assign_sticky(counts, left)
    for name in left:
        assert set(before[name]) <= set(after[name])


@settings(max_examples=150, deadline=None)
@given(group=mixed_groups(), data=st.data())
def test_no_two_members_swap_partitions_of_one_topic(
    group: tuple[dict[str, int], dict[str, MemberSubscription]], data: st.DataObject
) -> None:
    counts, members = group
    before = assign_sticky(counts, members)
    joined = with_ownership(members, before) | {"newcomer": MemberSubscription(tuple(data.draw(_same_topics)))}
    after = assign_sticky(counts, joined)
    moves = set()
    for name, mine in before.items():
        for tp in mine:
            taker = next(other for other, theirs in after.items() if tp in theirs)
            if taker != name:
                moves.add((tp.topic, name, taker))
    assert not {(topic, b, a) for topic, a, b in moves} & moves


@settings(max_examples=150, deadline=None)
@given(group=mixed_groups(), data=st.data())
def test_a_cooperative_rebalance_never_hands_over_what_was_not_given_up(
    group: tuple[dict[str, int], dict[str, MemberSubscription]], data: st.DataObject
) -> None:
    """Members come and go at random; at no time do two of them hold the same partition, and it ends complete."""
    counts, members = group
    held: Assignment = {name: [] for name in members}
    generation = 0
    for _ in range(data.draw(st.integers(1, 3))):
        change = data.draw(st.sampled_from(["join", "leave", "stay"]))
        if change == "join":
            members = {**members, f"x{generation}": MemberSubscription(tuple(data.draw(_same_topics)))}
        elif change == "leave" and len(members) > 1:
            gone = data.draw(st.sampled_from(sorted(members)))
            members = {name: member for name, member in members.items() if name != gone}
            held.pop(gone, None)
        for _ in range(10):
            generation += 1
            assignment = assign_cooperative_sticky(counts, with_ownership(members, held, generation))
            for name, mine in assignment.items():
                others = {tp for other, theirs in held.items() if other != name for tp in theirs}
                assert not set(mine) & others
            gave_up = any(set(held.get(name, [])) - set(assignment[name]) for name in members)
            held = assignment
            if not gave_up:
                break
        check_complete(counts, members, held)


def test_a_partition_that_two_claim_in_the_same_generation_is_neithers() -> None:
    owned = (TopicPartition("a", 0),)
    members = {
        "m1": MemberSubscription(("a",), owned, 5),
        "m2": MemberSubscription(("a",), owned, 5),
    }
    assert assign_cooperative_sticky({"a": 1}, members) == {"m1": [], "m2": []}


def test_a_claim_of_an_older_generation_does_not_count() -> None:
    owned = (TopicPartition("a", 0), TopicPartition("a", 1))
    members = {
        "m1": MemberSubscription(("a",), owned[:1], 4),
        "m2": MemberSubscription(("a",), owned, 5),
    }
    assert TopicPartition("a", 0) in assign_sticky({"a": 2}, members)["m2"]


def test_range_follows_the_order_of_static_members_first() -> None:
    members = {
        "zebra": MemberSubscription(("a",), group_instance_id="1"),
        "ant": MemberSubscription(("a",)),
    }
    assert assign_range({"a": 3}, members) == {
        "zebra": [TopicPartition("a", 0), TopicPartition("a", 1)],
        "ant": [TopicPartition("a", 2)],
    }


def test_sticky_remembers_in_its_user_data() -> None:
    partitions = [TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 7)]
    assert unpack_user_data(pack_user_data(partitions, 9)) == (tuple(sorted(partitions)), 9)
    assert unpack_user_data(None) == ((), -1)
    assert unpack_user_data(b"\xff\xff\x01") == ((), -1)
    assignor = StickyAssignor()
    assignor.on_assignment(partitions, 9)
    told = MemberSubscription(("a", "b"), user_data=assignor.user_data(["a", "b"]))
    assignment = assignor.assign({"a": 2, "b": 8}, {"old": told, "new": MemberSubscription(("a", "b"))})
    assert set(partitions) <= set(assignment["old"])
