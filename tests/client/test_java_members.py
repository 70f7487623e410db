"""Groups of our consumer and Kafka's own Java consumer, with every assignor that both have."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.client import Admin, Consumer

pytestmark = pytest.mark.java

_CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


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
        java = subprocess.Popen(  # noqa: ASYNC220
            [
                *("java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars}/*"),
                *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap),
                *("--topic", topic, "--group", group),
                *(
                    "--command-property",
                    f"partition.assignment.strategy=org.apache.kafka.clients.consumer.{_CLASSES[strategy]}",
                ),
                *("--command-property", "heartbeat.interval.ms=100"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
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
