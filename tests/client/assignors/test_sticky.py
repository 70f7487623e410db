from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.assignors import (
    MemberSubscription,
    assign_sticky,
)
from penstock.client.assignors.sticky import StickyAssignor, pack_user_data, unpack_user_data
from penstock.client.types import TopicPartition
from tests.client.assignors.random_groups import (
    Group,
    check_complete,
    equal_groups,
    mixed_groups,
    topics_of_one,
    with_ownership,
)


@settings(max_examples=150, deadline=None)
@given(group=equal_groups())
def test_equal_subscriptions_get_equal_shares(group: Group) -> None:
    counts, members = group
    sizes = [len(mine) for mine in assign_sticky(counts, members).values()]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=150, deadline=None)
@given(group=mixed_groups(), data=st.data())
def test_sticky_is_as_even_as_the_subscriptions_allow(group: Group, data: st.DataObject) -> None:
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
    group: Group,
) -> None:
    counts, members = group
    before = assign_sticky(counts, members)
    after = assign_sticky(counts, with_ownership(members, before))
    assert {name: set(mine) for name, mine in after.items()} == {name: set(mine) for name, mine in before.items()}


@settings(max_examples=150, deadline=None)
@given(group=equal_groups(), data=st.data())
def test_when_a_member_leaves_only_its_partitions_move(group: Group, data: st.DataObject) -> None:
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
def test_no_two_members_swap_partitions_of_one_topic(group: Group, data: st.DataObject) -> None:
    counts, members = group
    before = assign_sticky(counts, members)
    joined = with_ownership(members, before) | {"newcomer": MemberSubscription(tuple(data.draw(topics_of_one)))}
    after = assign_sticky(counts, joined)
    moves = set()
    for name, mine in before.items():
        for tp in mine:
            taker = next(other for other, theirs in after.items() if tp in theirs)
            if taker != name:
                moves.add((tp.topic, name, taker))
    assert not {(topic, b, a) for topic, a, b in moves} & moves


def test_a_claim_of_an_older_generation_does_not_count() -> None:
    owned = (TopicPartition("a", 0), TopicPartition("a", 1))
    members = {
        "m1": MemberSubscription(("a",), owned[:1], 4),
        "m2": MemberSubscription(("a",), owned, 5),
    }
    assert TopicPartition("a", 0) in assign_sticky({"a": 2}, members)["m2"]


def test_sticky_remembers_in_its_user_data() -> None:
    partitions = [TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 7)]
    assert unpack_user_data(pack_user_data(partitions, 9)) == (tuple(sorted(partitions)), 9)
    assert unpack_user_data(None) == ((), -1)
    assert unpack_user_data(b"\xff\xff\x01") == ((), -1)
    assignor = StickyAssignor()
    assignor.on_assignment(partitions, 9)
    subscription = MemberSubscription(("a", "b"), user_data=assignor.user_data(["a", "b"]))
    assignment = assignor.assign({"a": 2, "b": 8}, {"old": subscription, "new": MemberSubscription(("a", "b"))})
    assert set(partitions) <= set(assignment["old"])
