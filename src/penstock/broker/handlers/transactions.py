"""The transaction coordinator's APIs.

InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, DescribeTransactions, ListTransactions.

The rules are the coordinator's (`penstock.transactions`). A handler finds the coordinator, checks that topics exist,
and shapes answers.

- AddPartitionsToTxn up to version 3 is a client's: one transaction, and any unknown partition fails the whole call
  (the good ones are then OPERATION_NOT_ATTEMPTED). From version 4 on it is a broker's, with many transactions and the
  question whether partitions are part of one (`VerifyOnly`).
- A producer needs WRITE on its transactional id, and on the topics that it adds; one without such an id needs
  IDEMPOTENT_WRITE on the cluster, or WRITE on some topic. Brokers need CLUSTER_ACTION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.handlers.table import (
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    READ_GROUP,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from penstock.broker.requests import Answer, AnyRequest, Pending, Request
from penstock.broker.topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from penstock.coordination.context import RequestContext
from penstock.transactions import listing
from penstock.transactions.init_producer import expected_producer
from penstock.transactions.metadata import TopicPartition, TransactionVersion
from penstock.transactions.shard import AddPartitions, fenced_code, init_producer_id_failure
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.gate import Gate
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.producer_ids import ProducerIds
    from penstock.broker.transaction_coordinator import TransactionCoordinator

FIRST_VERSION_OF_BROKERS = 4

Codes = dict[TopicPartition, ErrorCode]


class TransactionHandlers:
    def __init__(
        self,
        cluster: ClusterView,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        producer_ids: ProducerIds,
        gate: Gate,
    ) -> None:
        self._cluster = cluster
        self._groups = groups
        self._transactions = transactions
        self._producer_ids = producer_ids
        self._gate = gate

    def _context(self, request: AnyRequest) -> RequestContext:
        now_ms = self._transactions.time.now_ms()
        return RequestContext(now_ms, request.api_version, request.client_id, request.client_host)

    # -- InitProducerId ------------------------------------------------------------------------------------------------

    def init_producer_id(self, request: Request[m.InitProducerIdRequest]) -> Answer:
        body = request.body
        denied = self._init_denial(request, body)
        if denied is not None:
            return m.InitProducerIdResponse(error_code=denied, producer_id=-1, producer_epoch=-1)
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

    def _init_denial(
        self, request: Request[m.InitProducerIdRequest], body: m.InitProducerIdRequest
    ) -> ErrorCode | None:
        gate, transactional_id = self._gate, body.transactional_id
        if transactional_id is not None:
            may_write = gate.allows(request, *WRITE_TRANSACTIONAL_ID, transactional_id)
            may_prepare = not body.enable2_pc or gate.allows(
                request, AclOperation.TWO_PHASE_COMMIT, AclResource.TRANSACTIONAL_ID, transactional_id
            )
            return None if may_write and may_prepare else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        may_write = gate.allows_on_any(request, AclOperation.WRITE, AclResource.TOPIC)
        if may_write or gate.allows_on_cluster(request, AclOperation.IDEMPOTENT_WRITE):
            return None
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED

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
        if request.api_version >= FIRST_VERSION_OF_BROKERS and not self._gate.allows_on_cluster(
            request, AclOperation.CLUSTER_ACTION
        ):
            return m.AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
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
        if is_clients and not self._gate.allows(request, *WRITE_TRANSACTIONAL_ID, transactional_id):
            reply.add_same(transaction, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return
        denied: set[str] = set()
        if is_clients:
            names = {name for name, _ in partitions} - INTERNAL_TOPICS
            denied = {name for name in names if not self._gate.allows(request, *WRITE_TOPIC, name)}
        codes = {tp: self._check_partition(tp, is_clients, denied) for tp in partitions}
        if any(codes.values()):
            for tp, code in codes.items():
                if code == ErrorCode.NONE:
                    codes[tp] = ErrorCode.OPERATION_NOT_ATTEMPTED
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

    def _check_partition(self, tp: TopicPartition, is_clients: bool, denied: set[str]) -> ErrorCode:
        name, index = tp
        topic = self._cluster.find_topic(name)
        if name in denied or (is_clients and name in INTERNAL_TOPICS):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic is None or not topic.has_partition(index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def add_offsets_to_txn(self, request: Request[m.AddOffsetsToTxnRequest]) -> Answer:
        body = request.body
        if not self._gate.allows(request, *WRITE_TRANSACTIONAL_ID, body.transactional_id):
            return m.AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not self._gate.allows(request, *READ_GROUP, body.group_id):
            return m.AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
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

    # -- EndTxn --------------------------------------------------------------------------------------------------------

    def end_txn(self, request: Request[m.EndTxnRequest]) -> Answer:
        body = request.body
        if not self._gate.allows(request, *WRITE_TRANSACTIONAL_ID, body.transactional_id):
            return m.EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        pending = request.defer()
        try:
            self._transactions.end_txn(pending.complete, self._context(request), body)
        except KafkaError as error:
            return m.EndTxnResponse(error_code=error.code)
        return pending

    # -- DescribeTransactions, ListTransactions ------------------------------------------------------------------------

    def describe_transactions(self, request: Request[m.DescribeTransactionsRequest]) -> Answer:
        body = request.body
        response = m.DescribeTransactionsResponse()
        for transactional_id in body.transactional_ids:
            if not self._gate.allows(request, *DESCRIBE_TRANSACTIONAL_ID, transactional_id):
                response.transaction_states.append(
                    m.DescribeTransactionsResponse.TransactionState(
                        transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                    )
                )
                continue
            try:
                state = self._transactions.find(transactional_id).shard.describe(transactional_id)
            except KafkaError as error:
                state = m.DescribeTransactionsResponse.TransactionState(
                    transactional_id=transactional_id, error_code=error.code
                )
            state.topics = [each for each in state.topics if self._gate.allows(request, *DESCRIBE_TOPIC, each.topic)]
            response.transaction_states.append(state)
        return response

    def list_transactions(self, request: Request[m.ListTransactionsRequest]) -> Answer:
        body = request.body
        if self._transactions.runtime.is_loading:
            return m.ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            chosen = listing.list_filter(body)
        except KafkaError as error:
            return m.ListTransactionsResponse(error_code=error.code)
        now_ms = self._transactions.time.now_ms()
        return m.ListTransactionsResponse(
            unknown_state_filters=list(chosen.unknown_states),
            transaction_states=[
                state
                for handle in self._transactions.runtime.loaded_handles()
                for state in handle.shard.list(chosen, now_ms)
                if self._gate.shows(request, *DESCRIBE_TRANSACTIONAL_ID, state.transactional_id)
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
        self._add(transactional_id, _topic_results({tp: fenced_code(code, version, 2) for tp, code in codes.items()}))

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
