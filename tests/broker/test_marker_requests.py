"""Markers that other brokers write: gathered in a turn, sent as one request, answered one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.broker import marker_requests
from penstock.broker.marker_requests import MarkerRequests
from penstock.broker.peer_connection import PeerFailed
from penstock.broker.peers import Lane
from penstock.transactions.metadata import TopicPartition, TransactionVersion
from penstock.transactions.shard import WriteMarkers
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

ORDERS, BILLS = ("orders", 0), ("bills", 1)


class Turn:
    """Requests go nowhere until the test ends the turn, and are answered by the test."""

    def __init__(self) -> None:
        self._later: list[Callable[[], object]] = []
        self.sent: list[tuple[int, m.WriteTxnMarkersRequest]] = []
        self._answers: list[Callable[[object], None]] = []
        self.results: list[tuple[int, TopicPartition, ErrorCode | None]] = []
        self.requests = MarkerRequests(lambda: self, self)  # type: ignore[arg-type, return-value]

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._later.append(callback)

    def send(
        self, node_id: int, lane: Lane, request: m.WriteTxnMarkersRequest, _: object, done: Callable[[object], None]
    ) -> None:
        assert lane is Lane.MARKERS
        self.sent.append((node_id, request))
        self._answers.append(done)

    def ask(self, node_id: int, producer_id: int, *partitions: TopicPartition) -> None:
        markers = WriteMarkers("shop", producer_id, 3, True, 5, TransactionVersion.TV_2, partitions)
        self.requests.send(node_id, markers, partitions, lambda tp, code: self.results.append((producer_id, tp, code)))

    def end(self) -> None:
        later, self._later = self._later, []
        for callback in later:
            callback()

    def answer(self, failure: PeerFailed | None = None, code: ErrorCode = ErrorCode.NONE) -> None:
        shapes = m.WriteTxnMarkersResponse
        for (_, request), done in zip(self.sent, self._answers, strict=True):
            markers = [
                shapes.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        shapes.WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                shapes.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
            done(failure or shapes(markers=markers))


def test_a_marker_says_what_the_coordinator_decided() -> None:
    turn = Turn()
    turn.ask(2, 7, ORDERS, BILLS)
    turn.end()
    ((node_id, request),) = turn.sent
    (marker,) = request.markers
    assert node_id == 2
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (5, 2)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("orders", [0]), ("bills", [1])]


def test_one_request_carries_all_that_a_turn_gathers_for_a_broker() -> None:
    turn = Turn()
    for producer_id in range(3):
        turn.ask(2, producer_id, ORDERS)
        turn.ask(3, producer_id, BILLS)
    assert not turn.sent
    turn.end()
    assert [(node_id, len(request.markers)) for node_id, request in turn.sent] == [(2, 3), (3, 3)]


def test_everybody_hears_of_their_own_partitions() -> None:
    turn = Turn()
    turn.ask(2, 7, ORDERS, BILLS)
    turn.ask(2, 8, ORDERS)
    turn.end()
    turn.answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert turn.results == [(7, ORDERS, code), (7, BILLS, code), (8, ORDERS, code)]


def test_without_an_answer_nothing_is_known() -> None:
    turn = Turn()
    turn.ask(2, 7, ORDERS)
    turn.end()
    turn.answer(PeerFailed("gone"))
    assert turn.results == [(7, ORDERS, None)]


def test_two_markers_of_one_producer_travel_apart_because_answers_name_producers_only() -> None:
    turn = Turn()
    turn.ask(2, 7, ORDERS)
    turn.ask(2, 7, BILLS)
    turn.end()
    assert [len(request.markers) for _, request in turn.sent] == [1, 1]


def test_a_request_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_requests, "MAX_MARKERS", 2)
    turn = Turn()
    for producer_id in range(5):
        turn.ask(2, producer_id, ORDERS)
    turn.end()
    assert [len(request.markers) for _, request in turn.sent] == [2, 2, 1]
