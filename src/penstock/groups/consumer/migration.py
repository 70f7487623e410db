"""Changing a live group between the classic and the consumer protocol, both ways, without stopping it (KIP-848).

*Upgrade*: the first member that joins with the consumer protocol turns a classic group into a consumer group. Group
epoch and member epochs are the generation, assignments are taken over, and the old members stay, marked as classic,
until they are restarted with the new protocol. *Downgrade*: when the last consumer-protocol member is gone (or is
replaced by a classic one with the same instance id), the group becomes classic again and its members join anew.
`group.consumer.migration.policy` says which of the two are allowed.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.coordination.effects import CoordinatorRecord, Effects
from penstock.groups import records
from penstock.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicMember
from penstock.groups.classic.states import ClassicState
from penstock.groups.consumer.group import ConsumerGroup, metadata_hash
from penstock.groups.consumer.member import ClassicMemberMetadata, ConsumerMember, with_epoch
from penstock.groups.failures import join_error, reply_join, reply_sync, sync_error
from penstock.groups.records import Partitions
from penstock.groups.settings import GroupSettings, TopicsView
from penstock.groups.state import ShardState
from penstock.groups.timeline import Happened
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage, decode_versioned, encode_versioned
from penstock.wire.errors import ErrorCode, GroupIdNotFound

# ---- the consumer's own blobs inside the classic protocol ------------------------------------------------------------


def embedded_version(metadata: bytes) -> int:
    """The version of a subscription blob; the assignment for that member is written in the same one."""
    if len(metadata) < 2:
        raise MalformedMessage("a subscription is shorter than its version")
    version = int.from_bytes(metadata[:2], "big", signed=True)
    if version < 0:
        raise MalformedMessage(f"subscription version {version} is not known")
    return min(version, m.ConsumerProtocolAssignment.SCHEMA.versions.high)


def subscription_of(metadata: bytes) -> m.ConsumerProtocolSubscription:
    return decode_versioned(m.ConsumerProtocolSubscription, metadata)


def assignment_blob(partitions: Partitions, version: int, topics: TopicsView) -> bytes:
    """An assignment as a classic consumer reads it: by topic name."""
    by_name = {}
    for topic_id, indexes in partitions.items():
        name = topics.topic_name(topic_id)
        if name is not None:
            by_name[name] = sorted(indexes)
    assignment = m.ConsumerProtocolAssignment(
        assigned_partitions=[
            m.ConsumerProtocolAssignment.TopicPartition(topic=name, partitions=by_name[name])
            for name in sorted(by_name)
        ],
        user_data=None,
    )
    return encode_versioned(assignment, version)


# ---- upgrade ---------------------------------------------------------------------------------------------------------


def upgrade(group: ClassicGroup, state: ShardState) -> ConsumerGroup:
    """The consumer group that takes the place of a classic group with members. Raises when it may not."""
    prefix = f"Cannot upgrade classic group {group.group_id} to consumer group because"
    if not state.settings.group_consumer_migration_policy.allows_upgrade:
        raise GroupIdNotFound(f"{prefix} online upgrade is disabled.")
    if not group.uses_consumer_protocol:
        raise GroupIdNotFound(f"{prefix} the group does not use the consumer embedded protocol.")
    if len(group.members) > state.settings.group_consumer_max_size:
        raise GroupIdNotFound(f"{prefix} the group size exceeds the consumer group maximum size.")
    made = ConsumerGroup(group.group_id)
    made.epoch = made.target_epoch = group.generation
    for member in group.members.values():
        try:
            upgraded, target = _upgraded_member(group, member, state.topics)
        except MalformedMessage as error:
            raise GroupIdNotFound(f"{prefix} the embedded consumer protocol is malformed.") from error
        made.target[member.member_id] = target
        made.put(upgraded)
    made.metadata_hash = metadata_hash(made.subscribed_topics(), state.topics)
    return made


def _upgraded_member(
    group: ClassicGroup, member: ClassicMember, topics: TopicsView
) -> tuple[ConsumerMember, Partitions]:
    target: dict[bytes, frozenset[int]] = {}
    if member.assignment:
        assignment = decode_versioned(m.ConsumerProtocolAssignment, member.assignment)
        if assignment.user_data:
            raise GroupIdNotFound(
                f"Cannot upgrade classic group {group.group_id} to consumer group because an unsupported custom "
                "assignor is in use. Please refer to the documentation or switch to a default assignor before "
                "re-attempting the upgrade."
            )
        for assigned in assignment.assigned_partitions:
            topic_id = topics.topic_id(assigned.topic)
            if topic_id is not None:
                target[topic_id] = frozenset(assigned.partitions)
    subscription = subscription_of(member.metadata(group.protocol_name or member.protocols[0][0]))
    upgraded = ConsumerMember(
        member.member_id,
        member_epoch=group.generation,
        previous_member_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
        assigned=with_epoch(target, group.generation),
    )
    return upgraded, target


def creation_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """All of a consumer group, in the order in which a reader can follow."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member.metadata_record(group_id) for member in members),
        records.consumer_group_epoch(group_id, group.epoch, group.metadata_hash),
        *(records.consumer_group_target(group_id, i, partitions) for i, partitions in group.target.items()),
        records.consumer_group_target_epoch(group_id, group.target_epoch, group.target_timestamp_ms),
        *(member.assignment_record(group_id) for member in members),
    ]


def release_parked(effects: Effects, group: ClassicGroup) -> None:
    """Members that wait for a classic rebalance are told to join again; they will find a consumer group."""
    for member in group.members.values():
        if member.awaiting_join is not None:
            reply_join(effects, member.awaiting_join, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
            member.awaiting_join = None
        if member.awaiting_sync is not None:
            reply_sync(effects, member.awaiting_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
            member.awaiting_sync = None


# ---- downgrade -------------------------------------------------------------------------------------------------------


def may_downgrade_without(group: ConsumerGroup, leaving: Iterable[str], settings: GroupSettings) -> bool:
    leaving = list(leaving)
    remaining = len(group.members) - len(leaving)
    return (
        remaining > 0
        and group.only_classic_without(leaving)
        and settings.group_consumer_migration_policy.allows_downgrade
        and remaining <= settings.group_max_size
    )


def may_downgrade_with(group: ConsumerGroup, replaced: ConsumerMember, settings: GroupSettings) -> bool:
    """A classic member takes the place of the last consumer-protocol member."""
    return (
        not replaced.uses_classic_protocol
        and group.only_classic_without([replaced.member_id])
        and settings.group_consumer_migration_policy.allows_downgrade
        and len(group.members) <= settings.group_max_size
    )


def downgrade(
    effects: Effects,
    group: ConsumerGroup,
    leaving: Iterable[str],
    joining: tuple[ConsumerMember, str] | None,
    state: ShardState,
    now_ms: int,
) -> ClassicGroup:
    """The classic group that takes over. `joining` is a new classic member and the id of the one it replaces."""
    leaving = set(leaving)
    made = ClassicGroup(
        group.group_id,
        state=ClassicState.STABLE,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        state_since_ms=now_ms,
    )
    targets: dict[str, Partitions] = {}
    members = [member for member_id, member in group.members.items() if member_id not in leaving]
    for member in members:
        target_id = member.member_id
        if joining is not None and member.member_id == joining[1]:
            member, target_id = joining
        assert member.classic is not None
        targets[member.member_id] = group.target_of(target_id)
        made.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                CONSUMER_PROTOCOL_TYPE,
                member.classic.protocols,
            )
        )
    made.protocol_name = made.select_protocol()
    made.subscribed_topics = made.compute_subscribed_topics()
    for classic_member in made.members.values():
        version = embedded_version(classic_member.metadata(made.protocol_name))
        classic_member.assignment = assignment_blob(targets[classic_member.member_id], version, state.topics)
    effects.records += group.tombstones()
    effects.records.append(records.group_metadata(group.group_id, made.to_value()))
    state.incoming[group.group_id] = made
    state.note(group.group_id, Happened.PROTOCOL_CHANGED, made.generation, detail="from consumer to classic")
    return made
