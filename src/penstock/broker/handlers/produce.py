"""Produce: append one batch per partition.

Each partition's batch is checked from its header and CRC (`records.validation`), appended to the partition's log, and
answered as durably as the producer asked: acks=0 never, acks=1 after the write, acks=all after the flush that covers
all of the request's appends (one `fdatasync` serves every request that waits), or at once where
`penstock.acks.all.flush` is false, as Apache Kafka does. A partition that fails does not hold up the others.

A batch of a transaction is answered after the write whatever the acks: the commit waits for the disk (`EndTxn`), and by
then the flush that begins here has mostly been done.

Where what was appended is lost with the process, or with the leadership of the partition, each batch is answered when
it is durable, also with acks=1. A transaction's commit could not tell otherwise that one of its batches is missing.

The order of the checks, and so which error wins, is Kafka's: transactional id, topic, acks, internal topic, batch,
producer state. A transactional batch needs the word of the transaction coordinator first (`broker.admission`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.admission import FIRST_VERSION_THAT_ADDS, Admission, MixedProducers
from penstock.broker.durability import NotDurableInTime
from penstock.broker.handlers.table import WRITE_TRANSACTIONAL_ID
from penstock.broker.requests import NO_RESPONSE, Answer, Pending, Request
from penstock.broker.storage_errors import error_for_clients
from penstock.broker.topics import Partition, Topic
from penstock.records.batch import TRANSACTIONAL, BatchHeader
from penstock.records.validation import RecordsRejected, TimestampsRejected, sole_batch, validate_produced
from penstock.storage.contract import StorageError
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.errors import (
    ErrorCode,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.admission import TransactionalWrites
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.durability import Durability
    from penstock.broker.gate import Gate
    from penstock.broker.traffic import Traffic
    from penstock.broker.world import World
    from penstock.storage.contract import Appended, Log

ACKS_ALL = -1
ADMIN_CLIENT_ID = "__admin_client"
_TOPIC_IDS = 13
_ATTRIBUTES = 22
"""Where the lower byte of a batch's attributes is."""

# Refusals that Kafka makes before it has looked at the log; with the others the answer says where the log starts.
_BEFORE_THE_LOG = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)

# To most errors clients have a sentence of their own, and Kafka sends none. It explains single records that are refused
# and, before it has looked at the log, these.
_EXPLAINED = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_TXN_STATE, ErrorCode.NOT_ENOUGH_REPLICAS})


_Awaited = tuple[tuple["Log", int], m.ProduceResponse.PartitionProduceResponse]
"""Up to where a log has to become durable, and the answer that waits for it."""


class _RefusedByLog(Exception):
    """A batch that is one, as such, but may not be appended."""

    def __init__(self, error: KafkaError, log_start_offset: int) -> None:
        super().__init__(error)
        self.error = error
        self.log_start_offset = -1 if error.code in _BEFORE_THE_LOG else log_start_offset


class ProduceHandlers:
    def __init__(
        self,
        cluster: ClusterView,
        durability: Durability,
        world: World,
        transactional_writes: Callable[[], TransactionalWrites],
        gate: Gate,
        traffic: Traffic | None,
    ) -> None:
        """`traffic` counts what is appended, where somebody looks at the metrics."""
        self._cluster = cluster
        self._durability = durability
        self._world = world
        self._transactional_writes = transactional_writes
        self._gate = gate
        self._traffic = traffic

    def produce(self, request: Request[m.ProduceRequest]) -> Answer:
        body = request.body
        denied: list[m.ProduceResponse.TopicProduceResponse] = []
        if self._gate.authorizer is not None:
            transactional_id = body.transactional_id
            if _has_transactional_batch(body) and (
                transactional_id is None or not self._gate.allows(request, *WRITE_TRANSACTIONAL_ID, transactional_id)
            ):
                return _refuse(request, body, TransactionalIdAuthorizationFailed())
            denied = self._take_out_denied(request, body)
        if body.transactional_id is not None:
            return self._transactional_writes().admit(request, body, partial(self._produce, request, body, denied))
        return self._produce(request, body, denied, None)

    def _take_out_denied(
        self, request: Request[m.ProduceRequest], body: m.ProduceRequest
    ) -> list[m.ProduceResponse.TopicProduceResponse]:
        """Leave in the request what its sender may write, before anybody looks at it; return the refusals."""
        by_id = request.api_version >= _TOPIC_IDS
        denied = [data for data in body.topic_data if not self._may_write(request, data, by_id)]
        if not denied:
            return []
        taken_out = set(map(id, denied))
        body.topic_data = [data for data in body.topic_data if id(data) not in taken_out]
        return _refusals(_each_once(denied, by_id), TopicAuthorizationFailed())

    def _may_write(
        self, request: Request[m.ProduceRequest], data: m.ProduceRequest.TopicProduceData, by_id: bool
    ) -> bool:
        name = data.name
        if by_id:
            topic = self._cluster.topic_by_id(data.topic_id)
            if topic is None:
                return True  # an unknown id is answered as one
            name = topic.name
        return self._gate.allows(request, AclOperation.WRITE, AclResource.TOPIC, name)

    def _produce(
        self,
        request: Request[m.ProduceRequest],
        body: m.ProduceRequest,
        denied: list[m.ProduceResponse.TopicProduceResponse],
        admission: Admission | None,
    ) -> Answer:
        acks = body.acks
        response = m.ProduceResponse()
        awaited: list[_Awaited] = []
        waits = self._durability.is_awaited if acks == ACKS_ALL else acks != 0 and self._durability.can_lose_appends
        failed = bool(denied)
        by_id = request.api_version >= _TOPIC_IDS
        for topic_data in body.topic_data if len(body.topic_data) == 1 else _each_once(body.topic_data, by_id):
            if not topic_data.partition_data:
                continue
            topic = (
                self._cluster.topic_by_id(topic_data.topic_id) if by_id else self._cluster.find_topic(topic_data.name)
            )
            answer = m.ProduceResponse.TopicProduceResponse(topic_data.name, topic_data.topic_id)
            response.responses.append(answer)
            for data in topic_data.partition_data:
                try:
                    if topic is None:
                        raise UnknownTopicId() if by_id else UnknownTopicOrPartition()
                    partition, appended, is_transactional = self._append(request, body, topic, data, admission)
                except KafkaError as error:
                    failed = True
                    failure = _failure(data.index, error, -1)
                    is_explained = error.code in _EXPLAINED or isinstance(error, MixedProducers)
                    failure.error_message = error.message if is_explained else None
                    answer.partition_responses.append(failure)
                    continue
                except _RefusedByLog as refusal:
                    failed = True
                    answer.partition_responses.append(_failure(data.index, refusal.error, refusal.log_start_offset))
                    continue
                success = m.ProduceResponse.PartitionProduceResponse(
                    data.index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset
                )
                answer.partition_responses.append(success)
                ends_here = not (self._durability.can_lose_appends or (admission is not None and admission.waits))
                if is_transactional and ends_here:
                    self._durability.begin(partition.log)
                elif waits or (is_transactional and acks != 0):
                    awaited.append(((partition.log, appended.position), success))
        response.responses += denied
        if acks == 0:
            if failed:
                # The producer does not read responses; a closed connection is how it learns of trouble.
                request.connection.close()
            return NO_RESPONSE
        if awaited:
            return self._answer_when_durable(request, response, awaited, body.timeout_ms)
        return response

    def _append(
        self,
        request: Request[m.ProduceRequest],
        body: m.ProduceRequest,
        topic: Topic,
        data: m.ProduceRequest.PartitionProduceData,
        admission: Admission | None,
    ) -> tuple[Partition, Appended, bool]:
        """Append a batch; the last of the results says whether it is part of a transaction."""
        partition = topic.hosted(data.index)
        if not -1 <= body.acks <= 1:
            if admission is not None:
                _check_admission(admission, partition)
            raise InvalidRequiredAcks()
        if body.acks == ACKS_ALL and self._cluster.leaders_move and topic.min_insync_replicas > 1:
            self._check_insync(topic, partition.index)
        if topic.is_internal and request.client_id != ADMIN_CLIENT_ID:
            raise InvalidTopic(f"The topic {topic.name} is written by the broker only.")
        records = data.records
        assert isinstance(records, memoryview | None)
        header = sole_batch(records, request.api_version)
        assert records is not None
        size = header.size
        transaction_version = 0
        is_transactional = bool(header.attributes & TRANSACTIONAL)
        if is_transactional:
            _check_admission(admission, partition)
            if request.api_version >= FIRST_VERSION_THAT_ADDS:
                transaction_version = 2
        try:
            appended = self._append_batch(partition, records[:size], header, transaction_version)
        except KafkaError as error:
            raise _RefusedByLog(error, partition.log.log_start_offset) from error
        if self._traffic is not None:
            counts = self._traffic.produced[topic.topic_id]
            counts[0] += size
            counts[1] += header.records_count
        if partition.waiters:
            partition.wake()
        return partition, appended, is_transactional

    def _check_insync(self, topic: Topic, index: int) -> None:
        """As in Kafka 4, no more brokers have to be there than the partition has replicas."""
        there = len(self._cluster.node_ids)
        required = min(topic.min_insync_replicas, len(self._cluster.replicas(topic, index)))
        if there < required:
            raise NotEnoughReplicas(
                f"The size of the current ISR {there} is insufficient to satisfy the min.isr requirement of "
                f"{required} for partition {topic.name}-{index}."
            )

    def _append_batch(
        self, partition: Partition, records: memoryview, header: BatchHeader, transaction_version: int
    ) -> Appended:
        now_ms = self._world.now_ms()
        topic = partition.topic
        batch, header = validate_produced(
            records, header, topic.rules, now_ms=now_ms, topic=topic.name, partition=partition.index
        )
        try:
            return partition.log.append(batch, header, now_ms=now_ms, transaction_version=transaction_version)
        except StorageError as error:
            raise error_for_clients(error) from error

    def _answer_when_durable(
        self,
        request: Request[m.ProduceRequest],
        response: m.ProduceResponse,
        awaited: list[_Awaited],
        timeout_ms: int,
    ) -> Pending:
        pending = request.defer()

        def settled(failures: list[StorageError | None]) -> None:
            for (_, partition), failure in zip(awaited, failures, strict=True):
                if failure is not None:
                    _fail(partition, failure)
            pending.complete(response)

        if len(awaited) == 1:
            self._durability.when_durable([awaited[0][0]], lambda failure: settled([failure]), timeout_ms=timeout_ms)
        else:
            self._durability.when_each_is_settled([append for append, _ in awaited], settled, timeout_ms=timeout_ms)
        return pending


def _each_once(
    topics: list[m.ProduceRequest.TopicProduceData], by_id: bool
) -> Iterable[m.ProduceRequest.TopicProduceData]:
    """A topic that is named twice is answered once, with the partitions of both."""
    by_key: dict[str | bytes, m.ProduceRequest.TopicProduceData] = {}
    for topic in topics:
        known = by_key.setdefault(topic.topic_id if by_id else topic.name, topic)
        if known is not topic:
            known.partition_data += topic.partition_data
    return by_key.values()


def _has_transactional_batch(body: m.ProduceRequest) -> bool:
    return any(
        isinstance(data.records, memoryview)
        and len(data.records) > _ATTRIBUTES
        and data.records[_ATTRIBUTES] & TRANSACTIONAL
        for topic in body.topic_data
        for data in topic.partition_data
    )


def _refuse(request: Request[m.ProduceRequest], body: m.ProduceRequest, error: KafkaError) -> Answer:
    """Fail everything that a request holds."""
    if body.acks == 0:
        request.connection.close()
        return NO_RESPONSE
    by_id = request.api_version >= _TOPIC_IDS
    return m.ProduceResponse(responses=_refusals(_each_once(body.topic_data, by_id), error))


def _refusals(
    topics: Iterable[m.ProduceRequest.TopicProduceData], error: KafkaError
) -> list[m.ProduceResponse.TopicProduceResponse]:
    answers = []
    for topic in topics:
        failures = [_failure(data.index, error, -1) for data in topic.partition_data]
        answers.append(m.ProduceResponse.TopicProduceResponse(topic.name, topic.topic_id, failures))
    return answers


def _check_admission(admission: Admission | None, partition: Partition) -> None:
    """The transaction coordinator speaks before the batch is looked at."""
    if admission is None:
        raise TransactionalIdAuthorizationFailed
    error = admission.errors.get((partition.topic.name, partition.index)) if admission.errors else None
    if isinstance(error, OutOfOrderSequenceNumber):
        raise _RefusedByLog(error, partition.log.log_start_offset)
    if error is not None:
        raise error


def _fail(partition: m.ProduceResponse.PartitionProduceResponse, failure: StorageError) -> None:
    """Answer without the certainty that the records are on disk."""
    is_late = isinstance(failure, NotDurableInTime)
    partition.error_code = ErrorCode.REQUEST_TIMED_OUT if is_late else error_for_clients(failure).code
    partition.base_offset = -1


def _failure(index: int, error: KafkaError, log_start_offset: int) -> m.ProduceResponse.PartitionProduceResponse:
    response = m.ProduceResponse.PartitionProduceResponse(
        index=index, error_code=error.code, base_offset=-1, log_append_time_ms=-1, log_start_offset=log_start_offset
    )
    if isinstance(error, RecordsRejected | TimestampsRejected):
        response.error_message = error.message
        response.record_errors = [
            m.ProduceResponse.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
            for at, text in error.record_errors
        ]
    return response
