"""Bytes and records in and out, by topic."""

from __future__ import annotations

from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.handlers.records import batch, produce
from tests.broker.test_metrics import figures
from tests.transactions.wire_client import Wire

NAME = "kafka_server_brokertopicmetrics_"


def test_what_is_produced_and_fetched_is_counted_by_topic_until_the_topic_is_deleted() -> None:
    records = batch(b"a", b"b", b"c")
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        broker.create_topic("orders")
        wire = Wire(broker.port)
        for _ in range(2):
            produce(wire, "orders", records)
        for _ in range(3):
            partition = m.FetchRequest.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
            topic = m.FetchRequest.FetchTopic("orders", partitions=[partition])
            wire.ask(m.FetchRequest(max_bytes=1 << 20, topics=[topic]), m.FetchResponse, 12)
        found = figures(broker)
        broker._call(lambda: broker._running().parts.topics.delete(broker._running().parts.cluster.topic("orders")))
        left = figures(broker)
        wire.close()
    assert found[NAME + 'bytesin_total{topic="orders"}'] == 2 * len(records)
    assert found[NAME + 'messagesin_total{topic="orders"}'] == 6
    assert found[NAME + 'bytesout_total{topic="orders"}'] == 3 * 2 * len(records)
    assert not [name for name in left if "orders" in name]
