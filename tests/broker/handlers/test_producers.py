"""DescribeProducers over the wire."""

from __future__ import annotations

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.handlers.records import batch, produce, sequenced
from tests.transactions.wire_client import Producer, Wire

NONE = ErrorCode.NONE
Described = m.DescribeProducersResponse.PartitionResponse


def describe(wire: Wire, topic: str, partition: int = 0) -> Described:
    request = m.DescribeProducersRequest(
        topics=[m.DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])]
    )
    return wire.ask(request, m.DescribeProducersResponse, 0).topics[0].partitions[0]


def test_an_idempotent_producer_is_remembered_with_its_last_sequence_number(wire: Wire, topic: str) -> None:
    produce(wire, topic, sequenced(b"a", b"b", producer_id=70, sequence=0, epoch=3))
    (state,) = describe(wire, topic).active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (70, 3, 1)
    assert state.last_timestamp > 0
    assert state.current_txn_start_offset == -1
    assert describe(wire, topic, 1).active_producers == []


def test_a_transaction_is_shown_from_its_first_offset_on_until_it_ends(wire: Wire, topic: str, name: str) -> None:
    produce(wire, topic, batch(b"before"))
    producer = Producer(wire, name).start()
    assert producer.write(topic, b"a") == NONE
    assert producer.write(topic, b"b") == NONE
    (state,) = describe(wire, topic).active_producers
    assert (state.current_txn_start_offset, state.coordinator_epoch) == (1, -1)
    assert producer.end(commit=True) == NONE
    (state,) = describe(wire, topic).active_producers
    assert (state.current_txn_start_offset, state.coordinator_epoch) == (-1, 0)


def test_producers_without_an_id_are_not_remembered(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"plain"))
    assert describe(wire, topic).active_producers == []


def test_what_does_not_exist(wire: Wire, topic: str) -> None:
    absent = describe(wire, "nowhere")
    assert absent.error_code == describe(wire, topic, 9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(wire, "no/topic").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
