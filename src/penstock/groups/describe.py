"""What groups look like from outside: ListGroups, DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe.

The newest groups and members come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.groups.classic.group import ClassicGroup, ClassicMember
from penstock.groups.classic.states import ClassicState
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember, without_epochs
from penstock.groups.records import Partitions
from penstock.groups.settings import TopicsView
from penstock.groups.share.group import ShareMember
from penstock.groups.state import Group, ShardState
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, GroupIdNotFound

NOT_FOUND_IS_AN_ERROR_VERSION = 6  # DescribeGroups (KIP-1043)
CLASSIC_MEMBER_TYPE = 0
CONSUMER_MEMBER_TYPE = 1


def group_type(group: Group) -> str:
    if isinstance(group, ClassicGroup):
        return "classic"
    return "consumer" if isinstance(group, ConsumerGroup) else "share"


def list_groups(
    groups: Iterable[Group], states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[m.ListGroupsResponse.ListedGroup]:
    state_filter = {state.strip().lower() for state in states}
    type_filter = {kind.strip().lower() for kind in types}
    listed = []
    for group in groups:
        kind, state = group_type(group), group.state.value
        if (state_filter and state.lower() not in state_filter) or (type_filter and kind not in type_filter):
            continue
        protocol_type = (group.protocol_type or "") if isinstance(group, ClassicGroup) else kind
        listed.append(
            m.ListGroupsResponse.ListedGroup(
                group_id=group.group_id, protocol_type=protocol_type, group_state=state, group_type=kind
            )
        )
    return listed


def describe_classic(state: ShardState, group_id: str, api_version: int) -> m.DescribeGroupsResponse.DescribedGroup:
    described = m.DescribeGroupsResponse.DescribedGroup
    try:
        group = state.classic(group_id)
    except GroupIdNotFound as error:
        if api_version >= NOT_FOUND_IS_AN_ERROR_VERSION:
            return described(group_id=group_id, group_state="Dead", error_code=error.code, error_message=error.message)
        return described(group_id=group_id, group_state="Dead")
    protocol = group.protocol_name if group.state is ClassicState.STABLE else None
    return described(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_classic_member(member, protocol) for member in group.members.values()],
    )


def _classic_member(member: ClassicMember, protocol: str | None) -> m.DescribeGroupsResponse.DescribedGroupMember:
    """Metadata and assignment are only shown while the group is stable: in between they say nothing."""
    return m.DescribeGroupsResponse.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=b"" if protocol is None else member.assignment,
    )


def describe_consumer(state: ShardState, group_id: str) -> m.ConsumerGroupDescribeResponse.DescribedGroup:
    described = m.ConsumerGroupDescribeResponse.DescribedGroup
    if not group_id:
        return described(group_id="", error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        group = state.consumer(group_id)
    except GroupIdNotFound as error:
        return described(group_id=group_id, error_code=error.code, error_message=error.message)
    assignor = group.preferred_assignor(group.members.values()) or state.settings.group_consumer_assignors[0]
    return described(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assignor,
        members=[_consumer_member(group, member, state.topics) for member in reversed(group.members.values())],
    )


def _consumer_member(
    group: ConsumerGroup, member: ConsumerMember, topics: TopicsView
) -> m.ConsumerGroupDescribeResponse.Member:
    response = m.ConsumerGroupDescribeResponse

    def assignment(partitions: Partitions) -> m.ConsumerGroupDescribeResponse.Assignment:
        return response.Assignment(
            topic_partitions=[
                response.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
                for topic_id, (name, indexes) in _named(partitions, topics).items()
            ]
        )

    return response.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex or "",
        assignment=assignment(without_epochs(member.assigned)),
        target_assignment=assignment(group.target_of(member.member_id)),
        member_type=CLASSIC_MEMBER_TYPE if member.uses_classic_protocol else CONSUMER_MEMBER_TYPE,
    )


def describe_share(state: ShardState, group_id: str) -> m.ShareGroupDescribeResponse.DescribedGroup:
    described = m.ShareGroupDescribeResponse.DescribedGroup
    if not group_id:
        return described(group_id="", error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        group = state.share(group_id)
    except GroupIdNotFound as error:
        return described(group_id=group_id, error_code=error.code, error_message=error.message)
    return described(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name="simple",
        members=[_share_member(member, state.topics) for member in group.members.values()],
    )


def _share_member(member: ShareMember, topics: TopicsView) -> m.ShareGroupDescribeResponse.Member:
    response = m.ShareGroupDescribeResponse
    return response.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        assignment=response.Assignment(
            topic_partitions=[
                response.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
                for topic_id, (name, indexes) in _named(member.assigned, topics).items()
            ]
        ),
    )


def _named(partitions: Partitions, topics: TopicsView) -> Mapping[bytes, tuple[str, frozenset[int]]]:
    """Topics that are gone are left out: they have no name any more."""
    return {
        topic_id: (name, indexes)
        for topic_id, indexes in sorted(partitions.items())
        if (name := topics.topic_name(topic_id)) is not None
    }
