"""Records that go away under producers and readers: DeleteRecords, retention and compaction, and what has to stay."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import NamedTuple

from penstock.client.producer import Producer
from penstock.records.record import Record
from penstock.simulation.door import Door, Exchange
from penstock.storage.contract import Log
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.simulation.queue_history import QueueHistory, ShareRequest
from tests.simulation.queues import LOCK_MS, PATIENT, Queues, start_offset
from tests.simulation.queues import TOPIC as JOBS
from tests.simulation.raw import Lost, RawClient, access
from tests.simulation.scenario import Scenario
from tests.simulation.stream_requests import PARTITIONS, TOPIC, fetch_request, value_of, visible
from tests.simulation.streams import Pending, Streams
from tests.simulation.transacting import Course, transact
from tests.wire.records_field import records_of

_RETRY_SECONDS = 0.05
_SETTLED_SECONDS = 4.0
_SEGMENT = {"internal.segment.bytes": "500", "file.delete.delay.ms": "300"}
LATEST, EARLIEST = -1, -2
_UNCOMMITTED, _COMMITTED = 0, 1
_KEYS = 6
_IDENTITY = "id"

POLICIES: tuple[dict[str, str], ...] = (
    {"retention.bytes": "1500", "retention.ms": "-1"},
    {"retention.ms": "-1"},
    {"retention.ms": "1500", "message.timestamp.type": "LogAppendTime"},
)
"""One after the other with each seed."""


class _Scanned(NamedTuple):
    start: int
    end: int
    bytes: int
    records: list[list[object]]


class Administrator:
    """Deletes records up to some offset near the end, again and again."""

    def __init__(self, scenario: Scenario, topic: str, partitions: int) -> None:
        self.deleted_to = dict.fromkeys(range(partitions), 0)
        """Up to where that was requested."""
        self.is_over = False
        self._scenario = scenario
        self._topic = topic

    async def trim(self) -> None:
        chance = random.Random(f"administrator of {self._scenario.seed}")
        while not self.is_over:
            await asyncio.sleep(chance.uniform(0.1, 0.6))
            partition = chance.randrange(len(self.deleted_to))
            try:
                client = await self._scenario.connect("administrator", partition)
                end = await edge(client, self._topic, partition, LATEST)
                offset = (end or 0) - chance.randrange(10)
                if offset > 0:
                    await self._delete(client, partition, offset)
                client.close()
            except Lost:
                continue

    async def _delete(self, client: RawClient, partition: int, offset: int) -> None:
        requested = m.DeleteRecordsRequest.DeleteRecordsPartition(partition, offset)
        topic = m.DeleteRecordsRequest.DeleteRecordsTopic(self._topic, [requested])
        place = {"topic": self._topic, "partition": partition}
        history, world = self._scenario.history, self._scenario.world
        self.deleted_to[partition] = max(self.deleted_to[partition], offset)
        history.add("removed", **place, below=offset)  # from now on it may be done, whoever hears of it
        answer = await client.ask(m.DeleteRecordsRequest([topic], 2_000), m.DeleteRecordsResponse)
        [result] = answer.topics[0].partitions
        if result.error_code == 0:
            self._scenario.figures["times records were deleted"] += 1
            history.add("removed", **place, below=result.low_watermark, time=world.now_ms)
            if result.low_watermark < offset:
                text = f"partition {partition} begins at {result.low_watermark}, not at {offset}"
                self._scenario.find("not-deleted", text)


async def edge(client: RawClient, topic: str, partition: int, which: int) -> int | None:
    """Where a partition begins or ends, if its leader says so."""
    requested = m.ListOffsetsRequest.ListOffsetsPartition(partition, -1, which)
    named = m.ListOffsetsRequest.ListOffsetsTopic(topic, [requested])
    answer = await client.ask(m.ListOffsetsRequest(-1, 0, [named]), m.ListOffsetsResponse)
    [found] = answer.topics[0].partitions
    return None if found.error_code else found.offset


class Trimming(Streams):
    """An administrator deletes records up to some offset, again and again, and retention takes others."""

    known_by = staticmethod(value_of)

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {"log.retention.check.interval.ms": "400", "log.cleaner.backoff.ms": "150"}

    def topic_configs(self) -> dict[str, str]:
        return {**_SEGMENT, **POLICIES[self.seed % len(POLICIES)]}

    def before_start(self) -> None:
        super().before_start()
        self.administrator = Administrator(self, TOPIC, PARTITIONS)

    async def load(self) -> None:
        trimming = self.world.spawn("administrator", self.administrator.trim)
        await super().load()
        self.administrator.is_over = True
        await trimming.task

    # -- readers -------------------------------------------------------------------------------------------------------

    async def _read(self, name: str, isolation: int) -> None:
        await asyncio.gather(*(self._follow(f"{name}-{index}", index, isolation) for index in range(PARTITIONS)))

    async def _follow(self, name: str, partition: int, isolation: int) -> None:
        """From the beginning, wherever that is; after a power cut, and where the log begins later, from there again."""
        client: RawClient | None = None
        position: int | None = None
        cuts = 0
        while not self.stopped:
            try:
                if client is None or client.is_lost:
                    client = await self.connect(name, partition)
                if self.world.faults["power-cut"] != cuts:
                    cuts, position = self.world.faults["power-cut"], None
                if position is None:
                    self.history.add("moved", process=name)
                    position = await edge(client, TOPIC, partition, EARLIEST)
                if position is not None:
                    position = await self._poll_one(client, name, partition, position, isolation)
                if position is None:
                    client.close()
                    await asyncio.sleep(_RETRY_SECONDS)
            except Lost:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _poll_one(
        self, client: RawClient, name: str, partition: int, position: int, isolation: int
    ) -> int | None:
        """Returns the next position; None where the reader has to begin anew."""
        sent = self.world.now_ms
        answer = await client.ask(fetch_request({partition: position}, isolation, 200), m.FetchResponse, 12)
        [found] = answer.responses[0].partitions
        if found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            client.close()
            return position
        if found.error_code:
            return None
        seen = []
        for offset, value in visible(found, position, self.known_by):
            if value is not None:
                seen.append([TOPIC, partition, offset, value])
            position = offset + 1
        if seen:
            level = "read_committed" if isolation else "read_uncommitted"
            self.history.add("poll", process=name, records=seen, how="assign", isolation=level, sent=sent)
        return position

    # -- the end -------------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        self.stopped = True
        await asyncio.sleep(_SETTLED_SECONDS)
        for partition in range(PARTITIONS):
            for isolation in (_UNCOMMITTED, _COMMITTED):
                scanned = await self._scan(f"last-{isolation}-{partition}", partition, isolation)
                self._judge(partition, scanned)
        self.history.add("drained")
        self.history.add("drained", isolation="read_committed")

    async def _scan(self, name: str, partition: int, isolation: int) -> _Scanned:
        while True:
            client = await self.connect(name, partition)
            start = await edge(client, TOPIC, partition, EARLIEST)
            end = await edge(client, TOPIC, partition, LATEST)
            if start is None or end is None:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            scanned = await self._scanned(client, partition, start, end, isolation)
            if scanned is not None:
                break
        client.close()
        place = {"topic": TOPIC, "partition": partition}
        level = "read_committed" if isolation else "read_uncommitted"
        polled = [[TOPIC, partition, *each] for each in scanned.records]
        self.history.add("removed", **place, below=start)
        self.history.add("poll", process=name, records=polled, how="assign", isolation=level)
        self.history.add("scan", process=name, **place, start=start, end=end, records=scanned.records)
        return scanned

    async def _scanned(
        self, client: RawClient, partition: int, start: int, end: int, isolation: int
    ) -> _Scanned | None:
        """None if the log has come to begin later meanwhile."""
        position, size, records = start, 0, []
        while position < end:
            answer = await client.ask(fetch_request({partition: position}, isolation, 0), m.FetchResponse, 12)
            [found] = answer.responses[0].partitions
            if found.error_code:
                return None
            shown = visible(found, position, self.known_by)
            if not shown:
                break  # compaction has taken what was there
            size += len(records_of(found))
            records += [[offset, value] for offset, value in shown if value is not None]
            position = shown[-1][0] + 1
        return _Scanned(start, end, size, records)

    def _judge(self, partition: int, scanned: _Scanned) -> None:
        if scanned.start <= self.administrator.deleted_to[partition]:
            return
        self.figures["logs that retention has cut"] += 1
        policy = POLICIES[self.seed % len(POLICIES)]
        kept = int(policy.get("retention.bytes", scanned.bytes + 1))
        if policy["retention.ms"] == "-1" and scanned.bytes < kept:
            text = f"partition {partition} begins at {scanned.start}, and holds {scanned.bytes} bytes"
            self.find("dropped-too-early", text)


class Compacting(Trimming):
    """Records of few keys, tombstones among them, in transactions and outside of them; compacted all the time."""

    course = Course(producers=3, fewest=2, most=5)
    pause_seconds = 0.05

    @staticmethod
    def known_by(record: Record) -> str:
        return (dict(record.headers)[_IDENTITY] or b"").decode()

    def topic_configs(self) -> dict[str, str]:
        policy = ("compact", "compact", "compact,delete")[self.seed % 3]
        return {
            **_SEGMENT,
            "cleanup.policy": policy,
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": ("60000", "3000")[self.seed % 2],
            "retention.ms": "-1",
        }

    async def prepare(self) -> None:
        self.history.add("topic-settings", topic=TOPIC, compacted=True)
        await super().prepare()

    async def load(self) -> None:
        programs = [self.world.spawn(name, self._overwrite, name) for name in ("idem-0", "idem-1")]
        programs += [self.world.spawn(name, self._overwrite_together, name) for name in ("txn-0", "txn-1")]
        if self.seed % 3 == 2:
            programs.append(self.world.spawn("administrator", self.administrator.trim))
        writing = programs[:4]
        await asyncio.gather(*(each.task for each in writing))
        self.administrator.is_over = True
        await asyncio.gather(*(each.task for each in programs))

    async def _overwrite(self, name: str) -> None:
        chance = random.Random(f"{name} of {self.seed}")
        async with await self._started(Producer(**access(self.world), **PATIENT)) as producer:
            number = 0
            while number < 60:
                pending = []
                for _ in range(chance.randint(1, 8)):
                    pending.append(await self._send_record(producer, f"{name}-{number}", chance))
                    number += 1
                    await asyncio.sleep(chance.uniform(0, 0.02))
                for each in pending:
                    await self._delivered(name, each)
                await asyncio.sleep(chance.uniform(0, 0.2))

    async def _overwrite_together(self, name: str) -> None:
        chance = random.Random(f"{name} of {self.seed}")
        await transact(
            self.world,
            name,
            name,
            self.course,
            chance,
            lambda producer, txn: self._transaction(producer, name, txn, chance),
        )

    async def _send_record(self, producer: Producer, value: str, chance: random.Random) -> Pending:
        number, is_tombstone = chance.randrange(_KEYS), chance.random() < 0.15
        delivery = await producer.send(
            TOPIC,
            None if is_tombstone else value,
            key=f"k{number}",
            partition=number % PARTITIONS,
            headers=[(_IDENTITY, value.encode())],
        )
        return Pending(TOPIC, number % PARTITIONS, value, delivery, {"key": f"k{number}", "tombstone": is_tombstone})

    def _judge(self, partition: int, scanned: _Scanned) -> None:
        self.figures["offsets without a record"] += scanned.end - scanned.start - len(scanned.records)
        if scanned.start > self.administrator.deleted_to[partition]:
            self.find("dropped-too-early", f"partition {partition} begins at {scanned.start}, and nothing may go")


class TrimmedQueues(Queues):
    """Records are deleted and dropped under workers that hold them, and under others that wait for them."""

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {**super().configs(seed), "log.retention.check.interval.ms": "400"}

    def topic_configs(self) -> dict[str, str]:
        return {**_SEGMENT, **POLICIES[self.seed % len(POLICIES)]}

    async def prepare(self) -> None:
        await super().prepare()
        self._logs = self._open_logs()

    def _open_logs(self) -> list[Log]:
        return [log for log in self.alone.broker.parts.storage.logs() if log.topic == JOBS]

    def crashed(self, kind: str) -> None:
        """Say where logs began in the memory of a broker that is gone: what retention drops is confirmed to nobody.

        The power may bring records back that windows have passed by then, and that is on disk.
        """
        if kind == "restart":
            self._logs = self._open_logs()
        else:
            for log in self._logs:
                if log.log_start_offset:
                    self.history.add("removed", topic=JOBS, partition=log.partition, below=log.log_start_offset)
        super().crashed(kind)

    async def load(self) -> None:
        self.administrator = Administrator(self, JOBS, PARTITIONS)
        trimming = self.world.spawn("administrator", self.administrator.trim)
        await super().load()
        self.administrator.is_over = True
        await trimming.task

    def record(self, door: Door, topics: dict[bytes, str]) -> None:
        TimedHistory(self.history, door, self.world, topics, start_offset, LOCK_MS, self.backoff_ms)

    async def expected(self, ends: Mapping[int, int]) -> list[list[object]]:
        for partition in ends:
            client = await self.connect("last", partition)
            start = await edge(client, JOBS, partition, EARLIEST)
            self.history.add("removed", topic=JOBS, partition=partition, below=start)
            client.close()
        return await super().expected(ends)


class TimedHistory(QueueHistory):
    """Says of each delivery when the request for it was sent."""

    def _tell(
        self, exchange: Exchange, request: ShareRequest, op: str, place: tuple[bytes, int], offset: int, **more: object
    ) -> None:
        super()._tell(exchange, request, op, place, offset, **more, sent=exchange.sent_ms)


class CompactedCoordinators(Scenario):
    """What coordinators keep is compacted all the time, so that each restart reads what compaction has left."""

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {
            **super().configs(seed),
            "log.roll.ms": "300",
            "log.cleaner.min.cleanable.ratio": "0.01",
            "log.cleaner.backoff.ms": "150",
        }
