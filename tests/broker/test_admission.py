"""Transactional writes that meet a transaction which is still ending, or a partition that is not part of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from penstock.broker.admission import write_error
from penstock.broker.transaction_durability import TransactionDurability
from penstock.log.partition import PartitionLog
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Producer, Wire, eventually

NONE = ErrorCode.NONE
TOPIC = "orders"


@dataclass
class Markers:
    """Markers that the test holds back: `held` are the calls that would write them."""

    is_open: bool = True
    held: list[Callable[[], None]] = field(default_factory=list)

    def release(self) -> None:
        self.is_open = True
        while self.held:
            self.held.pop(0)()


@pytest.fixture
def markers(monkeypatch: pytest.MonkeyPatch) -> Markers:
    gate = Markers()
    write = TransactionDurability._write_markers

    def held_back(self: TransactionDurability, *args: object) -> None:
        if gate.is_open:
            write(self, *args)  # type: ignore[arg-type]
        else:
            loop = asyncio.get_running_loop()
            gate.held.append(lambda: loop.call_soon_threadsafe(write, self, *args))  # type: ignore[arg-type]

    monkeypatch.setattr(TransactionDurability, "_write_markers", held_back)
    return gate


@pytest.fixture
def broker(markers: Markers) -> Iterator[Broker]:
    with Broker({"add.partitions.to.txn.retry.backoff.max.ms": 2_000}) as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    wire = Wire(broker.port)
    wire.create_topic(TOPIC, 2)
    yield wire
    wire.close()


def ended_without_markers(wire: Wire, markers: Markers, *, classic: bool = False) -> Producer:
    """A producer whose commit was answered although no marker is written yet."""
    producer = Producer(wire, "shop", classic=classic).start()
    if classic:
        assert producer.add((TOPIC, 0)) == NONE
    assert producer.write(TOPIC, b"first") == NONE
    markers.is_open = False
    assert producer.end(commit=True) == NONE
    return producer


def test_writes_wait_for_the_end_of_the_transaction_before_and_keep_their_order(wire: Wire, markers: Markers) -> None:
    producer = ended_without_markers(wire, markers)
    for sequence in range(3):
        wire.post(producer.produce_request(TOPIC, 0, b"%d" % sequence, sequence=sequence), 12)
    assert eventually(lambda: len(markers.held), lambda number: number == 1) == 1
    markers.release()
    for _ in range(3):
        answer = wire.take(m.ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == NONE
    assert producer.end(commit=True) == NONE
    assert wire.fetch(TOPIC) == [b"first", b"0", b"1", b"2"]


def test_a_write_that_waited_and_wants_no_answer_does_not_hold_up_the_answers_behind_it(
    broker: Broker, wire: Wire, markers: Markers
) -> None:
    producer = ended_without_markers(wire, markers)
    handled = broker._running().parts.dispatcher.requests
    silent = producer.produce_request(TOPIC, 0, b"silent", sequence=0)
    assert isinstance(silent, m.ProduceRequest)
    silent.acks = 0
    wire.post(silent, 12)
    wire.post(producer.produce_request(TOPIC, 0, b"second", sequence=1), 12)
    wire.post(m.ApiVersionsRequest(), 0)
    eventually(lambda: handled(ApiKey.API_VERSIONS), lambda number: number == 1)
    markers.release()
    answer = wire.take(m.ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == NONE
    assert wire.take(m.ApiVersionsResponse).error_code == NONE
    assert producer.end(commit=True) == NONE
    assert wire.fetch(TOPIC) == [b"first", b"silent", b"second"]


def test_a_write_that_waited_and_failed_does_not_cost_those_behind_it(
    broker: Broker, wire: Wire, markers: Markers, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = ended_without_markers(wire, markers)
    monkeypatch.setattr(PartitionLog, "append", failing_for(b"bad", PartitionLog.append))
    handled = broker._running().parts.dispatcher.requests
    another = Wire(broker.port)
    before = handled(ApiKey.PRODUCE)
    wire.post(producer.produce_request(TOPIC, 0, b"bad", sequence=0), 12)
    eventually(lambda: handled(ApiKey.PRODUCE), lambda number: number == before + 1)
    another.post(producer.produce_request(TOPIC, 1, b"good", sequence=0), 12)
    eventually(lambda: handled(ApiKey.PRODUCE), lambda number: number == before + 2)
    markers.release()
    answer = another.take(m.ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == NONE
    with pytest.raises(ConnectionError):
        wire.take(m.ProduceResponse)
    another.close()


def failing_for(value: bytes, append: Callable[..., object]) -> Callable[..., object]:
    def append_or_fail(self: PartitionLog, batch: memoryview, *args: object, **kwargs: object) -> object:
        if value in bytes(batch):
            raise ValueError("a fault of this write alone")
        return append(self, batch, *args, **kwargs)

    return append_or_fail


def test_the_wait_ends_with_an_error_that_the_client_retries(wire: Wire, markers: Markers) -> None:
    producer = ended_without_markers(wire, markers)
    assert producer.write(TOPIC, b"second") == ErrorCode.CONCURRENT_TRANSACTIONS
    markers.release()
    assert eventually(lambda: producer.write(TOPIC, b"second"), lambda code: code == NONE) == NONE


def test_an_old_write_that_waited_is_refused_after_the_wait(wire: Wire, markers: Markers) -> None:
    producer = ended_without_markers(wire, markers)
    producer.become(producer.producer_id, producer.epoch - 1)
    wire.post(producer.produce_request(TOPIC, 1, b"late", sequence=0), 12)
    assert eventually(lambda: len(markers.held), lambda number: number == 1) == 1
    markers.release()
    answer = wire.take(m.ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_classic_producer_waits_too_when_it_names_its_partitions(wire: Wire, markers: Markers) -> None:
    producer = ended_without_markers(wire, markers, classic=True)
    assert producer.write(TOPIC, b"too early", partition=1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert producer.add((TOPIC, 1)) == ErrorCode.CONCURRENT_TRANSACTIONS
    markers.release()
    assert producer.add((TOPIC, 1)) == NONE
    assert producer.write(TOPIC, b"second", partition=1) == NONE


def test_a_batch_does_not_overtake_one_that_was_refused(wire: Wire) -> None:
    producer = Producer(wire, "shop", classic=True).start()

    def write(sequence: int) -> int:
        request = producer.produce_request(TOPIC, 0, b"%d" % sequence, sequence=sequence)
        return wire.ask(request, m.ProduceResponse, 11).responses[0].partition_responses[0].error_code

    assert write(0) == ErrorCode.TRANSACTION_ABORTABLE  # the partition has not been added
    assert producer.add((TOPIC, 0)) == NONE
    assert write(1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [write(0), write(1)] == [NONE, NONE]
    assert producer.end(commit=True) == NONE
    assert wire.fetch(TOPIC) == [b"0", b"1"]


@pytest.mark.parametrize(
    ("code", "adds", "abortable", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, True, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, False, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, True, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, True, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_the_coordinators_errors_in_the_words_of_a_producer(
    code: ErrorCode, adds: bool, abortable: bool, expected: ErrorCode
) -> None:
    assert write_error(code, adds=adds, abortable=abortable).code == expected
