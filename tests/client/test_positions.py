"""Where readers start, and start over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from penstock.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from penstock.client.errors import NoOffsetForPartition
from penstock.testing.broker import Broker
from penstock.wire.errors import ErrorCode, TopicAuthorizationFailed
from tests.client.reading import fill, take


async def test_an_offset_that_is_gone_starts_over_by_policy(
    bootstrap: str, admin: Admin, topic: str, producer: Producer
) -> None:
    await fill(producer, topic, 10)
    tp = TopicPartition(topic, 0)
    await admin.delete_records({tp: 6})
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 2)
        assert await take(consumer, 1) == [b"6"]
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        with pytest.raises(NoOffsetForPartition, match="auto_offset_reset"):
            await consumer.poll(5000)
        consumer.seek(tp, 2)
        with pytest.raises(NoOffsetForPartition, match="no offset 2"):
            await consumer.poll(5000)
        consumer.seek(tp, 9)
        assert await take(consumer, 1) == [b"9"]


async def test_a_committed_offset_is_where_the_next_one_starts(
    bootstrap: str, topic: str, producer: Producer, fresh: Callable[[str], str]
) -> None:
    await fill(producer, topic, 10)
    tp, group = TopicPartition(topic, 0), fresh("group")
    async with Consumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.assign([tp])
        assert await consumer.committed([tp]) == {tp: None}
        await take(consumer, 3)
        await consumer.commit()
        await consumer.commit({tp: OffsetAndMetadata(4, "noted")})
        heard: list[object] = []
        await consumer.commit_async({tp: 5}, lambda offsets, error: heard.append((offsets, error)))
        assert heard == [({tp: OffsetAndMetadata(5)}, None)]
        await consumer.commit({tp: OffsetAndMetadata(4, "noted")})
        committed = (await consumer.committed([tp]))[tp]
        assert committed is not None
        assert (committed.offset, committed.metadata) == (4, "noted")
    async with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.assign([tp])
        assert await take(consumer, 1) == [b"4"]


async def test_a_time_behind_the_last_record_means_the_end(bootstrap: str, topic: str, producer: Producer) -> None:
    await fill(producer, topic, 3)
    tp = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="by_duration:PT1M") as consumer:
        consumer.assign([tp])
        assert await consumer.position(tp) == 3  # all are ten minutes old
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="by_duration:PT1H") as consumer:
        consumer.assign([tp])
        assert await consumer.position(tp) == 0


async def test_a_reader_of_committed_records_starts_at_the_end_of_those(
    bootstrap: str, topic: str, fresh: Callable[[str], str]
) -> None:
    tp = TopicPartition(topic, 0)
    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer,
        Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer,
    ):
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        consumer.assign([tp])
        assert await consumer.position(tp) == 0
        await producer.commit_transaction()
        assert await take(consumer, 1) == [b"open"]


# A broker that is slow to tell, or refuses


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        it.create_topic("t", 2)
        yield it


@asynccontextmanager
async def reader(broker: Broker, **settings: object) -> AsyncIterator[Consumer[bytes, bytes]]:
    quick = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 50, "fetch.max.wait.ms": 50}
    async with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
        await fill(producer, "t", 5)
    async with Consumer({**quick, "bootstrap.servers": broker.bootstrap_servers, **settings}) as consumer:
        yield consumer


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("api", ["OffsetFetch", "ListOffsets"])
async def test_a_seek_while_the_position_is_looked_up_wins(broker: Broker, api: str) -> None:
    async with reader(broker, group_id="g") as consumer:
        consumer.assign([T0, T1])
        if api == "OffsetFetch":
            await consumer.commit({T0: 4})
        slow = broker.delay(api, 0.3)
        looking = asyncio.create_task(consumer.position(T0))
        async with asyncio.timeout(20):
            while not slow.hits:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            consumer.seek(T0, 2)
            assert await looking == 2
        assert await take(consumer, 1) == [b"2"]


async def test_a_partition_that_was_given_up_meanwhile_does_not_come_back(broker: Broker) -> None:
    slow = broker.delay("ListOffsets", 0.3)
    async with reader(broker) as consumer:
        consumer.assign([T0])
        async with asyncio.timeout(20):
            while not slow.hits:
                assert await consumer.poll(10) == []
            consumer.assign([T1])
            assert await consumer.position(T1) == 0
        assert consumer.assignment() == [T1]


async def test_there_is_one_search_at_a_time(broker: Broker) -> None:
    slow = broker.delay("ListOffsets", 0.1, times=None)
    async with reader(broker, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0, T1])
        async with asyncio.timeout(20):
            assert await asyncio.gather(*(consumer.position(tp) for tp in (T0, T1, T0, T1))) == [0, 0, 0, 0]
        assert slow.hits == 1


async def test_what_the_broker_refuses_is_raised_and_tried_again_by_the_next_call(broker: Broker) -> None:
    async with reader(broker, auto_offset_reset="earliest") as consumer:
        broker.fail("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        consumer.assign([T0])
        with pytest.raises(TopicAuthorizationFailed, match="t-0"):
            await consumer.position(T0)
        assert await consumer.position(T0) == 0
        broker.fail("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        consumer.seek_to_end(T0)
        with pytest.raises(TopicAuthorizationFailed):
            await consumer.poll(5000)
        assert await consumer.position(T0) == 5


async def test_a_group_that_has_committed_some_partitions_looks_up_only_the_others(broker: Broker) -> None:
    async with reader(broker, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.assign([T0, T1])
        await consumer.commit({T0: 3})
        assert await consumer.position(T0) == 3
        assert await consumer.position(T1) == 0
        consumer.assign([])
        refused = broker.fail("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        consumer.assign([T0])
        assert await consumer.position(T0) == 3
        assert refused.hits == 0


async def test_closing_does_not_wait_for_an_answer_that_does_not_come(broker: Broker) -> None:
    slow = broker.delay("ListOffsets", 3600)
    before = asyncio.all_tasks()
    async with asyncio.timeout(20):
        async with reader(broker) as consumer:
            consumer.assign([T0])
            while not slow.hits:
                assert await consumer.poll(10) == []
        assert asyncio.all_tasks() == before
