"""The server-side assignors of consumer groups: complete, balanced, sticky."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.assignors import ASSIGNORS, Assignment, AssignorMember, range_, uniform

TOPICS = [bytes([index]) * 16 for index in range(4)]
COUNTS = st.lists(st.integers(0, 9), min_size=4, max_size=4)


@st.composite
def groups(draw: st.DrawFn, same_topics: bool) -> tuple[list[AssignorMember], dict[bytes, int]]:
    counts = dict(zip(TOPICS, draw(COUNTS), strict=True))
    names = draw(st.lists(st.sampled_from([f"m{i}" for i in range(8)]), min_size=1, max_size=8, unique=True))
    subscriptions = st.frozensets(st.sampled_from(TOPICS), min_size=1)
    common = draw(subscriptions)
    free = [(topic, partition) for topic in TOPICS for partition in range(counts[topic] + 1)]  # some exist no more
    held = draw(st.dictionaries(st.sampled_from(free), st.sampled_from(names)))
    members = []
    for name in names:
        current: dict[bytes, set[int]] = {}
        for (topic, partition), owner in held.items():
            if owner == name:
                current.setdefault(topic, set()).add(partition)
        topics = common if same_topics else draw(subscriptions)
        members.append(AssignorMember(name, topics, {t: frozenset(p) for t, p in current.items()}))
    return members, counts


def owners_of(assignment: dict[str, Assignment]) -> dict[tuple[bytes, int], str]:
    owners = {}
    for member, topics in assignment.items():
        for topic, partitions in topics.items():
            for partition in partitions:
                assert (topic, partition) not in owners, "two owners"
                owners[topic, partition] = member
    return owners


def assert_complete(
    members: list[AssignorMember], counts: dict[bytes, int], assignment: dict[str, Assignment]
) -> dict[tuple[bytes, int], str]:
    """Every partition of a subscribed topic goes to one member, and that member subscribes to the topic."""
    owners = owners_of(assignment)
    subscribed = {topic for member in members for topic in member.topics}
    assert set(owners) == {(topic, p) for topic in subscribed for p in range(counts[topic])}
    topics = {member.member_id: member.topics for member in members}
    assert all(topic in topics[member] for (topic, _), member in owners.items())
    assert set(assignment) == set(topics)
    return owners


@given(groups(same_topics=True))
def test_uniform_with_equal_subscriptions_differs_by_one_at_most(
    group: tuple[list[AssignorMember], dict[bytes, int]],
) -> None:
    members, counts = group
    assignment = uniform(members, counts)
    assert_complete(members, counts, assignment)
    sizes = [sum(len(partitions) for partitions in topics.values()) for topics in assignment.values()]
    assert max(sizes) - min(sizes) <= 1


@given(groups(same_topics=True))
def test_uniform_moves_no_more_than_it_must(group: tuple[list[AssignorMember], dict[bytes, int]]) -> None:
    members, counts = group
    owners = owners_of(uniform(members, counts))
    total = len(owners)
    quota, extras = divmod(total, len(members))
    kept = 0
    sizes = []
    for member in members:
        mine = sum(p < counts[t] for t, partitions in member.current.items() if t in member.topics for p in partitions)
        sizes.append(mine)
        kept += sum(owners.get((t, p)) == member.member_id for t, ps in member.current.items() for p in ps)
    most = sum(min(size, quota) for size in sizes) + min(extras, sum(size > quota for size in sizes))
    assert kept == most


@given(groups(same_topics=False))
def test_uniform_with_different_subscriptions_is_complete(
    group: tuple[list[AssignorMember], dict[bytes, int]],
) -> None:
    members, counts = group
    assert_complete(members, counts, uniform(members, counts))


@given(groups(same_topics=False))
def test_uniform_comes_to_rest(group: tuple[list[AssignorMember], dict[bytes, int]]) -> None:
    members, counts = group
    first = uniform(members, counts)
    again = [AssignorMember(member.member_id, member.topics, first[member.member_id]) for member in members]
    second = uniform(again, counts)
    moved = sum(owners_of(first)[p] != owner for p, owner in owners_of(second).items())
    assert moved == 0 or second != first  # a second pass may still improve the balance, but loses nothing
    assert_complete(again, counts, second)


def test_uniform_takes_only_from_those_who_have_too_much() -> None:
    topic = TOPICS[0]
    before = uniform([AssignorMember(name, frozenset([topic])) for name in "AB"], {topic: 6})
    members = [AssignorMember(name, frozenset([topic]), before.get(name, {})) for name in "ABC"]
    after = uniform(members, {topic: 6})
    assert all(after[name][topic] < before[name][topic] for name in "AB")
    assert len(after["C"][topic]) == 2


def test_the_partitions_of_who_left_go_to_the_others_and_nothing_else_moves() -> None:
    topic = TOPICS[0]
    before = uniform([AssignorMember(name, frozenset([topic])) for name in "ABC"], {topic: 9})
    members = [AssignorMember(name, frozenset([topic]), before[name]) for name in "AB"]
    after = uniform(members, {topic: 9})
    assert all(before[name][topic] < after[name][topic] for name in "AB")


@given(groups(same_topics=False))
def test_range_gives_contiguous_blocks_that_differ_by_one_at_most(
    group: tuple[list[AssignorMember], dict[bytes, int]],
) -> None:
    members, counts = group
    assignment = range_(members, counts)
    assert_complete(members, counts, assignment)
    for topic in TOPICS:
        subscribed = sorted(member.member_id for member in members if topic in member.topics)
        blocks = [sorted(assignment[name].get(topic, ())) for name in subscribed]
        for block in blocks:
            assert block == list(range(block[0], block[0] + len(block))) if block else True
        assert [p for block in blocks for p in block] == list(range(counts[topic] if subscribed else 0))
        if subscribed:
            sizes = [len(block) for block in blocks]
            assert max(sizes) - min(sizes) <= 1
            assert sizes == sorted(sizes, reverse=True)


def test_range_puts_static_members_first() -> None:
    topic = TOPICS[0]
    members = [
        AssignorMember("a", frozenset([topic])),
        AssignorMember("z", frozenset([topic]), instance_id="i"),
    ]
    assert range_(members, {topic: 3}) == {"z": {topic: frozenset({0, 1})}, "a": {topic: frozenset({2})}}


def test_an_empty_group_gets_nothing() -> None:
    for assign in ASSIGNORS.values():
        assert assign([], {}) == {}


def test_range_goes_by_instance_ids_and_then_by_member_ids() -> None:
    topic = TOPICS[0]

    def member(member_id: str, instance_id: str | None = None) -> AssignorMember:
        return AssignorMember(member_id, frozenset({topic}), {}, instance_id=instance_id)

    members = [member("c"), member("d", "1"), member("a", "2"), member("b")]
    assert range_(members, {topic: 3}) == {
        "d": {topic: frozenset({0})},
        "a": {topic: frozenset({1})},
        "b": {topic: frozenset({2})},
        "c": {},
    }
