"""The `simple` assignor of share groups (KIP-932, KIP-1263).

Partitions may be shared. With no more members than partitions, every partition has one member; with more members,
every member has one partition and partitions are shared as evenly as can be. Sticky: a member keeps what it has as long
as that is not more than its share and the partition is not shared by too many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from penstock.groups.assignors import Assignment, AssignorMember

TopicPartition = tuple[bytes, int]


def simple(members: Sequence[AssignorMember], assignable: Mapping[bytes, frozenset[int]]) -> dict[str, Assignment]:
    """`assignable`: the partitions of each topic whose share-group state is initialized."""
    if not members:
        return {}
    if all(member.topics == members[0].topics for member in members):
        shares = _share_out(members, members[0].topics, assignable)
    else:
        shares = [set() for _ in members]
        for topic in sorted({topic for member in members for topic in member.topics}):
            subscribed = [index for index, member in enumerate(members) if topic in member.topics]
            per_topic = _share_out([members[index] for index in subscribed], frozenset([topic]), assignable)
            for index, mine in zip(subscribed, per_topic, strict=True):
                shares[index] |= mine
    return {member.member_id: _by_topic(mine) for member, mine in zip(members, shares, strict=True)}


def _share_out(
    members: Sequence[AssignorMember], topics: frozenset[bytes], assignable: Mapping[bytes, frozenset[int]]
) -> list[set[TopicPartition]]:
    targets = [(topic, p) for topic in sorted(topics) for p in sorted(assignable.get(topic, ()))]
    shares: list[set[TopicPartition]] = [set() for _ in members]
    if not targets:
        return shares
    sharing = math.ceil(len(members) / len(targets))
    precise = sharing * len(targets) / len(members)
    counts = [math.ceil(precise * (index + 1)) - math.ceil(precise * index) for index in range(len(members))]

    holders: dict[TopicPartition, int] = dict.fromkeys(targets, 0)
    for index, member in enumerate(members):
        for topic, partitions in sorted(member.current.items()):
            for partition in sorted(partitions):
                key = (topic, partition)
                if key in holders and holders[key] < sharing and len(shares[index]) < counts[index]:
                    shares[index].add(key)
                    holders[key] += 1

    # Round robin over the members that want more, starting each time after the last one that was given something.
    # Whoever is empty goes first: a member without partitions is worse than one with one too few.
    unfilled = sorted((i for i in range(len(members)) if len(shares[i]) < counts[i]), key=lambda i: len(shares[i]))
    for key in sorted(targets, key=lambda key: holders[key]):
        while holders[key] < sharing and unfilled:
            taker = next((i for i in unfilled if key not in shares[i]), None)
            if taker is None:
                break
            shares[taker].add(key)
            holders[key] += 1
            unfilled.remove(taker)
            if len(shares[taker]) < counts[taker]:
                unfilled.append(taker)
    return shares


def _by_topic(partitions: set[TopicPartition]) -> Assignment:
    topics: dict[bytes, set[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, set()).add(partition)
    return {topic: frozenset(topics[topic]) for topic in sorted(topics)}
