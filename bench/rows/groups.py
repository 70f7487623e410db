"""Consumer groups: how soon a group settles, offset commits, compaction, and starting with many committed offsets.

Compaction must not be felt by others: one row measures single requests to another topic while the cleaner works.

A group has settled when every member has an assignment, together they hold every partition, and nobody holds one twice.
The members are confluent-kafka consumers (its librdkafka knows the consumer protocol of KIP-848), each polled by a
thread of its own, all in a process of their own so that their work does not slow the harness down.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import ResourceType

from bench.harness import Bench, Measurement, Row, at_least, at_most, at_most_absolute
from bench.peers import HOST, KafkaPeer, Peer, PeerError, PenstockPeer
from bench.rows.core import BATCHED

MEMBERS, PARTITIONS = 20, 100
KEYS = 20_000
BACKLOG, BACKLOG_MIN, BACKLOG_PARTITIONS = 6_000_000, 2_000_000, 8
PROBES = 6_000


def settle(protocol: str) -> tuple[str, ...]:
    return (sys.executable, str(Path(__file__).parents[1] / "members.py"), protocol, str(MEMBERS), str(PARTITIONS))


def settling(protocol: str, figure: str) -> Row:
    def measure(bench: Bench, peer: Peer) -> Measurement:
        with bench.topic(peer, partitions=PARTITIONS) as topic:
            done = subprocess.run(
                [*settle(protocol), peer.bootstrap, topic], capture_output=True, text=True, timeout=180
            )
        if done.returncode:
            raise PeerError(f"the group on {peer.name} never settled: {done.stderr[-500:]}")
        figures = json.loads(done.stdout)
        return Measurement(figures[figure], figures)

    title = "to settle" if figure == "settled_s" else "to settle after one leaves"
    name = f"{protocol}-{'settle' if figure == 'settled_s' else 'leave'}"
    target = at_most(1.0) if protocol == "classic" else at_most_absolute(1.0)
    return Row(name, f"{MEMBERS} members, {PARTITIONS} partitions, {protocol}: {title}", "s", measure, (target,))


def offset_commits(bench: Bench, peer: Peer) -> Measurement:
    """Synchronous commits of one offset, one after the other."""
    count = bench.count(3000)
    with bench.topic(peer) as topic:
        consumer = Consumer({"bootstrap.servers": peer.bootstrap, "group.id": topic, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        commit_one(consumer, topic, 0)  # finds the coordinator, which may create the offsets topic
        cpu_before, began = peer.cpu_s(), time.monotonic()
        for number in range(count):
            commit_one(consumer, topic, number)
        seconds = time.monotonic() - began
        cpu_s = peer.cpu_s() - cpu_before
        consumer.close()
    return Measurement(count / seconds, {"cpu_s_per_million": cpu_s * 1e6 / count})


def commit_one(consumer: Consumer, topic: str, offset: int) -> None:
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def fresh(peer: Peer, **settings: str) -> Peer:
    renamed = {name.replace("_", "."): value for name, value in settings.items()}
    return KafkaPeer(renamed) if isinstance(peer, KafkaPeer) else PenstockPeer(renamed)


def compaction(bench: Bench, peer: Peer) -> Measurement:
    """MB of dirty log cleaned per second: keyed records, most of them overwritten, until the log has shrunk."""
    records = bench.count(1_000_000)
    config = {"cleanup.policy": "compact", "segment.bytes": str(2 << 20), "min.cleanable.dirty.ratio": "0.01"}
    with fresh(peer, log_cleaner_backoff_ms="100") as other, bench.topic(other, config=config) as topic:
        produce_keyed(other, topic, records)
        full_mb = size_mb(other, topic)
        began, smallest = time.monotonic(), full_mb
        quiet_since = began
        while time.monotonic() - began < 120 and (smallest > full_mb * 0.5 or time.monotonic() - quiet_since < 1):
            time.sleep(0.05)
            now_mb = size_mb(other, topic)
            if now_mb < smallest * 0.99:
                smallest, quiet_since = now_mb, time.monotonic()
        bench.forget(other)
        if smallest > full_mb * 0.5:
            raise PeerError(f"{peer.name} did not compact {full_mb:.0f} MB within two minutes")
        return Measurement(full_mb / (quiet_since - began), {"before_mb": full_mb, "after_mb": smallest})


def produce_keyed(peer: Peer, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": peer.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 500_000})
    value = b"v" * 100
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, f"key-{number % KEYS}".encode())
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush(120)


def latency_while_cleaning(bench: Bench, peer: Peer) -> Measurement:
    """How many times the idle p99 of single Produce and Fetch requests becomes while another topic is being cleaned.

    The cleaner's whole backlog is there before it may begin, so nothing but the probe and the cleaner works meanwhile.
    """
    config = {"cleanup.policy": "compact", "segment.bytes": str(2 << 20), "min.cleanable.dirty.ratio": "1"}
    with (
        fresh(peer, log_cleaner_backoff_ms="100") as other,
        bench.topic(other) as probed,
        bench.topic(other, partitions=BACKLOG_PARTITIONS, config=config) as dirty,
    ):
        # Also in a quick run there must be enough of it to outlast the measurement.
        backlog = max(bench.count(BACKLOG), BACKLOG_MIN)
        bench.load("produce", other, dirty, backlog, 100, {**BATCHED, "keys": KEYS}, partitions=BACKLOG_PARTITIONS)
        idle = request_latencies(bench, other, probed)
        bench.set_config(other, ResourceType.TOPIC, dirty, "min.cleanable.dirty.ratio", "0.01")
        await_first_cleaned_segment(other, dirty)
        cpu_before, began = other.cpu_s(), time.monotonic()
        busy = request_latencies(bench, other, probed)
        cores = (other.cpu_s() - cpu_before) / (time.monotonic() - began)
        done = cleaned_partitions(other, dirty)
        bench.forget(other)
        if done == BACKLOG_PARTITIONS:
            raise PeerError(f"{peer.name} had cleaned everything before the measurement was over")
    more = {f"{name}_idle": value for name, value in idle.items()}
    more |= {f"{name}_cleaning": value for name, value in busy.items()}
    ratios = {name: busy[f"{name}_p99_ms"] / idle[f"{name}_p99_ms"] for name in ("produce", "fetch")}
    more |= {f"{name}_ratio": value for name, value in ratios.items()}
    return Measurement(max(ratios.values()), {**more, "cores_cleaning": cores, "partitions_cleaned": done})


def request_latencies(bench: Bench, peer: Peer, topic: str) -> dict[str, float]:
    program = str(Path(__file__).parents[1] / "latency.py")
    arguments = [HOST, str(peer.port), topic, str(bench.count(PROBES))]
    done = subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise PeerError(f"the probe of {peer.name} failed: {done.stderr[-500:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def await_first_cleaned_segment(peer: Peer, topic: str) -> None:
    deadline = time.monotonic() + 60
    while not any(peer.folder.glob(f"data/**/{topic}-*/*.cleaned")):
        if time.monotonic() > deadline:
            raise PeerError(f"{peer.name} did not begin to clean within a minute")
        time.sleep(0.002)


def cleaned_partitions(peer: Peer, topic: str) -> int:
    """How many partitions the cleaner has been through, as both brokers note it."""
    noted = "".join(path.read_text() for path in peer.folder.glob("data/**/cleaner-offset-checkpoint"))
    return sum(line.startswith(f"{topic} ") for line in noted.splitlines())


def size_mb(peer: Peer, topic: str) -> float:
    total = 0
    for path in peer.folder.glob(f"data/**/{topic}-0/*.log"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total / 1e6


def committed(consumer: Consumer, partition: TopicPartition) -> list[TopicPartition]:
    """Asks until the coordinator has loaded: in the meantime librdkafka gives up on some of its errors."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return list(consumer.committed([partition], timeout=60))
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def start_with_offsets(bench: Bench, peer: Peer) -> Measurement:
    """Milliseconds from a start to the first committed offset read back, with 100,000 of them in the offsets topic."""
    groups = bench.count(1000)
    with fresh(peer) as other, bench.topic(other, partitions=100) as topic:
        for number in range(groups):
            consumer = Consumer({"bootstrap.servers": other.bootstrap, "group.id": f"{topic}-{number}", "log_level": 0})
            offsets = [TopicPartition(topic, partition, number) for partition in range(100)]
            consumer.commit(offsets=offsets, asynchronous=False)
            consumer.close()
        bench.forget(other)
        started_ms = other.restart()
        began = time.monotonic()
        consumer = Consumer({"bootstrap.servers": other.bootstrap, "group.id": f"{topic}-{groups - 1}", "log_level": 0})
        found = committed(consumer, TopicPartition(topic, 99))
        loaded_ms = started_ms + (time.monotonic() - began) * 1000
        consumer.close()
        if found[0].offset != groups - 1:
            raise PeerError(f"{peer.name} lost committed offsets over a restart: {found}")
        return Measurement(loaded_ms, {"first_answer_ms": started_ms})


ROWS = (
    settling("classic", "settled_s"),
    settling("classic", "left_s"),
    settling("consumer", "settled_s"),
    settling("consumer", "left_s"),
    Row("offset-commits", "offset commits, one at a time", "commits/s", offset_commits, (at_least(1.0),)),
    Row("compaction", "compaction of a dirty log", "MB/s", compaction, rounds=1, warm_up=False),
    Row(
        "cleaning-latency",
        "produce and fetch p99 while the cleaner works, against idle",
        "×",
        latency_while_cleaning,
        (at_most_absolute(2.0),),
        warm_up=False,
    ),
    Row("start-offsets", "start with 100,000 committed offsets", "ms", start_with_offsets, rounds=1, warm_up=False),
)
