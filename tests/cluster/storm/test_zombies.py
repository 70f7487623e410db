"""A broker that is stopped for longer than its lease and continued in the middle of something.

Another one leads by then. Nothing that the zombie was about to do is acknowledged or delivered against the new leader.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from penstock.client import Admin, Consumer, Producer, ResourceType, ShareConsumer
from penstock.client.connection import Connection
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError
from tests.cluster.storm.proxy import Mode
from tests.cluster.storm.stage import Node, Stage
from tests.simulation.stream_requests import TOPIC, fetch_request, produce_request, visible

pytestmark = [pytest.mark.timeout(200), pytest.mark.asyncio(loop_scope="module")]
JOBS, GROUP = "jobs", "workers"
_WAIT_SECONDS = 60
_CONFIGS = {
    "broker.session.timeout.ms": 3000,
    "offsets.topic.num.partitions": 2,
    "share.coordinator.state.topic.num.partitions": 2,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with Stage(tmp_path_factory.mktemp("zombies"), 2, _CONFIGS) as stage:
        async with Admin(bootstrap_servers=stage.bootstrap) as admin:
            await admin.create_topic(TOPIC, 1, 2)
            await admin.create_topic(JOBS, 1, 2)
            await admin.alter_configs(ResourceType.GROUP, GROUP, {"share.auto.offset.reset": "earliest"})
        yield stage


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def leader(stage: Stage, topic: str, at: Node | None = None) -> Node:
    """The leader of the first partition, as one broker sees it."""
    address = stage.bootstrap if at is None else f"127.0.0.1:{at.clients.port}"
    async with Admin(bootstrap_servers=address) as admin:
        info = await admin.describe_topic(topic)
    return stage.nodes[info.partitions[0].leader - 1]


async def stopped(stage: Stage, zombie: Node, topic: str) -> Node:
    """Stop a broker until another one leads in its place, which is returned."""
    assert zombie.pause() == "stopped"
    (other,) = (node for node in stage.nodes if node is not zombie)
    deadline = time.monotonic() + _WAIT_SECONDS
    while await leader(stage, topic, other) is not other:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)
    return other


async def connected(node: Node) -> Connection:
    return await Connection.open("127.0.0.1", node.clients.port)


async def written(stage: Stage) -> list[str]:
    async with Consumer(bootstrap_servers=stage.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, 0)])
        end = (await consumer.end_offsets([(TOPIC, 0)])).popitem()[1]
        found: list[str] = []
        while len(found) < end:
            found += [bytes(each.value or b"").decode() for each in await consumer.poll(1_000)]
        return found


async def produced(stage: Stage, value: str) -> int:
    async with Producer(bootstrap_servers=stage.bootstrap) as producer:
        return (await producer.send_and_wait(TOPIC, value, partition=0)).offset


async def test_a_commit_that_was_under_way_is_not_acknowledged(stage: Stage) -> None:
    zombie = await leader(stage, TOPIC)
    before = await produced(stage, "before")
    client = await connected(zombie)
    held = zombie.postgres.hits[Mode.HOLD_COMMITS.value]
    await zombie.postgres.set(Mode.HOLD_COMMITS)
    answer = asyncio.create_task(
        client.request(produce_request(0, "of the zombie", -1), m.ProduceResponse, at_most=12, timeout_ms=120_000)
    )
    await until(lambda: zombie.postgres.hits[Mode.HOLD_COMMITS.value] > held)
    await stopped(stage, zombie, TOPIC)
    assert await produced(stage, "of the new leader") == before + 1
    await zombie.postgres.set(Mode.PASS)  # the commit of the zombie reaches PostgreSQL
    zombie.resume()
    try:
        [result] = (await answer).responses[0].partition_responses
        assert result.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
    except KafkaError:
        assert answer.done()  # its connection was closed: no answer is no acknowledgement
    assert (await written(stage))[before:] == ["before", "of the new leader"]


async def test_a_fetch_that_was_under_way_delivers_nothing_that_the_new_leader_does_not_have(stage: Stage) -> None:
    zombie = await leader(stage, TOPIC)
    before = await produced(stage, "before")
    client, writer = await connected(zombie), await connected(zombie)
    held = zombie.postgres.hits[Mode.HOLD_COMMITS.value]
    await zombie.postgres.set(Mode.HOLD_COMMITS)
    writing = asyncio.create_task(
        writer.request(produce_request(0, "of the zombie", -1), m.ProduceResponse, at_most=12, timeout_ms=120_000)
    )
    answer = asyncio.create_task(
        client.request(fetch_request({0: before + 1}, 0, 100_000), m.FetchResponse, at_most=12, timeout_ms=120_000)
    )
    await until(lambda: zombie.postgres.hits[Mode.HOLD_COMMITS.value] > held)
    await stopped(stage, zombie, TOPIC)
    assert await produced(stage, "of the new leader") == before + 1
    await zombie.postgres.set(Mode.PASS)
    zombie.resume()
    try:
        [partition] = (await answer).responses[0].partitions
        assert partition.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        assert list(visible(partition, before + 1)) == []
    except KafkaError:
        assert answer.done()
    await asyncio.wait([writing], timeout=_WAIT_SECONDS)
    assert (await written(stage))[before:] == ["before", "of the new leader"]


async def test_an_acknowledgement_that_was_under_way_is_not_confirmed_once_another_worker_has_the_record(
    stage: Stage,
) -> None:
    zombie = await leader(stage, JOBS)
    (other,) = (node for node in stage.nodes if node is not zombie)
    async with Producer(bootstrap_servers=stage.bootstrap) as producer:
        await producer.send_and_wait(JOBS, "a job", partition=0)
    settings: dict[str, Any] = {
        "bootstrap_servers": stage.bootstrap,
        "group_id": GROUP,
        "share_acknowledgement_mode": "explicit",
    }
    async with ShareConsumer(**settings, request_timeout_ms=120_000) as first:
        first.subscribe([JOBS])
        (record,) = await first.poll(_WAIT_SECONDS * 1000)
        # Whichever broker keeps the state of the group: the acknowledgement does not come to its end.
        held = zombie.postgres.hits["hold commits"] + other.peers.hits["swallow"]
        await zombie.postgres.set(Mode.HOLD_COMMITS)
        other.peers.part(zombie.name, Mode.SWALLOW)
        first.accept(record)
        answer = asyncio.create_task(first.commit())
        await until(lambda: zombie.postgres.hits["hold commits"] + other.peers.hits["swallow"] > held)
        await stopped(stage, zombie, JOBS)
        other.peers.part(zombie.name, None)
        async with ShareConsumer(**settings) as second:
            second.subscribe([JOBS])
            (again,) = await second.poll(_WAIT_SECONDS * 1000)
            assert again.value == b"a job"
            second.accept(again)
            assert set((await second.commit()).values()) == {None}
        await zombie.postgres.set(Mode.PASS)
        zombie.resume()
        outcomes = await asyncio.wait_for(answer, _WAIT_SECONDS)
        assert outcomes
        assert None not in outcomes.values()
