"""`python -m bench.clients`: Python clients side by side on the same broker, messages per second.

Every figure is taken by a child process of its own, so that no client pays for another's memory. Rounds alternate
between the clients, the first of each row warms up, and the medians of the others are shown, with the ratio to
aiokafka. All producers ask for the same, `acks=1`. The table also goes to bench/results/clients-<date>.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from bench.peers import KafkaPeer, Peer, PenstockPeer
from bench.rows.security import over_tls

RESULTS = Path(__file__).parent / "results"
PEERS: dict[str, type[Peer]] = {"kafka": KafkaPeer, "penstock": PenstockPeer}
SETTINGS = {"log.segment.delete.delay.ms": "100", "auto.create.topics.enable": "true"}
SECURITY = "BENCH_SECURITY"
_POLL = 500
_ROWS_PER_BATCH = 1000


class Task:
    """What a child is to measure."""

    def __init__(
        self, bootstrap: str, topic: str, size: int, count: int, security: Mapping[str, str] | None = None
    ) -> None:
        self.security = dict(security or {})
        """TLS and SASL, by librdkafka's names."""
        self.settings = {"bootstrap.servers": bootstrap, **self.security}
        self.bootstrap = bootstrap
        self.topic = topic
        self.value = b"v" * size
        self.count = count

    @property
    def pythonic(self) -> dict[str, object]:
        """The same for aiokafka and kafka-python."""
        made: dict[str, object] = {"bootstrap_servers": self.bootstrap}
        given = self.security
        if given:
            made["security_protocol"] = given["security.protocol"].upper()
        if "ssl.ca.location" in given:
            context = ssl.create_default_context(cafile=given["ssl.ca.location"])
            if "ssl.certificate.location" in given:
                context.load_cert_chain(given["ssl.certificate.location"], given.get("ssl.key.location"))
            made["ssl_context"] = context
        if "sasl.mechanism" in given:
            made["sasl_mechanism"] = given["sasl.mechanism"]
            made["sasl_plain_username"] = given["sasl.username"]
            made["sasl_plain_password"] = given["sasl.password"]
        return made


def _timed(start: float, count: int) -> float:
    return count / (time.perf_counter() - start)


async def penstock_produce(task: Task) -> float:
    from penstock.client import Producer

    async with Producer(task.settings, linger_ms=0, acks=1) as producer:
        await producer.send_and_wait(task.topic, task.value)
        start = time.perf_counter()
        for _ in range(task.count):
            await producer.send(task.topic, task.value)
        await producer.flush()
        return _timed(start, task.count)


async def penstock_produce_batches(task: Task) -> float:
    from penstock.client import Producer

    values = [task.value] * _ROWS_PER_BATCH
    async with Producer(task.settings, acks=1) as producer:
        await producer.send_and_wait(task.topic, task.value)
        start = time.perf_counter()
        for _ in range(task.count // _ROWS_PER_BATCH):
            await producer.send_batch(task.topic, values)
        await producer.flush()
        return _timed(start, task.count)


async def penstock_consume(task: Task) -> float:
    from penstock.client import Consumer, TopicPartition

    settings = {**task.settings, "auto.offset.reset": "earliest", "max.poll.records": _POLL}
    async with Consumer(settings) as consumer:
        consumer.assign([(task.topic, 0)])
        await consumer.poll()
        consumer.seek(TopicPartition(task.topic, 0), 0)
        start, seen = time.perf_counter(), 0
        while seen < task.count:
            for record in await consumer.poll():
                seen += record.value is not None
        return _timed(start, seen)


async def penstock_consume_batches(task: Task) -> float:
    from penstock.client import Consumer, TopicPartition

    async with Consumer(task.settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([(task.topic, 0)])
        await consumer.poll_batches()
        consumer.seek(TopicPartition(task.topic, 0), 0)
        start, seen = time.perf_counter(), 0
        while seen < task.count:
            seen += sum(map(len, await consumer.poll_batches()))
        return _timed(start, seen)


async def penstock_consume_arrow(task: Task) -> float:
    from penstock.client import Consumer, TopicPartition

    async with Consumer(task.settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([(task.topic, 0)])
        for batch in await consumer.poll_batches():
            batch.to_arrow()  # compiles the decoder, once
        consumer.seek(TopicPartition(task.topic, 0), 0)
        start, seen = time.perf_counter(), 0
        while seen < task.count:
            for batch in await consumer.poll_batches():
                seen += batch.to_arrow().num_rows
        return _timed(start, seen)


async def new_share_group(task: Task) -> str:
    """A group of its own, from the beginning of the topic."""
    from penstock.client import Admin, ResourceType

    group = f"share-{uuid.uuid4()}"
    async with Admin(task.settings) as admin:
        await admin.alter_configs(ResourceType.GROUP, group, {"share.auto.offset.reset": "earliest"})
    return group


async def penstock_share(task: Task) -> float:
    from penstock.client import ShareConsumer

    async with ShareConsumer(task.settings, group_id=await new_share_group(task)) as consumer:
        consumer.subscribe([task.topic])
        await consumer.poll()
        start, seen = time.perf_counter(), 0
        while seen < task.count * 9 // 10:
            seen += len(await consumer.poll())
        return _timed(start, seen)


async def penstock_share_explicit(task: Task) -> float:
    from penstock.client import ShareConsumer

    async with ShareConsumer(
        task.settings,
        group_id=await new_share_group(task),
        share_acknowledgement_mode="explicit",
    ) as consumer:
        consumer.subscribe([task.topic])
        for record in await consumer.poll():
            consumer.acknowledge(record)
        start, seen = time.perf_counter(), 0
        while seen < task.count * 9 // 10:
            for record in await consumer.poll():
                consumer.acknowledge(record)
                seen += 1
        return _timed(start, seen)


async def aiokafka_produce(task: Task) -> float:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(**task.pythonic, acks=1)
    await producer.start()
    await producer.send_and_wait(task.topic, task.value)
    start = time.perf_counter()
    for _ in range(task.count):
        await producer.send(task.topic, task.value)
    await producer.flush()
    rate = _timed(start, task.count)
    await producer.stop()
    return rate


async def aiokafka_consume(task: Task) -> float:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(**task.pythonic, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    consumer.assign([TopicPartition(task.topic, 0)])
    await consumer.getone()
    consumer.seek(TopicPartition(task.topic, 0), 0)
    start, seen = time.perf_counter(), 0
    while seen < task.count:
        for records in (await consumer.getmany(timeout_ms=1000, max_records=_POLL)).values():
            for record in records:
                seen += record.value is not None
    rate = _timed(start, seen)
    await consumer.stop()
    return rate


async def kafka_python_produce(task: Task) -> float:
    from kafka import KafkaProducer

    producer = KafkaProducer(**task.pythonic, acks=1)
    producer.send(task.topic, task.value).get(30)
    start = time.perf_counter()
    for _ in range(task.count):
        producer.send(task.topic, task.value)
    producer.flush()
    return _timed(start, task.count)


async def kafka_python_consume(task: Task) -> float:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(**task.pythonic, enable_auto_commit=False)
    tp = TopicPartition(task.topic, 0)
    consumer.assign([tp])
    consumer.seek(tp, 0)
    consumer.poll(5000, max_records=1)
    start, seen = time.perf_counter(), 0
    while seen < task.count - 1:
        for records in consumer.poll(1000, max_records=_POLL).values():
            for record in records:
                seen += record.value is not None
    return _timed(start, seen)


async def confluent_produce(task: Task) -> float:
    from confluent_kafka import Producer

    producer = Producer({**task.settings, "acks": 1, "queue.buffering.max.messages": 1_000_000})
    producer.produce(task.topic, task.value)
    producer.flush()
    start = time.perf_counter()
    for _ in range(task.count):
        while True:
            try:
                producer.produce(task.topic, task.value)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return _timed(start, task.count)


async def confluent_consume(task: Task) -> float:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**task.settings, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(task.topic, 0, 0)])
    seen = len(consumer.consume(1, 10))
    start, seen = time.perf_counter(), 0
    while seen < task.count - 1:
        for message in consumer.consume(_POLL, 1.0):
            seen += message.value() is not None
    rate = _timed(start, seen)
    consumer.close()
    return rate


async def confluent_share(task: Task) -> float:
    from confluent_kafka import ShareConsumer

    consumer = ShareConsumer({**task.settings, "group.id": await new_share_group(task)})
    consumer.subscribe([task.topic])
    while not len(consumer.poll(1.0)):
        continue
    start, seen = time.perf_counter(), 0
    while seen < task.count * 9 // 10:
        seen += len(consumer.poll(1.0))
    rate = _timed(start, seen)
    consumer.close()
    return rate


async def confluent_share_explicit(task: Task) -> float:
    from confluent_kafka import ShareConsumer

    group = await new_share_group(task)
    consumer = ShareConsumer({**task.settings, "group.id": group, "share.acknowledgement.mode": "explicit"})
    consumer.subscribe([task.topic])
    while not (messages := consumer.poll(1.0)):
        continue
    for message in messages:
        consumer.acknowledge(message)
    start, seen = time.perf_counter(), 0
    while seen < task.count * 9 // 10:
        for message in consumer.poll(1.0):
            consumer.acknowledge(message)
            seen += 1
    rate = _timed(start, seen)
    consumer.close()
    return rate


Measure = Callable[[Task], Coroutine[object, object, float]]
ROWS: dict[str, dict[str, Measure]] = {
    "produce": {
        "aiokafka": aiokafka_produce,
        "kafka-python": kafka_python_produce,
        "confluent-kafka": confluent_produce,
        "penstock": penstock_produce,
        "penstock, batches": penstock_produce_batches,
    },
    "consume": {
        "aiokafka": aiokafka_consume,
        "kafka-python": kafka_python_consume,
        "confluent-kafka": confluent_consume,
        "penstock": penstock_consume,
        "penstock, batches": penstock_consume_batches,
        "penstock, Arrow": penstock_consume_arrow,
    },
    "share": {"confluent-kafka": confluent_share, "penstock": penstock_share},
    "share, explicit": {"confluent-kafka": confluent_share_explicit, "penstock": penstock_share_explicit},
}


def measure(row: str, client: str, peer: Peer, topic: str, size: int, count: int) -> float:
    """One figure, taken by a child. What it needs to be let in travels in its environment, which `ps` does not show."""
    child = subprocess.run(
        [sys.executable, "-m", "bench.clients", "child", row, client, peer.bootstrap, topic, str(size), str(count)],
        env={**os.environ, SECURITY: json.dumps(peer.admin_properties)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if child.returncode:
        raise click.ClickException(f"{row} with {client}: {child.stderr.strip().splitlines()[-1:]}")
    return float(child.stdout)


@click.group(invoke_without_command=True)
@click.option("--broker", type=click.Choice(list(PEERS)), default="penstock", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--count", type=click.IntRange(1000), default=200_000, show_default=True, help="Messages at 100 B.")
@click.option("-r", "--row", "rows", type=click.Choice(list(ROWS)), multiple=True, help="Only this row.")
@click.option("--tls", is_flag=True, help="Over mutual TLS.")
@click.pass_context
def main(ctx: click.Context, broker: str, rounds: int, count: int, rows: tuple[str, ...], tls: bool) -> None:
    """Compare Python clients on one broker."""
    if ctx.invoked_subcommand is not None:
        return
    console = Console()
    results: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        kind = PEERS[broker]
        peer = stack.enter_context(over_tls(kind) if tls else kind(SETTINGS))
        for size in 100, 1024:
            messages = count if size == 100 else count // 2
            topic = f"clients-{size}"
            measure("produce", "penstock, batches", peer, topic, size, messages)
            for row in rows or ROWS:
                clients = ROWS[row]
                taken: dict[str, list[float]] = {client: [] for client in clients}
                for number in range(rounds + 1):
                    for client in clients:
                        to = f"scratch-{size}-{uuid.uuid4()}" if row == "produce" else topic
                        rate = measure(row, client, peer, to, size, messages)
                        taken[client] += [rate] if number else []
                results[f"{row} {size} B"] = {client: statistics.median(rates) for client, rates in taken.items()}
    table = Table(
        title=f"Python clients on {broker}{' over TLS' if tls else ''}, messages per second (ratio to aiokafka)"
    )
    table.add_column("")
    columns = list(ROWS["consume"])
    for client in columns:
        table.add_column(client, justify="right")
    for row, figures in results.items():
        base = figures.get("aiokafka")
        cells = []
        for client in columns:
            found = figures.get(client)
            cells.append("" if found is None else f"{found:,.0f}" + (f" ({found / base:.1f}×)" if base else ""))
        table.add_row(row, *cells)
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"clients-{time.strftime('%Y%m%d-%H%M%S')}.json"
    file.write_text(json.dumps({"broker": broker, "tls": tls, "rows": results}, indent=2))


@main.command(hidden=True)
@click.argument("row")
@click.argument("client")
@click.argument("bootstrap")
@click.argument("topic")
@click.argument("size", type=int)
@click.argument("count", type=int)
def child(row: str, client: str, bootstrap: str, topic: str, size: int, count: int) -> None:
    security = json.loads(os.environ.get(SECURITY) or "{}")
    click.echo(asyncio.run(ROWS[row][client](Task(bootstrap, topic, size, count, security))))


if __name__ == "__main__":
    main()
