"""Brokers that die, cut connections, answer late and wrongly.

Nothing acknowledged is lost, nothing comes twice, nothing hangs, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from penstock.client import Consumer, Producer, ShareConsumer, TopicPartition
from penstock.client.connection import Connection
from penstock.client.errors import Disconnected
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

_SLOW = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 200}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker({"group.consumer.min.heartbeat.interval.ms": 100, "group.consumer.heartbeat.interval.ms": 100}) as it:
        it.create_topic("t", 1)
        it.create_topic("wide", 4)
        yield it


@pytest.fixture(autouse=True)
async def no_task_is_left_behind() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left


async def read(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    """Everything that is there, which should be `count` records."""
    async with Consumer({"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}) as consumer:
        tps = [TopicPartition(topic, number) for number in await consumer.partitions_for(topic)]
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        found: list[bytes | None] = []
        async with asyncio.timeout(30):
            while len(found) < count or any([await consumer.position(tp) < ends[tp] for tp in tps]):
                found += [record.value for record in await consumer.poll(500)]
        return found


async def produce(producer: Producer, first: int, last: int) -> None:
    for number in range(first, last):
        await producer.send("t", b"%d" % number)
        if number % 50 == 0:
            await asyncio.sleep(0)


async def test_a_restart_of_the_broker_loses_and_doubles_nothing(broker: Broker) -> None:
    async with Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "batch.size": 200, "linger.ms": 0, **_SLOW}
    ) as producer:
        await produce(producer, 0, 300)
        restart = asyncio.create_task(asyncio.to_thread(broker.restart))
        await produce(producer, 300, 1000)
        await restart
        async with asyncio.timeout(60):
            await producer.flush()
    assert await read(broker, "t", 1000) == [b"%d" % number for number in range(1000)]


@pytest.mark.parametrize("times", [1, 5])
async def test_requests_that_never_arrive_are_sent_again(broker: Broker, times: int) -> None:
    async with Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "batch.size": 300, "linger.ms": 0, **_SLOW}
    ) as producer:
        await producer.send_and_wait("t", b"0")
        broker.drop("Produce", times=times)
        await produce(producer, 1, 500)
        async with asyncio.timeout(60):
            await producer.flush()
    assert await read(broker, "t", 500) == [b"%d" % number for number in range(500)]


@pytest.mark.parametrize("times", [1, 5])
async def test_answers_that_never_arrive_lead_to_no_duplicates(
    broker: Broker, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has written the batch when the connection is cut: it recognises the retry."""
    answered = Connection._answered
    cuts = times

    def cut(self: Connection, data: memoryview) -> None:
        nonlocal cuts
        if cuts and self.conversation.expected[0].response is m.ProduceResponse:
            cuts -= 1
            self._break(Disconnected("cut by the test"))
        else:
            answered(self, data)

    async with Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "batch.size": 300, "linger.ms": 0, **_SLOW}
    ) as producer:
        await producer.send_and_wait("t", b"0")
        monkeypatch.setattr(Connection, "_answered", cut)
        await produce(producer, 1, 500)
        async with asyncio.timeout(60):
            await producer.flush()
    assert cuts == 0
    assert await read(broker, "t", 500) == [b"%d" % number for number in range(500)]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS],
)
async def test_errors_that_pass_are_retried_in_order(broker: Broker, code: ErrorCode) -> None:
    async with Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "batch.size": 300, "linger.ms": 0, **_SLOW}
    ) as producer:
        await producer.send_and_wait("t", b"0")
        broker.fail("Produce", code, times=3)
        await produce(producer, 1, 300)
        async with asyncio.timeout(60):
            await producer.flush()
    assert await read(broker, "t", 300) == [b"%d" % number for number in range(300)]


async def test_a_batch_that_is_lost_for_good_fails_and_those_behind_it_arrive(broker: Broker) -> None:
    async with Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "batch.size": 100, "linger.ms": 0, **_SLOW}
    ) as producer:
        await producer.send_and_wait("t", b"0")
        broker.fail("Produce", ErrorCode.INVALID_RECORD, times=1)
        deliveries = [await producer.send("t", b"%d" % number * 30) for number in range(1, 9)]
        async with asyncio.timeout(60):
            await producer.flush()
        failed = [delivery for delivery in deliveries if delivery.exception() is not None]
        assert len(failed) == 1
        assert (await producer.send_and_wait("t", b"after")).offset == 8
    assert len(await read(broker, "t", 9)) == 9


async def test_a_slow_broker_is_waited_for(broker: Broker) -> None:
    async with Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0}) as producer:
        await producer.send_and_wait("t", b"0")
        broker.delay("Produce", 0.3, times=2)
        await produce(producer, 1, 100)
        async with asyncio.timeout(30):
            await producer.flush()
    assert len(await read(broker, "t", 100)) == 100


async def test_a_broker_that_stays_away_fails_the_records_in_time(broker: Broker) -> None:
    async with Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "request.timeout.ms": 300,
            "delivery.timeout.ms": 600,
            "linger.ms": 0,
            **_SLOW,
        }
    ) as producer:
        await producer.send_and_wait("t", b"0")
        await asyncio.to_thread(broker.stop)
        delivery = await producer.send("t", b"lost")
        async with asyncio.timeout(20):
            with pytest.raises(KafkaError):
                await delivery
        await asyncio.to_thread(broker.start)
        async with asyncio.timeout(20):
            assert (await producer.send_and_wait("t", b"back")).offset == 1


async def test_reading_goes_on_after_cut_connections_and_restarts(broker: Broker) -> None:
    async with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        await produce(producer, 0, 2000)
    async with Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": 50,
            **_SLOW,
        }
    ) as consumer:
        consumer.assign([("t", 0)])
        found: list[bytes | None] = []
        broker.drop("Fetch", times=2)
        broker.fail("ListOffsets", ErrorCode.LEADER_NOT_AVAILABLE, times=2)
        async with asyncio.timeout(60):
            while len(found) < 1000:
                found += [record.value for record in await consumer.poll(200, max_records=100)]
            await asyncio.to_thread(broker.restart)
            while len(found) < 2000:
                found += [record.value for record in await consumer.poll(200)]
    assert found == [b"%d" % number for number in range(2000)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_survives_a_restart_while_it_commits(broker: Broker, protocol: str) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 20,
        "heartbeat.interval.ms": 50,
        **_SLOW,
    }
    async with Producer({"bootstrap.servers": broker.bootstrap_servers, **_SLOW}) as producer:
        seen: set[bytes | None] = set()
        async with Consumer(settings) as one, Consumer(settings) as two:
            one.subscribe(["wide"])
            two.subscribe(["wide"])
            restart: asyncio.Task[None] | None = None
            async with asyncio.timeout(90):
                for number in range(400):
                    await producer.send("wide", b"%d" % number, partition=number % 4)
                    if number == 200:
                        restart = asyncio.create_task(asyncio.to_thread(broker.restart))
                    if number % 20 == 0:
                        for records in await asyncio.gather(one.poll(20), two.poll(20)):
                            seen.update(record.value for record in records)
                await producer.flush()
                while len(seen) < 400 or len(one.assignment()) + len(two.assignment()) != 4:
                    for records in await asyncio.gather(one.poll(100), two.poll(100)):
                        seen.update(record.value for record in records)
            assert restart is not None
            await restart
    assert seen == {b"%d" % number for number in range(400)}


async def test_members_that_come_and_go_lose_nothing(broker: Broker) -> None:
    """Rebalances while committing: at least once, each record, whatever the members do."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
        "auto.commit.interval.ms": 10,
        "heartbeat.interval.ms": 50,
        "max.poll.records": 10,
    }
    async with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for number in range(2000):
            await producer.send("wide", b"%d" % number, partition=number % 4)
    seen: set[bytes | None] = set()
    async with Consumer(settings) as steady, asyncio.timeout(90):
        steady.subscribe(["wide"])
        for _ in range(3):
            async with Consumer(settings) as guest:
                guest.subscribe(["wide"])
                for _ in range(10):
                    for records in await asyncio.gather(steady.poll(50), guest.poll(50)):
                        seen.update(record.value for record in records)
        while len(seen) < 2000:
            seen.update(record.value for record in await steady.poll(200))


async def test_a_worker_survives_a_restart(broker: Broker) -> None:
    from penstock.client import Admin, ResourceType

    async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        await admin.alter_configs(ResourceType.GROUP, "s", {"share.auto.offset.reset": "earliest"})
    async with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        await produce(producer, 0, 300)
    seen: set[bytes | None] = set()
    done = asyncio.Event()

    async def handle(record: object) -> None:
        seen.add(getattr(record, "value", None))
        await asyncio.sleep(0.002)
        if len(seen) == 300:
            done.set()

    async with ShareConsumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "s", "max.poll.records": 20, **_SLOW}
    ) as worker:
        worker.subscribe(["t"])
        running = asyncio.create_task(worker.run(handle, concurrency=5, stop=done))
        async with asyncio.timeout(60):
            while len(seen) < 50:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.to_thread(broker.restart)
            await running
    assert len(seen) == 300


async def test_a_transaction_survives_errors_of_its_coordinator(broker: Broker) -> None:
    async with Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", **_SLOW}) as producer:
        broker.fail("EndTxn", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2)
        async with asyncio.timeout(30):
            async with producer.transaction():
                await producer.send("t", b"one")
            broker.drop("EndTxn", times=1)
            async with producer.transaction():
                await producer.send("t", b"two")
    async with Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    ) as consumer:
        consumer.assign([("t", 0)])
        found: list[bytes | None] = []
        async with asyncio.timeout(20):
            while len(found) < 2:
                found += [record.value for record in await consumer.poll(500)]
    assert found == [b"one", b"two"]
