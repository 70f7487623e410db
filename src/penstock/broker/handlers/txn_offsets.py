"""TxnOffsetCommit: offsets of a group that are committed inside a transaction.

The rules are the group coordinator's (`penstock.groups`). The transaction coordinator is asked first whether the
partition of `__consumer_offsets` is part of the transaction: up to version 4 it is verified like a write; from version
5 on the request adds the partition itself (KIP-890). It needs WRITE on the transactional id, READ on the group and on
each topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.handlers.table import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID
from penstock.broker.requests import Answer, AnyRequest, Request
from penstock.broker.topics import OFFSETS_TOPIC
from penstock.coordination.context import RequestContext
from penstock.transactions.metadata import TransactionVersion
from penstock.transactions.shard import AddPartitions
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError, NotCoordinator, NotLeaderOrFollower

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.gate import Gate
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.transaction_calls import TransactionCalls
    from penstock.broker.world import World

FIRST_OFFSET_COMMIT_WITH_ABORTABLE = 4
FIRST_OFFSET_COMMIT_THAT_ADDS = 5


class TxnOffsetHandlers:
    def __init__(
        self,
        cluster: ClusterView,
        groups: GroupCoordinator,
        transactions: TransactionCalls,
        config: BrokerConfig,
        world: World,
        gate: Gate,
    ) -> None:
        self._cluster = cluster
        self._groups = groups
        self._transactions = transactions
        self._config = config
        self._world = world
        self._gate = gate

    def _context(self, request: AnyRequest) -> RequestContext:
        return RequestContext(self._groups.time.now_ms(), request.api_version, request.client_id, request.client_host)

    def txn_offset_commit(self, request: Request[m.TxnOffsetCommitRequest]) -> Answer:
        body = request.body
        if not self._gate.allows(request, *WRITE_TRANSACTIONAL_ID, body.transactional_id):
            return _all_refused(body, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not self._gate.allows(request, *READ_GROUP, body.group_id):
            return _all_refused(body, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        refused = self._take_out_refused(request, body)
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
                # A coordinator elsewhere does not see to it before it commits.
                effects.replies_wait = effects.replies_wait or self._transactions.is_elsewhere(body.transactional_id)
            except KafkaError as error:
                answer(_all_refused(body, error.code))
                return
            handle.run(effects)
            handle.log.make_durable_soon()

        try:
            is_open = self._is_open(index, body)
        except KafkaError as error:
            answer(_all_refused(body, error.code))
            return pending
        if is_open:
            admitted(ErrorCode.NONE)
        elif adds:
            self._transactions.add_partitions(add, admitted)
        elif self._config.transaction_partition_verification_enable:
            self._transactions.verify(add, lambda codes: admitted(codes[(OFFSETS_TOPIC, index)]))
        else:
            admitted(ErrorCode.NONE)
        return pending

    def _is_open(self, index: int, body: m.TxnOffsetCommitRequest) -> bool:
        try:
            partition_log = self._cluster.hosted(OFFSETS_TOPIC, index).log
        except NotLeaderOrFollower:
            raise NotCoordinator from None
        return partition_log.has_open_transaction(body.producer_id, body.producer_epoch)

    def _take_out_refused(
        self, request: AnyRequest, body: m.TxnOffsetCommitRequest
    ) -> list[m.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic]:
        """What may not be read or does not exist is answered here; the rest stays for the group coordinator."""
        refused: dict[str, list[int]] = {}
        denied: set[str] = set()
        for topic in body.topics:
            hosted = self._cluster.find_topic(topic.name)
            if not self._gate.allows(request, *READ_TOPIC, topic.name):
                hosted = None
                denied.add(topic.name)
            count = hosted.partition_count if hosted is not None else 0
            unknown = [each.partition_index for each in topic.partitions if not 0 <= each.partition_index < count]
            if unknown or hosted is None:
                refused.setdefault(topic.name, []).extend(unknown)
                topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
        body.topics = [topic for topic in body.topics if topic.partitions]
        return [
            _offset_results(
                name,
                indexes,
                ErrorCode.TOPIC_AUTHORIZATION_FAILED if name in denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for name, indexes in refused.items()
        ]


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
