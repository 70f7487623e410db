"""What assignors take and give.

In a classic group one member, the leader, assigns the partitions of all. An assignor is a pure function of the topics'
partition counts and the members' subscriptions; all members must have one in common. Members are ordered as Kafka
orders them: those with a `group_instance_id` first, by it, then the others by member id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.types import TopicPartition


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """What one member tells the leader."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    group_instance_id: str | None = None
    rack_id: str | None = None
    user_data: bytes | None = None


Assignment = dict[str, list[TopicPartition]]


class Assignor(ABC):
    """An assignor of the classic protocol. Subclass it to write your own."""

    name: str
    cooperative = False  # whether members keep their partitions while the group rebalances (KIP-429)

    @abstractmethod
    def assign(self, partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> Assignment:
        """Partitions per member; `partitions` holds the partition count of every topic that exists."""

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Data of the assignor that is sent with the subscription."""
        return None

    def on_assignment(self, partitions: list[TopicPartition], generation_id: int) -> None:
        """Called on every member with its assignment."""
        return None


def ordered_members(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Member ids in Kafka's order."""
    static = sorted((m.group_instance_id, name) for name, m in members.items() if m.group_instance_id is not None)
    return [name for _, name in static] + sorted(name for name, m in members.items() if m.group_instance_id is None)


def all_partitions(partitions: Mapping[str, int], members: Mapping[str, MemberSubscription]) -> list[TopicPartition]:
    """Every partition of every topic that somebody subscribes to, by topic and number."""
    topics = {topic for member in members.values() for topic in member.topics}
    return [TopicPartition(topic, number) for topic in sorted(topics) for number in range(partitions.get(topic, 0))]
