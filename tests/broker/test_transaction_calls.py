"""What writes request of a transaction coordinator, here and elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from penstock.broker.peer_connection import PeerFailed
from penstock.broker.peers import Lane
from penstock.broker.transaction_calls import TransactionCalls
from penstock.transactions.metadata import TopicPartition, TransactionVersion
from penstock.transactions.shard import AddPartitions
from penstock.wire import messages as m
from penstock.wire.errors import CoordinatorLoadInProgress, ErrorCode, KafkaError, NotCoordinator

ORDERS, BILLS = ("orders", 0), ("bills", 1)
ADD = AddPartitions("shop", 7, 3, frozenset({ORDERS, BILLS}), TransactionVersion.TV_2)
NONE = ErrorCode.NONE
OTHER = 2


class Stage:
    """A coordinator that is here, elsewhere or loading."""

    def __init__(self, problem: KafkaError | None = None, leader: int | None = OTHER) -> None:
        self._problem = problem
        self._leader = leader
        self.is_shared = True
        self.markers = SimpleNamespace(on_written=[])
        self.runtime = SimpleNamespace(partition_for=lambda name: 1)
        self.shard = SimpleNamespace(verify=lambda add: dict.fromkeys(add.partitions, NONE))
        self.sent: list[m.AddPartitionsToTxnRequest] = []
        self.answer: Callable[[object], None]
        self.calls = TransactionCalls(self, self, lambda: self, self)  # type: ignore[arg-type, return-value]

    def monotonic(self) -> float:
        return 0.0

    def find(self, transactional_id: str) -> SimpleNamespace:
        if self._problem is not None:
            raise self._problem
        return SimpleNamespace(shard=self.shard)

    def add_to(self, handle: object, add: AddPartitions, done: Callable[[ErrorCode], None]) -> None:
        done(NONE)

    def leader_elsewhere(self, name: str, index: int) -> int | None:
        assert (name, index) == ("__transaction_state", 1)
        return self._leader

    def send(
        self,
        node_id: int,
        lane: Lane,
        request: m.AddPartitionsToTxnRequest,
        _: object,
        done: Callable[[object], None],
        *,
        at_least: int,
    ) -> None:
        assert (node_id, lane, at_least) == (OTHER, Lane.TRANSACTIONS, 4)
        self.sent.append(request)
        self.answer = done

    def marker(self, tp: TopicPartition, producer_id: int) -> None:
        for callback in self.markers.on_written:
            callback(tp, producer_id)

    def verify(self) -> list[dict[TopicPartition, ErrorCode]]:
        results: list[dict[TopicPartition, ErrorCode]] = []
        self.calls.verify(ADD, results.append)
        return results

    def add(self) -> list[ErrorCode]:
        results: list[ErrorCode] = []
        self.calls.add_partitions(ADD, results.append)
        return results


def response(**codes: ErrorCode) -> m.AddPartitionsToTxnResponse:
    shapes = m.AddPartitionsToTxnResponse
    indexes = {"orders": 0, "bills": 1}
    return shapes(
        results_by_transaction=[
            shapes.AddPartitionsToTxnResult(
                transactional_id="shop",
                topic_results=[
                    shapes.AddPartitionsToTxnTopicResult(
                        name=name,
                        results_by_partition=[
                            shapes.AddPartitionsToTxnPartitionResult(
                                partition_index=indexes[name], partition_error_code=code
                            )
                        ],
                    )
                    for name, code in codes.items()
                ],
            )
        ]
    )


def test_a_coordinator_here_answers_before_the_call_returns() -> None:
    stage = Stage()
    assert stage.verify() == [{ORDERS: NONE, BILLS: NONE}]
    assert stage.add() == [NONE]
    assert not stage.calls.is_elsewhere("shop")
    assert not stage.sent


def test_a_coordinator_that_is_loading_is_not_looked_for_elsewhere() -> None:
    stage = Stage(CoordinatorLoadInProgress())
    assert stage.verify() == [dict.fromkeys(ADD.partitions, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    assert stage.add() == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert not stage.sent


def test_a_coordinator_elsewhere_is_sent_the_question() -> None:
    stage = Stage(NotCoordinator())
    assert stage.calls.is_elsewhere("shop")
    verified = stage.verify()
    added = stage.add()
    assert not verified
    assert not added
    for request, verify_only in zip(stage.sent, (True, False), strict=True):
        (transaction,) = request.transactions
        assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("shop", 7, 3)
        assert transaction.verify_only is verify_only
        assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("bills", [1]), ("orders", [0])]


def test_each_partition_has_its_own_result() -> None:
    stage = Stage(NotCoordinator())
    verified = stage.verify()
    stage.answer(response(orders=NONE, bills=ErrorCode.TRANSACTION_ABORTABLE))
    assert verified == [{ORDERS: NONE, BILLS: ErrorCode.TRANSACTION_ABORTABLE}]


def test_an_addition_fails_with_the_error_that_explains_it() -> None:
    stage = Stage(NotCoordinator())
    added = stage.add()
    stage.answer(response(orders=ErrorCode.OPERATION_NOT_ATTEMPTED, bills=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert added == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_coordinator_that_does_not_answer_is_not_available() -> None:
    stage = Stage(NotCoordinator())
    added, verified = stage.add(), None
    stage.answer(PeerFailed("gone"))
    assert added == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    verified = stage.verify()
    stage.answer(m.AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert verified == [dict.fromkeys(ADD.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_nobody_is_asked_while_no_leader_is_known() -> None:
    stage = Stage(NotCoordinator(), leader=None)
    assert stage.add() == [ErrorCode.NOT_COORDINATOR]
    assert not stage.sent


def test_an_answer_is_worthless_if_a_marker_was_written_meanwhile() -> None:
    """Else the batch would follow the end of its transaction, and hang for ever (KIP-890)."""
    stage = Stage(NotCoordinator())
    verified = stage.verify()
    stage.marker(ORDERS, 7)
    stage.marker(BILLS, 8)
    stage.answer(response(orders=NONE, bills=NONE))
    assert verified == [{ORDERS: ErrorCode.CONCURRENT_TRANSACTIONS, BILLS: NONE}]


def test_a_marker_of_before_the_question_does_not_matter() -> None:
    stage = Stage(NotCoordinator())
    stage.marker(ORDERS, 7)
    added = stage.add()
    stage.answer(response(orders=NONE, bills=NONE))
    stage.marker(BILLS, 7)
    assert added == [NONE]
