"""Data folders of earlier versions, which today's broker takes over while it is killed and loses power.

The folders were recorded by brokers of their own versions, together with what those served
(`tests/operation/earlier_versions.py`). The first starts on such a folder are cut off at some statement of the
migration of the catalog, or at some moment after it: the broker is killed, the machine goes down, or the disk is full.
Then there is load, and faults go on. In the end everything is there that was recorded, and everything that was
acknowledged since.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.catalog.contract import CatalogError
from penstock.client.admin import Admin
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.share_consumer import ShareConsumer
from penstock.client.types import TopicPartition
from penstock.log.segment import LOG_SUFFIX
from penstock.records.batch import iter_headers
from penstock.simulation.machine import WholeMachine
from penstock.storage.contract import StorageError
from penstock.wire import messages as m
from penstock.wire.errors import KafkaError
from tests.operation.earlier_versions import EARLIER, Earlier
from tests.simulation.queues import PATIENT, started
from tests.simulation.raw import Lost, RawClient, access
from tests.simulation.streams import Streams
from tests.simulation.whole_machines import OnWholeMachine

_STATEMENTS_MAX = 26
"""More than a start needs with the longest migration."""
_LATER_MS = 60_000
"""How long after the recording the world begins."""
_QUIET_POLLS = 3
_ORDERS, _ORDERS_PARTITIONS = "orders", 3
_PAYMENTS, _PAYMENTS_PARTITIONS = "payments", 2
_TOPICS = {_ORDERS: _ORDERS_PARTITIONS, "customers": 2, "jobs": 2, _PAYMENTS: _PAYMENTS_PARTITIONS}
_GROUPS = ("classic-readers", "consumer-readers")
_QUEUE, _JOBS = "workers", "jobs"
_NOT_COMMITTED = -1001
_UNCHANGED = {"log.cleaner.enable": "false"}


def _last_time_ms(data: Path) -> int:
    logs = data.glob(f"{_ORDERS}-*/*{LOG_SUFFIX}")
    return max(header.max_timestamp for log in logs for _, header in iter_headers(log.read_bytes()))


class UpgradedMachine(WholeMachine):
    """Begins with the folder of an earlier version, and with starts that are cut off."""

    def __init__(self, seed: int, configs: Mapping[str, str], earlier: Earlier) -> None:
        super().__init__(seed, configs)
        folder = tempfile.TemporaryDirectory()
        self.over.callback(folder.cleanup)
        self.recorded = Path(folder.name)
        self.expected = earlier.unpack(self.recorded)
        self.adopt(self.recorded / "data")
        self.starts_cut_off = 0
        self.begins_ms = _last_time_ms(self.recorded / "data") + _LATER_MS

    async def start(self) -> None:
        chance = random.Random(f"first starts of {self.seed}")
        for _ in range(chance.randrange(5)):
            await self._cut_off(chance)
            await asyncio.sleep(chance.uniform(0, 0.2))
        self.losses.clear()
        await super().start()

    async def _cut_off(self, chance: random.Random) -> None:
        """Let a broker start, and end it at some statement or, if it needs fewer, when it serves."""
        [node] = self.nodes
        kind, left = chance.choice(("kill", "kill", "power-cut", "disk-full")), chance.randint(1, _STATEMENTS_MAX)
        reached: asyncio.Future[None] = self.loop.create_future()

        def step() -> None:
            nonlocal left
            left -= 1
            if left <= 0 and not reached.done():
                reached.set_result(None)
                self.disk.is_full = kind == "disk-full"

        self.catalog_file.on_step = step
        starting = self.loop.create_task(node.start())
        await asyncio.wait([starting, reached], return_when=asyncio.FIRST_COMPLETED)
        self.catalog_file.on_step = None
        self.starts_cut_off += 1
        if kind == "disk-full":
            self.fault(kind)
            self.disk.is_full = True
            with suppress(OSError, StorageError, CatalogError):
                await starting
            self.disk.is_full = False
        if kind == "power-cut":
            node.cut_power()
        else:
            node.kill()
        starting.cancel()


class FileUpgrades(OnWholeMachine, Streams):
    """`streams`, on the folder of an earlier version, one after the other with each seed, that is migrated meanwhile:
    what was recorded of it is there in the end, and what was acknowledged since."""

    name = "files-upgrades"
    world: UpgradedMachine

    @classmethod
    def make_world(cls, seed: int) -> UpgradedMachine:
        earlier = EARLIER[seed % len(EARLIER)]
        return UpgradedMachine(seed, {**earlier.configs, **_UNCHANGED}, earlier)

    # -- load ----------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        self._created: list[str] = []
        programs = [self.world.spawn("appender", self._append), self.world.spawn("creator", self._create)]
        await super().load()
        await asyncio.gather(*(each.task for each in programs))

    async def _append(self) -> None:
        """To a topic of the recorded folder."""
        chance = random.Random(f"appender of {self.seed}")
        async with await started(Producer(**access(self.world), **PATIENT)) as producer:
            for number in range(40):
                value, partition = f"appended {number}", chance.randrange(_ORDERS_PARTITIONS)
                sent = {"process": "appender", "topic": _ORDERS, "partition": partition, "value": value}
                try:
                    record = await producer.send_and_wait(_ORDERS, value, partition=partition)
                except KafkaError:
                    self.history.add("send", **sent, result="unknown")
                else:
                    self.history.add("send", **sent, result="ok", offset=record.offset)
                await asyncio.sleep(chance.uniform(0, 0.1))

    async def _create(self) -> None:
        """Topics, one after the other."""
        chance = random.Random(f"creator of {self.seed}")
        for number in range(12):
            await asyncio.sleep(chance.uniform(0, 0.4))
            name = f"new-{number}"
            topic = m.CreateTopicsRequest.CreatableTopic(name, 1, 1)
            try:
                client = await RawClient.connect(self.world, "creator")
                answer = await client.ask(m.CreateTopicsRequest([topic], 2_000), m.CreateTopicsResponse)
                client.close()
            except Lost:
                continue
            if answer.topics[0].error_code == 0:
                self._created.append(name)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        self.figures["starts cut off"] += self.world.starts_cut_off
        await self.world.spawn("last", self._look).task
        await super().finish()

    async def _look(self) -> None:
        expected = self.world.expected
        self._look_at_catalog(expected)
        for isolation in ("read_uncommitted", "read_committed"):
            for topic, partitions in _TOPICS.items():
                await self._look_at_records(topic, partitions, isolation, expected[isolation][topic])
        for topic in (_ORDERS, _JOBS):
            for partition in range(_TOPICS[topic]):
                await self._repeat(topic, partition)
        async with Admin(**access(self.world)) as admin:
            for group in _GROUPS:
                found = await admin.list_group_offsets(group)
                offsets = {place.partition: committed.offset for place, committed in found.items()}
                shown = [[index, offsets.get(index, _NOT_COMMITTED)] for index in range(_ORDERS_PARTITIONS)]
                self._compare(f"offsets of {group}", shown, expected[group])
            queue = await admin.list_share_group_offsets(_QUEUE)
            starts = sorted([str(place), each.start_offset, each.lag] for place, each in queue.items())
            self._compare("queue", starts, expected["queue"])
        self._compare("records of the queue", await self._deliveries(), expected["records of the queue"])
        await self._end_transaction(len(expected["read_committed"][_PAYMENTS]))

    def _compare(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.find("not-as-recorded", f"{what}: {str(found)[:300]}, and it was {str(expected)[:300]}")

    def _look_at_catalog(self, expected: dict[str, Any]) -> None:
        from base64 import b64encode

        catalog = self.world.broker.parts.catalog
        rows = {row.name: row for row in catalog.topics()}
        self._compare("topics", sorted(rows.keys() & set(expected["topics"])), expected["topics"])
        for name in _TOPICS.keys() & rows.keys():
            self._compare(f"configs of {name}", rows[name].configs, expected[f"configs of {name}"])
            shown = b64encode(rows[name].topic_id).decode().rstrip("=")
            self._compare(
                f"id of {name}", shown.replace("+", "-").replace("/", "_"), _plain(expected["topic ids"][name])
            )
            self._compare(f"partitions of {name}", rows[name].partitions, _TOPICS[name])
        if "users" in expected:
            self._compare("users", sorted({row.user for row in catalog.credentials()}), ["alice"])
            self._compare("acls", len(catalog.acls()), len(expected["acls"]))
        for name in self._created:
            if name not in rows:
                self.find("not-as-recorded", f"topic {name} is gone, which was created")

    async def _look_at_records(self, topic: str, partitions: int, isolation: str, expected: list[Any]) -> None:
        found = await self._read_everything(topic, partitions, isolation)
        ends = {
            index: max((each[1] for each in expected if each[0] == index), default=-1) for index in range(partitions)
        }
        recorded = [each for each in found if each[1] <= ends[each[0]]]
        self._compare(f"records of {topic}, {isolation}", recorded, expected)
        if topic == _ORDERS:
            later = [[topic, each[0], each[1], each[3]] for each in found if each[1] > ends[each[0]]]
            self.history.add("poll", process=f"last {isolation}", records=later, how="assign", isolation=isolation)

    async def _read_everything(self, topic: str, partitions: int, isolation: str) -> list[Any]:
        seen: list[Any] = []
        settings = {"auto_offset_reset": "none", "isolation_level": isolation, "fetch_max_wait_ms": 100}
        async with Consumer(access(self.world) | settings) as consumer:
            places = [TopicPartition(topic, index) for index in range(partitions)]
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            quiet = 0
            while quiet < _QUIET_POLLS:
                records = await consumer.poll(200)
                quiet = 0 if records else quiet + 1
                for each in records:
                    texts = [None if part is None else bytes(part).decode() for part in (each.key, each.value)]
                    seen.append([each.partition, each.offset, *texts])
        return sorted(seen, key=lambda each: each[:2])

    async def _repeat(self, topic: str, partition: int) -> None:
        """The last batch of a recorded producer is known when it is sent again."""
        log = self.world.recorded / "data" / f"{topic}-{partition}" / f"{0:020}{LOG_SUFFIX}"
        data = log.read_bytes()
        position, header = [each for each in iter_headers(data) if each[1].producer_id >= 0][-1]
        batch = bytearray(data[position : position + header.size])
        index_data = m.ProduceRequest.PartitionProduceData(index=partition, records=batch)
        topic_data = m.ProduceRequest.TopicProduceData(name=topic, partition_data=[index_data])
        client = await RawClient.connect(self.world, "last")
        request = m.ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=[topic_data])
        answer = await client.ask(request, m.ProduceResponse, 12)
        client.close()
        [result] = answer.responses[0].partition_responses
        shown = [result.error_code, result.base_offset]
        self._compare(f"the last batch of {topic}-{partition}, sent again", shown, [0, header.base_offset])

    async def _deliveries(self) -> list[list[int]]:
        seen: list[list[int]] = []
        async with ShareConsumer(
            **access(self.world), group_id=_QUEUE, share_acknowledgement_mode="explicit", fetch_max_wait_ms=100
        ) as worker:
            worker.subscribe([_JOBS])
            quiet = 0
            while quiet < _QUIET_POLLS or not seen:
                records = await worker.poll(500)
                quiet = 0 if records else quiet + 1
                for each in records:
                    seen.append([each.partition, each.offset, each.delivery_count])
                    worker.accept(each)
        return sorted(seen)

    async def _end_transaction(self, committed: int) -> None:
        """The producer whose transaction was left open goes on."""
        async with Producer(**access(self.world), transactional_id="left-open", **PATIENT) as producer:
            producer.begin_transaction()
            await producer.send(_PAYMENTS, "decided", partition=0)
            await producer.commit_transaction()
        found = await self._read_everything(_PAYMENTS, _PAYMENTS_PARTITIONS, "read_committed")
        self._compare("committed payments", len(found), committed + 1)


def _plain(topic_id: str) -> str:
    return topic_id.replace("+", "-").replace("/", "_").rstrip("=")
