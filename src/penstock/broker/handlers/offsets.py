"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: where a partition begins, ends, and what lies where.

ListOffsets takes a time, or one of the special timestamps: -1 latest (the last stable offset for `read_committed`), -2
earliest, -3 the record with the largest timestamp, -4 earliest local (the same as -2, there is no second tier), -5
latest tiered and -6 earliest pending upload (none). A time after the last record finds nothing: offset -1, no error.
Which special timestamps are known depends on the version; an unknown one is UNSUPPORTED_VERSION for its partition. A
partition named twice is an INVALID_REQUEST. What a lookup by time needs and is not in memory is fetched by threads, and
the request is answered then.

DeleteRecords is answered when the new start of each log is durable: records that are confirmed to be deleted do not
come back when the broker is killed. Apache Kafka writes starts down once a minute.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.broker.cold_reads import until_fetched
from penstock.broker.durability import NotDurableInTime
from penstock.broker.handlers.table import DELETE_TOPIC, DESCRIBE_TOPIC
from penstock.broker.requests import Answer, Request
from penstock.broker.storage_errors import changing, error_for_clients
from penstock.broker.topics import Partition, leader_epoch_error
from penstock.security.acls import CLUSTER_NAME
from penstock.storage.contract import ColdRead, IsolationLevel, StorageError
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.errors import (
    ErrorCode,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    OffsetOutOfRange,
    PolicyViolation,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.durability import Durability
    from penstock.broker.gate import Gate
    from penstock.broker.world import World
    from penstock.storage.contract import Log

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
# The version of ListOffsets from which a special timestamp is known.
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_NO_EPOCH = -1
_CONSUMER = -1
_DEBUGGING_CONSUMER = -2

_Lookup = tuple[
    str, list[m.ListOffsetsRequest.ListOffsetsPartition], m.ListOffsetsResponse.ListOffsetsPartitionResponse
]
"""A topic, what is asked of one of its partitions, and where the answer goes."""


class OffsetHandlers:
    def __init__(self, cluster: ClusterView, durability: Durability, world: World, gate: Gate) -> None:
        self._cluster = cluster
        self._durability = durability
        self._world = world
        self._gate = gate

    def _partition(self, topic: str, index: int) -> Partition:
        """A name that no topic can have is an unknown one to these requests."""
        if self._cluster.find_topic(topic) is None:
            raise UnknownTopicOrPartition
        return self._cluster.hosted(topic, index)

    def list_offsets(self, request: Request[m.ListOffsetsRequest]) -> Answer | Awaitable[Answer]:
        response = m.ListOffsetsResponse()
        lookups: list[_Lookup] = []
        topics: dict[str, dict[int, list[m.ListOffsetsRequest.ListOffsetsPartition]]] = {}
        denied = []
        for topic in request.body.topics:
            if not self._gate.allows(request, *DESCRIBE_TOPIC, topic.name):
                denied.append(_denied_offsets(topic))
                continue
            for requested in topic.partitions:
                topics.setdefault(topic.name, {}).setdefault(requested.partition_index, []).append(requested)
        for name, partitions in topics.items():
            answers = m.ListOffsetsResponse.ListOffsetsTopicResponse(name=name)
            response.topics.append(answers)
            for index, partition_requests in partitions.items():
                answer = m.ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=index)
                answers.partitions.append(answer)
                lookups.append((name, partition_requests, answer))
        response.topics += denied
        missing, fetches = self._look_up(request, lookups)
        return self._look_again(request, response, missing, fetches) if missing else response

    def _look_up(
        self, request: Request[m.ListOffsetsRequest], lookups: list[_Lookup]
    ) -> tuple[list[_Lookup], list[Callable[[], None]]]:
        """Answer what can be answered now. Returns the rest, and what has to be fetched for it."""
        body = request.body
        missing: list[_Lookup] = []
        fetches: list[Callable[[], None]] = []
        for lookup in lookups:
            topic, (requested, *again), answer = lookup
            try:
                if body.isolation_level not in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
                    raise UnknownServerError
                if again:
                    raise InvalidRequest
                self._list_offset(request, topic, requested, answer)
            except KafkaError as error:
                answer.error_code = error.code
            except ColdRead as cold:
                missing.append(lookup)
                fetches += cold.fetches
        return missing, fetches

    async def _look_again(
        self,
        request: Request[m.ListOffsetsRequest],
        response: m.ListOffsetsResponse,
        missing: list[_Lookup],
        fetches: list[Callable[[], None]],
    ) -> Answer:
        while missing:
            await until_fetched(self._world, ColdRead(*fetches))
            missing, fetches = self._look_up(request, missing)
        return response

    def _list_offset(
        self,
        request: Request[m.ListOffsetsRequest],
        topic: str,
        requested: m.ListOffsetsRequest.ListOffsetsPartition,
        answer: m.ListOffsetsResponse.ListOffsetsPartitionResponse,
    ) -> None:
        body = request.body
        timestamp = requested.timestamp
        if timestamp < 0 and request.api_version < _SINCE.get(timestamp, 2**15):
            raise UnsupportedVersion()
        log = self._partition(topic, requested.partition_index).log
        if requested.current_leader_epoch not in (_NO_EPOCH, log.leader_epoch):
            raise leader_epoch_error(requested.current_leader_epoch, log.leader_epoch)
        committed = body.isolation_level == IsolationLevel.READ_COMMITTED
        if timestamp == LATEST:
            answer.offset = log.last_stable_offset if committed else log.high_watermark
            if body.replica_id not in (_CONSUMER, _DEBUGGING_CONSUMER):
                answer.offset = log.log_end_offset
            answer.leader_epoch = log.leader_epoch
        elif timestamp in (EARLIEST, EARLIEST_LOCAL):
            answer.offset = log.log_start_offset
            answer.leader_epoch = log.earliest_epoch()
        elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            answer.offset = answer.leader_epoch = -1
        else:
            if timestamp == MAX_TIMESTAMP:
                found = log.max_timestamp_offset()
            else:
                found = log.offset_for_timestamp(timestamp, body.isolation_level)
            if found is not None:
                answer.timestamp, answer.offset, answer.leader_epoch = found.timestamp, found.offset, found.leader_epoch

    def offset_for_leader_epoch(
        self, request: Request[m.OffsetForLeaderEpochRequest]
    ) -> m.OffsetForLeaderEpochResponse:
        body = request.body
        response = m.OffsetForLeaderEpochResponse()
        denied = []
        is_broker = self._gate.shows(request, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, CLUSTER_NAME)
        for topic in body.topics:
            answers = []
            if not is_broker and not self._gate.allows(request, *DESCRIBE_TOPIC, topic.topic):
                denied.append(_denied_epochs(topic))
                continue
            for requested in topic.partitions:
                answer = m.OffsetForLeaderEpochResponse.EpochEndOffset(partition=requested.partition)
                answers.append(answer)
                try:
                    log = self._partition(topic.topic, requested.partition).log
                    if requested.current_leader_epoch not in (_NO_EPOCH, log.leader_epoch):
                        raise leader_epoch_error(requested.current_leader_epoch, log.leader_epoch)
                    answer.leader_epoch, answer.end_offset = log.end_offset_for_epoch(requested.leader_epoch)
                except KafkaError as error:
                    answer.error_code = error.code
            response.topics.append(
                m.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers)
            )
        response.topics += denied
        return response

    def delete_records(self, request: Request[m.DeleteRecordsRequest]) -> Answer:
        body = request.body
        response = m.DeleteRecordsResponse()
        moved: list[tuple[Log, m.DeleteRecordsResponse.DeleteRecordsPartitionResult]] = []
        offsets: dict[str, dict[int, int]] = {}  # of a partition that is named twice the last
        for topic in body.topics:
            for requested in topic.partitions:
                offsets.setdefault(topic.name, {})[requested.partition_index] = requested.offset
        for name, partitions in offsets.items():
            answers = m.DeleteRecordsResponse.DeleteRecordsTopicResult(name=name)
            response.topics.append(answers)
            may_delete = self._gate.allows(request, *DELETE_TOPIC, name)
            for index, offset in partitions.items():
                answer = m.DeleteRecordsResponse.DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1)
                answers.partitions.append(answer)
                try:
                    if not may_delete:
                        raise TopicAuthorizationFailed
                    partition = self._partition(name, index)
                    answer.low_watermark = _delete_records(partition, offset, self._world.now_ms())
                except KafkaError as error:
                    answer.error_code = error.code
                else:
                    moved.append((partition.log, answer))
        pending = request.defer()

        def settled(failures: list[StorageError | None]) -> None:
            for (_, answer), failure in zip(moved, failures, strict=True):
                if failure is not None:
                    answer.error_code, answer.low_watermark = _not_settled(failure), -1
            pending.complete(response)

        self._durability.when_each_start_is_settled([log for log, _ in moved], settled, timeout_ms=body.timeout_ms)
        return pending


def _denied_offsets(topic: m.ListOffsetsRequest.ListOffsetsTopic) -> m.ListOffsetsResponse.ListOffsetsTopicResponse:
    return m.ListOffsetsResponse.ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            m.ListOffsetsResponse.ListOffsetsPartitionResponse(
                partition_index=requested.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            for requested in topic.partitions
        ],
    )


def _denied_epochs(
    topic: m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic,
) -> m.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult:
    return m.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            m.OffsetForLeaderEpochResponse.EpochEndOffset(
                partition=requested.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            for requested in topic.partitions
        ],
    )


def _not_settled(failure: StorageError) -> int:
    """Records may be deleted or not, and a repeated request does no harm."""
    return ErrorCode.REQUEST_TIMED_OUT if isinstance(failure, NotDurableInTime) else error_for_clients(failure).code


def _delete_records(partition: Partition, offset: int, now_ms: int) -> int:
    if partition.topic.is_internal:
        raise InvalidTopic(f"Cannot delete records of internal topic {partition.topic.name}")
    config = partition.topic.log_config
    if config.compacts and not config.deletes:
        raise PolicyViolation("Records of a topic that is only compacted cannot be deleted.")
    if offset < -1:
        raise OffsetOutOfRange()
    with changing(f"the start of {partition.topic.name}-{partition.index}"):
        low_watermark = partition.log.delete_records(offset, now_ms)
    partition.wake()
    return low_watermark
