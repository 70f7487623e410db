from __future__ import annotations

import asyncio
import re

import pytest

from penstock.client import Consumer, Producer, TopicPartition, UsageError
from penstock.client.errors import IllegalState, RecordDeserializationError
from penstock.client.types import ConsumerRecord
from tests.client.reading import BASE_MS, fill, take


async def test_it_reads_from_the_beginning_or_the_end(bootstrap: str, topic: str, producer: Producer) -> None:
    await fill(producer, topic, 3)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert await take(consumer, 3) == [b"0", b"1", b"2"]
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        assert await consumer.position(TopicPartition(topic, 0)) == 3
        await producer.send_and_wait(topic, b"new")
        assert await take(consumer, 1) == [b"new"]


async def test_seek_moves_forward_and_back(bootstrap: str, topic: str, producer: Producer) -> None:
    await fill(producer, topic, 10)
    tp = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        assert await take(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
        consumer.seek(tp, 8)
        assert await take(consumer, 2) == [b"8", b"9"]
        consumer.seek_to_beginning(tp)
        assert await take(consumer, 1) == [b"0"]
        assert await consumer.position(tp) == 1
        consumer.seek_to_end()
        assert await consumer.position(tp) == 10
        with pytest.raises(UsageError):
            consumer.seek(tp, -1)


async def test_offsets_are_found_by_time(bootstrap: str, topic: str, producer: Producer) -> None:
    await fill(producer, topic, 5)
    tp = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([tp])
        found = await consumer.offsets_for_times({tp: BASE_MS + 2500})
        first = found[tp]
        assert first is not None
        assert (first.offset, first.timestamp) == (3, BASE_MS + 3000)
        assert await consumer.offsets_for_times({tp: BASE_MS + 3_600_000}) == {tp: None}
        assert await consumer.beginning_offsets([tp]) == {tp: 0}
        assert await consumer.end_offsets([tp]) == {tp: 5}


async def test_paused_partitions_return_nothing_until_resumed(
    bootstrap: str, wide_topic: str, producer: Producer
) -> None:
    await fill(producer, wide_topic, 5, 0)
    await fill(producer, wide_topic, 5, 1)
    first, second = TopicPartition(wide_topic, 0), TopicPartition(wide_topic, 1)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([first, second])
        consumer.pause(first)
        assert consumer.paused() == {first}
        async with asyncio.timeout(20):
            records: list[ConsumerRecord[bytes, bytes]] = []
            while len(records) < 5:
                records += await consumer.poll(1000)
        assert {record.partition for record in records} == {1}
        assert await consumer.poll(100) == []
        consumer.resume(first)
        assert await take(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]


async def test_iteration_gives_one_record_at_a_time_and_counts_only_those(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    await fill(producer, topic, 10)
    tp = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        seen = []
        async for record in consumer:
            seen.append(record.offset)
            if len(seen) == 4:
                break
        assert seen == [0, 1, 2, 3]
        assert await consumer.position(tp) == 4
        next_one = await consumer.get_one(1000)
        assert next_one is not None
        assert next_one.offset == 4


async def test_records_can_be_polled_after_part_of_a_batch(bootstrap: str, topic: str, producer: Producer) -> None:
    await producer.send_batch(topic, [b"%d" % n for n in range(100)], partition=0)
    await producer.flush()
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert await take(consumer, 30) == [b"%d" % n for n in range(30)]
        (batch,) = await consumer.poll_batches(5000)
        assert batch.values == [b"%d" % n for n in range(30, 100)]


async def test_a_record_that_cannot_be_deserialized_is_raised_after_those_before_it(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    for value in (b"1", b"2", b"three", b"4"):
        await producer.send(topic, value)
    await producer.flush()
    tp = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer=int) as consumer:
        consumer.assign([tp])
        assert [record.value for record in await consumer.poll(5000)] == [1, 2]
        with pytest.raises(RecordDeserializationError, match="offset 2") as raised:
            await consumer.poll(5000)
        consumer.seek(tp, raised.value.offset + 1)
        assert [record.value for record in await consumer.poll(5000)] == [4]


async def test_only_one_task_may_poll(bootstrap: str, topic: str) -> None:
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        first = asyncio.create_task(consumer.poll(2000))
        await asyncio.sleep(0)
        with pytest.raises(IllegalState, match="another task"):
            await consumer.poll(10)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert await consumer.poll(10) == []


async def test_calls_that_cannot_work_say_what_to_do(bootstrap: str, topic: str) -> None:
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        with pytest.raises(IllegalState, match="subscribe"):
            await consumer.poll(10)
        with pytest.raises(UsageError, match="group_id"):
            consumer.subscribe([topic])
        with pytest.raises(UsageError, match="group_id"):
            await consumer.commit()
        with pytest.raises(IllegalState, match="not assigned"):
            consumer.seek(TopicPartition(topic, 0), 1)
    with pytest.raises(UsageError, match="earliest"):
        Consumer(auto_offset_reset="middle")
    with pytest.raises(UsageError, match="did you mean 'range'"):
        Consumer(partition_assignment_strategy="rang")
    async with Consumer(bootstrap_servers=bootstrap, group_id="g") as consumer:
        consumer.subscribe(re.compile("nothing"))
        with pytest.raises(IllegalState, match="unsubscribe"):
            consumer.assign([(topic, 0)])


async def test_a_small_buffer_still_gets_everything(bootstrap: str, wide_topic: str, producer: Producer) -> None:
    for partition in range(4):
        await producer.send_batch(wide_topic, [b"x" * 1000] * 500, partition=partition)
    await producer.flush()
    async with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        queued_max_bytes=10_000,
        max_partition_fetch_bytes=20_000,
        fetch_max_bytes=20_000,
    ) as consumer:
        consumer.assign([(wide_topic, number) for number in range(4)])
        assert len(await take(consumer, 2000)) == 2000


async def test_lag_and_metrics_are_known_after_a_fetch(bootstrap: str, topic: str, producer: Producer) -> None:
    await fill(producer, topic, 10)
    tp = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        assert consumer.current_lag(tp) is None
        await take(consumer, 4)
        assert consumer.current_lag(tp) == 6
        found = {name.name: value for name, value in consumer.metrics().items()}
        assert found["records-consumed-total"] == 4
        assert found["fetch-total"] >= 1
