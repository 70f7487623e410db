"""The numbers in these values are the protocol's, so the brokers have the last word on them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.client import Admin, Consumer, OffsetSpec, Producer, SubscriptionPattern, TopicPartition
from penstock.client.types import ConsumerRecord, OffsetAndMetadata, TimestampType, by_topic
from tests.client.reading import fill


def test_a_partition_is_written_as_kafka_writes_it_and_is_a_plain_tuple() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
    assert f"{TopicPartition('a-b', 0)}" == "a-b-0"
    assert {("orders", 3): "by the pair"}[TopicPartition("orders", 3)] == "by the pair"
    assert sorted([TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)])[0] == ("a", 9)


def test_partitions_are_gathered_by_topic_in_their_order() -> None:
    partitions = [TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 1)]
    assert by_topic(partitions) == {"b": [2, 1], "a": [0]}


def test_a_record_knows_its_partition_and_was_not_counted_unless_somebody_says_so() -> None:
    record: ConsumerRecord[bytes, bytes] = ConsumerRecord("orders", 3, 17, 0, 0, None, b"v", ())
    assert record.topic_partition == TopicPartition("orders", 3)
    assert (record.delivery_count, record.leader_epoch) == (0, -1)


def test_an_offset_to_commit_needs_nothing_but_the_offset() -> None:
    assert OffsetAndMetadata(4) == (4, "", -1)


def test_patterns_that_read_the_same_are_the_same() -> None:
    assert {SubscriptionPattern("a.*"), SubscriptionPattern("a.*")} == {SubscriptionPattern("a.*")}
    with pytest.raises(AttributeError):
        SubscriptionPattern("a.*").pattern = "b.*"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("spec", "offset"),
    [
        (OffsetSpec.LATEST, 3),
        (OffsetSpec.EARLIEST, 1),
        (OffsetSpec.MAX_TIMESTAMP, 2),
        (OffsetSpec.EARLIEST_LOCAL, 1),
        (OffsetSpec.LATEST_TIERED, -1),
    ],
)
async def test_brokers_understand_every_named_place(
    admin: Admin, topic: str, producer: Producer, spec: OffsetSpec, offset: int
) -> None:
    await fill(producer, topic, 3)
    tp = TopicPartition(topic, 0)
    await admin.delete_records({tp: 1})
    assert (await admin.list_offsets({tp: spec}))[tp].offset == offset


@pytest.mark.parametrize(
    ("config", "kind"),
    [("CreateTime", TimestampType.CREATE_TIME), ("LogAppendTime", TimestampType.LOG_APPEND_TIME)],
)
async def test_a_record_tells_whose_time_it_has(
    bootstrap: str, admin: Admin, producer: Producer, fresh: Callable[[str], str], config: str, kind: TimestampType
) -> None:
    topic = fresh("times")
    await admin.create_topic(topic, 1, configs={"message.timestamp.type": config})
    await producer.send_and_wait(topic, b"v")
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        record = await consumer.get_one(5000)
    assert record is not None
    assert TimestampType(record.timestamp_type) is kind
