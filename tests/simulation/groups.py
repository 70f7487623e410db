"""Consumer groups of both protocols: members come, go, die and return, and every record is read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from penstock.client.accumulator import Delivery
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.simulation.door import Door
from penstock.wire.errors import KafkaError
from tests.simulation.group_history import LISTENED, GroupHistory
from tests.simulation.queues import PATIENT, started
from tests.simulation.raw import access
from tests.simulation.scenario import Scenario

TOPIC = "events"
GROUP = "readers"
PARTITIONS = 4
SESSION_MS = 6_000
_MEMBERS = 3
_RECORDS = 40
_SETTLED_SECONDS, _STATIC_SETTLED_SECONDS = 10, 15
"""Longer than a session: whoever is dead is expelled, and the others have what it had. A static member may join again
only then.
"""
_IDLE_SECONDS = 0.5
_LEAVES_WHEN_IDLE = 0.15
"""In the end there is nothing to read: members poll less often, and come and go as they did."""
_CAUGHT_UP_ROUNDS = 300
_GIVE_UP_SECONDS = 400


class Groups(Scenario):
    """A group of the classic protocol (range, roundrobin and cooperative-sticky by turns), whose members come, go, die
    and commit."""

    name = "groups"
    lasts_ms = 8_000
    protocol = "classic"
    is_static = False
    assignors: tuple[str, ...] = ("range", "roundrobin", "cooperative-sticky", "range,cooperative-sticky")

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": str(SESSION_MS),
            "group.consumer.min.heartbeat.interval.ms": "500",
            "group.consumer.heartbeat.interval.ms": "1000",
            "group.consumer.assignment.interval.ms": str((0, 1000)[seed % 2]),
        }

    async def prepare(self) -> None:
        topic_id = await self.create_topic(TOPIC, PARTITIONS)
        self.stopped = self.is_settling = False
        recorded = GroupHistory(self.history, Door(self.world, LISTENED), self.world, {topic_id: TOPIC}, SESSION_MS)
        # With KIP-848 a static member that was killed has to wait until it is expelled (UNRELEASED_INSTANCE_ID).
        if self.is_static and self.protocol == "classic":
            self.crowd.on_killed = lambda name: recorded.static_member_is_away(GROUP, name, _MEMBERS)
        for number in range(_MEMBERS):
            self.crowd.start(f"member-{number}", self._read)

    async def load(self) -> None:
        await self.world.spawn("producer", self._produce).task

    async def _produce(self) -> None:
        chance = random.Random(f"producer of {self.seed}")
        async with await started(Producer(**access(self.world), **PATIENT)) as producer:
            for number in range(_RECORDS):
                partition = chance.randrange(PARTITIONS)
                delivery = await producer.send(TOPIC, str(number), partition=partition)
                await self._delivered(str(number), partition, delivery)
                await asyncio.sleep(chance.uniform(0, 0.3))

    async def _delivered(self, value: str, partition: int, delivery: Delivery) -> None:
        sent = {"process": "producer", "topic": TOPIC, "partition": partition, "value": value}
        try:
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                record = await delivery
        except (KafkaError, TimeoutError):
            self.history.add("send", **sent, result="unknown")
        else:
            self.history.add("send", **sent, result="ok", offset=record.offset)

    # -- members -------------------------------------------------------------------------------------------------------

    async def _read(self, name: str) -> None:
        chance = random.Random(f"{name} of {self.seed} at {self.world.now_ms}")
        while not self.stopped:
            try:
                async with Consumer(**self._settings(name, chance)) as consumer:
                    consumer.subscribe([TOPIC])
                    # A static member stays; the others come and go.
                    rounds = 1_000_000 if self.is_static else chance.randint(5, 60)
                    for _ in range(rounds):
                        if self.stopped:
                            return
                        await self._poll(consumer, name, chance)
                        if self.is_settling and not self.is_static and chance.random() < _LEAVES_WHEN_IDLE:
                            break
            except KafkaError as error:
                self.world.tell(name, f"begins anew: {error!r}")
                await asyncio.sleep(0.05)

    async def _poll(self, consumer: Consumer[bytes, bytes], name: str, chance: random.Random) -> None:
        records = await consumer.poll(300)
        if records:
            seen = [[TOPIC, each.partition, each.offset, bytes(each.value or b"").decode()] for each in records]
            self.history.add("poll", process=name, records=seen, how="subscribe", isolation="read_uncommitted")
        await asyncio.sleep(chance.choice([0, 0.01, 0.2]) + self.is_settling * _IDLE_SECONDS)
        if chance.random() < 0.7 or self.faults_are_over:
            try:
                await consumer.commit(timeout_ms=2_000)
            except KafkaError as error:
                self.world.tell(name, f"did not commit: {error!r}")

    def _protocol(self, chance: random.Random) -> str:
        return self.protocol

    def _settings(self, name: str, chance: random.Random) -> dict[str, Any]:
        protocol = self._protocol(chance)
        settings: dict[str, Any] = {
            "bootstrap_servers": self.world.bootstrap,
            "group_id": GROUP,
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": chance.random() < 0.3,
            "auto_commit_interval_ms": 200,
            "request_timeout_ms": 2_000,
            "fetch_max_wait_ms": 200,
        }
        if protocol == "classic":
            strategy = self.assignors[self.seed % len(self.assignors)]
            settings |= {
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": 1_000,
                "partition_assignment_strategy": strategy,
            }
        if self.is_static:
            settings["group_instance_id"] = name
        return settings

    # -- the end -------------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        self.is_settling = True
        await asyncio.sleep(_STATIC_SETTLED_SECONDS if self.is_static else _SETTLED_SECONDS)
        for _ in range(_CAUGHT_UP_ROUNDS):
            if self._is_caught_up():
                break
            await asyncio.sleep(0.2)
        else:
            self.find("behind", f"the group does not come to the end of {TOPIC}")
        self.history.add("drained")
        self.stopped = True

    def _is_caught_up(self) -> bool:
        committed = {
            each["partition"]: each["offset"]
            for each in self.history.operations
            if each["op"] == "offset-commit" and each["result"] == "ok"
        }
        return all(committed.get(index, 0) == end for index, end in self.end_offsets(TOPIC).items())


class ConsumerGroups(Groups):
    """`groups`, with the protocol of KIP-848."""

    name = "groups-848"
    protocol = "consumer"


class Migration(Groups):
    """`groups`: each member that joins has either protocol, so the group is upgraded and downgraded while it works."""

    name = "migration"

    def _protocol(self, chance: random.Random) -> str:
        return chance.choice(["classic", "consumer"])


class ClockJumps(Groups):
    """`groups`: members die while the clock of the broker is set forward and back."""

    name = "clock-jumps"
    kinds = ("clock-jump", "clock-jump", "kill-client")


class StaticMembers(Groups):
    """Members that keep their partitions while they are away; the protocol depends on the seed."""

    name = "static-members"
    is_static = True
    kinds: Sequence[str] = ("kill-client", "kill-client", "kill-client", "cut", "slow-network", "kill", "clean-stop")

    async def prepare(self) -> None:
        self.protocol = ("classic", "consumer")[self.seed % 2]
        await super().prepare()

    async def finish(self) -> None:
        await super().finish()
        partitions = [[TOPIC, index] for index in range(PARTITIONS)]
        self.history.add("rest", group=GROUP, partitions=partitions, time=self.world.now_ms)
