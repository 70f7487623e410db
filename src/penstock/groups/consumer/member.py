"""A member of a consumer group: an immutable value, replaced whenever a record about it is replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from penstock.coordination.effects import CoordinatorRecord
from penstock.groups import records
from penstock.groups.classic.group import Protocols
from penstock.groups.records import EpochPartitions
from penstock.wire import messages as m

LEAVE_GROUP_EPOCH = -1
LEAVE_GROUP_STATIC_EPOCH = -2  # a static member that will be back


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # must give up partitions before it may go to the next epoch
    UNRELEASED_PARTITIONS = 2  # at the target epoch, waits for partitions that others have not given up yet
    UNKNOWN = 127  # written by a newer version: the member must start over


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """A member that still speaks the classic protocol inside a consumer group."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    assigned: EpochPartitions = field(default_factory=dict)
    pending_revocation: EpochPartitions = field(default_factory=dict)

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def with_epoch(self, epoch: int) -> ConsumerMember:
        """Move to another epoch and remember the one before: a member that lost the answer still sends it."""
        return replace(self, previous_member_epoch=self.member_epoch, member_epoch=epoch)

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch at which the member got a partition that it holds or still has to give up."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    # ---- records -----------------------------------------------------------------------------------------------------

    def metadata_record(self, group_id: str) -> CoordinatorRecord:
        value = m.ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.subscribed_topic_names),
            subscribed_topic_regex=self.subscribed_topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=None,
        )
        if self.classic is not None:
            value.classic_member_metadata = m.ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(
                session_timeout_ms=self.classic.session_timeout_ms,
                supported_protocols=[
                    m.ConsumerGroupMemberMetadataValue.ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in self.classic.protocols
                ],
            )
        return records.consumer_group_member(group_id, self.member_id, value)

    def assignment_record(self, group_id: str) -> CoordinatorRecord:
        return records.consumer_group_current_assignment(
            group_id,
            self.member_id,
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned=self.assigned,
            pending_revocation=self.pending_revocation,
        )

    def with_metadata(self, value: m.ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        saved = value.classic_member_metadata
        classic = None
        if saved is not None:
            protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in saved.supported_protocols)
            classic = ClassicMemberMetadata(saved.session_timeout_ms, protocols)
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=classic,
        )

    def with_assignment(self, value: m.ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        known = value.state in MemberState._value2member_map_
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=_epochs(value.assigned_partitions, value.member_epoch),
            pending_revocation=_epochs(value.partitions_pending_revocation, value.member_epoch),
        )


def _epochs(
    topics: list[m.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions], member_epoch: int
) -> dict[bytes, dict[int, int]]:
    """Kafka before 4.3 wrote no assignment epochs: the member's epoch stands in."""
    made = {}
    for topic in topics:
        epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        made[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return made


def without_epochs(partitions: EpochPartitions) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(epochs) for topic_id, epochs in partitions.items()}


def same_partitions(one: EpochPartitions, other: EpochPartitions) -> bool:
    return without_epochs(one) == without_epochs(other)


def with_epoch(partitions: Mapping[bytes, frozenset[int]], epoch: int) -> dict[bytes, dict[int, int]]:
    return {topic_id: dict.fromkeys(sorted(indexes), epoch) for topic_id, indexes in partitions.items() if indexes}
