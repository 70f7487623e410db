"""Reading a range from a real broker into Arrow, as a task does; no Spark is needed for it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from penstock.client.errors import UsageError
from penstock.client.sync import Admin, Producer
from penstock.client.types import TopicPartition
from penstock.records.batch import CorruptBatch
from penstock.spark.fetching import FetchSettings
from penstock.spark.options import SourceOptions, parse_options
from penstock.spark.planning import ClusterView, DataLoss, plan_batch
from penstock.spark.ranges import OffsetRange
from penstock.spark.reading import read_range
from penstock.testing.broker import Broker
from penstock.wire.errors import KafkaError, UnknownTopicOrPartition


def produce(broker: Broker, topic: str, count: int, *, partition: int = 0, **settings: object) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap_servers, **settings}) as producer:
        values = [b"value %d" % number for number in range(count)]
        producer.send_batch(topic, values, keys=[b"%d" % number for number in range(count)], partition=partition)
        producer.flush()


def options_of(broker: Broker, **options: str) -> SourceOptions:
    return parse_options({"kafka.bootstrap.servers": broker.bootstrap_servers, **options})


def plan(broker: Broker, **options: str) -> list[OffsetRange]:
    wanted = options_of(broker, **options)
    with ClusterView(wanted.bootstrap_servers) as view:
        return plan_batch(view, wanted)


def rows(broker: Broker, wanted: OffsetRange, *columns: str, **settings: object) -> list[dict[str, object]]:
    fetch = FetchSettings(bootstrap_servers=broker.bootstrap_servers, **settings)  # type: ignore[arg-type]
    batches = list(read_range(wanted, fetch, columns or ("offset",), batch_rows=1000))
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def test_a_topic_is_planned_from_end_to_end_and_read(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t", 2)
    produce(penstock_broker, "t", 2500, partition=1)
    ranges = plan(penstock_broker, subscribe="t")
    assert [(piece.partition, piece.start, piece.end) for piece in ranges] == [(0, 0, 0), (1, 0, 2500)]
    read = rows(penstock_broker, ranges[1], "topic", "partition", "offset", "key", "value")
    assert [row["offset"] for row in read] == list(range(2500))
    assert read[7] == {"topic": "t", "partition": 1, "offset": 7, "key": b"7", "value": b"value 7"}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_range_is_trimmed_to_its_offsets_whatever_the_batches_are(penstock_broker: Broker, codec: str) -> None:
    penstock_broker.create_topic("t")
    produce(penstock_broker, "t", 1000, compression_type=codec)
    read = rows(penstock_broker, OffsetRange("t", 0, 17, 983))
    assert [row["offset"] for row in read] == list(range(17, 983))


def test_aborted_and_control_records_are_not_rows(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    with Producer(bootstrap_servers=penstock_broker.bootstrap_servers, transactional_id="x") as producer:
        for number in range(4):
            producer.begin_transaction()
            producer.send("t", f"{number}").result()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    committed = {"kafka.isolation.level": "read_committed"}
    (wanted,) = plan(penstock_broker, subscribe="t", **committed)
    fetch = options_of(penstock_broker, subscribe="t", **committed)
    assert [row["value"] for row in rows(penstock_broker, wanted, "value", isolation=fetch.isolation)] == [b"0", b"2"]
    assert len(rows(penstock_broker, wanted, "value")) == 4


def test_deleted_records_are_loss_that_names_the_place(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    produce(penstock_broker, "t", 100)
    with Admin(bootstrap_servers=penstock_broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("t", 0): 40})
    wanted = OffsetRange("t", 0, 10, 100)
    with pytest.raises(DataLoss, match="partition t-0 offset 10: the log begins at 40"):
        rows(penstock_broker, wanted)
    assert len(rows(penstock_broker, wanted, fail_on_data_loss=False)) == 60
    starting = json.dumps({"t": {"0": 10}})
    with pytest.raises(DataLoss, match="t-0: offset 10 is gone"):
        plan(penstock_broker, subscribe="t", startingOffsets=starting)
    (kept,) = plan(penstock_broker, subscribe="t", startingOffsets=starting, failOnDataLoss="false")
    assert (kept.start, kept.end) == (40, 100)


def test_a_range_beyond_the_end_of_the_log_is_loss(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    produce(penstock_broker, "t", 10)
    with pytest.raises(DataLoss, match="offset 50: the log ends before it"):
        rows(penstock_broker, OffsetRange("t", 0, 50, 60))


def test_a_topic_that_was_created_anew_is_not_read_for_the_old_one(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    produce(penstock_broker, "t", 10)
    (wanted,) = plan(penstock_broker, subscribe="t")
    with Admin(bootstrap_servers=penstock_broker.bootstrap_servers) as admin:
        admin.delete_topic("t")
    penstock_broker.create_topic("t")
    produce(penstock_broker, "t", 10)
    with pytest.raises(DataLoss, match="deleted and created again"):
        rows(penstock_broker, wanted)


def test_a_topic_that_does_not_exist_is_named(penstock_broker: Broker) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="'nowhere'"):
        plan(penstock_broker, subscribe="nowhere")


def test_a_corrupt_batch_is_named_and_nothing_of_it_is_given(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    for _ in range(2):
        produce(penstock_broker, "t", 100)
    penstock_broker.stop()
    segment = next(penstock_broker.data.glob("**/t-0/*.log"))
    data = bytearray(segment.read_bytes())
    data[-3] ^= 0xFF
    segment.write_bytes(data)
    penstock_broker.start()
    with pytest.raises((CorruptBatch, DataLoss), match=r"partition t-0.*offset 100"):
        rows(penstock_broker, OffsetRange("t", 0, 0, 200))
    assert len(rows(penstock_broker, OffsetRange("t", 0, 0, 100))) == 100


def test_offsets_by_time_find_the_records(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t")
    with Producer(bootstrap_servers=penstock_broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send("t", b"x", timestamp_ms=1000 + number)
    (wanted,) = plan(penstock_broker, subscribe="t", startingTimestamp="1003", endingTimestamp="1007")
    assert (wanted.start, wanted.end) == (3, 7)
    with pytest.raises(KafkaError, match="startingOffsetsByTimestampStrategy"):
        plan(penstock_broker, subscribe="t", startingTimestamp="5000")
    late = {"startingTimestamp": "5000", "startingOffsetsByTimestampStrategy": "latest"}
    (empty,) = plan(penstock_broker, subscribe="t", **late)
    assert empty.size == 0


def test_named_offsets_must_name_every_partition(penstock_broker: Broker) -> None:
    penstock_broker.create_topic("t", 2)
    with pytest.raises(UsageError, match="t-1 is missing"):
        plan(penstock_broker, subscribe="t", startingOffsets='{"t": {"0": 0}}')


def test_a_pattern_finds_its_topics_but_no_internal_ones(penstock_broker: Broker) -> None:
    for name in ("orders-eu", "orders-us", "other"):
        penstock_broker.create_topic(name)
    produce(penstock_broker, "orders-eu", 1)
    assert {piece.topic for piece in plan(penstock_broker, subscribePattern="orders-.*")} == {"orders-eu", "orders-us"}
    assert not any(piece.topic.startswith("__") for piece in plan(penstock_broker, subscribePattern=".*"))
