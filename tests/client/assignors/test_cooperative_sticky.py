from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.assignors import (
    Assignment,
    MemberSubscription,
    assign_cooperative_sticky,
)
from penstock.client.types import TopicPartition
from tests.client.assignors.random_groups import (
    Group,
    check_complete,
    mixed_groups,
    topics_of_one,
    with_ownership,
)


@settings(max_examples=150, deadline=None)
@given(group=mixed_groups(), data=st.data())
def test_a_cooperative_rebalance_never_hands_over_what_was_not_given_up(group: Group, data: st.DataObject) -> None:
    """Members come and go at random; at no time do two of them hold the same partition, and it ends complete."""
    counts, members = group
    held: Assignment = {name: [] for name in members}
    generation = 0
    for _ in range(data.draw(st.integers(1, 3))):
        change = data.draw(st.sampled_from(["join", "leave", "stay"]))
        if change == "join":
            members = {**members, f"x{generation}": MemberSubscription(tuple(data.draw(topics_of_one)))}
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
