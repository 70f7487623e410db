"""Quotas hold within a tenth over ten seconds after the first windows, for every client, and slow down nobody else.

How fast a real client is takes real time to measure; the same with a clock that the test owns is in
`tests/broker/test_quotas.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from confluent_kafka import Consumer, Producer

from bench.peers import run_java_tool
from penstock.client import sync
from penstock.client.admin import DEFAULT, ClientQuotaEntity, QuotaName
from penstock.testing import Broker

pytestmark = pytest.mark.timeout(180)

TOPIC = "quotas"
LIMITED = "limited"
RATE = 500_000
VALUE = b"x" * 1000
FIRST_WINDOWS_SECONDS = 11
MEASURED_SECONDS = 10

Work = Callable[[Broker, threading.Event, list[int]], None]
"""Produces or consumes until the event is set, and counts the bytes in the first element of the list."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic(TOPIC)
        yield running


def limit(broker: Broker, quota: str, client_id: str | Literal[QuotaName.DEFAULT] = LIMITED) -> None:
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        outcome = admin.alter_client_quotas({ClientQuotaEntity(client_id=client_id): {quota: RATE}})
        assert set(outcome.values()) == {None}


def log_size(broker: Broker) -> int:
    return broker._running().parts.cluster.topic(TOPIC).hosted(0).log.size


def librdkafka_produces(broker: Broker, stop: threading.Event, count: list[int]) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": LIMITED, "acks": 1, "linger.ms": 5}
    producer = Producer({**settings, "queue.buffering.max.messages": 2000, "message.timeout.ms": 120_000})
    while not stop.is_set():
        try:
            producer.produce(TOPIC, VALUE)
        except BufferError:
            producer.poll(0.01)
    producer.purge()


def penstock_produces(broker: Broker, stop: threading.Event, count: list[int]) -> None:
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers, client_id=LIMITED, acks=1) as producer:
        while not stop.is_set():
            for delivery in [producer.send(TOPIC, VALUE) for _ in range(50)]:
                delivery.result(60)


def java_produces(broker: Broker, stop: threading.Event, count: list[int]) -> None:
    records = (10 + FIRST_WINDOWS_SECONDS + MEASURED_SECONDS + 5) * RATE // len(VALUE)
    done = run_java_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", TOPIC, "--num-records", str(records), "--record-size", str(len(VALUE)), "--throughput", "-1"),
        *("--bootstrap-server", broker.bootstrap_servers),
        *("--command-property", "acks=1"),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def librdkafka_consumes(broker: Broker, stop: threading.Event, count: list[int]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": LIMITED,
            "group.id": "librdkafka",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    while not stop.is_set():
        for message in consumer.consume(500, 0.1):
            count[0] += len(message.value() or b"")
    consumer.close()


def penstock_consumes(broker: Broker, stop: threading.Event, count: list[int]) -> None:
    with sync.Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        client_id=LIMITED,
        group_id="penstock",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe([TOPIC])
        while not stop.is_set():
            for record in consumer.poll(timeout_ms=100):
                count[0] += len(record.value or b"")


def measured(broker: Broker, work: Work, size: Callable[[list[int]], int]) -> float:
    """Bytes per second in the ten seconds after the first windows."""
    stop, count = threading.Event(), [0]
    thread = threading.Thread(target=work, args=(broker, stop, count), daemon=True)
    before = size(count)
    thread.start()
    try:
        while size(count) == before:
            assert thread.is_alive()
            time.sleep(0.01)
        time.sleep(FIRST_WINDOWS_SECONDS)
        began, first = time.monotonic(), size(count)
        time.sleep(MEASURED_SECONDS)
        return (size(count) - first) / (time.monotonic() - began)
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(librdkafka_produces, marks=pytest.mark.long),
        pytest.param(penstock_produces, marks=pytest.mark.long),
        pytest.param(java_produces, marks=pytest.mark.java),
    ],
)
def test_a_producer_keeps_to_its_quota(broker: Broker, work: Work) -> None:
    limit(broker, "producer_byte_rate", DEFAULT)  # Kafka's tool has a client id of its own
    rate = measured(broker, work, lambda _: log_size(broker))
    print(f"{work.__name__}: {rate / RATE:.3f} of the quota")
    assert rate == pytest.approx(RATE, rel=0.1)


@pytest.mark.long
@pytest.mark.parametrize("work", [librdkafka_consumes, penstock_consumes])
def test_a_consumer_keeps_to_its_quota(broker: Broker, work: Work) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for _ in range((10 + FIRST_WINDOWS_SECONDS + MEASURED_SECONDS + 10) * RATE // len(VALUE)):
        producer.produce(TOPIC, VALUE)
    assert producer.flush(60) == 0
    limit(broker, "consumer_byte_rate")
    rate = measured(broker, work, lambda count: count[0])
    print(f"{work.__name__}: {rate / RATE:.3f} of the quota")
    assert rate == pytest.approx(RATE, rel=0.1)


@pytest.mark.long
def test_a_throttled_client_does_not_slow_another(broker: Broker) -> None:
    """While one is held to its quota, another gets through a hundred times as much."""
    broker.create_topic("free")
    limit(broker, "producer_byte_rate")
    stop = threading.Event()
    thread = threading.Thread(target=librdkafka_produces, args=(broker, stop, [0]), daemon=True)
    thread.start()
    try:
        while log_size(broker) < 10 * RATE:
            time.sleep(0.01)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
        before = log_size(broker)
        for _ in range(50_000):
            producer.produce("free", VALUE)
        assert producer.flush(60) == 0
        assert log_size(broker) - before < 50_000 * len(VALUE) / 4
    finally:
        stop.set()
        thread.join(60)
