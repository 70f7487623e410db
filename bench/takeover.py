"""How long clients pause when the broker that they depend on is killed, drained, stopped or cut off.

Four probes run at once, each in a loop, all of them dependent on one node: produce with acks=all to a partition that it
leads, fetch from that partition, offset commits of a group that it coordinates, and a share group on that partition,
whose records were written before. The pause of a probe is the longest time between two successes around the fault. The
client is `penstock.client` on every cluster, so that what clients add is the same; its timeouts are those it has as
shipped.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

from bench.clusters import Cluster, PenstockCluster
from bench.network import can_cut_off
from bench.peers import PeerError
from penstock.client import Admin, Consumer, Producer, ResourceType, ShareConsumer, TopicPartition
from penstock.client.cluster import GROUP
from penstock.client.errors import UsageError
from penstock.wire.errors import KafkaError

SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGSTOP": signal.SIGSTOP}
DRAIN, PARTITION = "drain", "partition"
FAULTS = ("SIGKILL", "SIGTERM", DRAIN, "SIGSTOP", PARTITION)
PROBES = ("produce", "fetch", "commit", "share")
_BEFORE_SECONDS = 4.0
_AFTER_SECONDS = 25.0
_BACKLOG = 30_000
_TRIES = 5
_CLIENT: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 200}


class Moved(Exception):
    """Leaders were balanced between the choice of the node and the fault, so it would hit something else."""


class Probes:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._settings = {"bootstrap_servers": bootstrap, **_CLIENT}
        self._topic = topic
        self.successes: dict[str, list[float]] = {name: [] for name in PROBES}
        self.node = 0
        self._partition = 0
        self._group = ""

    async def prepare(self, number: int) -> None:
        """Choose the victim, and a group that it coordinates; write what the share group reads."""
        async with Admin(**self._settings) as admin:
            info = await admin.describe_topic(self._topic)
            self.node = info.partitions[0].leader
            for candidate in range(1000):
                self._group = f"group-{number}-{candidate}"
                try:
                    if await admin.cluster.coordinator(GROUP, self._group) == self.node:
                        break
                except KafkaError:
                    await asyncio.sleep(0.2)  # the topic of the coordinators is being created
            share = {"share.auto.offset.reset": "earliest"}
            await admin.alter_configs(ResourceType.GROUP, f"share-{number}", share)
        self._share = f"share-{number}"
        async with Producer(**self._settings) as producer:
            for _ in range(_BACKLOG if number == 0 else 0):
                await producer.send(self._topic, b"x" * 10, partition=self._partition)

    async def run(self, fault: Callable[[], None]) -> dict[str, float]:
        """Seconds of pause of each probe."""
        probes = {"produce": self._produce, "fetch": self._fetch, "commit": self._commit, "share": self._take}
        tasks = [asyncio.create_task(self._again(name, probe)) for name, probe in probes.items()]
        try:
            async with asyncio.timeout(90):
                while not all(self.successes.values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            await asyncio.sleep(_BEFORE_SECONDS)
            await self._check_victim()
            struck = time.monotonic()
            fault()
            await asyncio.sleep(_AFTER_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return {name: pause(times, struck, struck + _AFTER_SECONDS) for name, times in self.successes.items()}

    async def _check_victim(self) -> None:
        async with Admin(**self._settings) as admin:
            leader = (await admin.describe_topic(self._topic)).partitions[self._partition].leader
            coordinator = await admin.cluster.coordinator(GROUP, self._group)
        if {leader, coordinator} != {self.node}:
            raise Moved

    async def _again(self, name: str, probe: Callable[[list[float]], Awaitable[None]]) -> None:
        while True:
            try:
                await probe(self.successes[name])
            except (KafkaError, UsageError, TimeoutError):
                await asyncio.sleep(0.05)

    async def _produce(self, successes: list[float]) -> None:
        async with Producer(**self._settings) as producer:
            while True:
                await producer.send_and_wait(self._topic, b"x", partition=self._partition)
                successes.append(time.monotonic())
                await asyncio.sleep(0.005)

    async def _fetch(self, successes: list[float]) -> None:
        place = TopicPartition(self._topic, self._partition)
        async with Consumer(**self._settings, auto_offset_reset="earliest", fetch_max_bytes=4096) as consumer:
            consumer.assign([place])
            while True:
                consumer.seek(place, 0)
                if await consumer.poll(1_000, max_records=1):
                    successes.append(time.monotonic())
                await asyncio.sleep(0.005)

    async def _commit(self, successes: list[float]) -> None:
        place = TopicPartition(self._topic, self._partition)
        async with Consumer(**self._settings, group_id=self._group, enable_auto_commit=False) as consumer:
            consumer.assign([place])
            while True:
                await consumer.commit({place: 1}, timeout_ms=30_000)
                successes.append(time.monotonic())
                await asyncio.sleep(0.005)

    async def _take(self, successes: list[float]) -> None:
        """A record counts when its acceptance was confirmed: whoever cannot confirm any can still deliver."""
        own: dict[str, Any] = {"group_id": self._share, "share_acknowledgement_mode": "explicit", "max_poll_records": 1}
        async with ShareConsumer(**self._settings, **own) as worker:
            worker.subscribe([self._topic])
            while True:
                for record in await worker.poll(1_000):
                    worker.accept(record)
                outcomes = await worker.commit()
                if outcomes and not any(outcomes.values()):
                    successes.append(time.monotonic())
                await asyncio.sleep(0.005)


def pause(times: list[float], since: float, until: float) -> float:
    """The longest time without a success, from the last one before `since` on."""
    relevant = [max((each for each in times if each <= since), default=since)]
    relevant += [each for each in times if since < each < until]
    relevant.append(until)
    return max((after - before for before, after in pairwise(relevant)), default=0.0)


def is_possible(cluster: Cluster, kind: str) -> bool:
    """Apache Kafka's nodes hand over when they get SIGTERM, and no command has them do so."""
    if kind == PARTITION:
        return can_cut_off()
    return kind != DRAIN or isinstance(cluster, PenstockCluster)


def strike(cluster: Cluster, node: int, kind: str) -> None:
    if kind == PARTITION:
        cluster.cut_off(node)
    elif kind == DRAIN:
        assert isinstance(cluster, PenstockCluster)
        cluster.drain(node)
    else:
        cluster.send(node, SIGNALS[kind])


def take_over(cluster: Cluster, topic: str, kind: str, number: int) -> dict[str, float]:
    """Seconds that each probe pauses; the node is up again afterwards."""
    struck = 0

    async def run() -> dict[str, float]:
        probes = Probes(cluster.bootstrap, topic)
        await probes.prepare(number)

        def fault() -> None:
            nonlocal struck
            struck = probes.node
            strike(cluster, probes.node, kind)

        return await probes.run(fault)

    try:
        for _ in range(_TRIES):
            with suppress(Moved):
                return asyncio.run(run())
        raise PeerError(f"leaders of {cluster.name} have been moving about for {_TRIES} times")
    finally:
        if struck:
            cluster.recover(struck)
