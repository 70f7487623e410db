"""The mirror as a whole: everything at the source, continuously, by one mirror at a time."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from penstock.client import Admin, OffsetSpec, Producer, TopicPartition
from penstock.client.admin import ResourceType
from penstock.mirror.failures import MirrorError, TakenOver
from penstock.mirror.run import Mirror, Plan
from penstock.mirror.source import read
from penstock.testing.broker import Broker
from penstock.wire.errors import ErrorCode
from tests.mirror.conftest import QUICK, caught_up, mirroring, sides, until
from tests.mirror.test_source import produce

TP = TopicPartition("t", 0)


def test_patterns_choose_topics() -> None:
    plan = Plan(include=("orders-*", "payments"), exclude=("*-tmp",))
    names = ["orders-1", "orders-tmp", "payments", "payments-2", "x"]
    assert [name for name in names if plan.takes(name)] == ["orders-1", "payments"]


async def test_everything_is_the_same_on_both_sides(source: Broker, target: Broker, from_: Admin, to: Admin) -> None:
    await from_.create_topic("t", 1, configs={"retention.ms": "7200000"})
    async with mirroring(source, target) as mirror:
        async with Producer(bootstrap_servers=source.bootstrap_servers, compression_type="gzip") as producer:
            for n in range(300):
                headers = [("h", None), ("h", b"%d" % n)]
                await producer.send("t", None if n % 3 == 0 else b"v%d" % n, key=b"k", headers=headers, timestamp_ms=n)
        async with Producer(bootstrap_servers=source.bootstrap_servers, transactional_id="x") as producer:
            for n in range(10):
                with contextlib.suppress(ValueError):
                    async with producer.transaction():
                        await producer.send("t", b"transaction %d" % n)
                        if n % 3 == 0:
                            raise ValueError
        await from_.alter_group_offsets("g", {TP: 310})
        end = (await from_.list_offsets({TP: OffsetSpec.LATEST}))[TP].offset
        await caught_up(mirror, t=end)
        await until(lambda: mirror.status().groups == 1)
        theirs, ours = await read(from_, TP, 0, end), await read(to, TP, 0, end)
        assert ours == theirs
        assert len(ours) == 306
        assert (await to.list_group_offsets("g"))[TP].offset == 310
        status = mirror.status()
        assert (status.topics, status.partitions, status.lag, status.records) == (1, 1, 0, 306)
        assert status.problems == []


async def test_topics_that_are_not_chosen_and_internal_ones_are_left_out(
    source: Broker, target: Broker, from_: Admin, to: Admin
) -> None:
    for name in ("orders-1", "orders-2", "other"):
        source.create_topic(name)
    await from_.alter_group_offsets("g", {TopicPartition("other", 0): 0})
    plan = Plan(include=("orders-*",), exclude=("orders-2",), interval_s=0.1)
    async with mirroring(source, target, plan) as mirror:
        await until(lambda: mirror.status().is_ready and mirror.status().topics)
        await asyncio.sleep(0.2)
        assert [info.name for info in await to.list_topics()] == ["orders-1"]
        assert await to.list_group_offsets("g") == {}


async def test_the_second_mirror_ends_the_first(source: Broker, target: Broker) -> None:
    source.create_topic("t")
    async with Mirror(*sides(source, target), QUICK) as first:
        running = asyncio.create_task(first.run())
        await caught_up(first, t=0)
        async with mirroring(source, target) as second:
            with pytest.raises(TakenOver):
                await asyncio.wait_for(running, 30)
            await produce(source, 10)
            await caught_up(second, t=10)


async def test_two_names_of_one_cluster_are_refused(source: Broker) -> None:
    with pytest.raises(MirrorError, match="are the same cluster"):
        async with Mirror(*sides(source, source), QUICK):
            pass


async def test_both_sides_may_be_away_for_a_while(source: Broker, target: Broker) -> None:
    source.create_topic("t")
    async with mirroring(source, target) as mirror:
        await produce(source, 10)
        await caught_up(mirror, t=10)
        for broker in (source, target):
            broker.stop()
            await asyncio.sleep(0.3)
            broker.start()
            end = mirror.ends()[TP]
            await produce(source, 10, end)
            await caught_up(mirror, t=end + 10)
        assert mirror.status().problems == []


async def test_missing_rights_are_told(source: Broker, target: Broker) -> None:
    source.create_topic("t")
    target.fail("CreateTopics", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with mirroring(source, target) as mirror:
        await until(lambda: mirror.status().problems)
        assert "the topic t cannot be mirrored" in mirror.status().problems[0]


async def test_records_that_are_larger_than_the_topic_now_allows_are_taken(
    source: Broker, target: Broker, from_: Admin, to: Admin
) -> None:
    await from_.create_topic("t", 1, configs={"max.message.bytes": "3000000"})
    async with Producer(bootstrap_servers=source.bootstrap_servers, max_request_size=4_000_000) as producer:
        await producer.send_and_wait("t", bytes(2_000_000))
    await from_.alter_configs(ResourceType.TOPIC, "t", {"max.message.bytes": "1000"})
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=1)
    assert (await to.describe_configs(ResourceType.TOPIC, "t"))["max.message.bytes"].value == str(64 << 20)
