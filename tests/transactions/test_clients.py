"""Transactions with the clients that people have: confluent-kafka (librdkafka), kafka-python and aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import kafka.structs
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.testing import Broker
from tests.transactions.wire_client import Wire, eventually

WAIT_S = 20
_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    wire = Wire(broker.port)
    yield wire
    wire.close()


@pytest.fixture
def topic(wire: Wire) -> str:
    name = f"topic-{next(_numbers)}"
    wire.create_topic(name, 1)
    return name


def committed_values(wire: Wire, topic: str) -> list[bytes]:
    """What is committed; the end of a transaction is answered before its markers have to be there."""
    return eventually(lambda: wire.fetch(topic), bool)


# -- confluent-kafka ---------------------------------------------------------------------------------------------------


def confluent_producer(broker: Broker, name: str, **configs: object) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "linger.ms": 0, **configs}
    )
    producer.init_transactions(WAIT_S)
    return producer


def confluent_values(broker: Broker, topic: str, number: int) -> list[bytes]:
    """What a read_committed consumer gets, up to the end that it sees."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"reader-{next(_numbers)}",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None
            error = message.error()
            if error:
                assert error.code() == KafkaError._PARTITION_EOF
                if len(values) >= number:
                    return values
            else:
                values.append(message.value() or b"")
    finally:
        consumer.close()


def test_confluent_commits_and_aborts(broker: Broker, topic: str) -> None:
    producer = confluent_producer(broker, f"confluent-{topic}")
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, f"{number}".encode())
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    assert confluent_values(broker, topic, 3) == [b"0", b"2", b"4"]


def test_confluent_aborts_records_that_have_arrived(broker: Broker, topic: str, wire: Wire) -> None:
    producer = confluent_producer(broker, f"confluent-{topic}")
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    assert producer.flush(WAIT_S) == 0
    assert wire.fetch(topic, committed=False) == [b"aborted"]
    producer.abort_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    producer.commit_transaction(WAIT_S)
    assert confluent_values(broker, topic, 1) == [b"committed"]


def test_confluent_is_fenced_by_a_second_producer_with_the_same_id(broker: Broker, topic: str) -> None:
    first = confluent_producer(broker, f"confluent-{topic}")
    first.begin_transaction()
    first.produce(topic, b"of the zombie")
    assert first.flush(WAIT_S) == 0
    second = confluent_producer(broker, f"confluent-{topic}")
    second.begin_transaction()
    second.produce(topic, b"of the heir")
    second.commit_transaction(WAIT_S)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(WAIT_S)
    error = caught.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    assert confluent_values(broker, topic, 1) == [b"of the heir"]


def test_confluent_hears_that_its_transaction_took_too_long(broker: Broker, topic: str, wire: Wire) -> None:
    producer = confluent_producer(broker, f"confluent-{topic}", **{"transaction.timeout.ms": 1000})
    producer.begin_transaction()
    producer.produce(topic, b"slow")
    assert producer.flush(WAIT_S) == 0
    end = eventually(lambda: wire.fetch_partition(topic).last_stable_offset, lambda offset: offset == 2)
    assert end == 2
    with pytest.raises(KafkaException):
        producer.commit_transaction(WAIT_S)
    assert wire.fetch(topic) == []


def test_confluent_commits_what_it_read_with_what_it_wrote(broker: Broker, topic: str, wire: Wire) -> None:
    wire.create_topic(f"{topic}-out")
    source = confluent_producer(broker, f"source-{topic}")
    source.begin_transaction()
    for number in range(10):
        source.produce(topic, f"{number}".encode())
    source.commit_transaction(WAIT_S)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"group-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    producer = confluent_producer(broker, f"copy-{topic}")
    copied = 0
    while copied < 10:
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None
        producer.begin_transaction()
        producer.produce(f"{topic}-out", message.value())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S
        )
        if copied == 5:
            # One attempt fails; the consumer goes back to what is committed.
            producer.abort_transaction(WAIT_S)
            (committed,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
            assert committed.offset == 5
            producer.begin_transaction()
            producer.produce(f"{topic}-out", message.value())
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT_S
            )
        producer.commit_transaction(WAIT_S)
        copied += 1
    (committed,) = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
    assert committed.offset == 10
    consumer.close()
    assert confluent_values(broker, f"{topic}-out", 10) == [f"{number}".encode() for number in range(10)]


# -- kafka-python ------------------------------------------------------------------------------------------------------


def kafka_python_producer(broker: Broker, name: str) -> kafka.KafkaProducer:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name)
    producer.init_transactions()
    return producer


def test_kafka_python_commits_aborts_and_carries_offsets(broker: Broker, topic: str, wire: Wire) -> None:
    producer = kafka_python_producer(broker, f"kafka-python-{topic}")
    producer.begin_transaction()
    producer.send(topic, b"committed").get(WAIT_S)
    producer.send_offsets_to_transaction(
        {kafka.TopicPartition(topic, 0): kafka.structs.OffsetAndMetadata(3, "", -1)}, f"group-{topic}"
    )
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"aborted").get(WAIT_S)
    producer.abort_transaction()
    producer.close()
    assert committed_values(wire, topic) == [b"committed"]
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=f"group-{topic}")
    assert consumer.committed(kafka.TopicPartition(topic, 0)) == 3
    consumer.close()


def test_kafka_python_is_fenced(broker: Broker, topic: str, wire: Wire) -> None:
    first = kafka_python_producer(broker, f"kafka-python-{topic}")
    first.begin_transaction()
    first.send(topic, b"of the zombie").get(WAIT_S)
    second = kafka_python_producer(broker, f"kafka-python-{topic}")
    with pytest.raises(kafka.errors.KafkaError):
        first.commit_transaction()
    second.begin_transaction()
    second.send(topic, b"of the heir").get(WAIT_S)
    second.commit_transaction()
    second.close()
    assert committed_values(wire, topic) == [b"of the heir"]


# -- aiokafka ----------------------------------------------------------------------------------------------------------


async def aiokafka_producer(broker: Broker, name: str) -> aiokafka.AIOKafkaProducer:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name)
    await asyncio.wait_for(producer.start(), WAIT_S)
    return producer


async def test_aiokafka_commits_aborts_and_carries_offsets(broker: Broker, topic: str, wire: Wire) -> None:
    producer = await aiokafka_producer(broker, f"aiokafka-{topic}")
    try:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"committed")
            offsets = {aiokafka.TopicPartition(topic, 0): 3}
            await producer.send_offsets_to_transaction(offsets, f"group-{topic}")
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted")
        await producer.abort_transaction()
    finally:
        await asyncio.wait_for(producer.stop(), WAIT_S)
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"group-{topic}",
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await asyncio.wait_for(consumer.start(), WAIT_S)
    try:
        assert await consumer.committed(aiokafka.TopicPartition(topic, 0)) == 3
        consumer.seek(aiokafka.TopicPartition(topic, 0), 0)
        assert (await asyncio.wait_for(consumer.getone(), WAIT_S)).value == b"committed"
    finally:
        await asyncio.wait_for(consumer.stop(), WAIT_S)


async def test_aiokafka_is_fenced(broker: Broker, topic: str, wire: Wire) -> None:
    first = await aiokafka_producer(broker, f"aiokafka-{topic}")
    await first.begin_transaction()
    await first.send_and_wait(topic, b"of the zombie")
    second = await aiokafka_producer(broker, f"aiokafka-{topic}")
    with pytest.raises(aiokafka.errors.KafkaError):
        await asyncio.wait_for(first.commit_transaction(), WAIT_S)
    async with second.transaction():
        await second.send_and_wait(topic, b"of the heir")
    await asyncio.wait_for(second.stop(), WAIT_S)
    await asyncio.wait_for(first.stop(), WAIT_S)
    assert committed_values(wire, topic) == [b"of the heir"]
