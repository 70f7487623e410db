"""A load that runs out of space: it says where, nothing of it is in the table, and the next one goes on exactly."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.client.sync import Producer
from penstock.spark.load import LoadSummary, load
from penstock.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROWS = 2000
PLACE = r"partition t-[01] offset \d+: .*"


def produce(broker: Broker, rounds: int = 1) -> None:
    """Two megabytes a round, which cannot be compressed."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition in range(2):
            for _ in range(rounds):
                producer.send_batch("t", [os.urandom(500) for _ in range(ROWS)], partition=partition)


def run(broker: Broker, spark: SparkSession, root: Path, kind: str, **more: object) -> LoadSummary:
    servers = broker.bootstrap_servers
    return load("t", str(root), bootstrap_servers=servers, spark=spark, format=kind, **more)  # type: ignore[arg-type]


def places(spark: SparkSession, root: Path, kind: str) -> list[tuple[int, int]]:
    if kind == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(root)).to_pyarrow_table(columns=["partition", "offset"])
        return sorted(zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True))
    rows = spark.read.parquet(str(root)).select("partition", "offset").collect()
    return sorted((row["partition"], row["offset"]) for row in rows)


def expected(count: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(2) for offset in range(count)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of six megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_no_space_left_on_the_disk_of_the_table(
    penstock_broker: Broker, spark: SparkSession, small_disk: Path, kind: str
) -> None:
    penstock_broker.create_topic("t", 2)
    root = small_disk / "lake"
    produce(penstock_broker)
    assert run(penstock_broker, spark, root, kind).rows == 2 * ROWS
    produce(penstock_broker, rounds=3)
    with pytest.raises(Exception, match=PLACE + "No space left"):
        run(penstock_broker, spark, root, kind)
    assert places(spark, root, kind) == expected(ROWS)
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert run(penstock_broker, spark, root, kind).rows == 6 * ROWS
    assert places(spark, root, kind) == expected(4 * ROWS)
    assert run(penstock_broker, spark, root, kind).rows == 0


def test_a_file_that_may_not_grow(penstock_broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    penstock_broker.create_topic("t", 2)
    root, repaired = tmp_path / "lake", tmp_path / "repaired"
    produce(penstock_broker)

    def limited(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not repaired.exists():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return batch.select(["partition", "offset", "value"])

    fields = [("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())]
    with pytest.raises(Exception, match=PLACE + "File too large"):
        run(penstock_broker, spark, root, "delta", parse=limited, schema=pa.schema(fields))
    assert places(spark, root, "delta") == []
    assert not list(root.glob("*.parquet"))  # what was half written is gone
    repaired.touch()
    assert run(penstock_broker, spark, root, "delta", parse=limited, schema=pa.schema(fields)).rows == 2 * ROWS
    assert places(spark, root, "delta") == expected(ROWS)
