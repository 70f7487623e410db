"""Groups of our consumer and Kafka's own Java consumer, with every assignor that both have."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from penstock.client import Admin, Consumer

pytestmark = pytest.mark.java

_CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


@dataclass
class Mixed:
    """A group on one of the brokers, with a member of ours in it."""

    admin: Admin
    ours: Consumer[bytes, bytes]
    topic: str
    settings: dict[str, Any]

    @contextmanager
    def java_consumer(self, jars: Path) -> Iterator[subprocess.Popen[bytes]]:
        strategy = _CLASSES[self.settings["partition.assignment.strategy"]]
        process = subprocess.Popen(
            [
                *("java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"),
                "org.apache.kafka.tools.consumer.ConsoleConsumer",
                *("--bootstrap-server", self.settings["bootstrap.servers"]),
                *("--topic", self.topic, "--group", self.settings["group.id"]),
                *("--command-property", f"partition.assignment.strategy=org.apache.kafka.clients.consumer.{strategy}"),
                *("--command-property", "heartbeat.interval.ms=100"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)

    async def ours_has(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.ours.assignment()) != count:
                await self.ours.poll(100)

    async def shared_as(self, shares: list[int], poll: Callable[[], Awaitable[object]]) -> None:
        """Poll until the members have so many partitions each, none of them twice."""
        async with asyncio.timeout(60):
            while True:
                await poll()
                described = await self.admin.describe_group(self.settings["group.id"])
                if sorted(len(member.assignment) for member in described.members) == shares:
                    break
        held = [tp for member in described.members for tp in member.assignment]
        assert len(set(held)) == sum(shares)
        assert described.assignor == self.settings["partition.assignment.strategy"]


@pytest.fixture(params=["penstock_address", "kafka_address"])
async def mixed(
    request: pytest.FixtureRequest, fresh: Callable[[str], str], strategy: str, partitions: int
) -> AsyncIterator[Mixed]:
    topic = fresh("topic")
    settings = {
        "bootstrap.servers": request.getfixturevalue(request.param),
        "group.id": fresh("group"),
        "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": 100,
    }
    async with Admin(bootstrap_servers=settings["bootstrap.servers"]) as admin, Consumer(settings) as ours:
        await admin.create_topic(topic, partitions)
        ours.subscribe([topic])
        yield Mixed(admin, ours, topic, settings)


@pytest.mark.parametrize("partitions", [4])
@pytest.mark.parametrize("strategy", list(_CLASSES))
async def test_java_and_ours_share_the_partitions(kafka_jars: Path, mixed: Mixed) -> None:
    await mixed.ours_has(4)
    with mixed.java_consumer(kafka_jars) as java:

        async def poll() -> None:
            assert java.poll() is None
            await mixed.ours.poll(200)

        await mixed.shared_as([2, 2], poll)
    await mixed.ours_has(4)


@pytest.mark.parametrize("partitions", [6])
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
async def test_java_librdkafka_and_ours_share_the_partitions(kafka_jars: Path, mixed: Mixed) -> None:
    librdkafka = confluent_kafka.Consumer({**mixed.settings, "session.timeout.ms": 6000})
    librdkafka.subscribe([mixed.topic])
    with mixed.java_consumer(kafka_jars) as java:

        async def poll() -> None:
            assert java.poll() is None
            await asyncio.gather(mixed.ours.poll(100), asyncio.to_thread(librdkafka.poll, 0.1))

        try:
            await mixed.shared_as([2, 2, 2], poll)
        finally:
            await asyncio.to_thread(librdkafka.close)
    await mixed.ours_has(6)
