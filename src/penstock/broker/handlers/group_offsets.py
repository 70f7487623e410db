"""Offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete.

Topics and partitions that do not exist are answered here (UNKNOWN_TOPIC_OR_PARTITION, or UNKNOWN_TOPIC_ID where topics
are named by id, from version 10 on); the rest goes to the group's coordinator. OffsetFetch answers -1 without an error
for whatever was never committed. Committing needs READ on the group and on each topic, fetching DESCRIBE on both,
deleting DELETE on the group and READ on each topic. The errors of OffsetFetch sit per partition in version 1, at the
top in 2 to 7, per group from 8 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.handlers.group_commands import GroupCommands
from penstock.broker.handlers.table import DELETE_GROUP, DESCRIBE_GROUP, DESCRIBE_TOPIC, READ_GROUP, READ_TOPIC
from penstock.broker.requests import Answer, AnyRequest, Request
from penstock.groups.failures import commit_error
from penstock.groups.offsets import NO_OFFSET
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.gate import Gate
    from penstock.broker.group_coordinator import GroupCoordinator

_TOPIC_IDS_VERSION = 10
_GROUPS_VERSION = 8
_TOP_LEVEL_ERROR_VERSION = 2


class GroupOffsetHandlers:
    def __init__(self, commands: GroupCommands, groups: GroupCoordinator, cluster: ClusterView, gate: Gate) -> None:
        self._commands = commands
        self._groups = groups
        self._cluster = cluster
        self._gate = gate

    # ---- OffsetCommit ------------------------------------------------------------------------------------------------

    def offset_commit(self, request: Request[m.OffsetCommitRequest]) -> Answer:
        body = request.body
        if not self._gate.allows(request, *READ_GROUP, body.group_id):
            return commit_error(body, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        refused = self._take_out_refused(request, body)

        def shape(response: m.OffsetCommitResponse) -> m.OffsetCommitResponse:
            if refused:
                response.topics = _merged(refused + response.topics)
            return response

        if not body.topics:
            return m.OffsetCommitResponse(topics=_merged(refused))
        return self._commands.run(
            request,
            body.group_id,
            lambda shard, respond, context: shard.offset_commit(respond, context, body),
            lambda code: shape(commit_error(body, code)),
            shape,
        )

    def _take_out_refused(
        self, request: AnyRequest, body: m.OffsetCommitRequest
    ) -> list[m.OffsetCommitResponse.OffsetCommitResponseTopic]:
        """Leave in the request what exists and may be read, with name and id; return the refusals of the rest."""
        response = m.OffsetCommitResponse
        by_id = request.api_version >= _TOPIC_IDS_VERSION
        refused, known = [], []
        for requested in body.topics:
            topic = self._cluster.topic_by_id(requested.topic_id) if by_id else self._cluster.find_topic(requested.name)
            count = 0 if topic is None else topic.partition_count
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is None and by_id:
                missing = ErrorCode.UNKNOWN_TOPIC_ID
            name = requested.name if topic is None else topic.name
            is_denied = (topic is not None or not by_id) and not self._gate.allows(request, *READ_TOPIC, name)
            if is_denied:
                missing, count = ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0
            elif topic is not None:
                requested.name, requested.topic_id = topic.name, topic.topic_id
            unknown = [p for p in requested.partitions if not 0 <= p.partition_index < count]
            if unknown or topic is None or is_denied:
                refused.append(
                    response.OffsetCommitResponseTopic(
                        name=requested.name,
                        topic_id=requested.topic_id,
                        partitions=[
                            response.OffsetCommitResponsePartition(
                                partition_index=p.partition_index, error_code=missing
                            )
                            for p in unknown
                        ],
                    )
                )
            requested.partitions = [p for p in requested.partitions if 0 <= p.partition_index < count]
            if requested.partitions:
                known.append(requested)
        body.topics = known
        return refused

    # ---- OffsetFetch -------------------------------------------------------------------------------------------------

    def offset_fetch(self, request: Request[m.OffsetFetchRequest]) -> m.OffsetFetchResponse:
        body = request.body
        if request.api_version >= _GROUPS_VERSION:
            by_id = request.api_version >= _TOPIC_IDS_VERSION
            return m.OffsetFetchResponse(
                groups=[self._fetch_group(request, group, body.require_stable, by_id) for group in body.groups]
            )
        requested = m.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=body.group_id,
            topics=None
            if body.topics is None
            else [
                m.OffsetFetchRequest.OffsetFetchRequestTopics(
                    name=topic.name, partition_indexes=topic.partition_indexes
                )
                for topic in body.topics
            ],
        )
        group = self._fetch_group(request, requested, body.require_stable, by_id=False)
        if group.error_code != ErrorCode.NONE and request.api_version < _TOP_LEVEL_ERROR_VERSION:
            group.topics = [_failed_topic(topic, ErrorCode(group.error_code)) for topic in requested.topics or []]
        response = m.OffsetFetchResponse
        return response(
            error_code=group.error_code,
            topics=[
                response.OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        response.OffsetFetchResponsePartition(
                            partition_index=p.partition_index,
                            committed_offset=p.committed_offset,
                            committed_leader_epoch=p.committed_leader_epoch,
                            metadata=p.metadata,
                            error_code=p.error_code,
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in group.topics
            ],
        )

    def _fetch_group(
        self,
        request: AnyRequest,
        requested: m.OffsetFetchRequest.OffsetFetchRequestGroup,
        require_stable: bool,
        by_id: bool,
    ) -> m.OffsetFetchResponse.OffsetFetchResponseGroup:
        if not self._gate.allows(request, *DESCRIBE_GROUP, requested.group_id):
            return m.OffsetFetchResponse.OffsetFetchResponseGroup(
                group_id=requested.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
        refused = []
        if requested.topics is not None:
            left = []
            for requested_topic in requested.topics:
                topic = self._cluster.topic_by_id(requested_topic.topic_id) if by_id else None
                name = requested_topic.name if topic is None else topic.name
                if by_id and topic is None:
                    refused.append(_failed_topic(requested_topic, ErrorCode.UNKNOWN_TOPIC_ID))
                elif not self._gate.allows(request, *DESCRIBE_TOPIC, name):
                    refused.append(_failed_topic(requested_topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                else:
                    requested_topic.name = name
                    left.append(requested_topic)
            requested.topics = left
        try:
            group = self._groups.find(requested.group_id).shard.offset_fetch(requested, require_stable)
        except KafkaError as error:
            return m.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=requested.group_id, error_code=error.code)
        if group.error_code != ErrorCode.NONE:
            return group
        if requested.topics is None:
            group.topics = [
                fetched for fetched in group.topics if self._gate.allows(request, *DESCRIBE_TOPIC, fetched.name)
            ]
        if by_id and requested.topics is None:
            # Topics without an id are left out: they could not be named in the response.
            for fetched in group.topics:
                topic = self._cluster.find_topic(fetched.name)
                fetched.topic_id = m.ZERO_UUID if topic is None else topic.topic_id
            group.topics = [fetched for fetched in group.topics if fetched.topic_id != m.ZERO_UUID]
        group.topics += refused
        return group

    # ---- OffsetDelete ------------------------------------------------------------------------------------------------

    def offset_delete(self, request: Request[m.OffsetDeleteRequest]) -> Answer:
        body = request.body
        answer = m.OffsetDeleteResponse
        if not self._gate.allows(request, *DELETE_GROUP, body.group_id):
            return answer(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        refused: dict[str, list[m.OffsetDeleteResponse.OffsetDeleteResponsePartition]] = {}
        for requested in body.topics:
            topic = self._cluster.find_topic(requested.name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not self._gate.allows(request, *READ_TOPIC, requested.name):
                topic, code = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
            count = 0 if topic is None else topic.partition_count
            if topic is None:
                refused.setdefault(requested.name, [])
            for partition in requested.partitions:
                if not 0 <= partition.partition_index < count:
                    refused.setdefault(requested.name, []).append(
                        answer.OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
                    )
            requested.partitions = [p for p in requested.partitions if 0 <= p.partition_index < count]
        body.topics = [requested for requested in body.topics if requested.partitions]

        def shape(response: m.OffsetDeleteResponse) -> m.OffsetDeleteResponse:
            if response.error_code == ErrorCode.NONE:
                for topic in response.topics:
                    topic.partitions.extend(refused.pop(topic.name, []))
                response.topics += [
                    answer.OffsetDeleteResponseTopic(name=name, partitions=partitions)
                    for name, partitions in refused.items()
                ]
            return response

        return self._commands.run(
            request,
            body.group_id,
            lambda shard, respond, context: shard.offset_delete(respond, context, body),
            lambda code: m.OffsetDeleteResponse(error_code=code),
            shape,
        )


def _merged(
    topics: list[m.OffsetCommitResponse.OffsetCommitResponseTopic],
) -> list[m.OffsetCommitResponse.OffsetCommitResponseTopic]:
    """One entry per topic, though some of its partitions were refused and some were not."""
    by_topic: dict[tuple[str, bytes], m.OffsetCommitResponse.OffsetCommitResponseTopic] = {}
    for topic in topics:
        known = by_topic.setdefault((topic.name, topic.topic_id), topic)
        if known is not topic:
            known.partitions.extend(topic.partitions)
    return list(by_topic.values())


def _failed_topic(
    requested: m.OffsetFetchRequest.OffsetFetchRequestTopics, error: ErrorCode
) -> m.OffsetFetchResponse.OffsetFetchResponseTopics:
    response = m.OffsetFetchResponse
    return response.OffsetFetchResponseTopics(
        name=requested.name,
        topic_id=requested.topic_id,
        partitions=[
            response.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
            )
            for index in requested.partition_indexes
        ],
    )
