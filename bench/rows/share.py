"""Share groups: how close many workers come to the ideal rate, what one consumer drains, and how soon a record arrives.

Kafka hands out whole producer batches, so the parallel rows are taken with several sizes of batch. The consumers are
confluent-kafka's, in a process of their own (bench/workers.py); the perf tool is Kafka's own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import ResourceType

from bench.harness import Bench, Measurement, Row, at_least, at_least_absolute, at_most, at_most_absolute
from bench.peers import Peer, PeerError, run_java_tool

CONSUMERS, WORK_MS, SECONDS = 32, 5, 10
POLL_RECORDS = 500  # that a draining consumer asks for at a time
WORKERS = Path(__file__).parents[1] / "workers.py"
PERF_TOOL = "org.apache.kafka.tools.ShareConsumerPerformance"


def read_from_start(bench: Bench, peer: Peer, group: str) -> None:
    bench.set_config(peer, ResourceType.GROUP, group, "share.auto.offset.reset", "earliest")


def work(what: str, peer: Peer, topic: str, **options: object) -> Measurement:
    pairs = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, str(WORKERS), what, peer.bootstrap, topic, *pairs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise PeerError(f"{what} on {peer.name} failed: {done.stderr[-500:]}")
    figures = json.loads(done.stdout)
    return Measurement(figures.pop("value"), figures)


def parallel(batch: int, partitions: int = 1) -> Row:
    def measure(bench: Bench, peer: Peer) -> Measurement:
        seconds = SECONDS * min(1.0, max(0.3, bench.scale))
        records = int(CONSUMERS * 1000 / WORK_MS * (seconds + 15))
        with bench.topic(peer, partitions=partitions) as topic:
            read_from_start(bench, peer, topic)
            properties = {"linger.ms": 5, "batch.num.messages": batch, "queue.buffering.max.messages": 1_000_000}
            bench.load("produce", peer, topic, records, 100, properties, partitions=partitions)
            return work("parallel", peer, topic, consumers=CONSUMERS, work_ms=WORK_MS, seconds=seconds)

    scope = f"{partitions} partition{'s' if partitions > 1 else ''}"
    title = f"{CONSUMERS} workers, {WORK_MS} ms each, {scope}, batches of {batch:,}"
    targets = (at_least_absolute(90), at_least_absolute(1, "idlest"))
    return Row(f"workers-{partitions}x{batch}", title, "% of ideal", measure, targets, rounds=1, warm_up=False)


def drain(mode: str, batch: int) -> Row:
    """Kafka hands out whole batches, of 10,000 records where the consumer asks for 500; Penstock hands out 500.

    No row can be won against twenty times as many in one answer, so the large batches are shown without a target.
    """

    def measure(bench: Bench, peer: Peer) -> Measurement:
        records = bench.count(500_000)
        with bench.topic(peer) as topic:
            read_from_start(bench, peer, topic)
            bench.load("produce", peer, topic, records, 100, {"linger.ms": 5, "batch.num.messages": batch})
            return work("drain", peer, topic, records=records, mode=mode)

    title = f"one share consumer, 100 B, {mode}, batches of {batch:,}"
    targets = (at_least(1.0),) if batch <= POLL_RECORDS else ()
    return Row(f"drain-{mode}-{batch}", title, "records/s", measure, targets)


def perf_tool(threads: int) -> Row:
    def measure(bench: Bench, peer: Peer) -> Measurement:
        records = bench.count(300_000)
        with bench.topic(peer, partitions=threads) as topic:
            read_from_start(bench, peer, topic)
            bench.load("produce", peer, topic, records, 1024, {"linger.ms": 5, "batch.num.messages": 1000}, threads)
            options: tuple[str, ...] = (
                "--topic",
                topic,
                "--group",
                topic,
                "--num-records",
                str(records),
                "--threads",
                str(threads),
            )
            options += ("--timeout", "60000")  # the default of ten seconds includes the time to join
            done = run_java_tool(PERF_TOOL, "--bootstrap-server", peer.bootstrap, *options, timeout_s=300)
        # The last line: start, end, MB, MB/s, records/s, records, fetch time.
        rows = [line.split(",") for line in done.stdout.splitlines() if line.count(",") >= 5]
        if done.returncode or len(rows) < 2:
            raise PeerError(f"the perf tool on {peer.name} failed:\n{done.stdout[-500:]}{done.stderr[-500:]}")
        return Measurement(float(rows[-1][4]))

    title = f"kafka-share-consumer-perf-test, 1 KiB, {threads} thread{'s' if threads > 1 else ''}"
    return Row(f"share-perf-{threads}", title, "records/s", measure, (at_least(1.5),), rounds=1)


def prepared(what: str, already: int, **options: object) -> Callable[[Bench, Peer], Measurement]:
    def measure(bench: Bench, peer: Peer) -> Measurement:
        with bench.topic(peer) as topic:
            read_from_start(bench, peer, topic)
            if already:
                bench.load("produce", peer, topic, already, 100, {"linger.ms": 5})
            return work(what, peer, topic, **options)

    return measure


ROWS = (
    *(parallel(batch) for batch in (1, 20, 500, 10_000)),
    parallel(10_000, partitions=4),
    *(drain(mode, batch) for batch in (100, 500, 10_000) for mode in ("implicit", "explicit")),
    perf_tool(1),
    perf_tool(4),
    Row(
        "share-first",
        "from subscribe of a new share group to the first record",
        "s",
        prepared("first", 10),
        (at_most_absolute(0.5),),
    ),
    Row(
        "share-latency",
        "produce to delivery at a waiting share consumer, p99",
        "ms",
        prepared("waiting", 0, records=300),
        (at_most(0.5), at_most(0.5, "released_p99_ms")),
    ),
)
