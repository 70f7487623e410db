"""Looks up offsets, by time at the partitions' leaders or as committed at a group's coordinator, and commits them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from penstock.client.cluster import GROUP, Cluster
from penstock.client.errors import CommitFailed, check, kafka_error
from penstock.client.transactions import ConsumerGroupMetadata
from penstock.client.types import IsolationLevel, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition, by_topic
from penstock.client.versions import OFFSETS_LAST_NAMED
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

_MOVED_ON = {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}


class _EpochMoved(KafkaError):
    """A heartbeat has just raised the member epoch; the next attempt carries the new one."""

    code = ErrorCode.STALE_MEMBER_EPOCH
    retriable = True


async def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset at or behind a timestamp (or an `OffsetSpec`) per partition; -1 where there is none."""
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def attempt() -> None:
        missing = [tp for tp in timestamps if tp not in found]
        by_leader = await cluster.by_leader(missing)
        results = await asyncio.gather(*(send(node, tps) for node, tps in by_leader.items()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def send(node: int, partitions: list[TopicPartition]) -> None:
        lowest = min(timestamps[tp] for tp in partitions)
        topics: dict[str, m.ListOffsetsRequest.ListOffsetsTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, m.ListOffsetsRequest.ListOffsetsTopic(name=tp.topic, partitions=[]))
            topic.partitions.append(
                m.ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=tp.partition,
                    current_leader_epoch=cluster.metadata.leader_epoch(tp),
                    timestamp=timestamps[tp],
                )
            )
        request = m.ListOffsetsRequest(replica_id=-1, isolation_level=int(isolation), topics=list(topics.values()))
        answer = await cluster.request(
            request, m.ListOffsetsResponse, node=node, at_least={-3: 7, -4: 8, -5: 9, -6: 11}.get(lowest, 2)
        )
        error = None
        for answered in answer.topics:
            for p in answered.partitions:
                if p.error_code:
                    error = error or kafka_error(p.error_code, about=f"offsets of {answered.name}-{p.partition_index}")
                    continue
                found[TopicPartition(answered.name, p.partition_index)] = OffsetAndTimestamp(
                    p.offset, p.timestamp, p.leader_epoch
                )
        if error is not None:
            raise error

    await cluster.retrying(attempt, timeout_ms)
    return found


async def fetch_committed(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool = False,
    member: ConsumerGroupMetadata | None = None,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What a group has committed; partitions without a commit are left out. None asks for all partitions."""
    requested = None if partitions is None else by_topic(partitions)

    def build(version: int) -> m.Message:
        if version < 8:
            old = m.OffsetFetchRequest.OffsetFetchRequestTopic
            topics = None if requested is None else [old(name, indexes) for name, indexes in requested.items()]
            return m.OffsetFetchRequest(
                group_id=group_id, topics=topics, require_stable=require_stable and version >= 7
            )
        new = m.OffsetFetchRequest.OffsetFetchRequestTopics
        group = m.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group_id,
            member_id=member.member_id if member is not None and version >= 9 else None,
            member_epoch=member.generation_id if member is not None and version >= 9 else -1,
            topics=None
            if requested is None
            else [new(name=name, partition_indexes=indexes) for name, indexes in requested.items()],
        )
        return m.OffsetFetchRequest(groups=[group], require_stable=require_stable)

    found: dict[TopicPartition, OffsetAndMetadata] = {}

    def check_answer(answer: m.OffsetFetchResponse) -> None:
        found.clear()
        about = f"offsets of group {group_id!r}"
        check(answer.error_code, about=about)
        for old_topic in answer.topics:
            for old in old_topic.partitions:
                check(old.error_code, about=about)
                _keep(found, old_topic.name, old.partition_index, old.committed_offset, old.metadata, -1)
        for group in answer.groups:
            check(group.error_code, about=about)
            for topic in group.topics:
                for p in topic.partitions:
                    check(p.error_code, about=f"{about}: {topic.name}-{p.partition_index}")
                    _keep(
                        found, topic.name, p.partition_index, p.committed_offset, p.metadata, p.committed_leader_epoch
                    )

    await cluster.call_coordinator(
        GROUP,
        group_id,
        build,
        m.OffsetFetchResponse,
        check_answer=check_answer,
        timeout_ms=timeout_ms,
        at_least=2,
        at_most=OFFSETS_LAST_NAMED,
    )
    return found


def _keep(
    found: dict[TopicPartition, OffsetAndMetadata],
    topic: str,
    partition: int,
    offset: int,
    metadata: str | None,
    epoch: int,
) -> None:
    if offset >= 0:
        found[TopicPartition(topic, partition)] = OffsetAndMetadata(offset, metadata or "", epoch)


async def commit_offsets(
    cluster: Cluster,
    member: Callable[[], ConsumerGroupMetadata],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    timeout_ms: int | None = None,
    *,
    by_epoch: bool = False,
) -> None:
    """Commit offsets as a member (or, with generation -1, as nobody in particular).

    `member` is asked before each attempt, as the epoch of a KIP-848 member may have moved while a retry waited;
    `by_epoch` says that it is one.
    """
    if not offsets:
        return
    group_id = member().group_id

    def build(version: int) -> m.Message:
        who = member()
        topics: dict[str, m.OffsetCommitRequest.OffsetCommitRequestTopic] = {}
        for tp, offset in offsets.items():
            topic = topics.setdefault(
                tp.topic, m.OffsetCommitRequest.OffsetCommitRequestTopic(name=tp.topic, partitions=[])
            )
            topic.partitions.append(
                m.OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        return m.OffsetCommitRequest(
            group_id=who.group_id,
            generation_id_or_member_epoch=who.generation_id,
            member_id=who.member_id,
            group_instance_id=who.group_instance_id if version >= 7 else None,
            topics=list(topics.values()),
        )

    def check_answer(answer: m.OffsetCommitResponse) -> None:
        for topic in answer.topics:
            for p in topic.partitions:
                if by_epoch and p.error_code == ErrorCode.STALE_MEMBER_EPOCH:
                    raise _EpochMoved(f"the member epoch moved while {topic.name}-{p.partition_index} was committed")
                if p.error_code in _MOVED_ON:
                    raise CommitFailed(
                        f"the offset of {topic.name}-{p.partition_index} was not committed: the group has rebalanced "
                        "and the partition may belong to another member. If handling what one poll returns takes long, "
                        "raise max_poll_interval_ms or lower max_poll_records"
                    )
                check(p.error_code, about=f"offset of {topic.name}-{p.partition_index}")

    await cluster.call_coordinator(
        GROUP,
        group_id,
        build,
        m.OffsetCommitResponse,
        check_answer=check_answer,
        timeout_ms=timeout_ms,
        at_least=9 if by_epoch else 2,
        at_most=OFFSETS_LAST_NAMED,
    )
