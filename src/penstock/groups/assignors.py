"""The server-side assignors of consumer groups: `uniform` and `range`.

An assignor is a pure function: who is in the group, what each member subscribes to and was last given, how many
partitions each topic has; out comes the target assignment of every member. Topics are known by id.

`uniform` spreads all partitions evenly and moves as few as it can. When all members subscribe to the same topics the
sizes differ by at most one. When subscriptions differ, every partition goes to its least-loaded subscriber and a
bounded number of balancing rounds moves partitions from the fullest to the emptiest subscriber of each topic.

`range` gives every member a contiguous block of each topic, members in a fixed order (static members by instance id,
then dynamic ones by member id), so that equal partitions of co-partitioned topics meet at the same member. It is not
sticky.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Assignment = dict[bytes, frozenset[int]]

# A balance that is not perfect after this many rounds over the topics is good enough (Kafka uses the same bound).
BALANCING_ROUNDS_MAX = 16


@dataclass(frozen=True, slots=True)
class AssignorMember:
    member_id: str
    topics: frozenset[bytes]
    current: Mapping[bytes, frozenset[int]] = field(default_factory=dict)
    instance_id: str | None = None


Assignor = Callable[[Sequence[AssignorMember], Mapping[bytes, int]], dict[str, Assignment]]


def uniform(members: Sequence[AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    if not members:
        return {}
    if all(member.topics == members[0].topics for member in members):
        return _uniform_same_topics(members, partition_counts)
    return _uniform_different_topics(members, partition_counts)


def _uniform_same_topics(
    members: Sequence[AssignorMember], partition_counts: Mapping[bytes, int]
) -> dict[str, Assignment]:
    topics = sorted(members[0].topics)
    total = sum(partition_counts[topic] for topic in topics)
    quota, extras = divmod(total, len(members))
    kept: list[set[tuple[bytes, int]]] = []
    taken: set[tuple[bytes, int]] = set()
    for member in members:
        mine = {
            (topic, partition)
            for topic, partitions in member.current.items()
            if topic in member.topics
            for partition in partitions
            if partition < partition_counts[topic]
        } - taken
        kept.append(mine)
        taken |= mine

    # Who already holds more than the quota keeps one extra first: taking it away would only move it elsewhere.
    quotas = [quota] * len(members)
    for index in sorted(range(len(members)), key=lambda i: -len(kept[i]))[:extras]:
        quotas[index] += 1

    for mine, size in zip(kept, quotas, strict=True):
        for surplus in sorted(mine)[size:]:
            mine.remove(surplus)
            taken.remove(surplus)
    free = [(t, p) for t in topics for p in range(partition_counts[t]) if (t, p) not in taken]
    position = 0
    for mine, size in zip(kept, quotas, strict=True):
        missing = size - len(mine)
        mine.update(free[position : position + missing])
        position += missing
    assert position == len(free)
    return {member.member_id: _by_topic(mine) for member, mine in zip(members, kept, strict=True)}


def _uniform_different_topics(
    members: Sequence[AssignorMember], partition_counts: Mapping[bytes, int]
) -> dict[str, Assignment]:
    subscribers: dict[bytes, list[int]] = {}
    for index, member in enumerate(members):
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(index)
    held: list[set[tuple[bytes, int]]] = [set() for _ in members]
    owner: dict[tuple[bytes, int], int] = {}
    for index, member in enumerate(members):
        for topic, partitions in member.current.items():
            if topic in member.topics:
                for partition in partitions:
                    if partition < partition_counts[topic] and (topic, partition) not in owner:
                        owner[topic, partition] = index
                        held[index].add((topic, partition))

    # Topics with few subscribers for many partitions first: the others can still make up for them.
    order = sorted(subscribers, key=lambda t: (-partition_counts[t] / len(subscribers[t]), len(subscribers[t]), t))
    for topic in order:
        load = [(len(held[index]), index) for index in subscribers[topic]]
        heapq.heapify(load)
        for partition in range(partition_counts[topic]):
            if (topic, partition) not in owner:
                size, index = load[0]
                owner[topic, partition] = index
                held[index].add((topic, partition))
                heapq.heapreplace(load, (size + 1, index))

    for _ in range(BALANCING_ROUNDS_MAX):
        moved = [topic for topic in order if _balance_topic(topic, subscribers[topic], held)]
        if not moved:
            break
    return {member.member_id: _by_topic(mine) for member, mine in zip(members, held, strict=True)}


def _balance_topic(topic: bytes, subscribers: list[int], held: list[set[tuple[bytes, int]]]) -> bool:
    """Move partitions of one topic from its fullest to its emptiest subscriber while that narrows the gap."""
    moved = False
    while True:
        emptiest = min(subscribers, key=lambda i: (len(held[i]), i))
        givers = sorted(
            (i for i in subscribers if len(held[i]) >= len(held[emptiest]) + 2), key=lambda i: -len(held[i])
        )
        for giver in givers:
            movable = [partition for partition in held[giver] if partition[0] == topic]
            if movable:
                partition = max(movable)
                held[giver].remove(partition)
                held[emptiest].add(partition)
                moved = True
                break
        else:
            return moved


def range_(members: Sequence[AssignorMember], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    ordered = sorted(
        members, key=lambda member: (member.instance_id is None, member.instance_id or "", member.member_id)
    )
    made: dict[str, Assignment] = {member.member_id: {} for member in members}
    for topic in sorted({topic for member in members for topic in member.topics}):
        subscribed = [member for member in ordered if topic in member.topics]
        quota, extras = divmod(partition_counts[topic], len(subscribed))
        start = 0
        for index, member in enumerate(subscribed):
            end = start + quota + (index < extras)
            if start < end:
                made[member.member_id][topic] = frozenset(range(start, end))
            start = end
    return made


def _by_topic(partitions: set[tuple[bytes, int]]) -> Assignment:
    topics: dict[bytes, set[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, set()).add(partition)
    return {topic: frozenset(topics[topic]) for topic in sorted(topics)}


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform, "range": range_}
