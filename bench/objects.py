"""`python -m bench.objects`: one broker over PostgreSQL and an S3 server, all on this machine.

A default librdkafka producer writes records of 1 KiB with acks=all; then one record at a time. Then everything is
stored in segments, the broker is killed, its disk is wiped, and a consumer catches up from the store, beside a bare
loop of ranged GETs of the same objects. The requests to PostgreSQL and to the store are those that the broker counted
itself.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import click
import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.rows.core import READ_AHEAD
from penstock.storage.objects.remote import CHUNK_BYTES
from penstock.storage.objects.store import ObjectStore
from tests.broker.process import BrokerProcess, free_port
from tests.postgres import PostgresServer
from tests.seaweedfs import SeaweedServer

_TOPIC = "bench"
_RECORD = bytes(os.urandom(1024))
_PUT_DOLLARS = 5e-6
_STORE = "s3://bucket/bench"
_TAIL = "SELECT count(*) FROM extent JOIN topic USING (topic_id) WHERE topic.name = %s"
SHORT_TAILS = {"penstock.store.tail.age.ms": "500"}
"""Has a broker store what is in no segment yet."""


def figures(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line.startswith("penstock_store_"))
    return {name.removeprefix("penstock_store_"): float(value) for name, value in pairs}


def produced(address: str, megabytes: int) -> float:
    """MB/s of a default producer."""
    producer = Producer({"bootstrap.servers": address, "acks": "all", "log_level": 0})
    failures: list[object] = []

    def heard(error: object, message: object) -> None:
        if error is not None:
            failures.append(error)

    count = megabytes * 1_000_000 // len(_RECORD)
    started = time.monotonic()
    for _ in range(count):
        while True:
            try:
                producer.produce(_TOPIC, _RECORD, on_delivery=heard)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(300)
    if left or failures:
        raise click.ClickException(f"{left} records were not taken, and {len(failures)} failed: {failures[:1]}")
    return count * len(_RECORD) / 1e6 / (time.monotonic() - started)


def single_latencies(address: str, seconds: float) -> list[float]:
    """Milliseconds of each record that is awaited before the next."""
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0, "log_level": 0})
    found = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        started = time.monotonic()
        producer.produce(_TOPIC, _RECORD)
        if producer.flush(60):
            raise click.ClickException("a record was not taken within a minute")
        found.append((time.monotonic() - started) * 1000)
    return found[10:]


def caught_up(address: str, partitions: int, count: int, topic: str = _TOPIC) -> float:
    """MB/s of a consumer that reads everything from the beginning.

    It reads ahead as much as it gets: with its own bounds librdkafka stands still for a second (fetch.queue.backoff.ms)
    whenever it has 64 MB, and that is what would be measured.
    """
    own: dict[str, Any] = {"group.id": "b", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": address, **own, **READ_AHEAD})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    size = seen = 0
    started = time.monotonic()
    while seen < count:
        # It waits until it has as many as were requested, so the last ones are requested by their number.
        messages = consumer.consume(min(10_000, count - seen), 30)
        if not messages:
            raise click.ClickException(f"the consumer has seen {seen} of {count} records and gets no more")
        for message in messages:
            if message.error() is None:
                seen += 1
                size += len(message.value() or b"")
    elapsed = time.monotonic() - started
    consumer.close()
    return size / 1e6 / elapsed


def until_stored(url: str, topic: str, schema: str = "bench") -> None:
    """Until all records of a topic are in stored segments, which brokers with SHORT_TAILS see to."""
    deadline = time.monotonic() + 300  # a broker looks once a minute
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}")
        while True:
            row = connection.execute(_TAIL, (topic,)).fetchone()
            if row is not None and not row[0]:
                return
            if time.monotonic() > deadline:
                raise click.ClickException(f"{row} extents of {topic} are in no segment after five minutes")
            time.sleep(0.2)


def bare_reads(store: ObjectStore, size: float) -> float:
    """MB/s of ranged GETs, one after the other, of about as many bytes."""
    done = 0
    started = time.monotonic()
    for listed in store.list(""):
        for position in range(0, listed.size, CHUNK_BYTES):
            done += len(store.get(listed.key, position, min(CHUNK_BYTES, listed.size - position)))
        if done >= size:
            break
    return done / 1e6 / (time.monotonic() - started)


@click.command(help=__doc__.partition("\n\n")[2])
@click.option("--megabytes", default=400, show_default=True)
@click.option("--partitions", default=3, show_default=True)
@click.option("--window-ms", default=250, show_default=True)
@click.option("--seconds", default=5.0, show_default=True, help="How long single records are sent.")
def main(megabytes: int, partitions: int, window_ms: int, seconds: float) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="bench-objects-") as folder,
        PostgresServer() as postgres,
        SeaweedServer() as s3,
    ):
        os.environ.update(s3.environment)
        monitoring = free_port()
        configs: dict[str, Any] = {
            "penstock_metrics_listen": f"127.0.0.1:{monitoring}",
            "penstock_store_window_ms": window_ms,
            "log_segment_bytes": 16 << 20,
        }
        data = Path(folder) / "data"
        with BrokerProcess(data, cluster=postgres.url("bench"), store=_STORE, **configs) as broker:
            admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
            admin.create_topics([NewTopic(_TOPIC, partitions, 1)])[_TOPIC].result(60)
            produced(broker.address, min(20, megabytes))
            before = figures(monitoring)
            rate = produced(broker.address, megabytes)
            after = figures(monitoring)
            puts, commits = (after[name] - before[name] for name in ("uploads_total", "commits_total"))
            segment_puts = after["segments_total"] - before["segments_total"]
            click.echo(f"produce, acks=all       {rate:8.1f} MB/s")
            click.echo(f"PUTs of records         {puts / megabytes:8.3f} per MB, ${puts * _PUT_DOLLARS:.6f} in all")
            click.echo(f"PUTs of segments        {segment_puts / megabytes:8.3f} per MB")
            click.echo(f"commits in PostgreSQL   {commits / megabytes:8.3f} per MB")
            uploading = (after["upload_seconds_total"] - before["upload_seconds_total"]) / max(puts, 1)
            committing = (after["commit_seconds_total"] - before["commit_seconds_total"]) / max(commits, 1)
            click.echo(f"an upload, a commit     {uploading * 1000:8.1f} ms, {committing * 1000:.1f} ms")
            found = sorted(single_latencies(broker.address, seconds))
            p99 = found[int(len(found) * 0.99)]
            click.echo(
                f"one record at a time    {statistics.median(found):8.1f} ms, p99 {p99:.1f} ms, {len(found)} records"
            )
            broker.stop()
            broker.configs |= SHORT_TAILS
            broker.start()
            until_stored(postgres.url(), _TOPIC)
            broker.kill()
            shutil.rmtree(data)
            for name in SHORT_TAILS:
                del broker.configs[name]
            broker.start()
            count = (min(20, megabytes) + megabytes) * 1_000_000 // len(_RECORD) - 1
            cold = caught_up(broker.address, partitions, count)
            bare = bare_reads(ObjectStore.open(_STORE), megabytes * 1e6)
            fetched = figures(monitoring)["fetched_bytes_total"] / 1e6
            click.echo(
                f"catching up, cold       {cold:8.1f} MB/s, bare ranged GETs {bare:.1f} MB/s, ratio {cold / bare:.2f}; "
                f"{fetched:.0f} MB were fetched"
            )
            click.echo(f"reading again, cached   {caught_up(broker.address, partitions, count):8.1f} MB/s")
            idle = figures(monitoring)
            time.sleep(5)
            click.echo(
                f"idle for 5 s            {figures(monitoring)['uploads_total'] - idle['uploads_total']:8.0f} PUTs"
            )


if __name__ == "__main__":
    main()
