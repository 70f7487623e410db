"""WriteTxnMarkers over the wire."""

from __future__ import annotations

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Producer, Wire

NONE = ErrorCode.NONE


def write_marker(
    wire: Wire, topic: str, producer: Producer, *, commit: bool = False, epoch: int | None = None, partition: int = 0
) -> ErrorCode:
    request = m.WriteTxnMarkersRequest(
        markers=[
            m.WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch if epoch is None else epoch,
                transaction_result=commit,
                coordinator_epoch=0,
                topics=[m.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            )
        ]
    )
    response = wire.ask(request, m.WriteTxnMarkersResponse, 1)
    return ErrorCode(response.markers[0].topics[0].partitions[0].error_code)


def test_an_administrator_ends_a_hanging_transaction_with_a_marker(wire: Wire, topic: str, name: str) -> None:
    producer = Producer(wire, name).start()
    assert producer.write(topic, b"x") == NONE
    request = m.DescribeProducersRequest(
        topics=[m.DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[0])]
    )
    (before,) = wire.ask(request, m.DescribeProducersResponse, 0).topics[0].partitions[0].active_producers
    assert (before.producer_id, before.current_txn_start_offset) == (producer.producer_id, 0)
    assert write_marker(wire, topic, producer) == NONE
    (after,) = wire.ask(request, m.DescribeProducersResponse, 0).topics[0].partitions[0].active_producers
    assert after.current_txn_start_offset == -1
    assert wire.fetch_partition(topic).last_stable_offset == 2
    assert wire.fetch(topic) == []


def test_markers_for_what_does_not_exist_or_is_older_are_refused(wire: Wire, topic: str, name: str) -> None:
    producer = Producer(wire, name).start()
    assert producer.write(topic, b"x") == NONE
    assert producer.end(commit=True) == NONE
    assert write_marker(wire, topic, producer, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write_marker(wire, "nowhere", producer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write_marker(wire, topic, producer, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
