"""A share group as a streaming source, on real Spark with a real broker process, through everything that goes wrong."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.client.sync import Admin, Producer
from penstock.client.types import TopicPartition
from tests.broker.process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

from penstock.client.errors import UsageError
from penstock.spark.options import SourceOptions, parse_options
from penstock.spark.share_source import BatchOffset, ShareStreamReader, split_places


def options(**more: str) -> SourceOptions:
    settings = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "share.group": "g", **more}
    return parse_options(settings, streaming=True)


def test_the_offset_that_spark_logs_survives_json() -> None:
    offset = BatchOffset(7, {TopicPartition("t", 0): {4, 5, 9}}, {TopicPartition("t", 1): {2}})
    assert BatchOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_records_become_one_task_per_partition_unless_holes_are_wide() -> None:
    places = {TopicPartition("t", 0): {1, 2, 5, 100_000}, TopicPartition("t", 1): {3}}
    tasks = split_places(places, options())
    assert [(str(task.wanted), task.runs) for task in tasks] == [
        ("t-0 [1, 6)", [(1, 2), (5, 5)]),
        ("t-0 [100000, 100001)", [(100_000, 100_000)]),
        ("t-1 [3, 4)", [(3, 3)]),
    ]


def test_tasks_may_be_made_smaller() -> None:
    tasks = split_places({TopicPartition("t", 0): set(range(10))}, options(maxRecordsPerPartition="4"))
    assert [run for task in tasks for run in task.runs] == [(0, 2), (3, 5), (6, 9)]


def test_partitions_cannot_be_assigned_in_a_share_group() -> None:
    settings = {"kafka.bootstrap.servers": "127.0.0.1:1", "assign": '{"t": [0]}', "share.group": "g"}
    with pytest.raises(UsageError, match="subscribe"):
        ShareStreamReader(parse_options(settings, streaming=True))


# On Spark

on_spark = [pytest.mark.spark, pytest.mark.timeout(400)]
RECORDS = 120


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), penstock_acks_all_flush="false") as process:
        yield process


class Stage:
    """A topic, a share group, a query over it, and a folder where each batch leaves what it saw."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, folder: Path, name: str) -> None:
        self.spark, self.broker, self.name = spark, broker, name
        self.checkpoint, self.out = folder / "checkpoint", folder / "out"
        self.out.mkdir()
        with Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topic(name, 2)

    def produce(self, first: int, count: int) -> None:
        with Producer(bootstrap_servers=self.broker.address) as producer:
            for number in range(first, first + count):
                producer.send(self.name, str(number).encode(), partition=number % 2)

    def query(self, **trigger: object) -> StreamingQuery:
        out = str(self.out)
        frame = (
            self.spark.readStream.format("penstock")
            .option("kafka.bootstrap.servers", self.broker.address)
            .option("subscribe", self.name)
            .option("share.group", f"{self.name}-graders")
            .option("share.maxRecords", 50)
            .option("startingOffsets", "earliest")
            .option("columns", "value")
            .load()
        )

        def keep(rows: DataFrame, batch: int) -> None:
            """A sink that is idempotent by batch, as every sink of a replayed stream has to be."""
            values = [bytes(row.value).decode() for row in rows.collect()]
            draft = f"{out}/{batch}.draft"
            Path(draft).write_text(json.dumps(values))
            os.replace(draft, f"{out}/{batch}.json")

        return (
            frame.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
            .start()
        )

    def seen(self) -> Counter[str]:
        return Counter(value for file in self.out.glob("*.json") for value in json.loads(file.read_text()))

    def lag(self) -> int:
        with Admin(bootstrap_servers=self.broker.address) as admin:
            offsets = admin.list_share_group_offsets(f"{self.name}-graders")
        return sum(place.lag for place in offsets.values())

    def await_members(self, number: int) -> None:
        """Wait until the group has so many members: the process of a query ends a little after the query."""
        deadline = time.monotonic() + 100
        with Admin(bootstrap_servers=self.broker.address) as admin:
            while len(admin.describe_group(f"{self.name}-graders").members) != number:
                assert time.monotonic() < deadline
                time.sleep(0.1)

    def expect(self, records: int) -> None:
        assert self.seen() == {str(number): 1 for number in range(records)}


@pytest.mark.parametrize("name", [pytest.param("replayed", marks=on_spark)])
def test_each_record_is_seen_once_over_replays_and_stops(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, name: str
) -> None:
    stage = Stage(spark, broker, tmp_path, name)
    stage.produce(0, RECORDS)
    query = stage.query(availableNow=True)
    assert query.awaitTermination(300)
    stage.expect(RECORDS)
    assert stage.lag() == 0  # also the last batch was accepted

    # What a driver leaves behind that dies after the sink's commit and before Spark's: the batch is run again.
    commits = sorted((stage.checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    commits[-1].unlink()
    for crc in (stage.checkpoint / "commits").glob(".*.crc"):
        crc.unlink()
    stage.produce(RECORDS, 30)
    assert stage.query(availableNow=True).awaitTermination(300)
    stage.expect(RECORDS + 30)

    # A query that goes on, and is stopped: it gives back what it holds, and the next one loses nothing.
    running = stage.query(processingTime="100 milliseconds")
    stage.produce(RECORDS + 30, 30)
    deadline = time.monotonic() + 200
    while sum(stage.seen().values()) < RECORDS + 60:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.stop()
    stage.produce(RECORDS + 60, 10)
    assert stage.query(availableNow=True).awaitTermination(300)
    stage.expect(RECORDS + 70)
    assert stage.lag() == 0


@pytest.mark.parametrize("name", [pytest.param("crashed", marks=on_spark)])
def test_records_whose_acceptance_was_lost_are_not_processed_again(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, name: str
) -> None:
    """The process that takes records is killed right after Spark's commit, before it could accept them."""
    stage = Stage(spark, broker, tmp_path, name)
    stage.produce(0, 40)
    assert stage.query(availableNow=True).awaitTermination(300)
    stage.expect(40)
    stage.await_members(0)
    # The group forgets that the records were accepted; Spark's checkpoint says that they were processed.
    with Admin(bootstrap_servers=broker.address) as admin:
        admin.alter_share_group_offsets(f"{name}-graders", {TopicPartition(name, p): 0 for p in range(2)})
    assert stage.lag() == 40
    stage.produce(40, 5)
    assert stage.query(availableNow=True).awaitTermination(300)
    stage.expect(45)
    assert stage.lag() == 0
