"""A stream: orders through confluent-kafka, a client that knows nothing of Penstock."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from examples.demo.stage import WAIT_SECONDS, Results, check

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 200_000
CUSTOMERS = 1000


def amount_of(number: int) -> int:
    return number * 37 % 500 + 1


def run(address: str, results: Results) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(WAIT_SECONDS)
    seconds, size = produce(address)
    results.add("produce, idempotent, acks=all", RECORDS, seconds, f"{size / 1e6:,.0f} MB, each on disk")
    seconds, records = consume(address)
    check_orders(records)
    results.add("consume", RECORDS, seconds, "each once, in order for each customer")


def produce(address: str) -> tuple[float, int]:
    """Seconds and bytes. Acknowledged only when the records are on disk."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": RECORDS,
        }
    )
    filling = "x" * 900
    size = 0
    started = time.perf_counter()
    for number in range(RECORDS):
        value = f'{{"order": {number}, "amount": {amount_of(number)}, "note": "{filling}"}}'.encode()
        size += len(value)
        producer.produce(TOPIC, value, key=b"customer-%d" % (number % CUSTOMERS))
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(WAIT_SECONDS)
    check(not left, f"{left} records were not acknowledged within {WAIT_SECONDS} s")
    return time.perf_counter() - started, size


def consume(address: str) -> tuple[float, list[Message]]:
    """Seconds and every record, read from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "demo",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 500_000,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    records: list[Message] = []
    started = time.perf_counter()
    while len(records) < RECORDS and time.perf_counter() - started < WAIT_SECONDS:
        records += consumer.consume(10_000, 0.5)
    took = time.perf_counter() - started
    consumer.close()
    return took, records


def check_orders(records: list[Message]) -> None:
    """Everything arrived once, and each customer's orders in the order they were made."""
    last: dict[bytes, int] = {}
    for record in records:
        key, value = record.key(), record.value()
        assert key is not None
        assert value is not None
        number = int(value[10 : value.index(b",")])
        check(number > last.get(key, -1), f"{key.decode()}: order {number} came after {last.get(key)}")
        last[key] = number
    check(len(records) == RECORDS, f"{RECORDS} records were produced, {len(records)} came back")
