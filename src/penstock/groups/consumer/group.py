"""A consumer group (KIP-848) as the replayed records make it.

Three epochs tell where it stands. The *group epoch* goes up when something changes that calls for a new assignment
(members, subscriptions, topics). The *target epoch* is the group epoch for which the target assignment was computed.
Each *member epoch* follows the target epoch as soon as the member has given up what it must.

`owners` says who holds each partition now, assigned or not yet given up: a partition may only be handed to a member
when nobody else holds it. That is the whole safety argument of incremental rebalancing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.coordination.effects import CoordinatorRecord
from penstock.groups import records
from penstock.groups.consumer.member import ConsumerMember, MemberState
from penstock.groups.records import EpochPartitions, Partitions
from penstock.groups.settings import TopicsView
from penstock.wire.errors import NonEmptyGroup, UnknownMemberId

# A new group starts at epoch 1 so that its first member, which brings a subscription, is at epoch 2, as in Kafka 4.3.
INITIAL_EPOCH = 1


class ConsumerState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the target assignment is older than the group epoch
    RECONCILING = "Reconciling"  # some member has not reached the target assignment
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """Which topics a regular expression matched, and in which state of the topics."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.target_epoch = INITIAL_EPOCH
        self.target_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        self.has_partition_metadata_record = False
        # ---- soft ----
        # The topics' version for which the metadata hash was last checked.
        self.topics_version: int | None = None
        # The versions of topics and rules for which the regular expressions were last resolved.
        self.regexes_version: tuple[int, int] | None = None
        # When the group was last seen on its way to a new assignment.
        self.in_motion_ms: int | None = None
        self._subscribed: frozenset[str] | None = None
        self._settled: bool | None = None

    # ---- where it stands ---------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def is_settled(self) -> bool:
        if self._settled is None:
            self._settled = is_settled(self.members, self.owners, self.epoch, self.target_epoch, self.target_of)
        return self._settled

    def target_of(self, member_id: str) -> Partitions:
        return self.target.get(member_id, {})

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether a partition of the member's target is still held by somebody else."""
        missing = missing_partitions(member, self.target_of(member.member_id))
        return any(self.owners.get(partition, member.member_id) != member.member_id for partition in missing)

    # ---- members -----------------------------------------------------------------------------------------------------

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
            self._forget_instance(old)
        self.members[member.member_id] = member
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, epochs in partitions.items():
                for partition in epochs:
                    self.owners[topic_id, partition] = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.changed()

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        self._forget_instance(member)
        self.changed()

    def _forget_instance(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, epochs in partitions.items():
                for partition in epochs:
                    # A compacted log may have lost the record in which this member gave the partition up.
                    if self.owners.get((topic_id, partition)) == member.member_id:
                        del self.owners[topic_id, partition]

    # ---- classic members ---------------------------------------------------------------------------------------------

    def only_classic_without(self, leaving: Iterable[str]) -> bool:
        gone = set(leaving)
        return all(member.uses_classic_protocol for member_id, member in self.members.items() if member_id not in gone)

    def supports_classic_protocols(self, names: set[str]) -> bool:
        """A classic member needs a protocol that all the other classic members have, too."""
        if not names:
            return False
        common = None
        for member in self.members.values():
            if member.classic is not None:
                own = {name for name, _ in member.classic.protocols}
                common = own if common is None else common & own
        return common is None or bool(common & names)

    # ---- subscriptions -----------------------------------------------------------------------------------------------

    def regex_subscribers(self, regex: str) -> int:
        return sum(member.subscribed_topic_regex == regex for member in self.members.values())

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to, by name and by what its regular expression is known to match."""
        if not member.subscribed_topic_regex:
            return member.subscribed_topic_names
        resolved = self.regexes.get(member.subscribed_topic_regex)
        return member.subscribed_topic_names if resolved is None else member.subscribed_topic_names | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        if self._subscribed is None:
            self._subscribed = frozenset().union(*(self.topics_of(member) for member in self.members.values()))
        return self._subscribed

    def subscribed_topics_with(
        self, changed: Mapping[str, ConsumerMember | None], regexes: Mapping[str, ResolvedRegex | None] | None = None
    ) -> frozenset[str]:
        """The subscribed topics as they will be once these members (None: gone) and regexes have changed."""
        names: set[str] = set()
        for member in with_changes(self.members, changed).values():
            names |= member.subscribed_topic_names
            if member.subscribed_topic_regex:
                resolved = (regexes or {}).get(member.subscribed_topic_regex)
                resolved = resolved or self.regexes.get(member.subscribed_topic_regex)
                names |= resolved.topics if resolved is not None else frozenset()
        return frozenset(names)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def changed(self) -> None:
        """Forget what was derived from members, regexes, epochs and target."""
        self._subscribed = None
        self._settled = None

    def preferred_assignor(self, members: Iterable[ConsumerMember]) -> str | None:
        """The assignor that most members ask for."""
        votes = Counter(member.server_assignor for member in members if member.server_assignor is not None)
        return max(votes, key=lambda name: votes[name]) if votes else None

    # ---- rules of other APIs -----------------------------------------------------------------------------------------

    def validate_offset_delete(self) -> None:
        """Offsets of topics that nobody subscribes to may always be deleted."""

    def validate_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup

    def tombstones(self) -> list[CoordinatorRecord]:
        """All records that make the group go away, in the order in which a reader can follow."""
        group_id, members = self.group_id, list(self.members)
        return [
            *(records.consumer_group_current_assignment_tombstone(group_id, member) for member in members),
            *(records.consumer_group_target_tombstone(group_id, member) for member in members),
            records.consumer_group_target_epoch_tombstone(group_id),
            *(records.consumer_group_member_tombstone(group_id, member) for member in members),
            *(records.consumer_group_regex_tombstone(group_id, regex) for regex in self.regexes),
            records.consumer_group_partition_metadata_tombstone(group_id),
            records.consumer_group_epoch_tombstone(group_id),
        ]


def with_changes(
    members: Mapping[str, ConsumerMember], changed: Mapping[str, ConsumerMember | None]
) -> dict[str, ConsumerMember]:
    made = dict(members)
    for member_id, member in changed.items():
        if member is None:
            made.pop(member_id, None)
        else:
            made[member_id] = member
    return made


def missing_partitions(member: ConsumerMember, target: Partitions) -> Iterator[tuple[bytes, int]]:
    for topic_id, partitions in target.items():
        held = member.assigned.get(topic_id, {})
        yield from ((topic_id, partition) for partition in partitions if partition not in held)


def is_settled(
    members: Mapping[str, ConsumerMember],
    owners: Mapping[tuple[bytes, int], str],
    epoch: int,
    target_epoch: int,
    target_of: Callable[[str], Partitions],
) -> bool:
    """No consumer-protocol member has a step to take, and none waits for another that has.

    Classic members are left out: they move at the pace of their own heartbeats, and asking the others to hurry would
    not make them faster.
    """
    if epoch > target_epoch:
        return False
    for member_id, member in members.items():
        if member.uses_classic_protocol or member.is_reconciled_to(target_epoch):
            continue
        if member.state is not MemberState.UNRELEASED_PARTITIONS or member.member_epoch != target_epoch:
            return False
        for partition in missing_partitions(member, target_of(member_id)):
            holder = members.get(owners.get(partition, ""))
            if holder is None or not holder.uses_classic_protocol:
                return False
    return True


def metadata_hash(topic_names: Iterable[str], topics: TopicsView) -> int:
    """A signed 64-bit digest of the subscribed topics that exist; zero when there are none."""
    digest = hashlib.blake2b(digest_size=8)
    found = False
    for name in sorted(topic_names):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            found = True
            digest.update(b"%b%b\0%d;" % (topic_id, name.encode(), topics.partition_count(name)))
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


def holds_any(owned: Partitions, partitions: EpochPartitions) -> bool:
    return any(not owned.get(topic_id, frozenset()).isdisjoint(epochs) for topic_id, epochs in partitions.items())
