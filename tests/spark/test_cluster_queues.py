"""Queues past one machine: the same calls on a Spark cluster cluster, and a machine that goes away in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from penstock.client.sync import Producer
from penstock.testing.broker import Broker
from tests.spark.cluster import Standalone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

RECORDS = 600


def put(broker: Broker, topic: str) -> None:
    broker.create_topic(topic, 1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_batch(topic, [b"%d" % number for number in range(RECORDS)])


def driver(program: str, **names: object) -> subprocess.Popen[str]:
    """A driver as a process of its own: another test's session lives in this one."""
    head = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    config = {"spark.executor.memory": "512m", "spark.executor.cores": 1, "spark.driver.host": "127.0.0.1"}
    text = head + f"config = {config!r}\n" + textwrap.dedent(program)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def done(folder: Path) -> Counter[str]:
    return Counter(line for file in folder.iterdir() for line in file.read_text().split())


WORK = """
    import os, time
    from penstock.spark import session, work

    def handle(record):
        time.sleep(0.02)
        with open(f"{folder}/{os.getpid()}", "a") as file:
            file.write(record.value.decode() + "\\n")

    spark = session("work", master, config=config)
    summary = work(
        "jobs", "workers", handle, 4, tasks=2, spark=spark, bootstrap_servers=servers, auto_offset_reset="earliest"
    )
    print(summary.tasks, summary.lag_after)
    spark.stop()
"""

STREAM = """
    import json
    from penstock.spark import session

    spark = session("stream", master, config=config)
    rows = (
        spark.readStream.format("penstock").option("kafka.bootstrap.servers", servers).option("subscribe", "answers")
        .option("share.group", "graders").option("share.maxRecords", 250).option("startingOffsets", "earliest").load()
    )

    def keep(batch, number):
        values = [row.value.decode() for row in batch.collect()]
        open(f"{folder}/{number}", "w").write("\\n".join(values))

    query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
"""


def test_queues_on_a_cluster_lose_nothing_when_a_worker_is_killed(
    penstock_broker: Broker, cluster: Standalone, tmp_path: Path
) -> None:
    settings = {"master": cluster.url, "servers": penstock_broker.bootstrap_servers}
    handled, seen = tmp_path / "handled", tmp_path / "seen"
    handled.mkdir()
    seen.mkdir()

    put(penstock_broker, "jobs")
    working = driver(WORK, folder=str(handled), **settings)
    try:
        deadline = time.monotonic() + 300
        while len(list(handled.iterdir())) < 2 and working.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)  # until both machines are at it
        cluster.kill_worker()
        out, errors = working.communicate(timeout=400)
    finally:
        working.kill()
    assert out.split() == ["2", "0"], errors[-2000:]
    assert set(done(handled)) == {str(number) for number in range(RECORDS)}

    put(penstock_broker, "answers")
    streaming = driver(STREAM, folder=str(seen), checkpoint=str(tmp_path / "checkpoint"), **settings)
    try:
        _, errors = streaming.communicate(timeout=400)
    finally:
        streaming.kill()
    assert streaming.returncode == 0, errors[-2000:]
    assert done(seen) == {str(number): 1 for number in range(RECORDS)}, json.dumps(done(seen).most_common(3))
