"""Applying the records of `__consumer_offsets` to memory: the only place where lasting state changes.

Replay must cope with a compacted log, in which older records of a group are missing and the remaining ones may no
longer tell a complete story. So a tombstone for something unknown is no error, and a record about a member of an
unknown group makes that group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from penstock.groups import records
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.consumer.group import ConsumerGroup, ResolvedRegex
from penstock.groups.consumer.member import LEAVE_GROUP_EPOCH, ConsumerMember
from penstock.groups.share.group import INITIAL_EPOCH, ShareGroup, ShareMember, StatePartitions
from penstock.groups.state import ShardState
from penstock.wire import messages as m

# What an epoch is while its record is missing: lower than any real one.
NO_TARGET_EPOCH = -1


class _OfGroup(Protocol):
    """What the keys of consumer and share groups have in common."""

    group_id: str


class Replayer:
    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._handlers: dict[str, Callable[..., None]] = {
            "LegacyOffsetCommitKey": self._legacy_offset_commit,
            "OffsetCommitKey": self._offset_commit,
            "GroupMetadataKey": self._group_metadata,
        }
        self._modern: dict[str, tuple[type[ConsumerGroup] | type[ShareGroup], Callable[..., None]]] = {
            "ConsumerGroupMetadataKey": (ConsumerGroup, self._consumer_epoch),
            "ConsumerGroupPartitionMetadataKey": (ConsumerGroup, self._consumer_partition_metadata),
            "ConsumerGroupMemberMetadataKey": (ConsumerGroup, self._consumer_member),
            "ConsumerGroupTargetAssignmentMetadataKey": (ConsumerGroup, self._consumer_target_epoch),
            "ConsumerGroupTargetAssignmentMemberKey": (ConsumerGroup, self._consumer_target),
            "ConsumerGroupCurrentMemberAssignmentKey": (ConsumerGroup, self._consumer_assignment),
            "ConsumerGroupRegularExpressionKey": (ConsumerGroup, self._consumer_regex),
            "ShareGroupMetadataKey": (ShareGroup, self._epoch),
            "ShareGroupMemberMetadataKey": (ShareGroup, self._share_member),
            "ShareGroupTargetAssignmentMetadataKey": (ShareGroup, self._share_target_epoch),
            "ShareGroupTargetAssignmentMemberKey": (ShareGroup, self._target),
            "ShareGroupCurrentMemberAssignmentKey": (ShareGroup, self._share_assignment),
            "ShareGroupStatePartitionMetadataKey": (ShareGroup, self._share_state_partitions),
        }

    def replay(self, key: bytes, value: bytes | None, producer_id: int | None = None) -> None:
        """Apply one record. Raises MalformedMessage when it cannot be read."""
        parsed = records.parse(key, value)
        if parsed is None:
            return
        parsed_key, parsed_value = parsed
        if isinstance(parsed_key, m.OffsetCommitKey):
            self._offset_commit(parsed_key, parsed_value, producer_id)
        elif (kind := type(parsed_key).__name__) in self._modern:
            self._modern_group(kind, parsed_key, parsed_value)
        else:
            self._handlers[kind](parsed_key, parsed_value)

    # ---- offsets -----------------------------------------------------------------------------------------------------

    def _offset_commit(self, key: m.OffsetCommitKey, value: m.Message | None, producer_id: int | None = None) -> None:
        if value is None:
            self._state.offsets.remove(key.group, key.topic, key.partition)
            return
        assert isinstance(value, m.OffsetCommitValue)
        # A group that only commits offsets has no record of its own.
        if key.group not in self._state.groups:
            self._state.groups[key.group] = ClassicGroup(key.group)
        self._state.offsets.put(key.group, key.topic, key.partition, value, producer_id)

    def _legacy_offset_commit(self, key: m.LegacyOffsetCommitKey, value: m.LegacyOffsetCommitValue | None) -> None:
        modern = m.OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
        if value is None:
            self._offset_commit(modern, None)
            return
        commit = m.OffsetCommitValue(
            offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
        )
        self._offset_commit(modern, commit)

    # ---- classic groups ----------------------------------------------------------------------------------------------

    def _group_metadata(self, key: m.GroupMetadataKey, value: m.GroupMetadataValue | None) -> None:
        groups = self._state.groups
        existing = groups.get(key.group)
        if value is None:
            if isinstance(existing, ClassicGroup):
                del groups[key.group]
            return
        incoming = self._state.incoming.pop(key.group, None)
        if incoming is not None:
            groups[key.group] = incoming
        elif isinstance(existing, ClassicGroup) and not self._state.loading and existing.generation == value.generation:
            existing.persisted(value, self._state.now_ms)
        else:
            groups[key.group] = ClassicGroup.from_value(key.group, value)

    # ---- consumer and share groups -----------------------------------------------------------------------------------

    def _modern_group(self, kind: str, key: m.Message, value: m.Message | None) -> None:
        """A record makes its group if need be; a tombstone is only for one that is there."""
        group_type, handler = self._modern[kind]
        group_id = cast(_OfGroup, key).group_id
        group = self._state.groups.get(group_id)
        if not isinstance(group, group_type):
            if value is None:
                return
            group = self._state.groups[group_id] = group_type(group_id)
        handler(group, key, value)

    def _epoch(
        self,
        group: ConsumerGroup | ShareGroup,
        key: m.ConsumerGroupMetadataKey | m.ShareGroupMetadataKey,
        value: m.ConsumerGroupMetadataValue | m.ShareGroupMetadataValue | None,
    ) -> None:
        if value is None:
            del self._state.groups[key.group_id]
        else:
            if not self._state.loading and value.epoch > group.epoch:
                self._state.rebalances["share" if isinstance(group, ShareGroup) else "consumer"] += 1
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash

    def _target(
        self,
        group: ConsumerGroup | ShareGroup,
        key: m.ConsumerGroupTargetAssignmentMemberKey | m.ShareGroupTargetAssignmentMemberKey,
        value: m.ConsumerGroupTargetAssignmentMemberValue | m.ShareGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            group.target.pop(key.member_id, None)
        else:
            group.target[key.member_id] = {t.topic_id: frozenset(t.partitions) for t in value.topic_partitions}

    # ---- consumer groups ---------------------------------------------------------------------------------------------

    def _consumer_epoch(
        self, group: ConsumerGroup, key: m.ConsumerGroupMetadataKey, value: m.ConsumerGroupMetadataValue | None
    ) -> None:
        self._epoch(group, key, value)
        group.changed()

    def _consumer_partition_metadata(
        self,
        group: ConsumerGroup,
        key: m.ConsumerGroupPartitionMetadataKey,
        value: m.ConsumerGroupPartitionMetadataValue | None,
    ) -> None:
        group.has_partition_metadata_record = value is not None

    def _consumer_member(
        self,
        group: ConsumerGroup,
        key: m.ConsumerGroupMemberMetadataKey,
        value: m.ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        if value is None:
            group.remove(key.member_id)
        else:
            group.put((group.members.get(key.member_id) or ConsumerMember(key.member_id)).with_metadata(value))

    def _consumer_target_epoch(
        self,
        group: ConsumerGroup,
        key: m.ConsumerGroupTargetAssignmentMetadataKey,
        value: m.ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        group.target_epoch = NO_TARGET_EPOCH if value is None else value.assignment_epoch
        group.target_timestamp_ms = 0 if value is None else value.assignment_timestamp
        group.changed()

    def _consumer_target(
        self,
        group: ConsumerGroup,
        key: m.ConsumerGroupTargetAssignmentMemberKey,
        value: m.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        self._target(group, key, value)
        group.changed()

    def _consumer_assignment(
        self,
        group: ConsumerGroup,
        key: m.ConsumerGroupCurrentMemberAssignmentKey,
        value: m.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        member = group.members.get(key.member_id)
        if value is not None:
            group.put((member or ConsumerMember(key.member_id)).with_assignment(value))
        elif member is not None:
            gone = m.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=LEAVE_GROUP_EPOCH, previous_member_epoch=LEAVE_GROUP_EPOCH
            )
            group.put(member.with_assignment(gone))

    def _consumer_regex(
        self,
        group: ConsumerGroup,
        key: m.ConsumerGroupRegularExpressionKey,
        value: m.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is None:
            group.regexes.pop(key.regular_expression, None)
        else:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            group.regexes[key.regular_expression] = resolved
        group.changed()

    # ---- share groups ------------------------------------------------------------------------------------------------

    def _share_member(
        self, group: ShareGroup, key: m.ShareGroupMemberMetadataKey, value: m.ShareGroupMemberMetadataValue | None
    ) -> None:
        if value is None:
            group.members.pop(key.member_id, None)
        else:
            member = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.members[key.member_id] = member.with_metadata(value)

    def _share_target_epoch(
        self,
        group: ShareGroup,
        key: m.ShareGroupTargetAssignmentMetadataKey,
        value: m.ShareGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        group.target_epoch = INITIAL_EPOCH if value is None else value.assignment_epoch
        group.target_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _share_assignment(
        self,
        group: ShareGroup,
        key: m.ShareGroupCurrentMemberAssignmentKey,
        value: m.ShareGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            member = group.members.get(key.member_id) or ShareMember(key.member_id)
            group.members[key.member_id] = member.with_assignment(value)

    def _share_state_partitions(
        self,
        group: ShareGroup,
        key: m.ShareGroupStatePartitionMetadataKey,
        value: m.ShareGroupStatePartitionMetadataValue | None,
    ) -> None:
        group.state_partitions = (
            StatePartitions() if value is None else StatePartitions.from_value(value, self._state.now_ms)
        )
