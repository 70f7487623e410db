"""Reading the source: in order, within bounds, and with a word on what is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.client import Admin, Producer, TopicPartition
from penstock.mirror import source as module
from penstock.mirror.failures import TopicStopped
from penstock.mirror.pieces import records_of
from penstock.mirror.source import Feed, Source, first_offsets, read
from penstock.testing.broker import Broker
from penstock.wire.errors import ErrorCode
from tests.mirror.conftest import WAIT_S

TP = TopicPartition("t", 0)


async def produce(source: Broker, count: int, start: int = 0, topic: str = "t") -> None:
    async with Producer(bootstrap_servers=source.bootstrap_servers, batch_size=200) as producer:
        for number in range(start, start + count):
            await producer.send(topic, b"%d" % number, partition=0)


@asynccontextmanager
async def feeding(from_: Admin) -> AsyncIterator[Feed]:
    info = await from_.describe_topic("t")
    from_.cluster.want(["t"])
    reader = Source(from_)
    task = asyncio.create_task(reader.run())
    feed = reader.open(TP, info.topic_id)
    try:
        async with asyncio.timeout(WAIT_S):
            yield feed
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def take(feed: Feed, upto: int) -> list[int]:
    found: list[int] = []
    position = feed.position
    while position < upto:
        chunk = await feed.next()
        records, position = records_of(chunk.data, max(position, chunk.skipped_to), chunk.aborted)
        position = max(position, chunk.skipped_to)
        found += [record.offset for record in records]
    return found


async def test_records_come_in_order_while_they_are_written(source: Broker, from_: Admin) -> None:
    source.create_topic("t")
    async with feeding(from_) as feed:
        feed.seek(0)
        writing = asyncio.create_task(produce(source, 500))
        assert await take(feed, 500) == list(range(500))
        await writing


async def test_a_partition_is_not_read_further_than_somebody_takes_it(
    source: Broker, from_: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PARTITION_BYTES", 500)
    source.create_topic("t")
    await produce(source, 1000)
    async with feeding(from_) as feed:
        feed.seek(0)
        while len(feed.chunks) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(feed.chunks) == 2
        assert feed.source.buffered == sum(len(chunk.data) for chunk in feed.chunks)
        assert await take(feed, 1000) or True
        feed.seek(0)
        assert feed.source.buffered == 0


async def test_records_that_were_deleted_before_they_were_read_are_told(source: Broker, from_: Admin) -> None:
    source.create_topic("t")
    await produce(source, 100)
    await from_.delete_records({TP: 60})
    async with feeding(from_) as feed:
        feed.seek(10)
        chunk = await feed.next()
        assert (chunk.position, chunk.skipped_to) == (10, 60)
        assert await take(feed, 100) == list(range(60, 100))


async def test_a_source_that_ends_before_the_target_is_no_source(source: Broker, from_: Admin) -> None:
    source.create_topic("t")
    async with feeding(from_) as feed:
        feed.seek(10)
        with pytest.raises(TopicStopped, match="has lost records"):
            await feed.next()


async def test_a_topic_that_was_created_again_is_another_one(source: Broker, from_: Admin) -> None:
    source.create_topic("t")
    await produce(source, 10)
    async with feeding(from_) as feed:
        feed.seek(0)
        assert await take(feed, 10)
        await from_.delete_topic("t")
        source.create_topic("t")
        with pytest.raises(TopicStopped, match="deleted and created again"):
            await feed.next()


async def test_a_deleted_topic_stops(source: Broker, from_: Admin) -> None:
    source.create_topic("t")
    async with feeding(from_) as feed:
        feed.seek(0)
        await from_.delete_topic("t")
        with pytest.raises(TopicStopped, match="was deleted at the source"):
            await feed.next()


async def test_errors_that_pass_are_waited_out_and_others_told(source: Broker, from_: Admin) -> None:
    source.create_topic("t")
    await produce(source, 10)
    async with feeding(from_) as feed:
        source.fail("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
        source.drop("Fetch")
        feed.seek(0)
        assert await take(feed, 10) == list(range(10))
        source.fail("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(Exception, match="t-0"):
            await feed.next()


async def test_a_range_is_read_as_committed(source: Broker, from_: Admin) -> None:
    source.create_topic("t")
    await produce(source, 100)
    with contextlib.suppress(ValueError):
        async with (
            Producer(bootstrap_servers=source.bootstrap_servers, transactional_id="x") as producer,
            producer.transaction(),
        ):
            await (await producer.send("t", b"aborted", partition=0))
            raise ValueError
    await produce(source, 5, 200)
    found = await read(from_, TP, 95, 105)
    assert [(record.offset, record.value) for record in found] == [
        *((n, b"%d" % n) for n in range(95, 100)),
        *((n + 102, b"%d" % (n + 200)) for n in range(3)),
    ]


async def test_first_offsets_pass_over_a_large_gap(
    source: Broker, from_: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.create_topic("t")
    await produce(source, 100)
    topic_id = (await from_.describe_topic("t")).topic_id
    assert await first_offsets(from_, [TP], topic_id) == {TP: 0}
    await from_.delete_records({TP: 42})
    assert await first_offsets(from_, [TP], topic_id) == {TP: 42}
