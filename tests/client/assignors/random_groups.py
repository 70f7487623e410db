"""Random groups for the assignors, and the rule that all of them keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from penstock.client.assignors import Assignment, MemberSubscription
from penstock.client.types import TopicPartition

_TOPICS = ["a", "b", "c", "d"]
_counts = st.dictionaries(st.sampled_from(_TOPICS), st.integers(0, 7), min_size=1)
_names = st.lists(st.sampled_from([f"m{n}" for n in range(8)]), min_size=1, max_size=8, unique=True)
topics_of_one = st.lists(st.sampled_from(_TOPICS), min_size=1, unique=True)


Group = tuple[dict[str, int], dict[str, MemberSubscription]]  # partition counts by topic, and who subscribes to what
AssignFunction = Callable[[Mapping[str, int], Mapping[str, MemberSubscription]], Assignment]


@st.composite
def equal_groups(draw: st.DrawFn) -> Group:
    """Everybody subscribes to the same topics."""
    counts, names, topics = draw(_counts), draw(_names), tuple(draw(topics_of_one))
    return counts, {name: MemberSubscription(topics) for name in names}


@st.composite
def mixed_groups(draw: st.DrawFn) -> Group:
    """Subscriptions of their own, some members static."""
    counts, names = draw(_counts), draw(_names)
    return counts, {
        name: MemberSubscription(
            tuple(draw(topics_of_one)), group_instance_id=f"i{name}" if draw(st.booleans()) else None
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
