from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from penstock.client import Admin, Consumer, Producer, TopicPartition, UsageError
from penstock.client.errors import IllegalState, RequestTimeout
from penstock.client.partitioner import partition_for_key
from penstock.client.types import ConsumerRecord
from penstock.wire.errors import InvalidTopic, MessageTooLarge, RecordListTooLarge, UnknownTopicOrPartition


async def read_all(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    return [record.value for record in await read_records(bootstrap, topic, count)]


async def read_records(bootstrap: str, topic: str, count: int) -> list[ConsumerRecord[bytes, bytes]]:
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = await consumer.partitions_for(topic)
        consumer.assign([(topic, number) for number in partitions])
        found: list[ConsumerRecord[bytes, bytes]] = []
        async with asyncio.timeout(20):
            while len(found) < count:
                found += await consumer.poll(1000)
        return found


async def test_a_record_comes_back_as_it_was_sent(bootstrap: str, topic: str, producer: Producer) -> None:
    delivery = await producer.send(
        topic, b"value", key=b"key", headers=[("h", b"1"), ("h", None)], timestamp_ms=1_700_000_000_000
    )
    metadata = await delivery
    assert (metadata.topic, metadata.partition, metadata.offset, metadata.timestamp) == (topic, 0, 0, 1_700_000_000_000)
    (record,) = await read_records(bootstrap, topic, 1)
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("h", b"1"), ("h", None)))
    assert record.timestamp == 1_700_000_000_000


async def test_null_keys_and_values_stay_null_and_empty_ones_empty(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    await producer.send(topic, None, key=b"tombstone")
    await producer.send(topic, b"", key=b"")
    await producer.flush()
    first, second = await read_records(bootstrap, topic, 2)
    assert (first.key, first.value, second.key, second.value) == (b"tombstone", None, b"", b"")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_works(bootstrap: str, topic: str, codec: str) -> None:
    values = [b"%d " % n * 50 for n in range(300)]
    async with Producer({"bootstrap.servers": bootstrap, "compression.type": codec}) as producer:
        for value in values:
            await producer.send(topic, value)
    assert await read_all(bootstrap, topic, 300) == values


async def test_keys_choose_the_partition_as_in_java(wide_topic: str, producer: Producer) -> None:
    for number in range(20):
        key = b"key-%d" % number
        metadata = await producer.send_and_wait(wide_topic, b"v", key=key)
        assert metadata.partition == partition_for_key(key, 4)


async def test_records_without_key_stay_together_per_batch_and_spread_over_batches(
    bootstrap: str, wide_topic: str
) -> None:
    async with Producer(bootstrap_servers=bootstrap, batch_size=1000) as producer:
        deliveries = [await producer.send(wide_topic, b"x" * 80) for _ in range(400)]
        await producer.flush()
        partitions = [(await delivery).partition for delivery in deliveries]
    switches = sum(a != b for a, b in itertools.pairwise(partitions))
    assert set(partitions) == {0, 1, 2, 3}
    assert switches < 100


async def test_order_is_kept_within_a_partition(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap, batch_size=500, linger_ms=0) as producer:
        for number in range(2000):
            await producer.send(topic, b"%d" % number)
    assert await read_all(bootstrap, topic, 2000) == [b"%d" % number for number in range(2000)]


async def test_many_records_go_at_once_with_send_batch(bootstrap: str, topic: str, producer: Producer) -> None:
    values = [b"%d" % number for number in range(25_000)]
    deliveries = await producer.send_batch(topic, values, keys=[b"k"] * 25_000, partition=0)
    places = [await delivery for delivery in deliveries]
    assert places[-1].offset == 24_999
    assert await read_all(bootstrap, topic, 25_000) == values


async def test_send_batch_needs_a_key_for_every_value(topic: str, producer: Producer) -> None:
    with pytest.raises(UsageError, match="one key per value"):
        await producer.send_batch(topic, [b"a", b"b"], keys=[b"k"])


@pytest.mark.parametrize("acks", ["0", "1", "all"])
async def test_every_level_of_acks_delivers(bootstrap: str, topic: str, acks: str) -> None:
    async with Producer({"bootstrap.servers": bootstrap, "acks": acks}) as producer:
        metadata = await producer.send_and_wait(topic, b"v")
        assert metadata.offset == (-1 if acks == "0" else 0)
    assert await read_all(bootstrap, topic, 1) == [b"v"]


async def test_a_batch_that_the_broker_finds_too_large_is_split(
    admin: Admin, bootstrap: str, fresh: Callable[[str], str]
) -> None:
    topic = fresh("small")
    await admin.create_topic(topic, 1, configs={"max.message.bytes": "2000"})
    async with Producer(bootstrap_servers=bootstrap, batch_size=20_000) as producer:
        deliveries = [await producer.send(topic, b"%03d" % number * 50) for number in range(60)]
        await producer.flush()
        assert [(await delivery).offset for delivery in deliveries] == list(range(60))
    assert await read_all(bootstrap, topic, 60) == [b"%03d" % number * 50 for number in range(60)]


async def test_a_single_record_that_is_too_large_fails_and_the_next_goes_through(
    admin: Admin, bootstrap: str, fresh: Callable[[str], str]
) -> None:
    topic = fresh("small")
    await admin.create_topic(topic, 1, configs={"max.message.bytes": "2000"})
    async with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises((MessageTooLarge, RecordListTooLarge)):
            await producer.send_and_wait(topic, b"x" * 5000)
        assert (await producer.send_and_wait(topic, b"small")).offset == 0
        with pytest.raises(MessageTooLarge, match="max_request_size"):
            await producer.send(topic, b"x" * 2_000_000)


async def test_a_full_buffer_makes_send_wait_and_then_say_so(bootstrap: str, topic: str) -> None:
    async with Producer(
        bootstrap_servers=bootstrap,
        buffer_memory=2000,
        max_block_ms=10_000,
        batch_size=1000,
        linger_ms=60_000,
        delivery_timeout_ms=120_000,
    ) as producer:
        for _ in range(40):
            await producer.send(topic, b"x" * 300)
        await producer.flush()
    assert len(await read_all(bootstrap, topic, 40)) == 40


async def test_waiting_for_room_in_the_buffer_has_an_end(penstock_broker) -> None:  # type: ignore[no-untyped-def]
    penstock_broker.create_topic("t")
    async with Producer(
        bootstrap_servers=penstock_broker.bootstrap_servers, buffer_memory=2000, max_block_ms=200, linger_ms=0
    ) as producer:
        await producer.send_and_wait("t", b"first")
        penstock_broker.delay("Produce", 3.0)
        for _ in range(3):
            await producer.send("t", b"x" * 500)
        with pytest.raises(RequestTimeout, match="buffer of 2000 bytes"):
            await producer.send("t", b"x" * 500)


async def test_an_unknown_partition_is_refused(topic: str, producer: Producer) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="partitions 0 to 0, not 5"):
        await producer.send(topic, b"v", partition=5)


async def test_an_impossible_topic_name_is_refused(producer: Producer) -> None:
    with pytest.raises(InvalidTopic):
        await producer.send("not a topic!", b"v")


async def test_a_topic_that_nobody_creates_is_given_up_after_max_block_ms(
    bootstrap: str, fresh: Callable[[str], str]
) -> None:
    async with Producer(bootstrap_servers=bootstrap, allow_auto_create_topics=False, max_block_ms=300) as producer:
        with pytest.raises(UnknownTopicOrPartition):
            await producer.send(fresh("missing"), b"v")


async def test_a_producer_that_is_not_started_says_how_to(topic: str) -> None:
    with pytest.raises(IllegalState, match="async with"):
        await Producer().send_batch(topic, [b"v"])


@pytest.mark.parametrize(
    "settings",
    [
        {"enable.idempotence": True, "acks": "1"},
        {"transactional.id": "t", "enable.idempotence": False},
        {"enable.idempotence": True, "max.in.flight.requests.per.connection": 6},
        {"delivery.timeout.ms": 10},
    ],
)
def test_contradicting_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Producer(settings)


async def test_metrics_count_what_was_sent(topic: str, producer: Producer) -> None:
    for _ in range(10):
        await producer.send(topic, b"v")
    await producer.flush()
    found = {name.name: value for name, value in producer.metrics().items()}
    assert found["record-send-total"] == 10
    assert found["record-error-total"] == 0
    assert found["request-latency-max"] > 0


async def test_closing_delivers_what_waits(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=10_000)
    await producer.start()
    delivery = await producer.send(topic, b"v")
    await producer.close()
    assert (await delivery).offset == 0


async def test_partitions_can_be_asked_for(wide_topic: str, producer: Producer) -> None:
    assert await producer.partitions_for(wide_topic) == [0, 1, 2, 3]
    assert TopicPartition(wide_topic, 0) == (wide_topic, 0)


async def test_values_that_are_no_bytes_are_refused_with_what_to_do(topic: str, producer: Producer) -> None:
    with pytest.raises(UsageError, match="serialize them first"):
        await producer.send(topic, {"a": 1})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="pair of a name and bytes"):
        await producer.send(topic, b"v", headers=[("h", b"1", b"2")])  # type: ignore[list-item]


def test_it_works_on_uvloop(bootstrap: str, fresh: Callable[[str], str]) -> None:
    uvloop = pytest.importorskip("uvloop")
    topic = fresh("uvloop")

    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic, b"x" * 300_000)
            await producer.send_batch(topic, [b"y" * 1000] * 2000, partition=0)
        assert len(await read_all(bootstrap, topic, 2001)) == 2001

    uvloop.run(main())
