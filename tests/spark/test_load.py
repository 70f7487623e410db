"""Loads on a real Spark, through the faults that a load must survive: rows in the table = rows produced, none twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.client.sync import Producer
from penstock.spark.load import LoadSummary, load
from penstock.spark.ranges import from_json
from penstock.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def produce(broker: Broker, count: int, *, topic: str = "t", partitions: int = 2) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition in range(partitions):
            values = [b"value %d" % number for number in range(count)]
            for first in range(0, count, 500):
                producer.send_batch(topic, values[first : first + 500], partition=partition)
        producer.flush()


def places(root: Path) -> Counter[tuple[int, int]]:
    table = DeltaTable(str(root)).to_pyarrow_table(columns=["partition", "offset"])
    return Counter(zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True))


def assert_exactly(root: Path, count: int, partitions: int = 2) -> None:
    assert places(root) == {(p, offset): 1 for p in range(partitions) for offset in range(count)}


def run(broker: Broker, spark: SparkSession, root: Path, **settings: object) -> LoadSummary:
    return load("t", str(root), bootstrap_servers=broker.bootstrap_servers, spark=spark, **settings)  # type: ignore[arg-type]


def test_a_table_is_loaded_and_goes_on_where_it_stands(
    penstock_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    penstock_broker.create_topic("t", 2)
    root = tmp_path / "lake"
    produce(penstock_broker, 1000)
    first = run(penstock_broker, spark, root)
    assert (first.rows, first.lag_before, first.lag_after, first.tasks) == (2000, 2000, 0, 2)
    assert run(penstock_broker, spark, root).tasks == 0  # repeated: nothing to do
    produce(penstock_broker, 500)
    assert run(penstock_broker, spark, root, tasks=4, compact=True).rows == 1000
    assert_exactly(root, 1500)
    assert {tp.partition: offset for tp, offset in run(penstock_broker, spark, root).start.items()} == {
        0: 1500,
        1: 1500,
    }


def test_tasks_that_die_leave_no_trace(penstock_broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    penstock_broker.create_topic("t", 2)
    produce(penstock_broker, 1000)
    root, marks = tmp_path / "lake", tmp_path

    def stumble(batch: pa.RecordBatch) -> pa.RecordBatch:
        """Dies once for each partition: one worker with an error, the other killed outright."""
        partition = batch.column("partition")[0].as_py()
        mark = marks / f"died-{partition}"
        if not mark.exists():
            mark.touch()
            if partition:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("this task dies")
        return batch.select(["partition", "offset"])

    columns = pa.schema([pa.field("partition", pa.int32()), pa.field("offset", pa.int64())])
    summary = run(penstock_broker, spark, root, parse=stumble, schema=columns)
    assert {path.name for path in marks.glob("died-*")} == {"died-0", "died-1"}
    assert summary.rows == 2000
    assert_exactly(root, 1000)


def test_the_broker_may_restart_in_the_middle(penstock_broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    penstock_broker.create_topic("t", 2)
    produce(penstock_broker, 20_000)
    penstock_broker.delay("Fetch", 0.2, times=5)
    penstock_broker.drop("Fetch", times=3)
    root = tmp_path / "lake"
    seen: list[int] = []

    def restart_once(done: int, total: int) -> None:
        if not seen:
            penstock_broker.restart()
        seen.append(done)

    summary = run(penstock_broker, spark, root, options={"fetchBytes": "50000"}, progress=restart_once)
    assert seen[-1] == 2
    assert summary.rows == 40_000
    assert_exactly(root, 20_000)


def test_a_load_that_fails_changes_nothing(penstock_broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    penstock_broker.create_topic("t", 2)
    produce(penstock_broker, 100)
    root = tmp_path / "lake"
    with pytest.raises(Exception, match=r"t-[01] offset 0 cannot be parsed"):
        run(penstock_broker, spark, root, parse="json", schema="id bigint")
    summary = run(penstock_broker, spark, root, parse="json", schema="id bigint", skip_bad=True)
    assert (summary.rows, summary.lag_after) == (0, 0)


def test_partitioned_by_the_day_of_the_record(penstock_broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    penstock_broker.create_topic("t", 1)
    day_ms = 86_400_000
    with Producer(bootstrap_servers=penstock_broker.bootstrap_servers) as producer:
        for number in range(6):
            producer.send("t", b"x", timestamp_ms=1_700_000_000_000 + number // 2 * day_ms)
    root = tmp_path / "lake"
    run(penstock_broker, spark, root, partition_by="date")
    assert sorted(path.name for path in root.glob("date=*")) == [
        "date=2023-11-14",
        "date=2023-11-15",
        "date=2023-11-16",
    ]
    assert_exactly(root, 6, partitions=1)


def test_a_plain_folder_is_read_by_spark_itself(penstock_broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    penstock_broker.create_topic("t", 2)
    root = tmp_path / "folder"
    for _ in range(2):
        produce(penstock_broker, 700)
        assert run(penstock_broker, spark, root, format="parquet").rows == 1400
    assert run(penstock_broker, spark, root, format="parquet").rows == 0
    read = spark.read.parquet(str(root))
    assert (read.count(), read.select("partition", "offset").distinct().count()) == (2800, 2800)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_driver_killed_around_the_commit(penstock_broker: Broker, tmp_path: Path, moment: str) -> None:
    penstock_broker.create_topic("t", 2)
    produce(penstock_broker, 300)
    root = tmp_path / "lake"
    program = textwrap.dedent(f"""
        import os, signal, sys
        from penstock.spark import delta
        from penstock.spark.load import load
        from penstock.spark.session import session
        commit = delta.DeltaTarget.commit
        def killed(self, *arguments):
            if {moment!r} == "after":
                commit(self, *arguments)
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[1] == "die":
            delta.DeltaTarget.commit = killed
        made = session("load", "local[2]", log_level="OFF")
        print(load("t", {str(root)!r}, bootstrap_servers={penstock_broker.bootstrap_servers!r}, spark=made).rows)
        made.stop()
    """)
    died = subprocess.run([sys.executable, "-c", program, "die"], capture_output=True, text=True, timeout=280)
    assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
    again = subprocess.run([sys.executable, "-c", program, "live"], capture_output=True, text=True, timeout=280)
    assert again.stdout.split() == ["600" if moment == "before" else "0"], again.stderr[-2000:]
    assert_exactly(root, 300)


def test_offsets_stand_in_the_commit_for_people_too(
    penstock_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    penstock_broker.create_topic("t", 2)
    produce(penstock_broker, 10)
    root = tmp_path / "lake"
    summary = run(penstock_broker, spark, root)
    newest = DeltaTable(str(root)).history(1)[0]
    assert from_json(json.loads(newest["penstock.offsets"])) == summary.end


def test_the_command_prints_its_summary(
    penstock_broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    from penstock.cli.main import run as run_command

    penstock_broker.create_topic("t", 2)
    produce(penstock_broker, 5)
    command = ["load", "t", "--to", str(tmp_path / "lake"), "--bootstrap", penstock_broker.bootstrap_servers]
    assert run_command([*command, "--json", "--master", "local[2,3]"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], summary["lag_after"], summary["end"]) == (10, 0, {"t": {"0": 5, "1": 5}})
    assert run_command([*command, "--master", "local[2,3]"]) == 0
    assert "is up to date" in capsys.readouterr().err
    bad = ["--name", "other", "--parse", "json", "--schema", "id string", "--master", "local[2,3]"]
    assert run_command([*command, *bad]) == 1
    assert "does not fit what is loaded" in capsys.readouterr().err
