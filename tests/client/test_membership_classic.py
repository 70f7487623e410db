"""Groups of our consumer and Kafka's own Java consumer, with every assignor that both have."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

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


def _java_consumer(jars: Path, bootstrap: str, topic: str, group: str, strategy: str) -> subprocess.Popen[bytes]:
    strategy_class = f"org.apache.kafka.clients.consumer.{_CLASSES[strategy]}"
    return subprocess.Popen(
        [
            *("java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"),
            *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap),
            *("--topic", topic, "--group", group),
            *("--command-property", f"partition.assignment.strategy={strategy_class}"),
            *("--command-property", "heartbeat.interval.ms=100"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("address", ["penstock_address", "kafka_address"])
@pytest.mark.parametrize("strategy", list(_CLASSES))
async def test_java_and_ours_share_the_partitions(
    request: pytest.FixtureRequest,
    kafka_jars: Path,
    fresh: Callable[[str], str],
    address: str,
    strategy: str,
) -> None:
    bootstrap = request.getfixturevalue(address)
    topic, group = fresh("topic"), fresh("group")
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": 100,
    }
    async with Admin(bootstrap_servers=bootstrap) as admin, Consumer(settings) as ours:
        await admin.create_topic(topic, 4)
        ours.subscribe([topic])
        java = _java_consumer(kafka_jars, bootstrap, topic, group, strategy)
        try:
            async with asyncio.timeout(60):
                while len(ours.assignment()) != 4:
                    await ours.poll(100)
                shares: list[int] = []
                while shares != [2, 2]:
                    assert java.poll() is None
                    await ours.poll(200)
                    described = await admin.describe_group(group)
                    shares = sorted(len(member.assignment) for member in described.members)
                assert described.assignor == strategy
                held = [tp for member in described.members for tp in member.assignment]
                assert len(set(held)) == 4
        finally:
            java.terminate()
            java.wait(30)
        async with asyncio.timeout(60):
            while len(ours.assignment()) != 4:
                await ours.poll(200)


@pytest.mark.parametrize("address", ["penstock_address", "kafka_address"])
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
async def test_java_librdkafka_and_ours_share_the_partitions(
    request: pytest.FixtureRequest, kafka_jars: Path, fresh: Callable[[str], str], address: str, strategy: str
) -> None:
    bootstrap = request.getfixturevalue(address)
    topic, group = fresh("topic"), fresh("group")
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": 100,
    }
    async with Admin(bootstrap_servers=bootstrap) as admin, Consumer(settings) as ours:
        await admin.create_topic(topic, 6)
        ours.subscribe([topic])
        librdkafka = confluent_kafka.Consumer({**settings, "session.timeout.ms": 6000})
        librdkafka.subscribe([topic])
        java = _java_consumer(kafka_jars, bootstrap, topic, group, strategy)
        try:
            async with asyncio.timeout(60):
                shares: list[int] = []
                while shares != [2, 2, 2]:
                    assert java.poll() is None
                    await asyncio.gather(ours.poll(100), asyncio.to_thread(librdkafka.poll, 0.1))
                    described = await admin.describe_group(group)
                    shares = sorted(len(member.assignment) for member in described.members)
            held = [tp for member in described.members for tp in member.assignment]
            assert len(set(held)) == 6
            assert described.assignor == strategy
        finally:
            java.terminate()
            await asyncio.to_thread(librdkafka.close)
            java.wait(30)
        async with asyncio.timeout(60):
            while len(ours.assignment()) != 6:
                await ours.poll(200)
