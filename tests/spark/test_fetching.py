"""Fetching one range from a real broker, over connections that are kept, lost and opened anew; no Spark is needed."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.blocking import BlockingConnection
from penstock.client.errors import BrokerUnreachable
from penstock.client.sync import Admin, Producer
from penstock.spark.fetching import FetchSettings, RangeFetcher
from penstock.spark.ranges import OffsetRange
from penstock.testing.broker import Broker
from penstock.wire.errors import ErrorCode


def produce(broker: Broker, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_batch(topic, [b"value %d" % number for number in range(count)], partition=0)
        producer.flush()


def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ports of all connections that are opened from now on."""
    ports: list[int] = []
    open_connection = BlockingConnection.open

    def counting(host: str, port: int, **settings: Any) -> BlockingConnection:
        ports.append(port)
        return open_connection(host, port, **settings)

    monkeypatch.setattr(BlockingConnection, "open", counting)
    return ports


def test_the_connection_of_a_range_serves_the_next_one(
    penstock_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    penstock_broker.create_topic("t")
    produce(penstock_broker, "t", 20)
    with Admin(bootstrap_servers=penstock_broker.bootstrap_servers) as admin:
        topic_id = admin.describe_topic("t").topic_id
    ports = opened(monkeypatch)
    settings = FetchSettings(bootstrap_servers=penstock_broker.bootstrap_servers)
    for start in (0, 10):
        answers = list(RangeFetcher(OffsetRange("t", 0, start, start + 10, topic_id), settings))
        assert answers[-1].next_offset >= start + 10
    assert len(ports) == 1


def test_a_bootstrap_server_that_is_gone_is_passed_over(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    produce(penstock_broker, "t", 10)
    settings = FetchSettings(bootstrap_servers=f"127.0.0.1:1,{penstock_broker.bootstrap_servers}")
    (answer,) = RangeFetcher(OffsetRange("t", 0, 0, 10), settings)
    assert answer.next_offset == 10


def test_reading_survives_a_broker_that_restarts_or_stumbles(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    for _ in range(10):
        produce(penstock_broker, "t", 500)
    settings = FetchSettings(bootstrap_servers=penstock_broker.bootstrap_servers, fetch_bytes=20_000)
    answers = iter(RangeFetcher(OffsetRange("t", 0, 0, 5000), settings))
    reached = next(answers).next_offset
    assert reached < 5000
    penstock_broker.restart()
    penstock_broker.drop("Fetch", times=2)
    penstock_broker.fail("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for answer in answers:
        assert answer.next_offset > reached
        reached = answer.next_offset
    assert reached == 5000


def test_a_broker_that_never_comes_back_is_reported_with_the_offset(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    produce(penstock_broker, "t", 10)
    address = penstock_broker.bootstrap_servers
    penstock_broker.stop()
    settings = FetchSettings(bootstrap_servers=address, poll_timeout_ms=300)
    with pytest.raises(BrokerUnreachable, match="partition t-0 offset 0: no broker answers"):
        list(RangeFetcher(OffsetRange("t", 0, 0, 10), settings))
    penstock_broker.start()
