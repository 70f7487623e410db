"""Spark: Penstock's source and load beside Spark's own Kafka connector, on the same topic of the same broker.

Here the two columns of the table are not two brokers but two ways into Spark: "kafka" is `format("kafka")`, "penstock"
is `format("penstock")` and `penstock.spark.load`. Both read one topic of 200-byte records in four partitions, kept by
one Penstock broker, with `local[2]` and the settings of `penstock.spark.session`. Every measurement is a fresh process,
so that its first run is a first run; the value is the median of the runs after it. Before the first one a session has
run on the machine, so that the JVMs of both ways find the archive of Spark's classes.

The connector's jars are looked for in $PENSTOCK_SPARK_CONNECTOR or ~/.cache/penstock/spark-connector-4.2.0.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import Bench, Measurement, Row, Target, at_least, at_most
from bench.peers import KafkaPeer, Peer, PeerError, PenstockPeer
from bench.rows.core import BATCHED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

RECORDS = 4_000_000
RECORD_BYTES = 200
PARTITIONS = 4
RUNS = 4
SMALL_BATCH = 20
FIRST = "first_rows_per_s"


@cache
def stage(count: int) -> tuple[str, str]:
    """One broker with one filled topic for all rows: (bootstrap, topic). It stops when the benchmark does."""
    stack = ExitStack()
    peer = stack.enter_context(PenstockPeer())
    bench = Bench()
    topic = stack.enter_context(bench.topic(peer, partitions=PARTITIONS))
    bench.load("produce", peer, topic, count, RECORD_BYTES, BATCHED, partitions=PARTITIONS)
    atexit.register(stack.close)
    record_classes(peer.bootstrap, topic)
    return peer.bootstrap, topic


def connector_jars() -> str:
    default = Path.home() / ".cache" / "penstock" / "spark-connector-4.2.0"
    folder = Path(os.environ.get("PENSTOCK_SPARK_CONNECTOR", default))
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        raise PeerError(f"Spark's own Kafka connector is not in {folder}: set PENSTOCK_SPARK_CONNECTOR to its jars")
    return ",".join(map(str, jars))


def run(way: str, sink: str, bootstrap: str, topic: str) -> list[float]:
    """One measurement in a process of its own: the seconds of its runs."""
    command = [sys.executable, "-m", "bench.rows.spark", way, sink, bootstrap, topic, connector_jars()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise PeerError(f"Spark failed: {done.stderr.strip()[-800:]}")
    seconds: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds


def record_classes(bootstrap: str, topic: str) -> None:
    """Have the archive of classes that all sessions but the first on a machine use, whichever way they read."""
    from penstock.spark.class_archive import RECORDS, archive_options
    from penstock.spark.interpreter import installed_spark
    from penstock.spark.java import cache_folder, find_java_home

    spark = installed_spark()
    if spark is None or RECORDS not in archive_options(find_java_home(), spark, cache_folder(os.environ)):
        return
    run("penstock", "noop", bootstrap, topic)
    deadline = time.monotonic() + 60  # the JVM records when its program has ended
    while time.monotonic() < deadline:
        if RECORDS not in archive_options(find_java_home(), spark, cache_folder(os.environ)):
            return
        time.sleep(0.5)


def job(sink: str) -> Callable[[Bench, Peer], Measurement]:
    def measure(bench: Bench, peer: Peer) -> Measurement:
        count = bench.count(RECORDS)
        bootstrap, topic = stage(count)
        way = "kafka" if isinstance(peer, KafkaPeer) else "penstock"
        seconds = run(way, sink, bootstrap, topic)
        if sink == "latency":
            return Measurement(statistics.median(seconds) * 1000)
        warm = statistics.median(seconds[1:])
        return Measurement(count / warm, {FIRST: count / seconds[0]})

    return measure


def row(sink: str, title: str, unit: str, *goals: Target) -> Row:
    return Row(f"spark-{sink}", f"Spark: {title}", unit, job(sink), goals, rounds=2, warm_up=False)


ROWS = (
    row("noop", "topic → noop, warm", "rows/s", at_least(2.5), at_least(2.0, FIRST)),
    row("table", "topic → Parquet / Delta, warm", "rows/s", at_least(3.0), at_least(2.0, FIRST)),
    row("latency", "a small micro-batch, median", "ms", at_most(1.0)),
)


# What runs in the process of a measurement


def read(spark: SparkSession, way: str, bootstrap: str, topic: str) -> DataFrame:
    reader = spark.read.format(way).option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def run_noop(spark: SparkSession, way: str, bootstrap: str, topic: str, folder: Path) -> None:
    read(spark, way, bootstrap, topic).write.format("noop").mode("overwrite").save()


def run_table(spark: SparkSession, way: str, bootstrap: str, topic: str, folder: Path) -> None:
    if way == "kafka":
        read(spark, way, bootstrap, topic).write.mode("overwrite").parquet(str(folder))
        return
    from penstock.spark.load import load

    load(topic, str(folder), bootstrap_servers=bootstrap, spark=spark)


def latencies(spark: SparkSession, way: str, bootstrap: str, topic: str, folder: Path) -> list[float]:
    """Seconds per micro-batch, of a stream that takes a few records at a time."""
    reader = spark.readStream.format(way).option("kafka.bootstrap.servers", bootstrap)
    last = json.dumps({topic: dict.fromkeys(map(str, range(PARTITIONS)), 0)})
    frame = reader.option("subscribe", topic).option("startingOffsets", last)
    frame = frame.option("maxOffsetsPerTrigger", SMALL_BATCH)
    writer = frame.load().writeStream.format("noop").option("checkpointLocation", str(folder))
    query = writer.trigger(processingTime="0 seconds").start()
    deadline = time.monotonic() + 300
    while len(query.recentProgress) < 80 and time.monotonic() < deadline:
        time.sleep(0.2)
    query.stop()
    return [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress[30:] if p["numInputRows"]]


def main(way: str, sink: str, bootstrap: str, topic: str, jars: str) -> None:
    from penstock.spark.session import session

    spark = session("bench", "local[2]", log_level="OFF", config={"spark.jars": jars, "spark.driver.memory": "2g"})
    root = Path(tempfile.mkdtemp(prefix="penstock-bench-spark-"))
    try:
        if sink == "latency":
            print(json.dumps(latencies(spark, way, bootstrap, topic, root)))
            return
        seconds: list[float] = []
        for number in range(RUNS):
            folder = root / str(number)
            started = time.monotonic()
            (run_noop if sink == "noop" else run_table)(spark, way, bootstrap, topic, folder)
            seconds.append(time.monotonic() - started)
            shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps(seconds))
    finally:
        shutil.rmtree(root, ignore_errors=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
