"""The cut-over: made when both sides are equal and nobody writes; otherwise refused, with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.client import Admin, Consumer, Producer, TopicPartition
from penstock.client.admin import ResourceType
from penstock.mirror.cut_over import CutOver, Refused, cut_over
from penstock.mirror.failures import MirrorError
from penstock.mirror.run import Mirror, Plan
from penstock.mirror.source import read
from penstock.testing.broker import Broker
from tests.mirror.conftest import QUICK, caught_up, mirroring, sides
from tests.mirror.test_source import produce

TP = TopicPartition("t", 0)


async def change_over(source: Broker, target: Broker, *, timeout_s: float = 20, records: int = 0) -> CutOver:
    async with Mirror(*sides(source, target), QUICK) as mirror:
        return await cut_over(mirror, still_s=0.3, timeout_s=timeout_s, records=records, tell=lambda text: None)


async def refusal(source: Broker, target: Broker, *, timeout_s: float = 20) -> list[str]:
    with pytest.raises(Refused) as refused:
        await change_over(source, target, timeout_s=timeout_s)
    assert "nothing was changed" in str(refused.value)
    return refused.value.reasons


@asynccontextmanager
async def transaction(source: Broker) -> AsyncIterator[None]:
    """One that is open, and has written a record to t."""
    async with (
        Producer(bootstrap_servers=source.bootstrap_servers, transactional_id="x") as producer,
        producer.transaction(),
    ):
        await (await producer.send("t", b"open"))
        yield


@pytest.fixture
async def filled(source: Broker, target: Broker, from_: Admin) -> None:
    await from_.create_topic("t", 1, configs={"message.timestamp.type": "LogAppendTime"})
    await produce(source, 100)
    await from_.alter_group_offsets("g", {TP: 40})


@pytest.mark.usefixtures("filled")
async def test_a_cut_over_copies_the_rest_and_makes_the_target_ready(source: Broker, target: Broker, to: Admin) -> None:
    done = await change_over(source, target)
    assert (done.topics, done.partitions, done.records_compared, done.groups) == (1, 1, 100, 1)
    assert (await to.list_group_offsets("g"))[TP].offset == 40
    configs = await to.describe_configs(ResourceType.TOPIC, "t")
    assert configs["message.timestamp.type"].value == "LogAppendTime"
    assert configs["max.message.bytes"].value == "1048588"
    with pytest.raises(MirrorError, match="add --again"):
        async with Mirror(*sides(source, target), QUICK):
            pass
    async with mirroring(source, target, Plan(again=True, interval_s=0.1)) as mirror:
        await caught_up(mirror, t=100)


@pytest.mark.usefixtures("filled")
async def test_afterwards_the_way_back_is_a_mirror_too(source: Broker, target: Broker, from_: Admin) -> None:
    await change_over(source, target)
    await produce(target, 50, 100)
    async with mirroring(target, source) as back:
        await caught_up(back, t=150)
    assert (await change_over(target, source)).records_compared == 150
    assert (await from_.list_group_offsets("g"))[TP].offset == 40


@pytest.mark.usefixtures("filled")
async def test_only_the_last_records_are_compared_if_that_is_wanted(source: Broker, target: Broker) -> None:
    assert (await change_over(source, target, records=30)).records_compared == 30


@pytest.mark.usefixtures("filled")
async def test_programs_that_still_write_are_named(source: Broker, target: Broker) -> None:
    async def write() -> None:
        async with Producer(bootstrap_servers=source.bootstrap_servers) as producer:
            while True:
                await producer.send_and_wait("t", b"more")
                await asyncio.sleep(0.05)

    writing = asyncio.create_task(write())
    reasons = await refusal(source, target, timeout_s=3)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert reasons == ["programs still write to t at the source: stop them"]


@pytest.mark.usefixtures("filled")
async def test_an_open_transaction_is_named(source: Broker, target: Broker) -> None:
    async with transaction(source):
        reasons = await refusal(source, target)
    assert "a transaction is open in t-0" in reasons[0]


@pytest.mark.usefixtures("filled")
async def test_members_at_the_source_are_named(source: Broker, target: Broker) -> None:
    async with Consumer(bootstrap_servers=source.bootstrap_servers, group_id="g") as consumer:
        consumer.subscribe(["t"])
        await consumer.poll(timeout_ms=1000)
        assert await refusal(source, target) == ["the group g has members at the source: stop its programs"]


@pytest.mark.usefixtures("filled")
async def test_members_at_the_target_are_named(source: Broker, target: Broker) -> None:
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=100)
    async with Consumer(bootstrap_servers=target.bootstrap_servers, group_id="g") as consumer:
        consumer.subscribe(["t"])
        await consumer.poll(timeout_ms=1000)
        assert await refusal(source, target) == ["the group g has members at the target already: stop its programs"]


@pytest.mark.usefixtures("filled")
async def test_a_topic_that_has_stopped_is_named(source: Broker, target: Broker) -> None:
    target.create_topic("t")
    await produce(target, 3, 1000)
    assert "holds something else" in (await refusal(source, target))[0]


@pytest.mark.usefixtures("filled")
async def test_records_that_differ_anywhere_are_found(source: Broker, target: Broker, from_: Admin) -> None:
    await produce(source, 200, 100)
    target.create_topic("t")
    await produce(target, 1, 1000)
    theirs = await read(from_, TP, 1, 300)  # a copy, but for the first record
    async with Producer(bootstrap_servers=target.bootstrap_servers) as producer:
        for record in theirs:
            await producer.send("t", record.value, partition=0, timestamp_ms=record.timestamp)
    assert (await change_over(source, target, records=200)).records_compared == 200
    async with Mirror(*sides(source, target), Plan(again=True, interval_s=0.1)) as mirror:
        with pytest.raises(Refused, match="t-0 holds different records at offset 0"):
            await cut_over(mirror, still_s=0.3, timeout_s=20, records=0, tell=lambda text: None)


@pytest.mark.usefixtures("filled")
async def test_after_a_refusal_the_mirror_goes_on(source: Broker, target: Broker) -> None:
    async with transaction(source):
        await refusal(source, target)
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=102)
    assert (await change_over(source, target)).records_compared == 101
