"""A share group as the replayed records make it: members, target assignment, and which share-partitions have state.

Members of a share group do not own partitions: several may hold the same one, and a new assignment needs no
revocation. So a member's epoch always follows the target epoch at once.

A share-partition can be assigned once the share coordinator keeps state for it. Its topic is first in `initializing`
(the coordinator was asked), then in `initialized`; a topic whose state is on its way out is in `deleting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.coordination.effects import CoordinatorRecord
from penstock.groups import records
from penstock.groups.records import Partitions
from penstock.wire import messages as m
from penstock.wire.errors import NonEmptyGroup, UnknownMemberId

INITIAL_EPOCH = 1


class ShareGroupState(Enum):
    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=dict)

    def metadata_record(self, group_id: str) -> CoordinatorRecord:
        value = m.ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.subscribed_topic_names),
        )
        return records.share_group_member(group_id, self.member_id, value)

    def assignment_record(self, group_id: str) -> CoordinatorRecord:
        return records.share_group_current_assignment(
            group_id,
            self.member_id,
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=0,
            assigned=self.assigned,
        )

    def with_metadata(self, value: m.ShareGroupMemberMetadataValue) -> ShareMember:
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
        )

    def with_assignment(self, value: m.ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            assigned={topic.topic_id: frozenset(topic.partitions) for topic in value.assigned_partitions},
        )


@dataclass(frozen=True, slots=True)
class StateTopic:
    """The partitions of one topic that have (or are getting) share-group state."""

    name: str
    partitions: frozenset[int]
    # When they were put on the list; soft, because the record does not carry it.
    since_ms: int = 0


StateTopics = Mapping[bytes, StateTopic]


@dataclass(slots=True)
class StatePartitions:
    """The share-partitions of a group by the standing of their state (record type 15)."""

    initializing: dict[bytes, StateTopic] = field(default_factory=dict)
    initialized: dict[bytes, StateTopic] = field(default_factory=dict)
    deleting: dict[bytes, str] = field(default_factory=dict)

    def record(self, group_id: str) -> CoordinatorRecord:
        value = m.ShareGroupStatePartitionMetadataValue
        return records.share_group_state_partitions(
            group_id,
            value(
                initializing_topics=_infos(self.initializing),
                initialized_topics=_infos(self.initialized),
                deleting_topics=[
                    value.TopicInfo(topic_id=topic_id, topic_name=name)
                    for topic_id, name in sorted(self.deleting.items())
                ],
            ),
        )

    @classmethod
    def from_value(cls, value: m.ShareGroupStatePartitionMetadataValue, now_ms: int) -> StatePartitions:
        return cls(
            {t.topic_id: StateTopic(t.topic_name, frozenset(t.partitions), now_ms) for t in value.initializing_topics},
            {t.topic_id: StateTopic(t.topic_name, frozenset(t.partitions)) for t in value.initialized_topics},
            {t.topic_id: t.topic_name for t in value.deleting_topics},
        )

    def with_initializing(self, topics: StateTopics) -> StatePartitions:
        """A topic that comes back while its old state is being deleted is not to be deleted any more."""
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topics}
        return StatePartitions(_merged(self.initializing, topics), dict(self.initialized), deleting)

    def with_initialized(self, topics: StateTopics) -> StatePartitions:
        remaining = _without(self.initializing, topics)
        return StatePartitions(remaining, _merged(self.initialized, topics), dict(self.deleting))

    def without_initializing(self, topics: StateTopics) -> StatePartitions:
        return StatePartitions(_without(self.initializing, topics), dict(self.initialized), dict(self.deleting))

    def assignable(self) -> dict[bytes, frozenset[int]]:
        return {topic_id: topic.partitions for topic_id, topic in self.initialized.items()}

    def all_partitions(self) -> dict[bytes, frozenset[int]]:
        merged = _merged(self.initialized, self.initializing)
        return {topic_id: topic.partitions for topic_id, topic in merged.items()}


def _infos(topics: StateTopics) -> list[m.ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]:
    return [
        m.ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in sorted(topics.items())
    ]


def _merged(one: StateTopics, other: StateTopics) -> dict[bytes, StateTopic]:
    made = dict(one)
    for topic_id, topic in other.items():
        known = made.get(topic_id)
        partitions = topic.partitions if known is None else known.partitions | topic.partitions
        made[topic_id] = StateTopic(topic.name, partitions, topic.since_ms)
    return made


def _without(one: StateTopics, other: StateTopics) -> dict[bytes, StateTopic]:
    made = {}
    for topic_id, topic in one.items():
        left = topic.partitions - (other[topic_id].partitions if topic_id in other else frozenset())
        if left:
            made[topic_id] = StateTopic(topic.name, left, topic.since_ms)
    return made


class ShareGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.target_epoch = INITIAL_EPOCH
        self.target_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Partitions] = {}
        self.state_partitions = StatePartitions()
        # ---- soft ----
        self.topics_version: int | None = None
        self.in_motion_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def member(self, member_id: str) -> ShareMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.subscribed_topic_names for member in self.members.values())

    def subscribed_topics_with(self, member_id: str, member: ShareMember | None) -> frozenset[str]:
        """The subscribed topics as they will be once this member has changed (None: is gone)."""
        others = (other for other_id, other in self.members.items() if other_id != member_id)
        mine = frozenset() if member is None else member.subscribed_topic_names
        return mine.union(*(other.subscribed_topic_names for other in others))

    def validate_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup

    def tombstones(self) -> list[CoordinatorRecord]:
        group_id, members = self.group_id, list(self.members)
        return [
            *(records.share_group_current_assignment_tombstone(group_id, member) for member in members),
            *(records.share_group_target_tombstone(group_id, member) for member in members),
            records.share_group_target_epoch_tombstone(group_id),
            *(records.share_group_member_tombstone(group_id, member) for member in members),
            records.share_group_state_partitions_tombstone(group_id),
            records.share_group_epoch_tombstone(group_id),
        ]
