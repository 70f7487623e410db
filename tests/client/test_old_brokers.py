"""The client speaks to a broker as old as Kafka 2.1: every request in the version of that time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client import Admin, Consumer, Producer, ResourceType, ShareConsumer, TopicPartition
from penstock.wire.errors import UnsupportedVersion
from tests.client.old_brokers import KAFKA_2_1, as_old_as


@pytest.fixture(autouse=True)
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    as_old_as(monkeypatch, KAFKA_2_1)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_produce_join_consume_commit_and_come_back(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str], strategy: str
) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": fresh("group"),
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": 100,
    }
    async with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        for number in range(40):
            await producer.send(wide_topic, b"%d" % number, partition=number % 4)
    seen: set[bytes | None] = set()
    async with Consumer(settings) as one, Consumer(settings) as two, asyncio.timeout(30):
        one.subscribe([wide_topic])
        two.subscribe([wide_topic])
        while len(seen) < 40 or len(one.assignment()) != 2 or len(two.assignment()) != 2:
            for records in await asyncio.gather(one.poll(100), two.poll(100)):
                seen.update(record.value for record in records)
    async with Consumer(settings) as again, asyncio.timeout(30):
        again.subscribe([wide_topic])
        while len(again.assignment()) != 4:
            assert await again.poll(100) == []
        places = await again.offsets_for_times({TopicPartition(wide_topic, 0): 0})
        assert places[TopicPartition(wide_topic, 0)] is not None


async def test_a_transaction(bootstrap: str, topic: str, fresh: Callable[[str], str]) -> None:
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer:
        async with producer.transaction():
            await producer.send(topic, b"kept")
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, fresh("group"))
        with pytest.raises(ValueError):  # noqa: PT012
            async with producer.transaction():
                await producer.send_and_wait(topic, b"dropped")
                raise ValueError
    async with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic, 0)])
        assert [record.value for record in await consumer.poll(5000)] == [b"kept"]


async def test_administration(bootstrap: str, fresh: Callable[[str], str]) -> None:
    name = fresh("topic")
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(name, 2, 1)
        assert len((await admin.describe_topic(name)).partitions) == 2
        assert (await admin.describe_cluster()).nodes
        assert "retention.ms" in await admin.describe_configs(ResourceType.TOPIC, name)
        await admin.alter_group_offsets(fresh("group"), {TopicPartition(name, 0): 0})
        assert isinstance(await admin.list_groups(), list)
        with pytest.raises(UnsupportedVersion, match="IncrementalAlterConfigs"):
            await admin.alter_configs(ResourceType.TOPIC, name, {"retention.ms": "1"})
        assert await admin.delete_topics([name]) == {name: None}


async def test_what_is_too_new_is_said_so(bootstrap: str, topic: str, fresh: Callable[[str], str]) -> None:
    async with Consumer(bootstrap_servers=bootstrap, group_id=fresh("g"), group_instance_id="static") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(UnsupportedVersion, match="JoinGroup"):
            await consumer.poll(5000)
    async with ShareConsumer(bootstrap_servers=bootstrap, group_id=fresh("s")) as worker:
        worker.subscribe([topic])
        with pytest.raises(UnsupportedVersion, match="ShareGroupHeartbeat"):
            await worker.poll(5000)
