"""Streaming queries on a real Spark: topics to topics and to tables, exactly once through crashes and replays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.client.sync import Producer
from penstock.client.types import IsolationLevel, TopicPartition
from penstock.spark.planning import ClusterView
from penstock.testing.broker import Broker
from tests.spark.topics import read_committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def produce(broker: Broker, count: int, *, first: int = 0, topic: str = "in") -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(first, first + count):
            producer.send(topic, f"{number}", key=f"{number}")


def values(broker: Broker, topic: str) -> Counter[int]:
    return Counter(map(int, read_committed(broker, topic)))


def stream(spark: SparkSession, broker: Broker, **options: object) -> DataFrame:
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return reader.options(**{"subscribe": "in", "startingOffsets": "earliest", **options}).load()


def copy(
    spark: SparkSession, broker: Broker, checkpoint: Path, *, shuffled: bool = False, **options: object
) -> StreamingQuery:
    source = stream(spark, broker, maxOffsetsPerTrigger=400, **options)
    rows = source.selectExpr("key", "value")
    if shuffled:
        rows = rows.repartition(3)
    writer = rows.writeStream.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer = (
        writer.option("topic", "out").option("kafka.group.id", "copy").option("checkpointLocation", str(checkpoint))
    )
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@pytest.mark.parametrize("shuffled", [False, True], ids=["narrow", "shuffled"])
def test_topic_to_topic_is_exactly_once_when_spark_forgets_its_last_commit(
    penstock_broker: Broker, spark: SparkSession, tmp_path: Path, shuffled: bool
) -> None:
    penstock_broker.create_topic("in", 2)
    penstock_broker.create_topic("out", 2)
    produce(penstock_broker, 1000)
    checkpoint = tmp_path / "checkpoint"
    copy(spark, penstock_broker, checkpoint, shuffled=shuffled)
    assert values(penstock_broker, "out") == dict.fromkeys(range(1000), 1)
    with ClusterView(penstock_broker.bootstrap_servers) as view:
        committed = {tp: place.offset for tp, place in view.committed("copy").items()}
        assert committed == view.latest(
            [TopicPartition("in", 0), TopicPartition("in", 1)], IsolationLevel.READ_COMMITTED
        )
    # Exactly what a driver that died between the sink's commit and Spark's leaves behind.
    last = max(checkpoint.joinpath("commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    produce(penstock_broker, 500, first=1000)
    copy(spark, penstock_broker, checkpoint, shuffled=shuffled)
    assert values(penstock_broker, "out") == dict.fromkeys(range(1500), 1)


def test_a_batch_write_is_visible_as_a_whole(penstock_broker: Broker, spark: SparkSession) -> None:
    penstock_broker.create_topic("out", 2)
    frame = spark.range(0, 1000, 1, 3).selectExpr("cast(id as string) as value", "'out' as topic")
    frame.write.format("penstock").option("kafka.bootstrap.servers", penstock_broker.bootstrap_servers).mode(
        "append"
    ).save()
    assert values(penstock_broker, "out") == dict.fromkeys(range(1000), 1)
    failing = spark.range(0, 10, 1, 2).selectExpr(
        "if(id = 9, raise_error('no'), cast(id as string)) as value", "'out' as topic"
    )
    writer = failing.write.format("penstock").option("kafka.bootstrap.servers", penstock_broker.bootstrap_servers)
    with pytest.raises(Exception, match="no"):
        writer.mode("append").save()
    assert values(penstock_broker, "out") == dict.fromkeys(range(1000), 1)


def test_progress_shows_as_lag_of_a_group(penstock_broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    penstock_broker.create_topic("in", 1)
    produce(penstock_broker, 100)
    query = (
        stream(spark, penstock_broker, **{"kafka.group.id": "lake", "maxOffsetsPerTrigger": 30})
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]] == [30, 30, 30, 10]
    with ClusterView(penstock_broker.bootstrap_servers) as view:
        assert view.committed("lake")[TopicPartition("in", 0)].offset == 100


def test_a_batch_query_sees_the_same_records_in_every_action(penstock_broker: Broker, spark: SparkSession) -> None:
    penstock_broker.create_topic("in", 2)
    produce(penstock_broker, 500)

    def reader() -> DataFrameReader:
        made = spark.read.format("penstock").option("kafka.bootstrap.servers", penstock_broker.bootstrap_servers)
        return made.option("subscribe", "in")

    frame = reader().option("minPartitions", 5).option("includeHeaders", "true").load()
    assert frame.count() == 500
    produce(penstock_broker, 10, first=500)
    assert frame.filter("offset < 5").count() == 10
    assert frame.count() == 500
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    only = reader().option("columns", "offset,value").load()
    assert (only.columns, only.count()) == (["offset", "value"], 510)


def test_a_topic_that_is_gone_is_named(penstock_broker: Broker, spark: SparkSession) -> None:
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", penstock_broker.bootstrap_servers)
    with pytest.raises(Exception, match="'nowhere'"):
        reader.option("subscribe", "nowhere").load().count()
