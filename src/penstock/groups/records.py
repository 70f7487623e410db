"""The records of `__consumer_offsets`, byte for byte as Apache Kafka 4.3 writes them.

A key is an int16 record type and the key's fields; a value is an int16 version and the value's fields; no value is a
tombstone. Types 0 and 1 are committed offsets, 2 is a classic group, 3 to 8 and 16 are consumer groups, 10 to 15 share
groups. Types that are not ours (streams groups) are read as None, and skipped when the topic is replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from penstock.coordination.effects import CoordinatorRecord
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage, decode_prefix, decode_versioned, encode_key, encode_versioned

# topic id -> partitions, and topic id -> partition -> the epoch at which the member got it
Partitions = Mapping[bytes, frozenset[int]]
EpochPartitions = Mapping[bytes, Mapping[int, int]]

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
# The only version that can say when an offset expires; written when the client asked for a retention of its own.
OFFSET_COMMIT_EXPIRE_VERSION = 1


@cache
def _types() -> dict[int, tuple[type[m.Message], type[m.Message]]]:
    """Record type -> classes of key and value. Built on first use: importing this module builds no message class."""
    names = (
        "OffsetCommit",
        "GroupMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupPartitionMetadata",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupRegularExpression",
        "ShareGroupMemberMetadata",
        "ShareGroupMetadata",
        "ShareGroupTargetAssignmentMetadata",
        "ShareGroupTargetAssignmentMember",
        "ShareGroupCurrentMemberAssignment",
        "ShareGroupStatePartitionMetadata",
    )
    types = {}
    for name in names:
        key, value = m.message_class(f"{name}Key"), m.message_class(f"{name}Value")
        types[key.RECORD_TYPE] = (key, value)
    # Type 0 is the offset commit of brokers before 0.9, with the same key.
    types[0] = (m.message_class("LegacyOffsetCommitKey"), m.message_class("LegacyOffsetCommitValue"))
    return types


def parse(key: bytes, value: bytes | None) -> tuple[m.Message, m.Message | None] | None:
    """Key and value of a record (the value is None for a tombstone), or None when the type is not one of ours.

    Raises MalformedMessage when the record is of a known type and cannot be read.
    """
    if len(key) < 2:
        raise MalformedMessage("the key is shorter than its record type")
    types = _types()
    record_type = int.from_bytes(key[:2], "big", signed=True)
    if record_type not in types:
        return None
    key_class, value_class = types[record_type]
    parsed_key = decode_prefix(key_class, key, 0, 2)[0]
    return parsed_key, None if value is None else decode_versioned(value_class, value)


def _record(key: m.Message, value: m.Message | None, version: int = 0) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), None if value is None else encode_versioned(value, version))


# ---- offsets ---------------------------------------------------------------------------------------------------------


def offset_commit(
    group_id: str,
    topic: str,
    partition: int,
    *,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int | None = None,
    topic_id: bytes = m.ZERO_UUID,
) -> CoordinatorRecord:
    value = m.OffsetCommitValue(
        offset=offset, leader_epoch=leader_epoch, metadata=metadata, commit_timestamp=commit_timestamp_ms
    )
    version = OFFSET_COMMIT_VERSION
    if expire_timestamp_ms is not None:
        value.expire_timestamp = expire_timestamp_ms
        version = OFFSET_COMMIT_EXPIRE_VERSION
    else:
        value.topic_id = topic_id
    return _record(m.OffsetCommitKey(group=group_id, topic=topic, partition=partition), value, version)


def offset_commit_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return _record(m.OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


# ---- classic groups --------------------------------------------------------------------------------------------------


def group_metadata(group_id: str, value: m.GroupMetadataValue) -> CoordinatorRecord:
    return _record(m.GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def group_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return _record(m.GroupMetadataKey(group=group_id), None)


# ---- consumer groups -------------------------------------------------------------------------------------------------


def consumer_group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = m.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(m.ConsumerGroupMetadataKey(group_id=group_id), value)


def consumer_group_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return _record(m.ConsumerGroupMetadataKey(group_id=group_id), None)


def consumer_group_partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return _record(m.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def consumer_group_member(
    group_id: str, member_id: str, value: m.ConsumerGroupMemberMetadataValue
) -> CoordinatorRecord:
    return _record(m.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def consumer_group_member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return _record(m.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def consumer_group_target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = m.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(m.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def consumer_group_target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return _record(m.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def consumer_group_target(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    value = m.ConsumerGroupTargetAssignmentMemberValue
    topics = [value.TopicPartition(topic_id=t, partitions=sorted(p)) for t, p in sorted(partitions.items())]
    return _record(
        m.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        value(topic_partitions=topics),
    )


def consumer_group_target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return _record(m.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def consumer_group_current_assignment(
    group_id: str,
    member_id: str,
    *,
    member_epoch: int,
    previous_member_epoch: int,
    state: int,
    assigned: EpochPartitions,
    pending_revocation: EpochPartitions,
) -> CoordinatorRecord:
    value = m.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member_epoch,
        previous_member_epoch=previous_member_epoch,
        state=state,
        assigned_partitions=_with_epochs(assigned),
        partitions_pending_revocation=_with_epochs(pending_revocation),
    )
    return _record(m.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value)


def _with_epochs(partitions: EpochPartitions) -> list[m.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    made = []
    for topic_id, epochs in sorted(partitions.items()):
        indexes = sorted(epochs)
        made.append(
            m.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(
                topic_id=topic_id, partitions=indexes, assignment_epochs=[epochs[i] for i in indexes]
            )
        )
    return made


def consumer_group_current_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return _record(m.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def consumer_group_regex(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int
) -> CoordinatorRecord:
    value = m.ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms)
    return _record(m.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def consumer_group_regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return _record(m.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


# ---- share groups ----------------------------------------------------------------------------------------------------


def share_group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = m.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(m.ShareGroupMetadataKey(group_id=group_id), value)


def share_group_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return _record(m.ShareGroupMetadataKey(group_id=group_id), None)


def share_group_member(group_id: str, member_id: str, value: m.ShareGroupMemberMetadataValue) -> CoordinatorRecord:
    return _record(m.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def share_group_member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return _record(m.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def share_group_target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = m.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(m.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def share_group_target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return _record(m.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def share_group_target(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    value = m.ShareGroupTargetAssignmentMemberValue
    topics = [value.TopicPartition(topic_id=t, partitions=sorted(p)) for t, p in sorted(partitions.items())]
    return _record(
        m.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value(topic_partitions=topics)
    )


def share_group_target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return _record(m.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def share_group_current_assignment(
    group_id: str, member_id: str, *, member_epoch: int, previous_member_epoch: int, state: int, assigned: Partitions
) -> CoordinatorRecord:
    value = m.ShareGroupCurrentMemberAssignmentValue
    topics = [value.TopicPartitions(topic_id=t, partitions=sorted(p)) for t, p in sorted(assigned.items())]
    return _record(
        m.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        value(
            member_epoch=member_epoch,
            previous_member_epoch=previous_member_epoch,
            state=state,
            assigned_partitions=topics,
        ),
    )


def share_group_current_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return _record(m.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def share_group_state_partitions(group_id: str, value: m.ShareGroupStatePartitionMetadataValue) -> CoordinatorRecord:
    return _record(m.ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def share_group_state_partitions_tombstone(group_id: str) -> CoordinatorRecord:
    return _record(m.ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
