"""Topics of several partitions: what several brokers on one machine (`bench.run --brokers N`) can divide among them.

The rows are bound by the CPU time of the broker: one message per request, transactions of many producers, a queue.
Beside rates, which need cores that are free, each says how much CPU time a message costs the broker.
"""

from __future__ import annotations

import time

from bench.harness import Bench, Measurement, Row
from bench.peers import Peer, PeerError
from bench.rows.core import BATCHED, ONE_PER_REQUEST, READ_AHEAD
from bench.rows.share import read_from_start
from bench.rows.transactions import many_producers
from penstock.client.sync import ShareConsumer

PARTITIONS = 4
CLIENTS = 2
TIMEOUT_S = 120


def one_per_request(bench: Bench, peer: Peer) -> Measurement:
    with bench.topic(peer, partitions=PARTITIONS) as topic:
        properties = {**ONE_PER_REQUEST, "acks": 1}
        return bench.load("produce", peer, topic, bench.count(200_000), 100, properties, PARTITIONS, CLIENTS)


def consume(bench: Bench, peer: Peer) -> Measurement:
    count = bench.count(4_000_000)
    with bench.topic(peer, partitions=PARTITIONS) as topic:
        bench.load("produce", peer, topic, count, 100, BATCHED, PARTITIONS)
        return bench.load("consume", peer, topic, count, 100, READ_AHEAD, PARTITIONS, CLIENTS)


def drain(bench: Bench, peer: Peer) -> Measurement:
    """A queue, whose state may be kept by another broker than the records.

    The consumer is Penstock's own: the preview of librdkafka's waits for every broker before it requests more of any.
    """
    records = bench.count(200_000)
    with bench.topic(peer, partitions=PARTITIONS) as topic:
        read_from_start(bench, peer, topic)
        bench.load("produce", peer, topic, records, 100, {"linger.ms": 5, "batch.num.messages": 500}, PARTITIONS)
        with ShareConsumer(bootstrap_servers=peer.bootstrap, group_id=topic) as consumer:
            consumer.subscribe([topic])
            taken = len(consumer.poll(30_000))
            began, cpu_before = time.perf_counter(), peer.cpu_s()
            while taken < records and time.perf_counter() - began < TIMEOUT_S:
                taken += len(consumer.poll(1000))
            seconds, cpu_s = time.perf_counter() - began, peer.cpu_s() - cpu_before
    if taken < records:
        raise PeerError(f"only {taken} of {records} records were taken from {peer.name} in {TIMEOUT_S} s")
    return Measurement(records / seconds, {"cpu_s_per_million": cpu_s * 1e6 / records, "cores": cpu_s / seconds})


ROWS = (
    Row("spread-one", f"one message per request, {PARTITIONS} partitions, {CLIENTS} clients", "req/s", one_per_request),
    Row("spread-consume", f"consume 100 B, {PARTITIONS} partitions, {CLIENTS} clients", "msg/s", consume),
    Row("spread-transactions", "transactions of one record, 20 producers", "txn/s", many_producers),
    Row("spread-share", f"one share consumer, {PARTITIONS} partitions, implicit", "records/s", drain),
)
