"""`make demo`: a broker, a topic, real records through a real client (confluent-kafka), and the rates."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

TOPIC = "orders"
PARTITIONS = 3
RECORDS = 300_000
CUSTOMERS = 1000
WAIT_SECONDS = 60

console = Console(highlight=False)


@contextmanager
def running_broker(folder: Path) -> Iterator[tuple[str, float]]:
    """`penstock serve` as a process of its own; gives its address and the seconds it took to be ready."""
    command = [
        str(Path(sys.executable).with_name("penstock")),
        "serve",
        "--data",
        str(folder),
        "--listen",
        "127.0.0.1:0",
    ]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = time.perf_counter() - started
        address = re.search(r"[\w.]+:\d+", line)
        if address is None:
            raise SystemExit(f"the broker did not start: {line or 'no output'}")
        yield address.group(), ready
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def create_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(WAIT_SECONDS)


def produce(address: str) -> tuple[float, int]:
    """Seconds and bytes. Idempotent, and acknowledged only when the records are on disk."""
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
        value = f'{{"order": {number}, "note": "{filling}"}}'.encode()
        size += len(value)
        producer.produce(TOPIC, value, key=b"customer-%d" % (number % CUSTOMERS))
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(WAIT_SECONDS)
    if left:
        raise SystemExit(f"{left} records were not acknowledged within {WAIT_SECONDS} s")
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


def check(records: list[Message]) -> None:
    """Everything arrived once, and each customer's orders in the order they were made."""
    last: dict[bytes, int] = {}
    for record in records:
        key, value = record.key(), record.value()
        assert key is not None
        assert value is not None
        number = int(value[10 : value.index(b",")])
        if number <= last.get(key, -1):
            raise SystemExit(f"{key.decode()}: order {number} came after {last[key]}")
        last[key] = number
    if len(records) != RECORDS:
        raise SystemExit(f"{RECORDS} records were produced, {len(records)} came back")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        with running_broker(Path(folder)) as (address, ready):
            console.print(f"A broker serves on [bold]{address}[/]. Any Kafka client can talk to it.")
            create_topic(address)
            console.print(f"Created the topic [bold]{TOPIC}[/] with {PARTITIONS} partitions.")
            produce_seconds, size = produce(address)
            console.print(f"Produced {RECORDS:,} records, each acknowledged when it was on disk.")
            consume_seconds, records = consume(address)
            check(records)
            console.print("Read them all back: each once, and in order for each customer.\n")
        on_disk = sum(path.stat().st_size for path in Path(folder).rglob("*.log"))

    table = Table("", "records/s", "MB/s", "seconds", title="confluent-kafka, one producer, one consumer, 1 KB records")
    for name, seconds in (("produce, idempotent, acks=all", produce_seconds), ("consume", consume_seconds)):
        table.add_row(name, f"{RECORDS / seconds:,.0f}", f"{size / seconds / 1e6:,.0f}", f"{seconds:.2f}")
    for column in table.columns[1:]:
        column.justify = "right"
    console.print(table)
    console.print(f"Ready after {ready * 1000:.0f} ms. {on_disk / 1e6:,.0f} MB of segment files in Kafka's own format.")
    console.print("Your turn: [bold].venv/bin/penstock[/] serves on 127.0.0.1:9092; the README goes on from there.")


if __name__ == "__main__":
    main()
