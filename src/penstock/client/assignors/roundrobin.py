"""roundrobin: all partitions of all topics in order, dealt to the members in turn, past those that do not subscribe."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.assignors.base import (
    Assignment,
    Assignor,
    MemberSubscription,
    all_partitions,
    ordered_members,
)


def assign_roundrobin(partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
    order = ordered_members(members)
    topics = [set(members[name].topics) for name in order]
    assignment: Assignment = {name: [] for name in members}
    turn = 0
    for tp in all_partitions(partitions, members):
        while tp.topic not in topics[turn % len(order)]:
            turn += 1
        assignment[order[turn % len(order)]].append(tp)
        turn += 1
    return assignment


class RoundRobinAssignor(Assignor):
    name = "roundrobin"

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        return assign_roundrobin(partitions, members)
