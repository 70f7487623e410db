"""cooperative-sticky: the sticky assignment, reached in two steps (KIP-429).

Members keep reading while the group rebalances. A partition that moves is therefore first only revoked; its owner gives
it up and rejoins, and the next rebalance finds it free and assigns it to its new owner.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from penstock.client.assignors.base import Assignment, Assignor, MemberSubscription
from penstock.client.assignors.sticky import assign_sticky
from penstock.client.types import TopicPartition


def assign_cooperative_sticky(partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
    """Like `assign_sticky`, without the partitions that anybody else still claims to own."""
    target = assign_sticky(partitions, members)
    claimed: dict[TopicPartition, set[str]] = {}
    for name, member in members.items():
        for tp in member.owned:
            claimed.setdefault(tp, set()).add(name)
    return {name: [tp for tp in mine if not claimed.get(tp, set()) - {name}] for name, mine in target.items()}


class CooperativeStickyAssignor(Assignor):
    name = "cooperative-sticky"
    cooperative = True

    def __init__(self) -> None:
        self._generation_id = -1

    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        dated = {}
        for name, member in members.items():
            generation = member.generation_id
            if generation < 0 and member.user_data is not None and len(member.user_data) >= 4:
                (generation,) = struct.unpack_from(">i", member.user_data)  # a member from before KIP-792
            dated[name] = MemberSubscription(
                member.topics, member.owned, generation, member.group_instance_id, member.rack_id
            )
        return assign_cooperative_sticky(partitions, dated)

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        return struct.pack(">i", self._generation_id)

    def on_assignment(self, partitions: list[TopicPartition], generation_id: int) -> None:
        self._generation_id = generation_id
