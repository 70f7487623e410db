"""Transactions: how many one producer can make, how many twenty can make together, and what `read_committed` costs.

As shipped Kafka answers EndTxn when the coordinator's record is in the page cache; Penstock when it is on disk. One row
tells Kafka to wait for the disk as well.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import ResourceType

from bench.harness import Bench, Measurement, Row, at_least, at_least_absolute, at_most
from bench.peers import KafkaPeer, Peer
from bench.rows.core import READ_AHEAD, durable_config

TIMEOUT_S = 60
PRODUCERS = 20
RECORDS_PER_TRANSACTION = 10_000


def transactional(peer: Peer, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": peer.bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def one_record_each(producer: Producer, topic: str, count: int) -> list[float]:
    """The seconds that each of `count` transactions took, from its beginning to its commit."""
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        producer.begin_transaction()
        producer.produce(topic, b"x" * 100)
        producer.commit_transaction(TIMEOUT_S)
        seconds.append(time.perf_counter() - began)
    return seconds


def one_producer(bench: Bench, peer: Peer) -> Measurement:
    with bench.topic(peer) as topic:
        return _timed(bench, transactional(peer, topic), topic)


def one_producer_on_disk(bench: Bench, peer: Peer) -> Measurement:
    with bench.topic(peer, config=durable_config(peer)) as topic:
        producer = transactional(peer, topic)
        with _coordinator_waits_for_disk(bench, peer):
            return _timed(bench, producer, topic)


def _timed(bench: Bench, producer: Producer, topic: str) -> Measurement:
    one_record_each(producer, topic, 20)
    seconds = one_record_each(producer, topic, bench.count(1_500))
    cuts = statistics.quantiles(seconds, n=100)
    more = {"p50_ms": cuts[49] * 1000, "p99_ms": cuts[98] * 1000}
    return Measurement(len(seconds) / sum(seconds), more)


@contextmanager
def _coordinator_waits_for_disk(bench: Bench, peer: Peer) -> Iterator[None]:
    """Kafka needs to be told; the topic is there since the first transactional producer came."""
    if not isinstance(peer, KafkaPeer):
        yield
        return

    flushed = (peer, ResourceType.TOPIC, "__transaction_state", "flush.messages")
    bench.set_config(*flushed, "1")
    try:
        yield
    finally:
        bench.set_config(*flushed, None)


def many_producers(bench: Bench, peer: Peer) -> Measurement:
    count = bench.count(100)
    with bench.topic(peer, partitions=PRODUCERS) as topic:
        producers = [transactional(peer, f"{topic}-{number}") for number in range(PRODUCERS)]
        threads = [threading.Thread(target=one_record_each, args=(each, topic, count)) for each in producers]
        began, cpu_before = time.perf_counter(), peer.cpu_s()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds, cpu_s = time.perf_counter() - began, peer.cpu_s() - cpu_before
    done = PRODUCERS * count
    return Measurement(done / seconds, {"cpu_s_per_million": cpu_s * 1e6 / done, "cores": cpu_s / seconds})


def read_committed(bench: Bench, peer: Peer) -> Measurement:
    """Records per second of a `read_committed` consumer, and that as a part of what `read_uncommitted` reaches."""
    count = bench.count(2_000_000) // RECORDS_PER_TRANSACTION * RECORDS_PER_TRANSACTION or RECORDS_PER_TRANSACTION
    with bench.topic(peer) as topic:
        producer = Producer(
            {
                "bootstrap.servers": peer.bootstrap,
                "transactional.id": topic,
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        for _ in range(count // RECORDS_PER_TRANSACTION):
            producer.begin_transaction()
            for _ in range(RECORDS_PER_TRANSACTION):
                producer.produce(topic, b"x" * 100)
            producer.commit_transaction(TIMEOUT_S)

        def consumed(isolation: str) -> float:
            properties = {**READ_AHEAD, "isolation.level": isolation}
            return bench.load("consume", peer, topic, count, 100, properties).value

        consumed("read_uncommitted")
        uncommitted, committed = consumed("read_uncommitted"), consumed("read_committed")
    return Measurement(committed, {"of_uncommitted": committed / uncommitted})


ROWS = (
    Row(
        "transactions-one",
        "transactions of one record, one producer",
        "txn/s",
        one_producer,
        (at_least(1.5), at_most(0.5, "p99_ms")),
    ),
    Row(
        "transactions-one-disk",
        "the same, both waiting for the disk",
        "txn/s",
        one_producer_on_disk,
        (at_least(1.5), at_most(0.5, "p99_ms")),
    ),
    Row(
        "transactions-many",
        f"transactions of one record, {PRODUCERS} producers",
        "txn/s",
        many_producers,
        (at_least(1.0),),
    ),
    Row(
        "read-committed",
        "consume 100 B with read_committed",
        "msg/s",
        read_committed,
        (at_least(1.0), at_least_absolute(0.9, "of_uncommitted")),
    ),
)
