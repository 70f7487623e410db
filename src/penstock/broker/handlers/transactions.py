"""The transaction APIs: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, WriteTxnMarkers,
DescribeTransactions, ListTransactions.

What is decided where: the rules are the coordinator's (`penstock.transactions`), the offsets inside a transaction the
group coordinator's (`penstock.groups`). A handler finds the coordinator, checks that topics exist, and shapes answers.

- AddPartitionsToTxn up to version 3 is a client's: one transaction, and any unknown partition fails the whole call
  (the good ones are then OPERATION_NOT_ATTEMPTED). From version 4 on it is a broker's, with many transactions and the
  question whether partitions are part of one (`VerifyOnly`).
- TxnOffsetCommit up to version 4 is verified like a write; from version 5 on it adds the partition of
  `__consumer_offsets` to the transaction itself (KIP-890).
- WriteTxnMarkers is how an administrator ends a transaction that hangs (`Admin.abortTransaction`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.requests import Answer, AnyRequest, Pending, Request
from penstock.broker.topics import OFFSETS_TOPIC, Partition
from penstock.coordination.context import RequestContext
from penstock.storage.contract import Appended, StorageError
from penstock.transactions import listing
from penstock.transactions.init_producer import expected_producer
from penstock.transactions.metadata import TopicPartition, TransactionVersion
from penstock.transactions.shard import AddPartitions, WriteMarkers, fenced_code, init_producer_id_failure
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.durability import Durability
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.producer_ids import ProducerIds
    from penstock.broker.topics import Topics
    from penstock.broker.transaction_coordinator import TransactionCoordinator
    from penstock.broker.world import World

FIRST_VERSION_OF_BROKERS = 4
FIRST_OFFSET_COMMIT_WITH_ABORTABLE = 4
FIRST_OFFSET_COMMIT_THAT_ADDS = 5

Codes = dict[TopicPartition, ErrorCode]


class TransactionHandlers:
    def __init__(
        self,
        topics: Topics,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        producer_ids: ProducerIds,
        durability: Durability,
        config: BrokerConfig,
        world: World,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._transactions = transactions
        self._producer_ids = producer_ids
        self._durability = durability
        self._config = config
        self._world = world

    def _context(self, request: AnyRequest) -> RequestContext:
        return RequestContext(self._world.now_ms(), request.api_version, request.client_id, request.client_host)

    # -- InitProducerId ------------------------------------------------------------------------------------------------

    def init_producer_id(self, request: Request[m.InitProducerIdRequest]) -> Answer:
        body = request.body
        try:
            expected_producer(body.producer_id, body.producer_epoch)
            if body.transactional_id is None:
                return m.InitProducerIdResponse(producer_id=self._producer_ids.next(), producer_epoch=0)
            handle = self._transactions.find(body.transactional_id)
        except KafkaError as error:
            return init_producer_id_failure(error.code, request.api_version)
        pending = request.defer()
        handle.run(handle.shard.init_producer_id(pending.complete, self._context(request), body))
        return pending

    def add_partitions_to_txn(self, request: Request[m.AddPartitionsToTxnRequest]) -> Answer:
        body = request.body
        transactions = body.transactions
        if request.api_version < FIRST_VERSION_OF_BROKERS:
            transactions = [
                m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=body.v3_and_below_transactional_id,
                    producer_id=body.v3_and_below_producer_id,
                    producer_epoch=body.v3_and_below_producer_epoch,
                    topics=body.v3_and_below_topics,
                )
            ]
        pending = request.defer()
        reply = _AddPartitionsReply(pending, len(transactions))
        for transaction in transactions:
            self._add_partitions(request, transaction, reply)
        reply.send_if_whole()
        return pending

    def _add_partitions(
        self,
        request: Request[m.AddPartitionsToTxnRequest],
        transaction: m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction,
        reply: _AddPartitionsReply,
    ) -> None:
        transactional_id = transaction.transactional_id
        partitions = frozenset((topic.name, index) for topic in transaction.topics for index in topic.partitions)
        is_clients = request.api_version < FIRST_VERSION_OF_BROKERS
        codes = {where: self._check_partition(where, is_clients) for where in partitions}
        if any(codes.values()):
            for where, code in codes.items():
                if code == ErrorCode.NONE:
                    codes[where] = ErrorCode.OPERATION_NOT_ATTEMPTED
            reply.add(transactional_id, codes)
            return
        add = AddPartitions(
            transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
            TransactionVersion.TV_0 if is_clients else TransactionVersion.TV_2,
        )
        if transaction.verify_only:
            reply.add(transactional_id, self._transactions.verify(add))
            return
        self._transactions.add_partitions(add, lambda code: reply.add_same(transaction, code))

    def _check_partition(self, where: TopicPartition, is_clients: bool) -> ErrorCode:
        name, index = where
        topic = self._topics.find(name)
        if is_clients and self._topics.is_internal(name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic is None or not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def add_offsets_to_txn(self, request: Request[m.AddOffsetsToTxnRequest]) -> Answer:
        body = request.body
        pending = request.defer()
        add = AddPartitions(
            body.transactional_id,
            body.producer_id,
            body.producer_epoch,
            frozenset({(OFFSETS_TOPIC, self._groups.runtime.partition_for(body.group_id))}),
            TransactionVersion.TV_0,
        )

        def done(code: ErrorCode) -> None:
            pending.complete(m.AddOffsetsToTxnResponse(error_code=fenced_code(code, request.api_version, 2)))

        self._transactions.add_partitions(add, done)
        return pending

    # -- TxnOffsetCommit -----------------------------------------------------------------------------------------------

    def txn_offset_commit(self, request: Request[m.TxnOffsetCommitRequest]) -> Answer:
        body = request.body
        refused = self._take_out_unknown_partitions(body)
        pending = request.defer()

        def answer(response: m.TxnOffsetCommitResponse) -> None:
            pending.complete(_offset_commit_response(request, response, refused))

        if not body.topics:
            answer(m.TxnOffsetCommitResponse())
            return pending
        if not body.group_id:
            answer(_all_refused(body, ErrorCode.INVALID_GROUP_ID))
            return pending
        index = self._groups.runtime.partition_for(body.group_id)
        adds = request.api_version >= FIRST_OFFSET_COMMIT_THAT_ADDS
        add = AddPartitions(
            body.transactional_id,
            body.producer_id,
            body.producer_epoch,
            frozenset({(OFFSETS_TOPIC, index)}),
            TransactionVersion.TV_2 if adds else TransactionVersion.TV_0,
        )

        def admitted(code: ErrorCode) -> None:
            if code != ErrorCode.NONE:
                answer(_all_refused(body, _offset_commit_error(code, request.api_version)))
                return
            try:
                handle = self._groups.runtime.handle(index)
                effects = handle.shard.txn_offset_commit(answer, self._context(request), body)
            except KafkaError as error:
                answer(_all_refused(body, error.code))
                return
            handle.run(effects)
            handle.log.make_durable_soon()

        if self._is_open(index, body):
            admitted(ErrorCode.NONE)
        elif adds:
            self._transactions.add_partitions(add, admitted)
        elif self._config.transaction_partition_verification_enable:
            admitted(self._transactions.verify(add)[(OFFSETS_TOPIC, index)])
        else:
            admitted(ErrorCode.NONE)
        return pending

    def _is_open(self, index: int, body: m.TxnOffsetCommitRequest) -> bool:
        partition_log = self._topics.partition(OFFSETS_TOPIC, index).log
        return partition_log.has_open_transaction(body.producer_id, body.producer_epoch)

    def _take_out_unknown_partitions(
        self, body: m.TxnOffsetCommitRequest
    ) -> list[m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic]:
        """Partitions that do not exist are answered here; the rest stays in the request for the group coordinator."""
        refused: dict[str, list[int]] = {}
        for topic in body.topics:
            hosted = self._topics.find(topic.name)
            count = len(hosted.partitions) if hosted is not None else 0
            unknown = [each.partition_index for each in topic.partitions if not 0 <= each.partition_index < count]
            if unknown or hosted is None:
                refused.setdefault(topic.name, []).extend(unknown)
                topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
        body.topics = [topic for topic in body.topics if topic.partitions]
        return [
            _offset_results(name, indexes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name, indexes in refused.items()
        ]

    # -- EndTxn, WriteTxnMarkers ---------------------------------------------------------------------------------------

    def end_txn(self, request: Request[m.EndTxnRequest]) -> Answer:
        body = request.body
        pending = request.defer()
        try:
            self._transactions.end_txn(pending.complete, self._context(request), body)
        except KafkaError as error:
            return m.EndTxnResponse(error_code=error.code)
        return pending

    def write_txn_markers(self, request: Request[m.WriteTxnMarkersRequest]) -> Answer:
        body = request.body
        results: dict[int, Codes] = {}
        appends: list[tuple[Partition, Appended]] = []
        for marker in body.markers:
            for topic in marker.topics:
                for index in topic.partition_indexes:
                    codes = results.setdefault(marker.producer_id, {})
                    codes[(topic.name, index)] = self._write_marker(marker, topic.name, index, appends)
        response = _markers_response(results)
        pending = request.defer()

        def durable(failure: StorageError | None) -> None:
            if failure is None:  # otherwise the broker is about to stop
                pending.complete(response)

        self._durability.when_durable([(partition.log, appended.position) for partition, appended in appends], durable)
        return pending

    def _write_marker(
        self,
        marker: m.WriteTxnMarkersRequest.WritableTxnMarker,
        name: str,
        index: int,
        appends: list[tuple[Partition, Appended]],
    ) -> ErrorCode:
        topic = self._topics.find(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if min(marker.producer_id, marker.producer_epoch, marker.transaction_version) < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka, which fails while it builds the marker
        partition = topic.partitions[index]
        markers = WriteMarkers(
            transactional_id="",
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=TransactionVersion.TV_2 if marker.transaction_version >= 2 else TransactionVersion.TV_0,
            partitions=((name, index),),
        )
        try:
            appends.append((partition, self._transactions.markers.append(partition, markers)))
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        except KafkaError as error:
            # A coordinator that sent this does not know the group coordinator's errors.
            return (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
            )
        return ErrorCode.NONE

    # -- DescribeTransactions, ListTransactions ------------------------------------------------------------------------

    def describe_transactions(self, request: Request[m.DescribeTransactionsRequest]) -> Answer:
        body = request.body
        response = m.DescribeTransactionsResponse()
        for transactional_id in body.transactional_ids:
            try:
                state = self._transactions.find(transactional_id).shard.describe(transactional_id)
            except KafkaError as error:
                state = m.DescribeTransactionsResponse.TransactionState(
                    transactional_id=transactional_id, error_code=error.code
                )
            response.transaction_states.append(state)
        return response

    def list_transactions(self, request: Request[m.ListTransactionsRequest]) -> Answer:
        body = request.body
        if self._transactions.runtime.is_loading:
            return m.ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            wanted = listing.list_filter(body)
        except KafkaError as error:
            return m.ListTransactionsResponse(error_code=error.code)
        now_ms = self._world.now_ms()
        return m.ListTransactionsResponse(
            unknown_state_filters=list(wanted.unknown_states),
            transaction_states=[
                state
                for handle in self._transactions.runtime.loaded_handles()
                for state in handle.shard.list(wanted, now_ms)
            ],
        )


# -- AddPartitionsToTxn, AddOffsetsToTxn -------------------------------------------------------------------------------


class _AddPartitionsReply:
    """Gathers the results of all transactions of one request, in whatever order they come."""

    def __init__(self, pending: Pending, missing: int) -> None:
        self._pending = pending
        self._missing = missing
        self._response = m.AddPartitionsToTxnResponse()
        self._is_clients = pending.request.api_version < FIRST_VERSION_OF_BROKERS

    def add(self, transactional_id: str, codes: Codes) -> None:
        """Each partition with its own result, once."""
        version = self._pending.request.api_version
        self._add(
            transactional_id, _topic_results({where: fenced_code(code, version, 2) for where, code in codes.items()})
        )

    def add_same(self, transaction: m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction, code: ErrorCode) -> None:
        """One result for all that the request names, in its words: topics without partitions and repetitions too."""
        code = fenced_code(code, self._pending.request.api_version, 2)
        shapes = m.AddPartitionsToTxnResponse
        self._add(
            transaction.transactional_id,
            [
                shapes.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        shapes.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
                for topic in transaction.topics
            ],
        )

    def _add(
        self, transactional_id: str, topics: list[m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
    ) -> None:
        if self._is_clients:
            self._response.results_by_topic_v3_and_below = topics
        else:
            self._response.results_by_transaction.append(
                m.AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                    transactional_id=transactional_id, topic_results=topics
                )
            )
        self._missing -= 1
        self.send_if_whole()

    def send_if_whole(self) -> None:
        if self._missing == 0:
            self._pending.complete(self._response)


def _topic_results(codes: Codes) -> list[m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    topics: dict[str, m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = {}
    for (name, index), code in sorted(codes.items()):
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name=name)
        topic.results_by_partition.append(
            m.AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=code
            )
        )
    return list(topics.values())


def _offset_results(
    name: str, indexes: Iterable[int], code: ErrorCode
) -> m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic:
    return m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
        name=name,
        partitions=[
            m.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index in indexes
        ],
    )


def _all_refused(body: m.TxnOffsetCommitRequest, code: ErrorCode) -> m.TxnOffsetCommitResponse:
    return m.TxnOffsetCommitResponse(
        topics=[
            _offset_results(topic.name, [each.partition_index for each in topic.partitions], code)
            for topic in body.topics
        ]
    )


def _offset_commit_error(code: ErrorCode, api_version: int) -> ErrorCode:
    """The transaction coordinator's error as the group coordinator passes it on."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and api_version < FIRST_OFFSET_COMMIT_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.CONCURRENT_TRANSACTIONS and api_version < FIRST_OFFSET_COMMIT_THAT_ADDS:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code


def _offset_commit_response(
    request: Request[m.TxnOffsetCommitRequest],
    response: m.TxnOffsetCommitResponse,
    refused: list[m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic],
) -> m.TxnOffsetCommitResponse:
    """Put the partitions refused here beside the others of their topic; spare old clients an error they fail on."""
    by_name = {topic.name: topic for topic in response.topics}
    for topic in refused:
        if topic.name in by_name:
            by_name[topic.name].partitions.extend(topic.partitions)
        else:
            response.topics.append(topic)
    if request.api_version < 2:
        # Producers before 2.0 stop for good on the error that a loading coordinator gives (KAFKA-7296).
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return response


def _markers_response(results: dict[int, Codes]) -> m.WriteTxnMarkersResponse:
    shapes = m.WriteTxnMarkersResponse
    response = shapes()
    for producer_id, codes in results.items():
        topics: dict[str, m.WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = {}
        for (name, index), code in codes.items():
            topic = topics.setdefault(name, shapes.WritableTxnMarkerTopicResult(name=name))
            topic.partitions.append(shapes.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
        response.markers.append(shapes.WritableTxnMarkerResult(producer_id=producer_id, topics=list(topics.values())))
    return response
