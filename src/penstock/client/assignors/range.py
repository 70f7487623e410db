"""range: each topic on its own, cut into contiguous runs, one per member; the first members get the longer runs.

Members that read topics with equal partition counts get the same numbers of each, which is what joins need. With
several topics the first members end up with more.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.assignors.base import Assignment, Assignor, MemberSubscription, ordered_members
from penstock.client.types import TopicPartition


def assign_range(partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
    order = ordered_members(members)
    assignment: Assignment = {name: [] for name in members}
    for topic in sorted({topic for member in members.values() for topic in member.topics}):
        readers = [name for name in order if topic in members[name].topics]
        each, longer = divmod(partitions.get(topic, 0), len(readers))
        first = 0
        for index, name in enumerate(readers):
            count = each + (1 if index < longer else 0)
            assignment[name] += [TopicPartition(topic, number) for number in range(first, first + count)]
            first += count
    return assignment


class RangeAssignor(Assignor):
    name = "range"

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        return assign_range(partitions, members)
