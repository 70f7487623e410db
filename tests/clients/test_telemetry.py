"""Unmodified clients push their metrics (KIP-714), and the broker shows them."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from penstock.catalog.contract import replaced_by
from penstock.testing import Broker

WAIT_SECONDS = 60.0


def test_the_metrics_of_an_unmodified_producer_appear() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        parts = broker._running().parts
        broker._call(
            lambda: parts.configs.change_client_metrics("fast", replaced_by({"metrics": "*", "interval.ms": "500"}))
        )
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "orders-writer"})
        deadline = time.monotonic() + WAIT_SECONDS
        text = ""
        while time.monotonic() < deadline and "org.apache.kafka.producer." not in text:
            producer.produce("orders", b"x")
            producer.poll(0.2)
            text = broker._call(parts.metrics.text)
        lines = text.splitlines()
        info = next(line for line in lines if line.startswith("penstock_client_info{"))
        assert 'clientId="orders-writer"' in info
        assert 'host="127.0.0.1"' in info
        assert "rdkafka" in info
        assert any("org.apache.kafka.producer." in line and "latency" in line for line in lines)
        producer.flush(10)
