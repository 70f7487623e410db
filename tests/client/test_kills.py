"""A real broker process, killed again and again under load."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client import Admin, Consumer, Producer, ShareConsumer, TopicPartition
from penstock.client.admin import ResourceType
from penstock.client.types import ConsumerRecord
from tests.client.conftest import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

_RETRIES = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 200}
_KILLS = 4


class Victim:
    """`penstock serve` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = f"127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.main", "serve", "--data", str(self._folder), "--listen", self.address],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert "ready in" in self._process.stdout.readline()

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    async def kill_and_start(self) -> None:
        await asyncio.to_thread(self.kill)
        await asyncio.to_thread(self.start)


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return Victim(tmp_path / "data")


async def test_every_acknowledged_record_is_there_once_and_in_order(victim: Victim) -> None:
    await asyncio.to_thread(victim.start)
    try:
        async with Admin(bootstrap_servers=victim.address) as admin:
            await admin.create_topic("t", 1)
        sent = 0
        async with Producer(
            {"bootstrap.servers": victim.address, "batch.size": 500, "linger.ms": 0, **_RETRIES}
        ) as producer:

            async def load() -> None:
                nonlocal sent
                while True:
                    await producer.send("t", b"%d" % sent, partition=0)
                    sent += 1
                    if sent % 20 == 0:
                        await asyncio.sleep(0.002)

            loading = asyncio.create_task(load())
            for _ in range(_KILLS):
                before = sent
                async with asyncio.timeout(60):
                    while sent < before + 500:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    await victim.kill_and_start()
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            async with asyncio.timeout(60):
                await producer.flush()
        async with Consumer(bootstrap_servers=victim.address, auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            tp = TopicPartition("t", 0)
            end = (await consumer.end_offsets([tp]))[tp]
            found: list[bytes | None] = []
            async with asyncio.timeout(60):
                while await consumer.position(tp) < end:
                    found += [record.value for record in await consumer.poll(500)]
        assert found == [b"%d" % number for number in range(sent)]
    finally:
        victim.kill()


async def test_a_queue_delivers_everything_at_least_once(victim: Victim) -> None:
    await asyncio.to_thread(victim.start)
    try:
        async with Admin(bootstrap_servers=victim.address) as admin:
            await admin.create_topic("q", 2)
            await admin.alter_configs(ResourceType.GROUP, "g", {"share.auto.offset.reset": "earliest"})
        async with Producer(bootstrap_servers=victim.address) as producer:
            for number in range(2000):
                await producer.send("q", b"%d" % number)
        seen: set[bytes | None] = set()
        done = asyncio.Event()

        async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
            seen.add(record.value)
            await asyncio.sleep(0.005)
            if len(seen) == 2000:
                done.set()

        async with ShareConsumer({"bootstrap.servers": victim.address, "group.id": "g", **_RETRIES}) as worker:
            worker.subscribe(["q"])
            running = asyncio.create_task(worker.run(handle, concurrency=20, stop=done))
            async with asyncio.timeout(200):
                for kills in range(1, 3):
                    while len(seen) < 400 * kills:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    await victim.kill_and_start()
                await running
    finally:
        victim.kill()
