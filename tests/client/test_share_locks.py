"""Locks that are shorter than the work: nothing that a worker has, or has waiting, may go to another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from penstock.client import Admin, Producer, ResourceType, ShareConsumer, TopicPartition
from penstock.client.cluster import Cluster
from penstock.client.config import ShareConsumerConfig
from penstock.client.errors import Disconnected
from penstock.client.share_locks import LockKeeper, Locks
from penstock.client.share_session import ShareSession
from penstock.client.types import ConsumerRecord
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, InvalidRecordState, KafkaError, UnsupportedVersion
from tests.client.reading import take_locked
from tests.client.scripted_broker import TOPIC_ID, scripted_cluster

LOCK_MS = 1000
WORK_SECONDS = 0.9  # three of these take nearly three times as long as a lock lasts
RECORDS = 6


@pytest.fixture
async def group(admin: Admin, fresh: Callable[[str], str]) -> str:
    """A share group whose locks last a second."""
    name = fresh("share")
    configs = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(LOCK_MS)}
    await admin.alter_configs(ResourceType.GROUP, name, configs)
    return name


def worker(bootstrap: str, group: str, **settings: object) -> ShareConsumer[bytes, bytes]:
    return ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit", **settings}
    )


@asynccontextmanager
async def thief(consumer: ShareConsumer[bytes, bytes]) -> AsyncIterator[list[int]]:
    """Takes whatever can be had; the list has the offsets."""
    stolen: list[int] = []

    async def steal() -> None:
        while True:
            for record in await consumer.poll():
                stolen.append(record.offset)
                consumer.accept(record)

    stealing = asyncio.create_task(steal())
    try:
        yield stolen
    finally:
        stealing.cancel()
        await asyncio.gather(stealing, return_exceptions=True)


async def test_records_that_wait_behind_a_held_one_stay_locked(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    await producer.send_batch(topic, [b"x"] * 3)
    async with worker(bootstrap, group) as slow, worker(bootstrap, group) as quick:
        slow.subscribe([topic])
        records = await take_locked(slow)
        assert slow.acquisition_lock_timeout_ms == LOCK_MS
        assert len(records) == 3
        quick.subscribe([topic])
        async with thief(quick) as stolen:
            for record in records:
                async with slow.hold(record):
                    await asyncio.sleep(WORK_SECONDS)
                slow.accept(record)
            assert set((await slow.commit()).values()) == {None}
    assert stolen == []


async def test_one_lock_that_ran_out_costs_neither_the_others_nor_what_was_decided_about_them(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    """A broker refuses all of a partition that one request names if one of them is not locked, and says not which."""
    await producer.send_batch(topic, [b"x"] * 3)
    heard: dict[int, KafkaError | None] = {}
    async with worker(bootstrap, group) as slow, worker(bootstrap, group) as quick:
        slow.set_acknowledgement_commit_callback(
            lambda offsets, error: heard.update(dict.fromkeys(offsets[TopicPartition(topic, 0)], error))
        )
        slow.subscribe([topic])
        first, *others = await take_locked(slow)
        quick.subscribe([topic])
        async with thief(quick) as stolen, asyncio.timeout(20):
            while len(stolen) < 2:
                await slow.renew(first)
                await asyncio.sleep(LOCK_MS / 5000)
            with pytest.raises(InvalidRecordState, match="1 to 2"):
                await slow.renew(first, *others)
            async with slow.hold(first):
                await asyncio.sleep(LOCK_MS * 2 / 1000)
            for record in (first, *others):
                slow.accept(record)
            failures = await slow.commit()
        assert isinstance(failures[TopicPartition(topic, 0)], InvalidRecordState)
        assert {offset: error and error.code for offset, error in heard.items()} == {
            0: None,
            1: ErrorCode.INVALID_RECORD_STATE,
            2: ErrorCode.INVALID_RECORD_STATE,
        }
        assert sorted(stolen) == [1, 2]


async def test_a_marker_that_came_with_records_does_not_cost_them_when_its_lock_runs_out(
    bootstrap: str, topic: str, group: str, fresh: Callable[[str], str]
) -> None:
    """The end of a transaction has an offset that is locked too, but nobody renews it by hand."""
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer, producer.transaction():
        await producer.send_batch(topic, [b"x"] * 2)
    async with worker(bootstrap, group) as slow:
        slow.subscribe([topic])
        records = await take_locked(slow)
        for _ in range(7):
            await asyncio.sleep(LOCK_MS / 5000)
            await slow.renew(*records)
        for record in records:
            slow.accept(record)
        assert (await slow.commit())[TopicPartition(topic, 0)] is None


async def test_workers_that_are_slower_than_the_lock_see_every_record_once(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    await producer.send_batch(topic, [b"x"] * RECORDS)
    deliveries: list[tuple[int, int]] = []
    done = asyncio.Event()

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        deliveries.append((record.offset, record.delivery_count))
        await asyncio.sleep(WORK_SECONDS * LOCK_MS / 1000 * 1.5)
        if len(deliveries) >= RECORDS:
            done.set()

    async with worker(bootstrap, group) as one, worker(bootstrap, group) as two:
        for consumer in (one, two):
            consumer.subscribe([topic])
        async with asyncio.timeout(40):
            await asyncio.gather(*(consumer.run(handle, concurrency=2, stop=done) for consumer in (one, two)))
        assert sorted(deliveries) == [(offset, 1) for offset in range(RECORDS)]
    async with worker(bootstrap, group) as after:
        after.subscribe([topic])
        assert await after.poll(1500) == []


async def test_what_waited_in_the_buffer_until_its_lock_ran_out_is_not_handed_out(
    bootstrap: str, wide_topic: str, group: str, producer: Producer
) -> None:
    for partition in range(4):
        await producer.send_batch(wide_topic, [b"x"], partition=partition)
    async with worker(bootstrap, group) as consumer:
        consumer.subscribe([wide_topic])
        accepted: list[int] = []
        is_slow = True
        async with asyncio.timeout(20):
            while len(accepted) < 4:
                records = await consumer.poll(1000)
                if records and is_slow:
                    is_slow = False
                    # Its own lock has run out by then, and those of the other partitions that came with it.
                    await asyncio.sleep(LOCK_MS * 1.2 / 1000)
                for record in records:
                    consumer.accept(record)
                failures = await consumer.commit()
                accepted += [record.partition for record in records if failures[record.topic_partition] is None]
        assert sorted(accepted) == [0, 1, 2, 3]


async def test_a_keeper_renews_while_somebody_holds_and_no_longer() -> None:
    renewed = asyncio.Event()
    count = 0

    async def renew() -> None:
        nonlocal count
        count += 1
        renewed.set()

    keeper = LockKeeper(lambda: 30, renew)
    loop = asyncio.get_running_loop()
    keeper.locked(loop.time())
    with keeper.hold():
        async with asyncio.timeout(5):
            for _ in range(3):
                await renewed.wait()
                renewed.clear()
    before = count
    await asyncio.sleep(0.05)
    assert count == before
    keeper.locked(loop.time() - 10)  # old already: at once
    with keeper.hold():
        async with asyncio.timeout(5):
            await renewed.wait()
    await keeper.close()


async def test_a_broker_that_cannot_renew_is_mentioned_and_not_asked_twice_at_a_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    requested = asyncio.Event()

    async def renew() -> None:
        requested.set()
        raise UnsupportedVersion("too old")

    keeper = LockKeeper(lambda: 30, renew)
    with keeper.hold():
        async with asyncio.timeout(5):
            await requested.wait()
        await asyncio.sleep(0)
    await keeper.close()
    assert "cannot be renewed" in caplog.text


async def test_a_broker_that_is_gone_does_not_cost_the_locks_at_the_others() -> None:
    def agree(request: m.Message, version: int) -> m.Message:
        assert isinstance(request, m.ShareAcknowledgeRequest)
        response = m.ShareAcknowledgeResponse
        answers = [
            response.PartitionData(partition_index=p.partition_index) for t in request.topics for p in t.partitions
        ]
        return response(responses=[response.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=answers)])

    locks = Locks()
    records = [ConsumerRecord("t", number, 0, 0, 0, None, b"x", ()) for number in (0, 1)]
    async with scripted_cluster(nodes=2, partitions=2) as scripted:
        config = ShareConsumerConfig(bootstrap_servers=scripted.bootstrap_servers, group_id="g")
        gone, other = scripted.brokers
        async with Cluster(config) as cluster:
            for record, broker in zip(records, scripted.brokers, strict=True):
                broker.answers[m.ShareFetchRequest] = lambda request, version: m.ShareFetchResponse()
                broker.answers[m.ShareAcknowledgeRequest] = agree
                session = ShareSession(cluster, config, broker.node_id, "me", lambda *report: None)
                partition = (TOPIC_ID, record.partition)
                await session.fetch({partition}, 1, 0)
                now = asyncio.get_running_loop().time()
                locks.add(session, record.topic_partition, partition, [(0, 0)], now)
            gone.answers[m.ShareAcknowledgeRequest] = gone.hang_up
            with pytest.raises(Disconnected):
                await locks.renew(records)
            assert len(other.requests(m.ShareAcknowledgeRequest)) == 1
            await locks.renew(records[1:])
