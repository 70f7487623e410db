from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from penstock.client import (
    AcknowledgeType,
    Admin,
    Producer,
    Reject,
    ResourceType,
    ShareConsumer,
    TopicPartition,
    share_decoding,
)
from penstock.client.errors import IllegalState, RecordDeserializationError, UsageError
from penstock.client.types import ConsumerRecord
from penstock.records.batch import crc_is_valid
from penstock.testing.broker import Broker
from penstock.wire.errors import CorruptMessage, UnsupportedVersion
from tests.client.old_brokers import without_apis
from tests.client.reading import fill, take_locked

Record = ConsumerRecord[bytes, bytes]


@pytest.fixture
async def group(admin: Admin, fresh: Callable[[str], str]) -> str:
    """A share group that starts at the beginning."""
    name = fresh("share")
    await admin.alter_configs(ResourceType.GROUP, name, {"share.auto.offset.reset": "earliest"})
    return name


@asynccontextmanager
async def worker(
    bootstrap: str, group: str, topic: str, **settings: object
) -> AsyncIterator[ShareConsumer[bytes, bytes]]:
    async with ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, **settings}) as consumer:
        consumer.subscribe([topic])
        yield consumer


async def test_implicit_mode_accepts_what_the_last_poll_returned(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    await fill(producer, topic, 10)
    async with worker(bootstrap, group, topic) as one:
        records = await take_locked(one)
        assert [record.value for record in records] == [b"%d" % n for n in range(10)]
        assert {record.delivery_count for record in records} == {1}
        assert await one.commit() == {TopicPartition(topic, 0): None}
    await fill(producer, topic, 1)
    async with worker(bootstrap, group, topic) as two:
        assert [record.offset for record in await take_locked(two)] == [10]


async def test_what_was_not_acknowledged_comes_again_after_a_close(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    await fill(producer, topic, 3)
    async with worker(bootstrap, group, topic) as one:
        await take_locked(one)
    async with worker(bootstrap, group, topic) as two:
        assert {record.delivery_count for record in await take_locked(two)} == {2}


async def test_explicit_mode_decides_record_by_record(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    await fill(producer, topic, 6)
    heard: list[tuple[int, object]] = []
    async with worker(bootstrap, group, topic, share_acknowledgement_mode="explicit") as one:
        one.set_acknowledgement_commit_callback(
            lambda offsets, error: heard.append((sum(map(len, offsets.values())), error))
        )
        records = await take_locked(one)
        with pytest.raises(IllegalState, match="acknowledged before the next poll"):
            await one.poll(10)
        for record in records:
            one.acknowledge(record, AcknowledgeType.RELEASE)
            if record.offset % 3 == 0:
                one.accept(record)  # the last word counts
            elif record.offset % 3 == 1:
                one.reject(record)
        assert await one.commit() == {TopicPartition(topic, 0): None}
        assert heard == [(6, None)]
        again = await take_locked(one)
        assert [(record.offset, record.delivery_count) for record in again] == [(2, 2), (5, 2)]
        for record in again:
            one.accept(record)
        await one.commit()
        with pytest.raises(IllegalState, match="not locked"):
            one.accept(again[0])


async def test_only_a_decision_is_taken_as_one(bootstrap: str, topic: str, group: str, producer: Producer) -> None:
    await fill(producer, topic, 1)
    async with worker(bootstrap, group, topic, share_acknowledgement_mode="explicit") as one:
        (record,) = await take_locked(one)
        with pytest.raises(UsageError, match=r"consumer\.hold\(record\)"):
            one.acknowledge(record, AcknowledgeType.RENEW)
        with pytest.raises(UsageError, match="7 is not an acknowledgement"):
            one.acknowledge(record, 7)  # type: ignore[arg-type]
        one.acknowledge(record)
        assert await one.commit() == {TopicPartition(topic, 0): None}


async def test_decisions_can_be_sent_in_the_background(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    await fill(producer, topic, 4)
    async with worker(bootstrap, group, topic, share_acknowledgement_mode="explicit") as one:
        for record in await take_locked(one):
            one.accept(record)
        sending = one.commit_async()
    assert await sending == {TopicPartition(topic, 0): None}


async def test_a_commit_in_the_background_does_not_accept_what_the_next_poll_returns(
    bootstrap: str, wide_topic: str, group: str, producer: Producer
) -> None:
    for partition in (0, 1, 2):
        await fill(producer, wide_topic, 2, partition)
    async with worker(bootstrap, group, wide_topic) as one:
        [first, *_] = await take_locked(one)
        sending = one.commit_async()
        [second, *_] = await take_locked(one)  # they arrived together, so the task of the commit has not run yet
        assert await sending == {first.topic_partition: None}
    async with worker(bootstrap, group, wide_topic) as two:
        again = [record for _ in range(2) for record in await take_locked(two)]
    assert second.topic_partition in {record.topic_partition for record in again}


async def test_many_workers_share_one_partition(bootstrap: str, topic: str, group: str, producer: Producer) -> None:
    settings = {"share_acknowledgement_mode": "explicit", "max_poll_records": 5, "share_acquire_mode": "record_limit"}
    async with (
        worker(bootstrap, group, topic, **settings) as one,
        worker(bootstrap, group, topic, **settings) as two,
    ):
        for number in range(20):
            await producer.send_and_wait(topic, b"%d" % number)
        first, second = await take_locked(one), await take_locked(two)
        assert len(first) <= 5
        assert len(second) <= 5
        assert not {r.offset for r in first} & {r.offset for r in second}


async def test_a_lock_is_renewed_while_a_record_is_held(
    bootstrap: str, admin: Admin, topic: str, group: str, producer: Producer
) -> None:
    await fill(producer, topic, 1)
    async with worker(bootstrap, group, topic, share_acknowledgement_mode="explicit") as one:
        (record,) = await take_locked(one)
        assert one.acquisition_lock_timeout_ms > 0
        async with one.hold(record) as held:
            assert held is record
            await one.renew(record)
        one.accept(record)
        assert await one.commit() == {TopicPartition(topic, 0): None}


async def test_run_maps_the_handlers_fate_to_acknowledgements(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    await fill(producer, topic, 40)
    deliveries: dict[bytes | None, list[int]] = {}
    finished = asyncio.Event()

    async def handle(record: Record) -> None:
        deliveries.setdefault(record.value, []).append(record.delivery_count)
        await asyncio.sleep(0)
        if record.value == b"7":
            raise Reject("never")
        if record.value == b"9" and record.delivery_count < 3:
            raise RuntimeError("try again")
        if len(deliveries) == 40 and len(deliveries[b"9"]) == 3:
            finished.set()

    async with worker(bootstrap, group, topic) as one, asyncio.timeout(30):
        await one.run(handle, concurrency=8, stop=finished)
    assert deliveries.pop(b"9") == [1, 2, 3]
    assert deliveries.pop(b"7") == [1]
    assert set(map(tuple, deliveries.values())) == {(1,)}
    async with worker(bootstrap, group, topic) as two:
        await producer.send_and_wait(topic, b"fresh")
        assert [record.value for record in await take_locked(two)] == [b"fresh"]


async def test_run_keeps_as_many_handlers_busy_as_asked_for(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    await fill(producer, topic, 30)
    running = most = done = 0
    finished = asyncio.Event()

    async def handle(record: Record) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        done += 1
        if done == 30:
            finished.set()

    async with worker(bootstrap, group, topic) as one, asyncio.timeout(30):
        await one.run(handle, concurrency=10, stop=finished)
    assert 5 <= most <= 10


async def test_a_cancelled_run_releases_what_it_had(bootstrap: str, topic: str, group: str, producer: Producer) -> None:
    await fill(producer, topic, 1)
    started = asyncio.Event()

    async def stuck(record: Record) -> None:
        started.set()
        await asyncio.sleep(3600)

    async with worker(bootstrap, group, topic) as one:
        running = asyncio.create_task(one.run(stuck))
        async with asyncio.timeout(20):
            await started.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    async with worker(bootstrap, group, topic) as two:
        assert [record.delivery_count for record in await take_locked(two)] == [2]


async def test_a_record_that_cannot_be_deserialized_is_released(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    for value in (b"1", b"two", b"3"):
        await producer.send(topic, value)
    await producer.flush()
    async with ShareConsumer(
        bootstrap_servers=bootstrap, group_id=group, share_acknowledgement_mode="explicit", value_deserializer=int
    ) as one:
        one.subscribe([topic])
        seen: list[int | None] = []
        failures: list[int] = []
        async with asyncio.timeout(30):
            while len(seen) < 2 or len(failures) < 2:
                try:
                    records = await one.poll(1000)
                except RecordDeserializationError as error:
                    failures.append(error.offset)
                    continue
                for record in records:
                    seen.append(record.value)
                    one.accept(record)
        assert seen == [1, 3]
        assert failures[:2] == [1, 1]


async def test_calls_that_cannot_work_say_what_to_do(bootstrap: str, topic: str, group: str) -> None:
    with pytest.raises(UsageError, match="group_id"):
        ShareConsumer(bootstrap_servers=bootstrap)
    async with ShareConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        with pytest.raises(IllegalState, match="subscribe"):
            await consumer.poll(10)
        consumer.subscribe([topic])
        record: Record = ConsumerRecord(topic, 0, 0, 0, 0, None, None, ())
        with pytest.raises(IllegalState, match="explicit"):
            consumer.accept(record)
        with pytest.raises(UsageError, match="concurrency"):
            await consumer.run(lambda record: None, concurrency=0)
    with pytest.raises(IllegalState, match="async with"):
        await consumer.poll(10)


async def test_metrics_count_deliveries_and_acknowledgements(
    bootstrap: str, topic: str, group: str, producer: Producer
) -> None:
    await fill(producer, topic, 5)
    async with worker(bootstrap, group, topic) as one:
        await take_locked(one)
        await one.commit()
        found = {name.name: value for name, value in one.metrics().items()}
        assert found["records-consumed-total"] == 5
        assert found["acknowledgements-send-total"] == 5
        assert found["acknowledgements-error-total"] == 0


async def test_a_slow_handler_keeps_its_lock() -> None:
    """The handler takes several lock times; nobody else gets the record meanwhile."""
    configs = {
        "group.share.min.record.lock.duration.ms": 1000,
        "group.share.record.lock.duration.ms": 1000,
        "group.share.min.heartbeat.interval.ms": 100,
        "group.share.heartbeat.interval.ms": 100,
    }
    with Broker(configs) as broker:
        broker.create_topic("t")
        address = broker.bootstrap_servers
        async with Admin(bootstrap_servers=address) as admin, Producer(bootstrap_servers=address) as producer:
            await admin.alter_configs(ResourceType.GROUP, "g", {"share.auto.offset.reset": "earliest"})
            await producer.send_and_wait("t", b"slow")
        deliveries: list[int] = []
        done = asyncio.Event()

        async def slow(record: Record) -> None:
            deliveries.append(record.delivery_count)
            await asyncio.sleep(2.2)  # more than two lock times
            done.set()

        async with worker(address, "g", "t") as one, worker(address, "g", "t") as two:
            running = asyncio.create_task(one.run(slow, stop=done))
            async with asyncio.timeout(20):
                while not deliveries:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert await two.poll(1500) == []
                await running
            assert one.acquisition_lock_timeout_ms == 1000
            assert await two.poll(500) == []
        assert deliveries == [1]


async def test_a_batch_with_a_wrong_checksum_is_raised_and_rejected(
    bootstrap: str, topic: str, group: str, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(producer, topic, 3)
    monkeypatch.setattr(share_decoding, "crc_is_valid", lambda *arguments: False)
    async with worker(bootstrap, group, topic) as one:
        with pytest.raises(CorruptMessage, match="offsets 0 to 2"):
            await take_locked(one)
        monkeypatch.setattr(share_decoding, "crc_is_valid", crc_is_valid)
        assert await one.commit() == {TopicPartition(topic, 0): None}
    await fill(producer, topic, 1)
    async with worker(bootstrap, group, topic) as two:
        assert [record.offset for record in await take_locked(two)] == [3]


async def test_a_broker_without_share_groups_is_said_so(
    bootstrap: str, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_apis(monkeypatch, 76, 78, 79)
    async with worker(bootstrap, group, topic) as one:
        with pytest.raises(UnsupportedVersion, match=r"share groups need Kafka 4\.1 or Penstock"):
            await one.poll(5000)
