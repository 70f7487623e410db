"""Past one machine: a Spark standalone cluster, a master and two workers as processes, with nothing changed but the
master.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.client.sync import Consumer, Producer
from penstock.client.types import TopicPartition
from penstock.spark.java import find_java_home
from penstock.testing.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


class Standalone:
    """A master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self._folder = folder
        self._home = Path(pyspark.__file__).parent
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def start(self) -> None:
        self._run("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
        self.url = self._told("master", "Starting Spark master at ").strip()
        for number in range(2):
            arguments = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", self.url)
            self._run(f"worker{number}", "org.apache.spark.deploy.worker.Worker", *arguments)
        for number in range(2):
            self._told(f"worker{number}", "Successfully registered with master")

    def _run(self, name: str, *command: str) -> None:
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java_home()),
            "SPARK_HOME": str(self._home),
            "SPARK_WORKER_DIR": str(self._folder / name),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_WEBUI_PORT": "0",
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(self._home / "bin" / "spark-class"), *command],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)

    def _told(self, name: str, text: str) -> str:
        log = self._folder / f"{name}.log"
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            for line in log.read_text(errors="replace").splitlines():
                if text in line:
                    return line.split(text, 1)[1]
            time.sleep(0.2)
        raise TimeoutError(f"{name} did not start: {log.read_text(errors='replace')[-1000:]}")

    def kill_worker(self) -> None:
        """The second worker and everything that it started: its executor, and the Python workers of that."""
        os.killpg(self._processes[2].pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait(30)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    made = Standalone(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


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
    with Producer(bootstrap_servers=penstock_broker.bootstrap_servers) as producer:
        for partition in range(4):
            producer.send_batch("t", [b"%d" % number for number in range(2000)], partition=partition)
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
    table = DeltaTable(str(root)).to_pyarrow_table()
    found = Counter(zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True))
    assert found == {(partition, offset): 1 for partition in range(4) for offset in range(2000)}


def test_a_stream_into_a_topic_on_a_cluster_survives_a_worker_that_is_killed(
    penstock_broker: Broker, cluster: Standalone, tmp_path: Path
) -> None:
    for topic in ("in", "out"):
        penstock_broker.create_topic(topic, 4)
    with Producer(bootstrap_servers=penstock_broker.bootstrap_servers) as producer:
        for partition in range(4):
            values = [b"%d" % number for number in range(partition, 4000, 4)]
            producer.send_batch("in", values, partition=partition)
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
    settings = {"bootstrap.servers": penstock_broker.bootstrap_servers, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        partitions = [TopicPartition("out", number) for number in range(4)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found: Counter[int] = Counter()
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found.update(int(record.value or b"") for record in consumer.poll(1000))
    assert found == dict.fromkeys(range(4000), 1)
