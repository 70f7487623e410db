"""Streams: producers with every acks, idempotent and transactional ones, and readers of both isolation levels."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.catalog.contract import replaced_by
from penstock.checks import Finding
from penstock.client.accumulator import Delivery
from penstock.client.producer import Producer
from penstock.wire import messages as m
from penstock.wire.errors import KafkaError
from tests.simulation.raw import Lost, RawClient, access
from tests.simulation.scenario import Scenario
from tests.simulation.stream_requests import PARTITIONS, TOPIC, fetch_request, produce_request, visible
from tests.simulation.transacting import Course, Outcome, transact, transaction

_RETRY_SECONDS = 0.05
_GIVE_UP_SECONDS = 400
_UNCOMMITTED, _COMMITTED = 0, 1


class Pending(NamedTuple):
    """A record that was sent, and what is told of it when its fate is known."""

    topic: str
    partition: int
    value: str
    delivery: Delivery
    more: Mapping[str, object] = {}

    def told(self, process: str) -> dict[str, object]:
        place = {"topic": self.topic, "partition": self.partition, "value": self.value}
        return {"process": process, **place, **self.more}


class Streams(Scenario):
    """Raw producers with `acks` 0, 1 and all, idempotent producers of `penstock.client`, and readers of both isolation
    levels."""

    name = "streams"

    def topic_configs(self) -> dict[str, str]:
        return {}

    async def prepare(self) -> None:
        await self.create_topic(TOPIC, PARTITIONS, self.topic_configs())
        self.stopped = False
        for isolation in (_UNCOMMITTED, _COMMITTED):
            self.world.spawn(f"reader-{isolation}", self._read, f"reader-{isolation}", isolation)

    async def load(self) -> None:
        producers = [
            self.world.spawn("raw-all", self._produce, "raw-all", -1),
            self.world.spawn("raw-1", self._produce, "raw-1", 1),
            self.world.spawn("raw-0", self._produce, "raw-0", 0),
            *(self.world.spawn(f"idem-{n}", self._produce_idempotently, f"idem-{n}") for n in range(2)),
        ]
        await asyncio.gather(*(each.task for each in producers))

    async def finish(self) -> None:
        self.stopped = True
        for isolation in (_UNCOMMITTED, _COMMITTED):
            await self.read_all(f"last-{isolation}", isolation)
        self.history.add("drained")
        self.history.add("drained", isolation="read_committed")

    # -- producers -------------------------------------------------------------------------------------------------

    async def _produce(self, name: str, acks: int) -> None:
        """One record after the other, each sent once."""
        chance = random.Random(f"{name} of {self.seed}")
        client: RawClient | None = None
        for number in range(15):
            value, partition = f"{name}-{number}", chance.randrange(PARTITIONS)
            await asyncio.sleep(chance.uniform(0, 0.2))
            sent = {"process": name, "topic": TOPIC, "partition": partition, "value": value}
            try:
                if client is None or client.is_lost:
                    client = await self.connect(name)
                request = produce_request(partition, value, acks)
                if acks == 0:
                    client.post(request, 12)
                    self.history.add("send", **sent, result="unknown")
                    continue
                answer = await client.ask(request, m.ProduceResponse, 12)
            except Lost:
                self.history.add("send", **sent, result="unknown")
                continue
            [result] = answer.responses[0].partition_responses
            is_promised = result.error_code == 0 and (acks == -1 or not self._power_is_cut())
            outcome = {"result": "ok", "offset": result.base_offset} if is_promised else {"result": "unknown"}
            self.history.add("send", **sent, **outcome)

    def _power_is_cut(self) -> bool:
        """A write with acks=1 is promised to survive a killed broker, and no power cut."""
        return any(fault.cuts_power for fault in self.plan)

    async def _produce_idempotently(self, name: str) -> None:
        chance = random.Random(f"{name} of {self.seed}")
        settings: dict[str, Any] = {
            "delivery_timeout_ms": 300_000,
            "request_timeout_ms": 2_000,
            "linger_ms": chance.choice([0, 5]),
        }
        async with await self._started(Producer(**access(self.world), **settings)) as producer:
            number = 0
            while number < 40:
                pending = []
                for _ in range(chance.randint(1, 6)):
                    pending.append(await self._send_record(producer, f"{name}-{number}", chance))
                    number += 1
                    if chance.random() < 0.3:
                        await asyncio.sleep(chance.uniform(0, 0.02))
                for each in pending:
                    await self._delivered(name, each)
                await asyncio.sleep(chance.uniform(0, 0.3))

    async def _started(self, producer: Producer) -> Producer:
        while True:
            try:
                return await producer.start()
            except KafkaError:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _delivered(self, name: str, pending: Pending) -> None:
        sent = pending.told(name)
        try:
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                record = await pending.delivery
        except (KafkaError, TimeoutError) as error:
            self.history.add("send", **sent, result="unknown", error=type(error).__name__)
        else:
            self.history.add("send", **sent, result="ok", offset=record.offset)

    # -- transactional producers -----------------------------------------------------------------------------------

    course = Course(producers=4, fewest=2, most=5)
    pause_seconds = 0.08
    """How long a producer waits after a record of a transaction, at the most."""
    commits = 0.65
    """Which part of the transactions is to be committed."""

    async def _transaction(self, producer: Producer, name: str, txn: str, chance: random.Random) -> None:
        pending: list[Pending] = []
        outcome = Outcome()
        try:
            async with transaction(producer, lambda: chance.random() < self.commits) as outcome:
                for number in range(chance.randint(1, 4)):
                    pending.append(await self._send_record(producer, f"{txn}-{number}", chance))
                    await asyncio.sleep(chance.uniform(0, self.pause_seconds))
        finally:
            for each in pending:
                await self._written(name, each, txn, outcome.result)
            self.history.add("txn-end", process=name, txn=txn, result=outcome.result)

    async def _send_record(self, producer: Producer, value: str, chance: random.Random) -> Pending:
        partition = chance.randrange(PARTITIONS)
        return Pending(TOPIC, partition, value, await producer.send(TOPIC, value, partition=partition))

    async def _written(self, name: str, pending: Pending, txn: str, outcome: str) -> None:
        """Only the end of a transaction waits for the disk, so a write alone promises nothing."""
        sent = {**pending.told(name), "txn": txn}
        try:
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                record = await pending.delivery
        except (KafkaError, TimeoutError):
            self.history.add("send", **sent, result="unknown")
            return
        promised = {"result": "ok", "offset": record.offset} if outcome == "committed" else {"result": "unknown"}
        self.history.add("send", **sent, **promised, is_written=True)

    # -- readers ---------------------------------------------------------------------------------------------------

    async def _read(self, name: str, isolation: int) -> None:
        """Follow both partitions from the beginning; after a power cut, from the beginning again."""
        positions = dict.fromkeys(range(PARTITIONS), 0)
        client: RawClient | None = None
        cuts = 0
        while not self.stopped:
            try:
                if client is None or client.is_lost:
                    client = await self.connect(name)
                if self.world.faults["power-cut"] != cuts:
                    cuts = self.world.faults["power-cut"]
                    positions = dict.fromkeys(range(PARTITIONS), 0)
                    self.history.add("moved", process=name)
                await self._poll(client, name, positions, isolation, wait_ms=200)
            except Lost:
                await asyncio.sleep(_RETRY_SECONDS)

    async def read_all(self, name: str, isolation: int, topic: str = TOPIC) -> None:
        """Read everything there is, when all is well."""
        client = await self.connect(name)
        positions = dict.fromkeys(range(PARTITIONS), 0)
        quiet = 0
        while quiet < 3:
            quiet = 0 if await self._poll(client, name, positions, isolation, 100, topic) else quiet + 1

    async def _poll(
        self,
        client: RawClient,
        name: str,
        positions: dict[int, int],
        isolation: int,
        wait_ms: int,
        topic: str = TOPIC,
    ) -> bool:
        answer = await client.ask(fetch_request(positions, isolation, wait_ms, topic), m.FetchResponse, 12)
        seen = []
        moved = False
        for partition in answer.responses[0].partitions:
            if partition.error_code:
                continue
            index = partition.partition_index
            for offset, value in visible(partition, positions[index]):
                if value is not None:
                    seen.append([topic, index, offset, value])
                positions[index] = offset + 1
                moved = True
        if seen:
            level = "read_committed" if isolation else "read_uncommitted"
            self.history.add("poll", process=name, records=seen, how="assign", isolation=level)
        return moved


class Transactions(Streams):
    """Three transactional producers of `penstock.client`, two of which fence each other, commit and abort;
    transaction.version 1 and 2 by turns."""

    name = "transactions"

    def before_start(self) -> None:
        self.catalog.change_features(replaced_by({"transaction.version": 1 + self.seed % 2}))

    async def load(self) -> None:
        names = ("a", "a-again", "b")
        programs = [self.world.spawn(name, self._transact, name, f"txn-{name[0]}") for name in names]
        await asyncio.gather(*(each.task for each in programs))

    async def _transact(self, name: str, transactional_id: str) -> None:
        chance = random.Random(f"{name} of {self.seed}")
        if name == "a-again":
            await asyncio.sleep(chance.uniform(0.3, 2.5))
        await transact(
            self.world,
            name,
            transactional_id,
            self.course,
            chance,
            lambda producer, txn: self._transaction(producer, name, txn, chance),
        )

    async def finish(self) -> None:
        await super().finish()
        self._find_torn()

    def _find_torn(self) -> None:
        """Of a transaction whose outcome nobody knows, all or nothing is visible nevertheless."""
        seen = {
            record[3]
            for operation in self.history.operations
            if operation["op"] == "poll" and operation["process"] == f"last-{_COMMITTED}"
            for record in operation["records"]  # type: ignore[attr-defined]
        }
        values: dict[object, list[object]] = {}
        for operation in self.history.operations:
            if operation["op"] == "send" and operation.get("is_written") and operation["topic"] == TOPIC:
                values.setdefault(operation["txn"], []).append(operation["value"])
        for txn, written in values.items():
            if 0 < len(seen.intersection(written)) < len(written):
                missing = sorted(map(str, set(written) - seen))
                self.history.findings.append(Finding("torn", f"of transaction {txn} {missing} are missing", 0))


class PowerCuts(Transactions):
    """`transactions`, on a machine that loses its power again and again."""

    name = "power-cuts"
    kinds = ("power-cut", "slow-disk", "kill")


class PowerCutsAtSyncs(Transactions):
    """`transactions`, and the power goes when one log is on disk and another is not."""

    name = "power-cuts-at-syncs"
    kinds = ("power-cut-at-sync", "power-cut-at-sync", "slow-disk", "kill")
