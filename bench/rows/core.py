"""Produce, consume, latency, start and memory: the broker's own rows.

Kafka acknowledges `acks=all` from the page cache; Penstock after `fdatasync`. So the durable rows give Kafka's topic
`flush.messages=1` (the topic's name for `log.flush.interval.messages`), and one more row shows `acks=all` with each
broker as shipped.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping

from bench.harness import Bench, Measurement, Row, at_least, at_most, at_most_absolute, median
from bench.peers import HOST, KafkaPeer, Peer, PeerError, PenstockPeer, run_java_tool
from penstock.wire import messages as m
from penstock.wire.frames import request_frame

BATCHED: Mapping[str, object] = {
    "acks": 1,
    "linger.ms": 5,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 1_000_000,
}
ONE_PER_REQUEST: Mapping[str, object] = {"linger.ms": 0, "batch.num.messages": 1, "socket.nagle.disable": "true"}
ONE_IN_FLIGHT: Mapping[str, object] = {**ONE_PER_REQUEST, "max.in.flight": 1}
READ_AHEAD: Mapping[str, object] = {
    "queued.min.messages": 10_000_000,
    "queued.max.messages.kbytes": 1_000_000,
    "fetch.message.max.bytes": 8 << 20,
    "fetch.max.bytes": 55 << 20,
    "fetch.wait.max.ms": 50,
}

Measure = Callable[[Bench, Peer], Measurement]


def durable_config(peer: Peer) -> dict[str, str]:
    """Kafka needs to be told to sync before it acknowledges; Penstock does so for acks=all."""
    return {"flush.messages": "1"} if isinstance(peer, KafkaPeer) else {}


def in_mb(measured: Measurement) -> Measurement:
    return Measurement(measured.more["mb_per_s"], {**measured.more, "messages_per_s": measured.value})


def produce(
    size: int,
    messages: int,
    properties: Mapping[str, object],
    *,
    acks: object = 1,
    durable: bool = False,
    clients: int = 1,
) -> Measure:
    def measure(bench: Bench, peer: Peer) -> Measurement:
        with bench.topic(peer, config=durable_config(peer) if durable else {}) as topic:
            count, settings = bench.count(messages), {**properties, "acks": acks}
            return bench.load("produce", peer, topic, count, size, settings, clients=clients)

    return measure


def per_mb(measure: Measure) -> Measure:
    return lambda bench, peer: in_mb(measure(bench, peer))


def consume(size: int, messages: int, passes: int = 3, clients: int = 1) -> Measure:
    """The topic is read several times: one pass takes less than a second, and the median of some is steadier."""

    def measure(bench: Bench, peer: Peer) -> Measurement:
        with bench.topic(peer) as topic:
            count = bench.count(messages)
            bench.load("produce", peer, topic, count, size, BATCHED)
            reading = (peer, topic, count, size, READ_AHEAD)
            return median([bench.load("consume", *reading, clients=clients) for _ in range(passes)])

    return measure


def thousand_partitions(bench: Bench, peer: Peer) -> Measurement:
    started = time.monotonic()
    with bench.topic(peer, partitions=1000) as topic:
        create_s = time.monotonic() - started
        measured = bench.load("produce", peer, topic, bench.count(1_000_000), 100, BATCHED, partitions=1000)
    return Measurement(measured.value, {**measured.more, "create_s": create_s})


def idle_connections(bench: Bench, peer: Peer) -> Measurement:
    """Requests per second of one busy producer while 500 other connections stay open and silent."""
    hello = b"".join(request_frame(m.ApiVersionsRequest(), 0, 1, None))
    rss_before = peer.rss_mb()
    connections = [socket.create_connection((HOST, peer.port), timeout=10) for _ in range(500)]
    try:
        for connection in connections:
            connection.sendall(hello)
        for connection in connections:
            if not connection.recv(4096):
                raise PeerError(f"{peer.name} closed an idle connection")
        more = {"kb_per_connection": max(0.0, peer.rss_mb() - rss_before) * 1024 / len(connections)}
        measured = produce(100, 20_000, ONE_IN_FLIGHT)(bench, peer)
    finally:
        for connection in connections:
            connection.close()
    return Measurement(measured.value, {**measured.more, **more})


def end_to_end_latency(bench: Bench, peer: Peer) -> Measurement:
    """p99 of Kafka's own EndToEndLatency: one record of 100 bytes at a time through producer, broker and consumer."""
    with bench.topic(peer) as topic:
        # So many that the start of the tool's own JVM is less than the slowest hundredth of them.
        arguments = (peer.bootstrap, topic, str(bench.count(30_000)), "1", "100")
        done = run_java_tool("org.apache.kafka.tools.EndToEndLatency", *arguments, timeout_s=300)
    found = re.search(r"50th = (\S+), 99th = (\S+), 99.9th = (\S+)", done.stdout)
    average = re.search(r"Avg latency: (\S+) ms", done.stdout)
    if found is None or average is None:
        raise PeerError(f"EndToEndLatency on {peer.name} failed:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    p50, p99, p999 = (float(figure) for figure in found.groups())
    return Measurement(p99, {"p50_ms": p50, "p999_ms": p999, "average_ms": float(average[1])})


def fresh(peer: Peer) -> Peer:
    return KafkaPeer() if isinstance(peer, KafkaPeer) else PenstockPeer()


def start_time(bench: Bench, peer: Peer) -> Measurement:
    with fresh(peer) as other:
        return Measurement(other.start_ms)


def idle_memory(bench: Bench, peer: Peer) -> Measurement:
    with fresh(peer) as other:
        with bench.topic(other):
            pass
        bench.forget(other)
        time.sleep(2)
        return Measurement(other.rss_mb())


def loaded_memory(bench: Bench, peer: Peer) -> Measurement:
    """The peak while 1 KiB and 100 B messages are produced and consumed, batched and one by one."""
    peer.reset_peak()
    produce(1024, 500_000, BATCHED)(bench, peer)
    consume(1024, 300_000)(bench, peer)
    consume(100, 1_000_000)(bench, peer)
    produce(100, 20_000, ONE_PER_REQUEST)(bench, peer)
    return Measurement(peer.peak_rss_mb(), {"rss_mb": peer.rss_mb()})


CPU = "cpu_s_per_million"

ROWS = (
    Row("produce-1k", "produce 1 KiB, acks=1", "MB/s", per_mb(produce(1024, 900_000, BATCHED)), (at_least(1.5),)),
    Row(
        "produce-100",
        "produce 100 B, acks=1",
        "msg/s",
        produce(100, 5_000_000, BATCHED),
        (at_least(1.05), at_most(0.9, CPU)),
    ),
    # One client is the limit of the row above, whatever the broker; two show what the broker can take.
    Row(
        "produce-100-two",
        "produce 100 B, acks=1, two clients at once",
        "msg/s",
        produce(100, 3_000_000, BATCHED, clients=2),
    ),
    Row("consume-1k", "consume 1 KiB", "MB/s", per_mb(consume(1024, 900_000)), (at_least(1.1),)),
    Row("consume-100", "consume 100 B", "msg/s", consume(100, 5_000_000), (at_least(1.0),)),
    Row("consume-100-two", "consume 100 B, two clients at once", "msg/s", consume(100, 5_000_000, clients=2)),
    Row(
        "one-pipelined",
        "one message per request, pipelined",
        "req/s",
        produce(100, 60_000, ONE_PER_REQUEST),
        (at_least(3.0), at_most(0.5, CPU)),
    ),
    Row(
        "one-in-flight",
        "one message per request, one in flight",
        "req/s",
        produce(100, 20_000, ONE_IN_FLIGHT),
        (at_least(1.0),),
    ),
    Row(
        "durable-1k",
        "durable 1 KiB, acks=all (Kafka: flush.messages=1)",
        "MB/s",
        per_mb(produce(1024, 900_000, BATCHED, acks="all", durable=True)),
        (at_least(1.2),),
    ),
    Row(
        "durable-one",
        "durable, one message per request, pipelined",
        "req/s",
        produce(100, 10_000, ONE_PER_REQUEST, acks="all", durable=True),
        (at_least(3.0),),
    ),
    Row("acks-all-1k", "acks=all 1 KiB, each as shipped", "MB/s", per_mb(produce(1024, 900_000, BATCHED, acks="all"))),
    Row("acks-all-100", "acks=all 100 B, each as shipped", "msg/s", produce(100, 5_000_000, BATCHED, acks="all")),
    Row("latency", "end-to-end latency p99, EndToEndLatency", "ms", end_to_end_latency, (at_most(0.5),)),
    Row("partitions-1000", "100 B over 1,000 partitions", "msg/s", thousand_partitions),
    Row("connections-500", "one in flight beside 500 idle connections", "req/s", idle_connections),
    Row("start", "start until the first ApiVersions answer", "ms", start_time, (at_most_absolute(400),)),
    Row("memory-idle", "memory, idle", "MB", idle_memory, (at_most_absolute(60),), rounds=1, warm_up=False),
    Row(
        "memory-loaded", "memory, loaded (peak)", "MB", loaded_memory, (at_most_absolute(150),), rounds=1, warm_up=False
    ),
)
