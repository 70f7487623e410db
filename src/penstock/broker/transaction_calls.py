"""What writes request of the transaction coordinator of their producer: a call here, or AddPartitionsToTxn elsewhere.

The coordinator of a transactional id is on the broker that leads its partition of `__transaction_state`. If that is
this broker, the answer is there before the call returns. Otherwise the request travels, and much can happen before its
answer comes: the transaction may end, and its marker may be written into the very partition that a batch waits to
enter. A batch behind that marker would belong to no transaction and hang for ever. So a marker that is written here
while a question about its producer and partition is under way makes the answer worthless: it becomes
CONCURRENT_TRANSACTIONS, after which the producer tries again (KIP-890, the verification guard).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.peer_connection import PeerFailed
from penstock.broker.peers import Lane
from penstock.broker.topics import TRANSACTIONS_TOPIC
from penstock.transactions.metadata import TopicPartition
from penstock.transactions.shard import AddPartitions
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError, NotCoordinator

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.peers import Peers
    from penstock.broker.transaction_coordinator import TransactionCoordinator
    from penstock.broker.world import World

log = logging.getLogger("penstock.transactions")

Codes = dict[TopicPartition, ErrorCode]

_FIRST_VERSION_OF_BROKERS = 4


class TransactionCalls:
    def __init__(
        self, cluster: ClusterView, coordinator: TransactionCoordinator, peers: Callable[[], Peers], world: World
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._peers = peers
        self._under_way: dict[tuple[TopicPartition, int], list[_Question]] = {}
        self._refusals = BoundedLog(log, world.monotonic, "requests to transaction coordinators failed")
        coordinator.markers.on_written.append(self._marker_written)

    def is_elsewhere(self, transactional_id: str) -> bool:
        """Whether the coordinator of a transactional id is on another broker."""
        if not self._cluster.is_shared:
            return False
        try:
            self._coordinator.find(transactional_id)
        except NotCoordinator:
            return True
        except KafkaError:
            return False
        return False

    def verify(self, add: AddPartitions, done: Callable[[Codes], None]) -> None:
        """Whether these partitions are part of the producer's open transaction; `done` is called with each result."""
        try:
            codes = self._coordinator.find(add.transactional_id).shard.verify(add)
        except NotCoordinator:
            self._request(add, done, verify_only=True)
            return
        except KafkaError as error:
            codes = dict.fromkeys(add.partitions, error.code)
        done(codes)

    def add_partitions(self, add: AddPartitions, done: Callable[[ErrorCode], None]) -> None:
        """Add partitions to a transaction; `done` is called with the result, mostly at once."""
        try:
            handle = self._coordinator.find(add.transactional_id)
        except NotCoordinator:
            self._request(add, lambda codes: done(_first_error(codes)), verify_only=False)
        except KafkaError as error:
            done(error.code)
        else:
            self._coordinator.add_to(handle, add, done)

    # -- at another broker -----------------------------------------------------------------------------------------

    def _request(self, add: AddPartitions, done: Callable[[Codes], None], *, verify_only: bool) -> None:
        index = self._coordinator.runtime.partition_for(add.transactional_id)
        node_id = self._cluster.leader_elsewhere(TRANSACTIONS_TOPIC, index)
        if node_id is None:
            done(dict.fromkeys(add.partitions, ErrorCode.NOT_COORDINATOR))
            return
        question = _Question(add)
        for tp in add.partitions:
            self._under_way.setdefault((tp, add.producer_id), []).append(question)

        def answered(answer: m.AddPartitionsToTxnResponse | PeerFailed) -> None:
            self._forget(question)
            done(question.codes(self._codes(add, answer)))

        self._peers().send(
            node_id,
            Lane.TRANSACTIONS,
            _add_request(add, verify_only=verify_only),
            m.AddPartitionsToTxnResponse,
            answered,
            at_least=_FIRST_VERSION_OF_BROKERS,
        )

    def _forget(self, question: _Question) -> None:
        for tp in question.add.partitions:
            key = (tp, question.add.producer_id)
            questions = self._under_way[key]
            questions.remove(question)
            if not questions:
                del self._under_way[key]

    def _marker_written(self, tp: TopicPartition, producer_id: int) -> None:
        for question in self._under_way.get((tp, producer_id), ()):
            question.overtaken.add(tp)

    def _codes(self, add: AddPartitions, answer: m.AddPartitionsToTxnResponse | PeerFailed) -> Codes:
        if isinstance(answer, PeerFailed):
            return dict.fromkeys(add.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if answer.error_code:
            self._refusals.warning(
                "the coordinator of %r does not take requests of this broker: %s",
                add.transactional_id,
                ErrorCode(answer.error_code).name,
            )
            return dict.fromkeys(add.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        codes = dict.fromkeys(add.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for result in answer.results_by_transaction:
            if result.transactional_id == add.transactional_id:
                for topic in result.topic_results:
                    for partition in topic.results_by_partition:
                        codes[topic.name, partition.partition_index] = ErrorCode(partition.partition_error_code)
        return codes


class _Question:
    """What was requested of a coordinator elsewhere, and the partitions that got a marker since."""

    __slots__ = ("add", "overtaken")

    def __init__(self, add: AddPartitions) -> None:
        self.add = add
        self.overtaken: set[TopicPartition] = set()

    def codes(self, answered: Codes) -> Codes:
        for tp in self.overtaken:
            if answered.get(tp) == ErrorCode.NONE:
                answered[tp] = ErrorCode.CONCURRENT_TRANSACTIONS
        return answered


def _first_error(codes: Codes) -> ErrorCode:
    """The one result of an addition: a partition that is unknown makes the others OPERATION_NOT_ATTEMPTED."""
    errors = [code for code in codes.values() if code != ErrorCode.NONE]
    real = [code for code in errors if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return (real or errors or [ErrorCode.NONE])[0]


def _add_request(add: AddPartitions, *, verify_only: bool) -> m.AddPartitionsToTxnRequest:
    shapes = m.AddPartitionsToTxnRequest
    topics: dict[str, list[int]] = {}
    for name, index in sorted(add.partitions):
        topics.setdefault(name, []).append(index)
    return shapes(
        transactions=[
            shapes.AddPartitionsToTxnTransaction(
                transactional_id=add.transactional_id,
                producer_id=add.producer_id,
                producer_epoch=add.producer_epoch,
                verify_only=verify_only,
                topics=[
                    shapes.AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
                ],
            )
        ]
    )
