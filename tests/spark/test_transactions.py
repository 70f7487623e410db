"""The sink's transactions against a real broker, without Spark: what is decided is written once, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.errors import UsageError
from penstock.client.producer import Producer
from penstock.client.sync import Consumer
from penstock.client.types import TopicPartition
from penstock.spark import sink
from penstock.spark.sink import SinkOptions, TaskResult, parse_sink_options
from penstock.spark.transactions import Decision, Ended, LostBatch, OpenTransaction, decide, end_all, read_decision
from penstock.testing.broker import Broker

PREFIX = "query-1"


def options_of(broker: Broker, **more: str) -> SinkOptions:
    return SinkOptions(bootstrap_servers=broker.bootstrap_servers, topic="out", **more)  # type: ignore[arg-type]


def rows(*values: str) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"key": [v.encode() for v in values], "value": list(values)})]


async def write(options: SinkOptions, task: int, *values: str) -> TaskResult:
    return await sink.write_task(options, PREFIX, task, iter(rows(*values)))


def visible(broker: Broker) -> list[bytes | None]:
    """The records of the topic, as a reader of committed ones sees them."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        partitions = [TopicPartition("out", number) for number in consumer.partitions_for("out")]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found: list[bytes | None] = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found.extend(record.value for record in consumer.poll(1000))
        return sorted(found, key=lambda value: value or b"")


def cluster_of(broker: Broker) -> Cluster:
    return Cluster(ClientConfig(bootstrap_servers=broker.bootstrap_servers))


def test_a_decision_is_read_as_it_was_written() -> None:
    decision = Decision(7, tuple(OpenTransaction(task, 4000 + task, 3) for task in range(100)))
    assert Decision.decode(decision.encode()) == decision
    with pytest.raises(UsageError, match="coalesce"):
        Decision(7, tuple(OpenTransaction(task, task * 7919 % 10**9, task) for task in range(3000))).encode()


async def test_rows_are_visible_after_the_commit_and_only_once(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("out", 3)
    options = options_of(penstock_broker)
    results = [await write(options, 0, "a", "b"), await write(options, 1, "c")]
    assert visible(penstock_broker) == []
    await sink.commit_batch(options, results, 0)
    assert visible(penstock_broker) == [b"a", b"b", b"c"]
    await sink.commit_batch(options, results, 0)  # Spark died before it took note, and commits again
    assert await sink.was_committed(options, PREFIX, 0)
    assert not await sink.was_committed(options, PREFIX, 1)
    assert visible(penstock_broker) == [b"a", b"b", b"c"]


async def test_a_driver_that_died_between_decision_and_end_is_finished_by_the_tasks(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("out", 1)
    options = options_of(penstock_broker)
    results = [await write(options, 0, "a"), await write(options, 1, "b")]
    transactions = tuple(result.transaction for result in results if result.transaction)
    async with Producer(options.producer_settings("driver", PREFIX)) as driver:
        await decide(driver, PREFIX, Decision(4, transactions), TopicPartition("out", 0), {}, "")
    assert visible(penstock_broker) == []
    assert await sink.was_committed(options, PREFIX, 4)
    assert visible(penstock_broker) == [b"a", b"b"]


async def test_a_task_that_runs_again_replaces_what_it_wrote(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("out", 1)
    options = options_of(penstock_broker)
    await write(options, 0, "first attempt")
    result = await write(options, 0, "second attempt")
    await sink.commit_batch(options, [result], 0)
    assert visible(penstock_broker) == [b"second attempt"]


async def test_a_zombie_driver_commits_nothing(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("out", 1)
    options = options_of(penstock_broker)
    zombie = [await write(options, 0, "zombie")]
    alive = [await write(options, 0, "alive")]
    with pytest.raises(LostBatch, match="another driver"):
        await sink.commit_batch(options, zombie, 0)
    assert not await sink.was_committed(options, PREFIX, 0)
    await sink.commit_batch(options, alive, 0)
    with pytest.raises(LostBatch, match="another driver"):
        await sink.commit_batch(options, zombie, 0)
    assert visible(penstock_broker) == [b"alive"]


async def test_a_batch_of_which_a_part_was_lost_is_an_error(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("out", 1)
    options = options_of(penstock_broker)
    results = [await write(options, 0, "a"), await write(options, 1, "b")]
    await write(options, 1, "another")  # aborts what task 1 had written
    transactions = [result.transaction for result in results if result.transaction]
    async with cluster_of(penstock_broker) as cluster:
        with pytest.raises(LostBatch, match=r"tasks \[1\] had been aborted"):
            await end_all(cluster, PREFIX, transactions, commit=True)


async def test_an_aborted_batch_leaves_nothing(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("out", 1)
    options = options_of(penstock_broker)
    results = [await write(options, 0, "a")]
    await sink.abort_batch(options, results, 0)
    assert visible(penstock_broker) == []
    async with cluster_of(penstock_broker) as cluster:
        assert (await read_decision(cluster, PREFIX)).batch == -1
        assert results[0].transaction is not None
        assert await end_all(cluster, PREFIX, [results[0].transaction], commit=True) is Ended.NONE


async def test_a_task_that_fails_aborts_its_transaction(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("out", 1)
    options = options_of(penstock_broker)

    def broken() -> object:
        yield from rows("a")
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        await sink.write_task(options, PREFIX, 0, broken())  # type: ignore[arg-type]
    assert visible(penstock_broker) == []


async def test_input_offsets_travel_with_the_decision(penstock_broker: Broker, tmp_path: object) -> None:
    from pathlib import Path

    from penstock.client.offsets import fetch_committed

    checkpoint = Path(str(tmp_path))
    (checkpoint / "offsets").mkdir()
    (checkpoint / "offsets" / "3").write_text('v1\n{"batchWatermarkMs":0}\n{"in": {"0": 42}}\n{"files": 7}')
    penstock_broker.create_topic("out", 1)
    penstock_broker.create_topic("in", 1)
    options = options_of(penstock_broker, input_group="pipeline", checkpoint=str(checkpoint))
    await sink.commit_batch(options, [await write(options, 0, "a")], 3)
    async with cluster_of(penstock_broker) as cluster:
        found = await fetch_committed(cluster, "pipeline", None)
    assert {tp: place.offset for tp, place in found.items()} == {TopicPartition("in", 0): 42}


def test_the_options_of_the_sink_are_checked() -> None:
    broker = {"kafka.bootstrap.servers": "b:1"}
    assert parse_sink_options({**broker, "topic": "t"}, ["value"]).topic == "t"
    with pytest.raises(UsageError, match="needs a column value"):
        parse_sink_options({**broker, "topic": "t"}, ["body"])
    with pytest.raises(UsageError, match="which topic"):
        parse_sink_options(broker, ["value"])
    with pytest.raises(UsageError, match="did you mean topic"):
        parse_sink_options({**broker, "topc": "t"}, ["value"])
    with pytest.raises(UsageError, match="must differ"):
        parse_sink_options({**broker, "topic": "t", "kafka.group.id": "g", "kafka.transactional.id": "g"}, ["value"])
