"""Committing, fetching, deleting and expiring offsets.

A committed offset is the next offset to read. Who may commit: a member of the current generation (or, in a consumer
group, of an epoch at which it already held the partition), and anybody while the group is empty (tools, and consumers
that assign partitions themselves). A fetch never fails for a partition without an offset: the answer is -1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.coordination.context import RequestContext
from penstock.coordination.effects import CoordinatorRecord, Effects, Respond, TransactionalProducer
from penstock.groups import records
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.protocol import ClassicProtocol
from penstock.groups.classic.states import ClassicState
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.failures import commit_error, offset_delete_error, txn_commit_error
from penstock.groups.offset_store import CommittedOffset
from penstock.groups.state import Group, ShardState
from penstock.wire import messages as m
from penstock.wire.errors import (
    ErrorCode,
    GroupIdNotFound,
    IllegalGeneration,
    StaleMemberEpoch,
    UnsupportedVersion,
)

CONSUMER_EPOCH_VERSION = 9  # the first OffsetCommit and OffsetFetch with member epochs
DEFAULT_RETENTION_TIME_MS = -1
NO_OFFSET = -1

# Raises when the member may not commit this partition.
PartitionCheck = Callable[[str, bytes, int], None]


class Offsets:
    def __init__(self, state: ShardState, classic: ClassicProtocol) -> None:
        self._state = state
        self._classic = classic

    # ---- commit ------------------------------------------------------------------------------------------------------

    def commit(
        self, respond: Respond[m.OffsetCommitResponse], context: RequestContext, request: m.OffsetCommitRequest
    ) -> Effects:
        generation = request.generation_id_or_member_epoch
        group = self._state.groups.get(request.group_id)
        check: PartitionCheck | None = None
        if group is None:
            if generation >= 0:
                if context.api_version >= CONSUMER_EPOCH_VERSION:
                    raise GroupIdNotFound(f"Group {request.group_id} not found.")
                raise IllegalGeneration
        else:
            check = self._validate_commit(
                group, request.member_id, request.group_instance_id, generation, context.api_version, False
            )
            if isinstance(group, ClassicGroup):
                self._classic.restart_session(group, request.member_id, context.now_ms)
        effects = Effects()
        expires_ms = (
            None
            if request.retention_time_ms == DEFAULT_RETENTION_TIME_MS
            else context.now_ms + request.retention_time_ms
        )
        response = m.OffsetCommitResponse()
        for topic in request.topics:
            answered = m.OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            response.topics.append(answered)
            for partition in topic.partitions:
                error = ErrorCode.NONE
                if self._metadata_is_too_large(partition.committed_metadata):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    if check is not None:
                        check(topic.name, topic.topic_id, partition.partition_index)
                    effects.records.append(
                        records.offset_commit(
                            request.group_id,
                            topic.name,
                            partition.partition_index,
                            offset=partition.committed_offset,
                            leader_epoch=partition.committed_leader_epoch,
                            metadata=partition.committed_metadata or "",
                            commit_timestamp_ms=context.now_ms,
                            expire_timestamp_ms=expires_ms,
                            topic_id=topic.topic_id,
                        )
                    )
                answered.partitions.append(
                    m.OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                )
        effects.reply(respond, response, partial(commit_error, request))
        return effects

    def commit_in_transaction(
        self, respond: Respond[m.TxnOffsetCommitResponse], context: RequestContext, request: m.TxnOffsetCommitRequest
    ) -> Effects:
        """The shell has made sure that the producer's transaction is open and includes this partition."""
        group = self._state.groups.get(request.group_id)
        check: PartitionCheck | None = None
        if group is None:
            if request.generation_id >= 0:
                raise IllegalGeneration
        else:
            try:
                check = self._validate_commit(
                    group,
                    request.member_id,
                    request.group_instance_id,
                    request.generation_id,
                    context.api_version,
                    True,
                )
            except StaleMemberEpoch as stale:
                raise IllegalGeneration from stale
        producer = TransactionalProducer(request.producer_id, request.producer_epoch)
        effects = Effects(transaction=producer, replies_wait=False)
        response = m.TxnOffsetCommitResponse()
        for topic in request.topics:
            topic_id = self._state.topics.topic_id(topic.name) or m.ZERO_UUID
            answered = m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(name=topic.name)
            response.topics.append(answered)
            for partition in topic.partitions:
                error = ErrorCode.NONE
                if self._metadata_is_too_large(partition.committed_metadata):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    if check is not None:
                        try:
                            check(topic.name, topic_id, partition.partition_index)
                        except StaleMemberEpoch as stale:
                            raise IllegalGeneration from stale
                    effects.records.append(
                        records.offset_commit(
                            request.group_id,
                            topic.name,
                            partition.partition_index,
                            offset=partition.committed_offset,
                            leader_epoch=partition.committed_leader_epoch,
                            metadata=partition.committed_metadata or "",
                            commit_timestamp_ms=context.now_ms,
                        )
                    )
                answered.partitions.append(
                    m.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                )
        effects.reply(respond, response, partial(txn_commit_error, request))
        return effects

    def _metadata_is_too_large(self, metadata: str | None) -> bool:
        if metadata is None:
            return False
        limit = self._state.settings.offset_metadata_max_bytes
        if 2 * len(metadata) <= limit:
            return False
        # Kafka counts UTF-16 units, as Java's String.length does.
        return len(metadata) + sum(char > "\uffff" for char in metadata) > limit

    def _validate_commit(
        self,
        group: Group,
        member_id: str,
        instance_id: str | None,
        generation: int,
        api_version: int,
        transactional: bool,
    ) -> PartitionCheck | None:
        if isinstance(group, ClassicGroup):
            group.validate_offset_commit(member_id, instance_id, generation, transactional=transactional)
            return None
        if isinstance(group, ConsumerGroup):
            return _validate_consumer_commit(group, member_id, instance_id, generation, api_version, transactional)
        raise GroupIdNotFound(f"Group {group.group_id} is not a consumer group.")

    # ---- fetch -------------------------------------------------------------------------------------------------------

    def fetch(
        self, request: m.OffsetFetchRequest.OffsetFetchRequestGroup, require_stable: bool
    ) -> m.OffsetFetchResponse.OffsetFetchResponseGroup:
        """One group of an OffsetFetch, in the shape of version 8 and later. Topics None: all that were committed."""
        response = m.OffsetFetchResponse
        known = self._validate_fetch(request)
        stored = self._state.offsets.of_group(request.group_id) if known else {}
        made = response.OffsetFetchResponseGroup(group_id=request.group_id)
        if request.topics is None:
            requested = [(name, m.ZERO_UUID, sorted(partitions)) for name, partitions in stored.items()]
        else:
            requested = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in request.topics]
        for name, topic_id, partitions in requested:
            topic = response.OffsetFetchResponseTopics(name=name, topic_id=topic_id)
            made.topics.append(topic)
            committed = stored.get(name, {})
            for index in partitions:
                unstable = require_stable and self._state.offsets.is_pending(request.group_id, name, index)
                topic.partitions.append(_fetched(index, committed.get(index), topic_id, unstable))
        return made

    def _validate_fetch(self, request: m.OffsetFetchRequest.OffsetFetchRequestGroup) -> bool:
        """False when the group is unknown (or not one that has offsets): then there are none, which is no error."""
        group = self._state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            if request.member_id is None and request.member_epoch < 0:
                return True
            member = group.member(request.member_id or "")
            if request.member_epoch != member.member_epoch:
                expected = f"expected member epoch {member.member_epoch}."
                if member.uses_classic_protocol:
                    raise IllegalGeneration(
                        f"The received generation id {request.member_epoch} does not match the {expected}"
                    )
                raise StaleMemberEpoch(
                    f"The received member epoch {request.member_epoch} does not match the {expected}"
                )
        return isinstance(group, ClassicGroup | ConsumerGroup)

    # ---- delete ------------------------------------------------------------------------------------------------------

    def delete(self, respond: Respond[m.OffsetDeleteResponse], request: m.OffsetDeleteRequest) -> Effects:
        group = self._state.group(request.group_id)
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise GroupIdNotFound(f"Group {group.group_id} is not a consumer group.")
        group.validate_offset_delete()
        effects = Effects()
        response = m.OffsetDeleteResponse()
        for topic in request.topics:
            answered = m.OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(answered)
            subscribed = group.is_subscribed_to(topic.name)
            for partition in topic.partitions:
                index = partition.partition_index
                if not subscribed and self._exists(request.group_id, topic.name, index):
                    effects.records.append(records.offset_commit_tombstone(request.group_id, topic.name, index))
                answered.partitions.append(
                    m.OffsetDeleteResponse.OffsetDeleteResponsePartition(
                        partition_index=index,
                        error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE,
                    )
                )
        effects.reply(respond, response, offset_delete_error)
        return effects

    def _exists(self, group_id: str, topic: str, partition: int) -> bool:
        offsets = self._state.offsets
        return offsets.get(group_id, topic, partition) is not None or offsets.is_pending(group_id, topic, partition)

    def delete_all(self, group_id: str) -> list[CoordinatorRecord]:
        offsets = self._state.offsets
        doomed = {(topic, p): None for topic, partitions in offsets.of_group(group_id).items() for p in partitions}
        doomed.update(dict.fromkeys(offsets.pending_of_group(group_id)))
        return [records.offset_commit_tombstone(group_id, topic, partition) for topic, partition in doomed]

    def topics_deleted(self, deleted: dict[str, bytes]) -> Effects:
        """Forget the offsets of deleted topics (name to id), in every group."""
        doomed: dict[tuple[str, str, int], None] = {}
        for group_id, topics in self._state.offsets.groups():
            for name in deleted.keys() & topics.keys():
                for partition, offset in topics[name].items():
                    if offset.topic_id in (m.ZERO_UUID, deleted[name]):
                        doomed[group_id, name, partition] = None
        for group_id, name, partition, offset in self._state.offsets.pending_topics():
            if name in deleted and offset.topic_id in (m.ZERO_UUID, deleted[name]):
                doomed[group_id, name, partition] = None
        return Effects(records=[records.offset_commit_tombstone(*key) for key in doomed])

    # ---- expiry ------------------------------------------------------------------------------------------------------

    def expire(self, group: ClassicGroup | ConsumerGroup, now_ms: int) -> tuple[list[CoordinatorRecord], bool]:
        """Tombstones of the offsets of one group that have expired, and whether none will be left (KIP-211)."""
        stored = self._state.offsets.of_group(group.group_id)
        pending = self._state.offsets.has_pending(group.group_id)
        if not stored:
            return [], not pending
        since = _expiry_base(group)
        if since is None:
            return [], False
        doomed, all_gone = [], True
        for topic, partitions in stored.items():
            subscribed = group.is_subscribed_to(topic)
            for partition, offset in partitions.items():
                if offset.expire_timestamp_ms is not None:
                    expired = now_ms >= offset.expire_timestamp_ms
                else:
                    expired = now_ms - since(offset) >= self._state.settings.offsets_retention_ms
                if expired and not subscribed and not self._state.offsets.is_pending(group.group_id, topic, partition):
                    doomed.append(records.offset_commit_tombstone(group.group_id, topic, partition))
                else:
                    all_gone = False
        return doomed, all_gone and not pending


def _expiry_base(group: ClassicGroup | ConsumerGroup) -> Callable[[CommittedOffset], int] | None:
    """From when on the retention counts, or None while offsets of this group never expire."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return lambda offset: offset.commit_timestamp_ms
    if group.is_empty:
        empty_since_ms = group.state_since_ms
        return lambda offset: offset.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
    if group.uses_consumer_protocol and group.subscribed_topics is not None and group.state is ClassicState.STABLE:
        return lambda offset: offset.commit_timestamp_ms
    return None


def _fetched(
    index: int, offset: CommittedOffset | None, topic_id: bytes, unstable: bool
) -> m.OffsetFetchResponse.OffsetFetchResponsePartitions:
    response = m.OffsetFetchResponse.OffsetFetchResponsePartitions
    if unstable:
        return response(
            partition_index=index,
            committed_offset=NO_OFFSET,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    if offset is None or (offset.topic_id != m.ZERO_UUID and topic_id not in (m.ZERO_UUID, offset.topic_id)):
        # Committed for a topic of the same name that was deleted since.
        return response(partition_index=index, committed_offset=NO_OFFSET, metadata="")
    return response(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _validate_consumer_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    api_version: int,
    transactional: bool,
) -> PartitionCheck | None:
    if epoch < 0 and not group.members:
        return None
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return None
    member = group.member(member_id)
    if not transactional and not member.uses_classic_protocol and api_version < CONSUMER_EPOCH_VERSION:
        raise UnsupportedVersion(
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
        )
    if epoch == member.member_epoch:
        return None
    error = IllegalGeneration if member.uses_classic_protocol else StaleMemberEpoch
    if epoch > member.member_epoch:
        raise error(f"Received epoch {epoch} is newer than current member epoch {member.member_epoch}.")
    return lambda topic, topic_id, partition: _check_assignment_epoch(member, error, epoch, topic, topic_id, partition)


def _check_assignment_epoch(
    member: ConsumerMember,
    error: type[IllegalGeneration | StaleMemberEpoch],
    epoch: int,
    topic: str,
    topic_id: bytes,
    partition: int,
) -> None:
    """An older epoch may still commit what the member has held since that epoch (KIP-1251)."""
    assigned_at = member.assignment_epoch(topic_id, partition)
    if assigned_at is None:
        raise error(f"Partition {topic}-{partition} is not assigned or pending revocation for member.")
    if epoch < assigned_at:
        raise error(
            f"Received epoch {epoch} is older than assignment epoch {assigned_at} for partition {topic}-{partition}."
        )


def group_error(
    request: m.OffsetFetchRequest.OffsetFetchRequestGroup, error: ErrorCode
) -> m.OffsetFetchResponse.OffsetFetchResponseGroup:
    return m.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
