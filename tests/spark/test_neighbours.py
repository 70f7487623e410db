"""Leaving is as easy as coming: Apache Kafka as a source, and Spark's own connector against Penstock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from deltalake import DeltaTable

from penstock.client.sync import Admin, Producer
from penstock.spark.load import load
from penstock.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CODECS: tuple[Literal["none", "gzip", "snappy", "lz4", "zstd"], ...] = ("none", "gzip", "snappy", "lz4", "zstd")


def fill(bootstrap: str) -> None:
    """Records of every codec, with and without keys, values and headers, and an aborted transaction."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic("t", 2)
    for number, codec in enumerate(CODECS):
        with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for row in range(200):
                producer.send(
                    "t",
                    None if row % 50 == 0 else f"{codec} {row}",
                    key=None if row % 3 == 0 else f"{row}",
                    partition=row % 2,
                    timestamp_ms=1_700_000_000_000 + number * 1000 + row,
                    headers=[("codec", codec.encode()), ("empty", None)] if row % 5 == 0 else None,
                )
            producer.flush()
    with Producer(bootstrap_servers=bootstrap, transactional_id="fill") as producer:
        producer.begin_transaction()
        producer.send("t", "aborted", partition=0, timestamp_ms=1_700_000_009_000)
        producer.flush()
        producer.abort_transaction()


def rows_of(root: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = DeltaTable(str(root)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def load_into(root: Path, bootstrap: str, spark: SparkSession) -> list[dict[str, object]]:
    columns = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    options = {"kafka.isolation.level": "read_committed"}
    load("t", str(root), bootstrap_servers=bootstrap, columns=columns, options=options, spark=spark)
    return rows_of(root)


@pytest.mark.java
def test_apache_kafka_as_the_source_gives_the_same_table(
    penstock_broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer

    fill(penstock_broker.bootstrap_servers)
    ours = load_into(tmp_path / "penstock", penstock_broker.bootstrap_servers, spark)
    with KafkaPeer(jvm_options=SMALL_JVM_OPTIONS) as kafka:
        fill(kafka.bootstrap)
        theirs = load_into(tmp_path / "kafka", kafka.bootstrap, spark)
    assert len(ours) == 1000
    assert ours == theirs


def test_sparks_own_connector_reads_and_writes_penstock(
    penstock_broker: Broker, spark: SparkSession, connector_jars: list[str], tmp_path: Path
) -> None:
    if not connector_jars:
        pytest.skip("Spark's own Kafka connector is not there: set PENSTOCK_SPARK_CONNECTOR to the folder of its jars")
    fill(penstock_broker.bootstrap_servers)
    penstock_broker.create_topic("out", 2)

    def read(way: str, topic: str) -> DataFrame:
        reader = spark.read.format(way).option("kafka.bootstrap.servers", penstock_broker.bootstrap_servers)
        reader = reader.option("subscribe", topic).option("includeHeaders", "true")
        return reader.option("kafka.isolation.level", "read_committed").load()

    def sorted_rows(frame: DataFrame) -> list[object]:
        return [tuple(row) for row in frame.orderBy("partition", "offset").collect()]

    theirs, ours = read("kafka", "t"), read("penstock", "t")
    assert ours.schema == theirs.schema
    assert sorted_rows(ours) == sorted_rows(theirs)
    writer = theirs.select("key", "value").write.format("kafka")
    writer.option("kafka.bootstrap.servers", penstock_broker.bootstrap_servers).option("topic", "out").save()
    assert read("penstock", "out").count() == 1000
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", penstock_broker.bootstrap_servers)
    frame = stream.option("subscribe", "t").option("startingOffsets", "earliest").load().selectExpr("key", "value")
    sink = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", penstock_broker.bootstrap_servers)
    query = sink.option("topic", "out").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert read("penstock", "out").count() == 2001  # it reads uncommitted records too
