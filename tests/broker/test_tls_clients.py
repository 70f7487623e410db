"""Kafka's Python clients over TLS: they produce, consume in a group and administer; wrong set-ups fail quickly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from tests.broker.tls_broker import WAIT_SECONDS, TlsBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    configs = {"ssl.client.auth": "required"}
    with TlsBroker(tmp_path_factory.mktemp("tls"), configs, clients=["alice"]) as running:
        yield running


def test_confluent_kafka(broker: TlsBroker) -> None:
    identity = str(broker.paths.clients["alice"])
    common: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(broker.paths.ca),
        "ssl.certificate.location": identity,
        "ssl.key.location": identity,
    }
    admin = AdminClient(common)
    admin.create_topics([NewTopic("confluent", 2)])["confluent"].result(WAIT_SECONDS)
    producer = Producer(common)
    for number in range(100):
        producer.produce("confluent", str(number))
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = Consumer({**common, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    found: set[bytes | None] = set()
    while len(found) < 100:
        found.update(message.value() for message in consumer.consume(100, WAIT_SECONDS))
    consumer.close()
    assert found == {str(number).encode() for number in range(100)}


def test_confluent_kafka_without_a_certificate_learns_why(broker: TlsBroker) -> None:
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(broker.paths.ca),
            "error_cb": errors.append,
        }
    )
    while not any("certificate required" in error.str() for error in errors):
        producer.poll(WAIT_SECONDS)


def test_kafka_python(broker: TlsBroker) -> None:
    common: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SSL",
        "ssl_context": broker.context("alice"),
    }
    producer = KafkaProducer(**common)
    for number in range(100):
        producer.send("kafka-python", str(number).encode())
    producer.flush(WAIT_SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        "kafka-python", group_id="kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=30_000, **common
    )
    found = [next(consumer).value for _ in range(100)]
    consumer.close()
    assert found == [str(number).encode() for number in range(100)]


async def test_aiokafka(broker: TlsBroker) -> None:
    common: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SSL",
        "ssl_context": broker.context("alice"),
    }
    async with AIOKafkaProducer(**common) as producer:
        for number in range(100):
            await producer.send_and_wait("aiokafka", str(number).encode())
    async with AIOKafkaConsumer("aiokafka", group_id="aiokafka", auto_offset_reset="earliest", **common) as consumer:
        found = [(await asyncio.wait_for(consumer.getone(), WAIT_SECONDS)).value for _ in range(100)]
    assert found == [str(number).encode() for number in range(100)]
