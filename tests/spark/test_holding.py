"""Holding records of a share group: locks that outlive the lock time, and acceptance that is confirmed."""

from __future__ import annotations

import asyncio

from penstock.client import Admin, Producer, ResourceType, TopicPartition
from penstock.spark.holding import Holder, Places, count, from_json, runs_of, to_json, union, without
from penstock.testing import AsyncBroker

GROUP = "holders"


def test_runs_are_written_without_holes() -> None:
    assert runs_of([5, 3, 4, 9]) == [(3, 5), (9, 9)]
    assert runs_of([]) == []


def test_places_survive_json() -> None:
    places: Places = {TopicPartition("a", 0): {1, 2, 3, 7}, TopicPartition("a", 12): {5}, TopicPartition("b", 0): {0}}
    assert to_json(places) == {"a": {"0": [[1, 3], [7, 7]], "12": [[5, 5]]}, "b": {"0": [[0, 0]]}}
    assert from_json(to_json(places)) == places


def test_places_are_sets() -> None:
    one, other = {TopicPartition("a", 0): {1, 2}}, {TopicPartition("a", 0): {2, 3}, TopicPartition("b", 0): {1}}
    assert count(union(one, other)) == 4
    assert without(other, one) == {TopicPartition("a", 0): {3}, TopicPartition("b", 0): {1}}
    assert without(one, one) == {}


async def begin(broker: AsyncBroker, records: int) -> None:
    broker.create_topic("t")
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        configs = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "1000"}
        await admin.alter_configs(ResourceType.GROUP, GROUP, configs)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(records):
            await producer.send("t", str(number))


async def test_what_is_held_outlives_its_lock_and_goes_to_others_when_the_holder_leaves() -> None:
    async with asyncio.timeout(60), AsyncBroker({"group.share.min.record.lock.duration.ms": 1000}) as broker:
        await begin(broker, 10)
        one, other = (Holder(broker.bootstrap_servers, GROUP, name) for name in ("one", "other"))
        await one.start(["t"])
        got = await one.gather(10, 20_000)
        assert count(got) == count(one.held) == 10
        await other.start(["t"])
        assert await other.gather(10, 2_500) == {}  # two and a half times the lock
        done = {TopicPartition("t", 0): set(range(4))}
        assert await one.accept(done) == done
        await one.close()
        rest = await other.gather(10, 20_000)
        assert rest == {TopicPartition("t", 0): set(range(4, 10))}
        await other.close()


async def test_records_that_arrive_when_nobody_waits_are_held_too() -> None:
    async with asyncio.timeout(60), AsyncBroker({"group.share.min.record.lock.duration.ms": 1000}) as broker:
        await begin(broker, 0)
        one, other = (Holder(broker.bootstrap_servers, GROUP, name) for name in ("one", "other"))
        await one.start(["t"])
        await other.start(["t"])
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(10):
                await one.gather(10, 1)  # leaves a fetch at the broker, for half a second
                late = await producer.send_and_wait("t", "late")
                found = await other.gather(10, 2_500)  # two and a half times the lock
                if not found:
                    break
                await other.accept(found)  # too late for that fetch: once more
        assert await one.gather(10, 20_000) == {TopicPartition("t", 0): {late.offset}}
        await one.close()
        await other.close()


async def test_only_what_the_broker_confirmed_counts_as_accepted() -> None:
    async with asyncio.timeout(60), AsyncBroker({"group.share.min.record.lock.duration.ms": 1000}) as broker:
        await begin(broker, 5)
        holder = Holder(broker.bootstrap_servers, GROUP, "one")
        await holder.start(["t"])
        got = await holder.gather(5, 20_000)
        broker.drop("ShareAcknowledge")
        assert await holder.accept(got) == {}
        again = await holder.gather(5, 20_000)
        assert again == got
        assert await holder.accept(again) == got
        await holder.close()
