"""Past one machine: a Spark standalone cluster, a master and two workers as processes, with nothing changed but the
master.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from penstock.testing.broker import Broker
from tests.spark.cluster import Standalone
from tests.spark.topics import places_in, read_committed, send_to_each

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def run_and_kill(program: str, cluster: Standalone, started: Path) -> str:
    """Run a driver; kill a worker as soon as a task has made the file `started`; what the driver printed."""
    driver = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 300
        while not started.exists() and driver.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        cluster.kill_worker()
        out, errors = driver.communicate(timeout=400)
    finally:
        driver.kill()
    assert driver.returncode == 0, errors.decode()[-2000:]
    return out.decode()


def test_a_load_on_a_cluster_survives_a_worker_that_is_killed(
    penstock_broker: Broker, cluster: Standalone, tmp_path: Path
) -> None:
    penstock_broker.create_topic("t", 4)
    send_to_each(penstock_broker, "t", [range(2000)] * 4)
    root, started = tmp_path / "lake", tmp_path / "started"
    program = textwrap.dedent(f"""
        import pathlib, time
        import pyarrow as pa
        from penstock.spark.load import load
        from penstock.spark.session import session

        def slowly(batch):
            pathlib.Path({str(started)!r}).touch()
            time.sleep(3)
            return batch.select(["partition", "offset"])

        config = {{"spark.executor.memory": "512m", "spark.executor.cores": 1, "spark.driver.host": "127.0.0.1"}}
        spark = session("load", {cluster.url!r}, config=config)
        columns = pa.schema([pa.field("partition", pa.int32()), pa.field("offset", pa.int64())])
        done = load(
            "t", {str(root)!r}, bootstrap_servers={penstock_broker.bootstrap_servers!r},
            parse=slowly, schema=columns, tasks=8, spark=spark,
        )
        print("rows", done.rows)
        spark.stop()
    """)
    out = run_and_kill(program, cluster, started)
    assert out.split() == ["rows", "8000"]
    assert places_in(root) == {(partition, offset): 1 for partition in range(4) for offset in range(2000)}


def test_a_stream_into_a_topic_on_a_cluster_survives_a_worker_that_is_killed(
    penstock_broker: Broker, cluster: Standalone, tmp_path: Path
) -> None:
    for topic in ("in", "out"):
        penstock_broker.create_topic(topic, 4)
    send_to_each(penstock_broker, "in", [range(first, 4000, 4) for first in range(4)])
    started = tmp_path / "started"
    program = textwrap.dedent(f"""
        import pathlib, time
        from penstock.spark.session import session

        def slowly(batches):
            for batch in batches:
                pathlib.Path({str(started)!r}).touch()
                time.sleep(2)
                yield batch

        config = {{"spark.executor.memory": "512m", "spark.executor.cores": 1, "spark.driver.host": "127.0.0.1"}}
        spark = session("copy", {cluster.url!r}, config=config)
        reader = spark.readStream.format("penstock").option("subscribe", "in").option("startingOffsets", "earliest")
        reader = reader.option("kafka.bootstrap.servers", {penstock_broker.bootstrap_servers!r})
        rows = reader.option("maxOffsetsPerTrigger", 2000).load().select("value").mapInArrow(slowly, "value binary")
        writer = rows.writeStream.format("penstock").option("topic", "out")
        writer = writer.option("kafka.bootstrap.servers", {penstock_broker.bootstrap_servers!r})
        writer = writer.option("checkpointLocation", {str(tmp_path / "checkpoint")!r})
        writer.trigger(availableNow=True).start().awaitTermination()
        print("done")
        spark.stop()
    """)
    assert run_and_kill(program, cluster, started).split() == ["done"]
    assert Counter(map(int, read_committed(penstock_broker, "out"))) == dict.fromkeys(range(4000), 1)
