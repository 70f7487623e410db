"""Produce: append one batch per partition.

Each partition's batch is checked from its header and CRC (`records.validation`), appended to the partition's log, and
answered as durably as the producer asked: acks=0 never, acks=1 after the write, acks=all after the flush that covers
all of the request's appends (one `fdatasync` serves every request that waits), or at once where
`penstock.acks.all.flush` is false, as Apache Kafka does. A partition that fails does not hold up the others.

A batch of a transaction is answered after the write whatever the acks: the commit waits for the disk (`EndTxn`), and by
then the flush that begins here has mostly been done.

The order of the checks, and so which error wins, is Kafka's: transactional id, topic, acks, internal topic, batch,
producer state. A transactional batch needs the word of the transaction coordinator first (`broker.admission`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.admission import FIRST_VERSION_THAT_ADDS, Admission, MixedProducers
from penstock.broker.requests import NO_RESPONSE, Answer, Pending, Request
from penstock.broker.topics import Partition, Topic
from penstock.log.errors import StorageError
from penstock.records.batch import TRANSACTIONAL, BatchHeader
from penstock.records.validation import RecordsRejected, TimestampsRejected, sole_batch, validate_produced
from penstock.wire import messages as m
from penstock.wire.errors import (
    ErrorCode,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    OutOfOrderSequenceNumber,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.server import Broker
    from penstock.log.results import Appended

ACKS_ALL = -1
ADMIN_CLIENT_ID = "__admin_client"
_TOPIC_IDS = 13

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


class _RefusedByLog(Exception):
    """A batch that is one, as such, but may not be appended."""

    def __init__(self, error: KafkaError, log_start_offset: int) -> None:
        super().__init__(error)
        self.error = error
        self.log_start_offset = -1 if error.code in _BEFORE_THE_LOG else log_start_offset


class DurableReply:
    """A produce response that goes out when the last of its appends has reached the disk."""

    __slots__ = ("deadline", "missing", "pending", "response")

    def __init__(self, pending: Pending, response: m.ProduceResponse, missing: int, deadline: float) -> None:
        self.pending = pending
        self.response = response
        self.missing = missing
        self.deadline = deadline

    def flushed(self, failure: StorageError | None) -> None:
        if failure is not None:
            self.fail(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self.missing -= 1
        if not self.missing:
            self.pending.complete(self.response)

    def fail(self, code: ErrorCode) -> None:
        """Answer without the certainty that the records are on disk."""
        for topic in self.response.responses:
            for partition in topic.partition_responses:
                if partition.error_code == ErrorCode.NONE:
                    partition.error_code = code
                    partition.base_offset = -1
        self.pending.complete(self.response)


def handle_produce(broker: Broker, request: Request) -> Answer:
    body = request.body
    assert isinstance(body, m.ProduceRequest)
    if body.transactional_id is not None:
        return broker.transactional_writes.admit(request, body, partial(_produce, broker, request, body))
    return _produce(broker, request, body, None)


def _produce(broker: Broker, request: Request, body: m.ProduceRequest, admission: Admission | None) -> Answer:
    acks = body.acks
    response = m.ProduceResponse()
    awaited: list[tuple[Partition, Appended]] = []
    waits = acks == ACKS_ALL and broker.flush_acks_all
    failed = False
    by_id = request.api_version >= _TOPIC_IDS
    for topic_data in body.topic_data if len(body.topic_data) == 1 else _each_once(body.topic_data, by_id):
        if not topic_data.partition_data:
            continue
        topic = broker.topics.by_id(topic_data.topic_id) if by_id else broker.topics.find(topic_data.name)
        answer = m.ProduceResponse.TopicProduceResponse(topic_data.name, topic_data.topic_id)
        response.responses.append(answer)
        for data in topic_data.partition_data:
            try:
                if topic is None:
                    raise UnknownTopicId() if by_id else UnknownTopicOrPartition()
                partition, appended, is_transactional = _append(broker, request, body, topic, data, admission)
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
            if is_transactional:
                broker.flush_soon(partition.log)
            elif waits:
                awaited.append((partition, appended))
            answer.partition_responses.append(
                m.ProduceResponse.PartitionProduceResponse(
                    data.index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset
                )
            )
    if acks == 0:
        if failed:
            # The producer does not read responses; a closed connection is how it learns of trouble.
            request.connection.close()
        return NO_RESPONSE
    if awaited:
        return _answer_when_durable(broker, request, response, awaited, body.timeout_ms)
    return response


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


def _append(
    broker: Broker,
    request: Request,
    body: m.ProduceRequest,
    topic: Topic,
    data: m.ProduceRequest.PartitionProduceData,
    admission: Admission | None,
) -> tuple[Partition, Appended, bool]:
    """Append a batch; the last of the results says whether it is part of a transaction."""
    if not 0 <= data.index < len(topic.partitions):
        raise UnknownTopicOrPartition()
    if not -1 <= body.acks <= 1:
        if admission is not None:
            _check_admission(admission, topic.partitions[data.index])
        raise InvalidRequiredAcks()
    if topic.is_internal and request.client_id != ADMIN_CLIENT_ID:
        raise InvalidTopic(f"The topic {topic.name} is written by the broker only.")
    partition = topic.partitions[data.index]
    records = data.records
    assert isinstance(records, memoryview | None)
    header = sole_batch(records, request.api_version)
    assert records is not None
    transaction_version = 0
    is_transactional = bool(header.attributes & TRANSACTIONAL)
    if is_transactional:
        _check_admission(admission, partition)
        if request.api_version >= FIRST_VERSION_THAT_ADDS:
            transaction_version = 2
    try:
        appended = _append_batch(broker, partition, records[: header.size], header, transaction_version)
    except KafkaError as error:
        raise _RefusedByLog(error, partition.log.log_start_offset) from error
    if partition.waiters:
        partition.wake()
    return partition, appended, is_transactional


def _check_admission(admission: Admission | None, partition: Partition) -> None:
    """The transaction coordinator speaks before the batch is looked at."""
    if admission is None:
        raise TransactionalIdAuthorizationFailed
    error = admission.errors.get((partition.topic.name, partition.index)) if admission.errors else None
    if isinstance(error, OutOfOrderSequenceNumber):
        raise _RefusedByLog(error, partition.log.log_start_offset)
    if error is not None:
        raise error


def _append_batch(
    broker: Broker, partition: Partition, records: memoryview, header: BatchHeader, transaction_version: int
) -> Appended:
    now_ms = broker.now_ms()
    topic = partition.topic
    batch, header = validate_produced(
        records, header, topic.rules, now_ms=now_ms, topic=topic.name, partition=partition.index
    )
    try:
        return partition.log.append(
            batch, header, now_ms=now_ms, verified_txn=True, transaction_version=transaction_version
        )
    except StorageError as error:
        raise KafkaStorageError(str(error)) from error


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


def _answer_when_durable(
    broker: Broker,
    request: Request,
    response: m.ProduceResponse,
    appends: list[tuple[Partition, Appended]],
    timeout_ms: int,
) -> Pending:
    pending = request.defer()
    reply = DurableReply(pending, response, len(appends), broker.loop.time() + timeout_ms / 1000)
    for partition, appended in appends:
        broker.flush(partition.log, appended.position, reply.flushed)
    broker.await_durable(reply)
    return pending
