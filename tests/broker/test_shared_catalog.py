"""Several brokers that share a catalog: each leads some of the partitions, and all know who leads the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import Foundation, OnFailure, Settings, Shared, local_foundation
from penstock.broker.handlers.configs import Operation
from penstock.broker.placement import among_fixed_owners
from penstock.broker.server import Broker
from penstock.broker.world import World
from penstock.catalog.sqlite import SqliteCatalog
from penstock.client import Consumer, Producer
from penstock.testing.broker import FAST_CONFIGS
from penstock.wire import messages as m
from penstock.wire.config_resources import ResourceType
from penstock.wire.errors import ErrorCode
from tests.broker.raw import RawClient

OWNERS = (1, 2)
SET, DELETE, APPEND, SUBTRACT = Operation


def lay_foundation(
    path: Path, node_id: int, settings: Settings, config: BrokerConfig, world: World, on_failure: OnFailure
) -> Foundation:
    """A storage folder of its own, and a catalog that it shares."""
    own = local_foundation(settings, config, world, on_failure)
    own.catalog.close()
    catalog = SqliteCatalog.open(path)
    own.catalog = catalog
    own.shared = Shared(catalog, among_fixed_owners(OWNERS), f"instance-{node_id}")
    return own


async def start(folder: Path, node_id: int, configs: dict[str, str] | None = None) -> tuple[Broker, asyncio.Task[None]]:
    settings = Settings(
        data=folder / f"broker-{node_id}",
        listen=["127.0.0.1:0"],
        configs={**FAST_CONFIGS, "node.id": str(node_id), **(configs or {})},
    )
    broker = Broker(settings, partial(lay_foundation, folder / "catalog.sqlite", node_id))
    await broker.start()
    return broker, asyncio.create_task(broker.serve())


@asynccontextmanager
async def pair(folder: Path, configs: dict[str, str] | None = None) -> AsyncIterator[tuple[Broker, Broker]]:
    started = [await start(folder, node_id, configs) for node_id in OWNERS]
    try:
        yield started[0][0], started[1][0]
    finally:
        for broker, serving in started:
            broker.stop()
            await asyncio.wait_for(serving, 30)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - another broker notices by itself
            await asyncio.sleep(0.02)


def led(broker: Broker, topic: str) -> list[int]:
    return [partition.index for partition in broker.parts.cluster.topic(topic).hosted_partitions()]


async def test_partitions_are_spread_and_both_brokers_know_who_leads_which(tmp_path: Path) -> None:
    async with pair(tmp_path) as (one, two):
        topic = one.parts.topics.create("orders", 4, {"retention.ms": "7"})
        other = two.parts.cluster.topic("orders")
        assert other.topic_id == topic.topic_id
        assert other.configs == {"retention.ms": "7"}
        assert sorted(led(one, "orders") + led(two, "orders")) == [0, 1, 2, 3]
        assert len(led(one, "orders")) == len(led(two, "orders")) == 2
        await until(lambda: one.parts.cluster.node_ids == two.parts.cluster.node_ids == [1, 2])
        for index in range(4):
            leader = one.parts.cluster.leader(topic, index)
            assert leader is not None
            assert leader == two.parts.cluster.leader(other, index)
            assert index in led(one if leader.node_id == 1 else two, "orders")
            assert one.parts.cluster.replicas(topic, index) == [leader.node_id]


async def test_clients_produce_and_consume_everywhere_through_either_broker(tmp_path: Path) -> None:
    async with pair(tmp_path, {"num.partitions": "4"}) as (one, two):
        await until(lambda: one.parts.cluster.node_ids == [1, 2])
        sent = [(f"k{number}".encode(), f"v{number}".encode()) for number in range(200)]
        async with Producer(bootstrap_servers=two.bootstrap) as producer:
            for key, value in sent:
                await producer.send("orders", key=key, value=value)
        assert len(led(one, "orders")) == len(led(two, "orders")) == 2
        coordinators = set()
        for group in "abcdef":
            found = []
            consumer = Consumer(bootstrap_servers=one.bootstrap, group_id=group, auto_offset_reset="earliest")
            async with consumer, asyncio.timeout(30):
                consumer.subscribe(["orders"])
                async for record in consumer:
                    found.append((record.key, record.value))
                    if len(found) == len(sent):
                        break
                await consumer.commit()
            assert sorted(found) == sorted(sent)
            runtime = one.parts.groups.runtime
            coordinators.add(one.parts.cluster.leader_elsewhere("__consumer_offsets", runtime.partition_for(group)))
        assert coordinators == {None, 2}


async def test_of_two_brokers_that_create_a_topic_at_once_the_slower_one_takes_what_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(tmp_path, {"num.partitions": "4"}) as (one, two):
        made = one.parts.topics.get_or_create("orders")
        looks = iter([lambda: None])  # the slower one has not heard of it when it begins
        cluster = two.parts.cluster
        assert two.parts.follower is not None
        look = two.parts.follower.look
        cluster.on_missing = lambda: next(looks, look)()
        found = two.parts.topics.get_or_create("orders")
        assert found.topic_id == made.topic_id
        assert sorted(led(one, "orders") + led(two, "orders")) == [0, 1, 2, 3]
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_change_is_made_on_what_other_brokers_have_changed_before_it(tmp_path: Path) -> None:
    async with pair(tmp_path) as (one, two):
        one.parts.topics.create("orders", 1, {})
        for broker in (one, two):
            assert broker.parts.follower is not None
            broker.parts.follower.stop()  # nothing is heard but by looking
        for broker, name in ((one, "retention.ms"), (two, "segment.bytes"), (one, "retention.bytes")):
            # Not by way of a client, which would request metadata first.
            assert await asyncio.to_thread(alter, broker, name, SET, "1048576") == ErrorCode.NONE
        (row,) = one.parts.catalog.topics()
        assert set(row.configs) == {"retention.ms", "segment.bytes", "retention.bytes"}


async def test_a_broker_that_has_not_heard_of_a_change_does_not_undo_it(tmp_path: Path) -> None:
    async with pair(tmp_path) as (one, two):
        one.parts.topics.create("orders", 1, {"retention.ms": "1"})
        assert two.parts.cluster.topic("orders").configs == {"retention.ms": "1"}
        for broker in (one, two):
            assert broker.parts.follower is not None
            broker.parts.follower.stop()
            broker.parts.follower._max_age_seconds = None  # nothing is heard, not by looking either
        assert await asyncio.to_thread(alter, one, "retention.ms", SET, "2") == ErrorCode.NONE
        assert await asyncio.to_thread(alter, one, "cleanup.policy", APPEND, "compact") == ErrorCode.NONE
        assert two.parts.cluster.topic("orders").configs == {"retention.ms": "1"}
        assert await asyncio.to_thread(alter, two, "max.message.bytes", SET, "5") == ErrorCode.NONE
        assert await asyncio.to_thread(alter, one, "cleanup.policy", SUBTRACT, "delete") == ErrorCode.NONE
        assert await asyncio.to_thread(alter, two, "max.message.bytes", DELETE, None) == ErrorCode.NONE
        (row,) = one.parts.catalog.topics()
        assert row.configs == {"retention.ms": "2", "cleanup.policy": "compact"}
        # Whoever changes something knows what the others have changed until then.
        assert two.parts.cluster.topic("orders").configs == row.configs
        assert two.parts.cluster.topic("orders").log_config.retention_ms == 2


def alter(broker: Broker, name: str, operation: Operation, value: str | None) -> int:
    change = m.IncrementalAlterConfigsRequest.AlterableConfig(name, operation, value)
    resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource(ResourceType.TOPIC, "orders", [change])
    with RawClient(broker.port) as client:
        answer = client.ask(
            m.IncrementalAlterConfigsRequest(resources=[resource]), m.IncrementalAlterConfigsResponse, 1
        )
    return answer.responses[0].error_code
