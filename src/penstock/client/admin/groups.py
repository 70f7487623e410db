"""Groups of every type: classic, consumer (KIP-848) and share; their members and offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.admin.base import AdminPart, Outcome
from penstock.client.cluster import GROUP
from penstock.client.errors import UsageError, check, kafka_error
from penstock.client.offsets import commit_offsets, fetch_committed
from penstock.client.partitions import AnyPartition, P, keyed_by_partition, partitions_of, whole_offsets
from penstock.client.transactions import ConsumerGroupMetadata
from penstock.client.types import OffsetAndMetadata, TopicPartition, by_topic
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage, decode_versioned
from penstock.wire.errors import ErrorCode, GroupIdNotFound, KafkaError, UnsupportedVersion


class GroupListing(NamedTuple):
    group_id: str
    type: str  # "Classic", "Consumer", "Share", "Streams"; "" from brokers that do not tell
    state: str
    protocol_type: str


@dataclass(slots=True)
class MemberDescription:
    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    epoch: int = -1
    assignment: list[TopicPartition] = field(default_factory=list)
    target: list[TopicPartition] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)


@dataclass(slots=True)
class GroupDescription:
    group_id: str
    type: str
    state: str
    coordinator: int
    assignor: str = ""
    epoch: int = -1
    assignment_epoch: int = -1
    members: list[MemberDescription] = field(default_factory=list)


class ShareOffset(NamedTuple):
    """Where a share group stands in a partition; -1 before it has started there. `lag` is -1 when not known."""

    start_offset: int
    leader_epoch: int
    lag: int


class Groups(AdminPart):
    async def list_groups(self, *, types: Iterable[str] = (), states: Iterable[str] = ()) -> list[GroupListing]:
        """All groups, by id; of certain types (classic, consumer, share, streams) or in certain states."""
        type_filter, state_filter = list(types), list(states)

        def build(version: int) -> m.Message:
            return m.ListGroupsRequest(
                states_filter=state_filter if version >= 4 else [],
                types_filter=type_filter if version >= 5 else [],
            )

        at_least = 5 if type_filter else 4 if state_filter else 0
        found: dict[str, GroupListing] = {}
        for answer in await self._everywhere(build, m.ListGroupsResponse, at_least):
            check(answer.error_code, about="groups")
            for group in answer.groups:
                found[group.group_id] = GroupListing(
                    group.group_id, group.group_type, group.group_state, group.protocol_type
                )
        return sorted(found.values())

    async def describe_group(self, group_id: str) -> GroupDescription:
        """State and members of a group of any type. Raises GroupIdNotFound if it does not exist."""
        coordinator = await self.cluster.retrying(lambda: self.cluster.coordinator(GROUP, group_id))
        for describe in self._describe_consumer, self._describe_share, self._describe_classic:
            try:
                found = await describe(group_id)
            except (GroupIdNotFound, UnsupportedVersion):
                continue
            found.coordinator = coordinator
            return found
        raise GroupIdNotFound(f"there is no group {group_id!r}")

    async def _describe_consumer(self, group_id: str) -> GroupDescription:
        answer = await self.cluster.call_coordinator(
            GROUP,
            group_id,
            m.ConsumerGroupDescribeRequest(group_ids=[group_id]),
            m.ConsumerGroupDescribeResponse,
            check_answer=lambda answer: check(answer.groups[0].error_code, answer.groups[0].error_message),
        )
        group = answer.groups[0]
        described = _described("Consumer", group)
        for member, decoded in zip(described.members, group.members, strict=True):
            member.group_instance_id = decoded.instance_id
            member.target = _named(decoded.target_assignment.topic_partitions)
        return described

    async def _describe_share(self, group_id: str) -> GroupDescription:
        answer = await self.cluster.call_coordinator(
            GROUP,
            group_id,
            m.ShareGroupDescribeRequest(group_ids=[group_id]),
            m.ShareGroupDescribeResponse,
            check_answer=lambda answer: check(answer.groups[0].error_code, answer.groups[0].error_message),
        )
        return _described("Share", answer.groups[0])

    async def _describe_classic(self, group_id: str) -> GroupDescription:
        answer = await self.cluster.call_coordinator(
            GROUP,
            group_id,
            m.DescribeGroupsRequest(groups=[group_id]),
            m.DescribeGroupsResponse,
            check_answer=lambda answer: check(answer.groups[0].error_code, answer.groups[0].error_message),
        )
        group = answer.groups[0]
        if group.group_state == "Dead":
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        members = []
        for member in group.members:
            described = MemberDescription(
                member.member_id, member.client_id, member.client_host, member.group_instance_id
            )
            if group.protocol_type == "consumer":
                _read_embedded(described, bytes(member.member_metadata), bytes(member.member_assignment))
            members.append(described)
        return GroupDescription(group_id, "Classic", group.group_state, -1, group.protocol_data, members=members)

    async def delete_groups(self, group_ids: Iterable[str]) -> Outcome:
        """Delete groups that have no members, with their offsets."""
        outcome: Outcome = {}

        async def delete(group_id: str) -> None:
            try:
                answer = await self.cluster.call_coordinator(
                    GROUP,
                    group_id,
                    m.DeleteGroupsRequest(groups_names=[group_id]),
                    m.DeleteGroupsResponse,
                    check_answer=lambda answer: check(answer.results[0].error_code, about=f"group {group_id!r}"),
                )
                outcome[answer.results[0].group_id] = None
            except KafkaError as error:
                outcome[group_id] = error

        await asyncio.gather(*map(delete, group_ids))
        return outcome

    async def remove_members(self, group_id: str, group_instance_ids: Iterable[str] | None = None) -> None:
        """Remove static members by their instance ids, or all members (None), from a classic group."""
        identity = m.LeaveGroupRequest.MemberIdentity
        if group_instance_ids is None:
            described = await self.describe_group(group_id)
            who = [
                identity(member_id=member.member_id, group_instance_id=member.group_instance_id)
                for member in described.members
            ]
        else:
            who = [identity(member_id="", group_instance_id=name) for name in group_instance_ids]
        answer = await self.cluster.call_coordinator(
            GROUP,
            group_id,
            m.LeaveGroupRequest(group_id=group_id, members=who),
            m.LeaveGroupResponse,
            check_answer=lambda answer: check(answer.error_code, about=f"group {group_id!r}"),
            at_least=3,
        )
        for member in answer.members:
            check(member.error_code, about=f"member {member.group_instance_id or member.member_id!r}")

    # Offsets

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[AnyPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group."""
        requested = None if partitions is None else partitions_of(partitions)
        return await fetch_committed(self.cluster, group_id, requested)

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[P, OffsetAndMetadata | int]) -> None:
        """Set the offsets of a group that has no members."""
        whole = whole_offsets(offsets)
        await commit_offsets(self.cluster, lambda: ConsumerGroupMetadata(group_id), whole)

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[AnyPartition]) -> None:
        """Forget a group's offsets of partitions that no member subscribes to."""
        topic = m.OffsetDeleteRequest.OffsetDeleteRequestTopic
        entry = m.OffsetDeleteRequest.OffsetDeleteRequestPartition
        request = m.OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                topic(name=name, partitions=[entry(partition_index=n) for n in numbers])
                for name, numbers in by_topic(partitions_of(partitions)).items()
            ],
        )
        answer = await self.cluster.call_coordinator(
            GROUP,
            group_id,
            request,
            m.OffsetDeleteResponse,
            check_answer=lambda answer: check(answer.error_code, about=f"group {group_id!r}"),
        )
        for answered in answer.topics:
            for p in answered.partitions:
                check(p.error_code, about=f"offset of {answered.name}-{p.partition_index}")

    # Share groups

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[AnyPartition] | None = None
    ) -> dict[TopicPartition, ShareOffset]:
        """The start offset of each share-partition of a share group."""
        topic = m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic
        topics = None
        if partitions is not None:
            topics = [
                topic(topic_name=name, partitions=numbers)
                for name, numbers in by_topic(partitions_of(partitions)).items()
            ]
        group = m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
            group_id=group_id, topics=topics
        )
        answer = await self.cluster.call_coordinator(
            GROUP,
            group_id,
            m.DescribeShareGroupOffsetsRequest(groups=[group]),
            m.DescribeShareGroupOffsetsResponse,
            check_answer=lambda answer: check(
                answer.groups[0].error_code, answer.groups[0].error_message, f"group {group_id!r}"
            ),
        )
        found: dict[TopicPartition, ShareOffset] = {}
        for answered in answer.groups[0].topics:
            for p in answered.partitions:
                check(p.error_code, p.error_message, f"{answered.topic_name}-{p.partition_index}")
                tp = TopicPartition(answered.topic_name, p.partition_index)
                found[tp] = ShareOffset(p.start_offset, p.leader_epoch, p.lag)
        return found

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[P, int]) -> None:
        """Set the start offsets of a share group that has no members."""
        new_offsets = keyed_by_partition(offsets)
        entry = m.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
        topic = m.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
        request = m.AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                topic(
                    topic_name=name,
                    partitions=[
                        entry(partition_index=n, start_offset=new_offsets[TopicPartition(name, n)]) for n in numbers
                    ],
                )
                for name, numbers in by_topic(new_offsets).items()
            ],
        )
        answer = await self.cluster.call_coordinator(
            GROUP,
            group_id,
            request,
            m.AlterShareGroupOffsetsResponse,
            check_answer=lambda answer: check(answer.error_code, answer.error_message, f"group {group_id!r}"),
        )
        for answered in answer.responses:
            for p in answered.partitions:
                check(p.error_code, p.error_message, f"{answered.topic_name}-{p.partition_index}")

    async def delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Let a share group without members forget whole topics."""
        names = list(topics)
        if not names:
            raise UsageError("delete_share_group_offsets got no topics")
        topic = m.DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
        answer = await self.cluster.call_coordinator(
            GROUP,
            group_id,
            m.DeleteShareGroupOffsetsRequest(group_id=group_id, topics=[topic(topic_name=name) for name in names]),
            m.DeleteShareGroupOffsetsResponse,
            check_answer=lambda answer: check(answer.error_code, answer.error_message, f"group {group_id!r}"),
        )
        for answered in answer.responses:
            check(answered.error_code, answered.error_message, f"topic {answered.topic_name!r}")


def _described(
    kind: str,
    group: m.ConsumerGroupDescribeResponse.DescribedGroup | m.ShareGroupDescribeResponse.DescribedGroup,
) -> GroupDescription:
    """What groups of both newer protocols tell."""
    members = [
        MemberDescription(
            member.member_id,
            member.client_id,
            member.client_host,
            epoch=member.member_epoch,
            assignment=_named(member.assignment.topic_partitions),
            topics=member.subscribed_topic_names,
        )
        for member in group.members
    ]
    return GroupDescription(
        group.group_id,
        kind,
        group.group_state,
        -1,
        group.assignor_name,
        group.group_epoch,
        group.assignment_epoch,
        members,
    )


def _named(
    topics: list[m.ConsumerGroupDescribeResponse.TopicPartitions] | list[m.ShareGroupDescribeResponse.TopicPartitions],
) -> list[TopicPartition]:
    return sorted(TopicPartition(topic.topic_name, number) for topic in topics for number in topic.partitions)


def _read_embedded(member: MemberDescription, metadata: bytes, assignment: bytes) -> None:
    """What a member of a classic consumer group subscribes to and has; other clients may put anything there."""
    try:
        if metadata:
            member.topics = sorted(decode_versioned(m.ConsumerProtocolSubscription, metadata).topics)
        if assignment:
            decoded = decode_versioned(m.ConsumerProtocolAssignment, assignment)
            member.assignment = sorted(
                TopicPartition(entry.topic, number)
                for entry in decoded.assigned_partitions
                for number in entry.partitions
            )
    except MalformedMessage as error:
        raise kafka_error(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"member {member.member_id} cannot be read: {error}"
        ) from error
