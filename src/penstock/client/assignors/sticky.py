"""sticky: first as even as possible, then with as few moves as possible (KIP-54).

When all members subscribe to the same topics, the assignment is computed directly: every member keeps up to its fair
share of what it owns, and the rest goes to members that have less. When subscriptions differ, partitions are placed one
by one with the least loaded reader, those with the fewest readers first, and then moved from fuller to emptier members
for as long as a move makes the two more even.

A member's claim to own a partition counts only if nobody of a later generation claims it too; if two of the same
generation do, one of them is mistaken and neither keeps it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from penstock.client.assignors.base import Assignment, Assignor, MemberSubscription, all_partitions
from penstock.client.types import TopicPartition


def assign_sticky(partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
    owned = trusted_owners(partitions, members)
    subscriptions = {frozenset(member.topics) for member in members.values()}
    if len(subscriptions) == 1:
        return _assign_equal(partitions, members, owned)
    return _assign_general(partitions, members, owned)


def trusted_owners(
    partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]
) -> dict[TopicPartition, str]:
    """Who owns what, as far as it can be believed and still makes sense."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for name, member in members.items():
        topics = set(member.topics)
        for tp in set(member.owned):
            if tp.topic in topics and tp.partition < partitions.get(tp.topic, 0):
                claims.setdefault(tp, []).append((member.generation_id, name))
    owners: dict[TopicPartition, str] = {}
    for tp, claimants in claims.items():
        latest = max(generation for generation, _ in claimants)
        names = [name for generation, name in claimants if generation == latest]
        if len(names) == 1:
            owners[tp] = names[0]
    return owners


def _assign_equal(
    partitions: Mapping[str, int], members: Mapping[str, MemberSubscription], owners: Mapping[TopicPartition, str]
) -> Assignment:
    everything = all_partitions(partitions, members)
    names = sorted(members)
    share, members_over_share = divmod(len(everything), len(names))
    owned: dict[str, list[TopicPartition]] = {name: [] for name in names}
    for tp in sorted(owners, key=lambda tp: (tp.partition, tp.topic)):
        owned[owners[tp]].append(tp)

    assignment: Assignment = {}
    for name in names:
        keep = share
        if members_over_share and len(owned[name]) > share:
            keep = share + 1
            members_over_share -= 1
        assignment[name] = owned[name][:keep]

    kept = {tp for mine in assignment.values() for tp in mine}
    unassigned = [tp for tp in everything if tp not in kept]
    position = 0
    below = [name for name in names if len(assignment[name]) < share]
    while below and position < len(unassigned):
        for name in below:
            if position < len(unassigned) and len(assignment[name]) < share:
                assignment[name].append(unassigned[position])
                position += 1
        below = [name for name in below if len(assignment[name]) < share]
    for name in names:
        if position == len(unassigned):
            break
        if len(assignment[name]) == share:
            assignment[name].append(unassigned[position])
            position += 1
    assert position == len(unassigned)
    return assignment


def _assign_general(
    partitions: Mapping[str, int], members: Mapping[str, MemberSubscription], owners: Mapping[TopicPartition, str]
) -> Assignment:
    readers: dict[str, list[str]] = {}
    for name in sorted(members):
        for topic in set(members[name].topics):
            readers.setdefault(topic, []).append(name)
    holder = dict(owners)
    load = dict.fromkeys(members, 0)
    for name in holder.values():
        load[name] += 1
    everything = all_partitions(partitions, members)
    for tp in sorted(everything, key=lambda tp: (len(readers[tp.topic]), tp)):
        if tp not in holder:
            name = min(readers[tp.topic], key=lambda name: (load[name], name))
            holder[tp] = name
            load[name] += 1
    _even_out(everything, readers, holder, load, owners)
    _undo_swaps(holder, owners)
    assignment: Assignment = {name: [] for name in members}
    for tp in everything:
        assignment[holder[tp]].append(tp)
    return assignment


def _even_out(
    everything: list[TopicPartition],
    readers: Mapping[str, list[str]],
    holder: dict[TopicPartition, str],
    load: dict[str, int],
    owners: Mapping[TopicPartition, str],
) -> None:
    """Move partitions while that makes two members more even. Each move lowers the sum of squares, so it ends."""
    moved = True
    while moved:
        moved = False
        # What was not owned before moves first: that costs nobody anything.
        for tp in sorted(everything, key=lambda tp: (tp in owners and holder[tp] == owners[tp], -load[holder[tp]], tp)):
            name = holder[tp]
            other = min(readers[tp.topic], key=lambda name: (load[name], name))
            back = owners.get(tp)
            if back is not None and back != name and back in readers[tp.topic] and load[back] + 1 < load[name]:
                other = back
            if load[name] - load[other] >= 2:
                holder[tp] = other
                load[name] -= 1
                load[other] += 1
                moved = True


def _undo_swaps(holder: dict[TopicPartition, str], owners: Mapping[TopicPartition, str]) -> None:
    """If two members ended up exchanging partitions of the same topic, let both keep theirs: the counts stay the
    same.
    """
    moved: dict[tuple[str, str, str], list[TopicPartition]] = {}
    for tp, owner in sorted(owners.items()):
        if holder[tp] != owner:
            moved.setdefault((tp.topic, owner, holder[tp]), []).append(tp)
    for (topic, giver, taker), given in moved.items():
        if giver > taker:
            continue
        taken = moved.get((topic, taker, giver), [])
        for mine, theirs in zip(given, taken, strict=False):
            holder[mine], holder[theirs] = giver, taker


class StickyAssignor(Assignor):
    """Eager: a member gives everything up before a rebalance, and remembers in its user data what it had."""

    name = "sticky"

    def __init__(self) -> None:
        self._had: list[TopicPartition] = []
        self._generation_id = -1

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        remembered = {}
        for name, member in members.items():
            owned, generation = unpack_user_data(member.user_data)
            remembered[name] = MemberSubscription(
                member.topics, owned or member.owned, generation, member.group_instance_id, member.rack_id
            )
        return assign_sticky(partitions, remembered)

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        return pack_user_data(self._had, self._generation_id) if self._had else None

    def on_assignment(self, partitions: list[TopicPartition], generation_id: int) -> None:
        self._had = list(partitions)
        self._generation_id = generation_id


def pack_user_data(partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
    """Version 1 of Java's layout: topics with their partitions, then the generation."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    parts = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    parts.append(struct.pack(">i", generation_id))
    return b"".join(parts)


def unpack_user_data(data: bytes | None) -> tuple[tuple[TopicPartition, ...], int]:
    """What another member remembers. Nonsense counts as nothing; the first version had no generation."""
    if not data:
        return (), -1
    owned: list[TopicPartition] = []
    try:
        (topics,), position = struct.unpack_from(">i", data), 4
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, position)
            topic = data[position + 2 : position + 2 + length].decode()
            position += 2 + length
            (count,) = struct.unpack_from(">i", data, position)
            owned += [TopicPartition(topic, n) for n in struct.unpack_from(f">{count}i", data, position + 4)]
            position += 4 + 4 * count
        generation = struct.unpack_from(">i", data, position)[0] if position + 4 <= len(data) else -1
    except (struct.error, UnicodeDecodeError):
        return (), -1
    return tuple(owned), generation
