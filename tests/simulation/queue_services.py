"""What a queue does beyond handing records out.

It wakes who waits, buries what died, holds back what is not due, leaves out what was aborted, and passes over what
nobody can read.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Mapping, Sequence
from typing import cast

from penstock.client.accumulator import Delivery
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.types import TopicPartition
from penstock.queues.dead_letters import OFFSET, PARTITION
from penstock.records.batch import Buffer, iter_headers
from penstock.simulation.door import Door, Exchange
from penstock.simulation.node import EPOCH_MS
from penstock.simulation.world import SimulatedWorld
from penstock.wire import messages as m
from penstock.wire.errors import CorruptMessage
from tests.broker.share.share_client import broken_batch
from tests.simulation.faults import EVERYWHERE
from tests.simulation.queue_history import QueueHistory, ShareRequest
from tests.simulation.queues import (
    ACKNOWLEDGED,
    GROUP,
    LOCK_MS,
    PARTITIONS,
    PATIENT,
    TOPIC,
    Queues,
    acknowledge_request,
    share_fetch_request,
    start_offset,
    started,
)
from tests.simulation.raw import Lost, RawClient, access
from tests.simulation.stream_requests import fetch_request
from tests.simulation.transacting import Course, Outcome, transact, transaction

LETTERS = "dlq.jobs"
WAKES_WITHIN_MS = 250
"""Longer than a request is on its way over a slow network, and than the broker takes to hear of a lost connection."""
_RECORDS = 50
_QUIET_POLLS = 3
_ROUNDED_MS = 2
_FATES = ("answer", "answer", "answer", "answer", "forget", "vanish", "close")
_REQUEST_TIMEOUT_MS = 2_000


def reader(world: SimulatedWorld) -> Consumer[bytes, bytes]:
    return Consumer(
        **access(world),
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        request_timeout_ms=_REQUEST_TIMEOUT_MS,
    )


class ParkedQueues(Queues):
    """Five workers wait for few records, which others release, forget, or lose with their sessions and connections; a
    fetch is given a record within 250 ms of when it is free."""

    name = "queues-parked"
    kinds = tuple(kind for kind in EVERYWHERE if kind not in ("pause", "partition"))
    workers = 1
    raw_workers = 4
    services: Mapping[str, object] = {"wakes_within": WAKES_WITHIN_MS}

    def record(self, door: Door, topics: dict[bytes, str]) -> None:
        ParkedHistory(self.history, door, self.world, topics, start_offset, LOCK_MS, self.backoff_ms)

    async def _produce(self) -> None:
        chance = random.Random(f"producer of {self.seed}")
        async with await started(Producer(**access(self.world), **PATIENT)) as producer:
            for number in range(_RECORDS // 2):
                partition = chance.randrange(PARTITIONS)
                sent = await (await producer.send(TOPIC, str(number), partition=partition))
                place = {"group": GROUP, "topic": TOPIC, "partition": partition, "offset": sent.offset}
                self.history.add("free", **place, time=self.world.now_ms)
                await asyncio.sleep(chance.uniform(0, 0.3))

    async def _converse(self, client: RawClient, partitions: Sequence[int], chance: random.Random) -> None:
        """Wait for records, then answer for them, keep them until their locks run out, vanish, or close the session."""
        member = str(uuid.uuid4())
        epoch = 0
        for _ in range(chance.randint(3, 15)):
            if self.stopped:
                return
            most, wait_ms = chance.randint(1, 6), chance.choice([100, 500, 2_000])
            request = share_fetch_request(self.topic_id, partitions, member, epoch, {}, most, False, wait_ms)
            found = await client.ask(request, m.ShareFetchResponse)
            epoch += 1
            if found.error_code:
                return
            held = [
                (each.partition_index, offset)
                for topic in found.responses
                for each in topic.partitions
                for run in each.acquired_records
                for offset in range(run.first_offset, run.last_offset + 1)
            ]
            await asyncio.sleep(chance.choice([0, 0.02, 0.2, LOCK_MS / 900]))
            fate = chance.choice(_FATES) if held else "forget"
            if fate == "vanish":
                return
            if fate == "forget":
                continue
            acks: dict[int, list[tuple[int, int]]] = {}
            for partition, offset in held if fate == "answer" else ():
                acks.setdefault(partition, []).append((offset, chance.choice([1, 1, 2, 2, 3])))
            await client.ask(acknowledge_request(self.topic_id, member, epoch if acks else -1, acks), ACKNOWLEDGED)
            epoch += 1
            if not acks:
                return


class ParkedHistory(QueueHistory):
    """Says of each fetch of a scripted worker how long it waited, and of each delivery when its lock is over."""

    def _answered(self, exchange: Exchange) -> None:
        request, answer = exchange.request, exchange.answer
        if isinstance(request, m.ShareFetchRequest) and isinstance(answer, m.ShareFetchResponse):
            failed = [
                each.partition_index for topic in answer.responses for each in topic.partitions if each.error_code
            ]
            if exchange.client.startswith("raw-") and not answer.error_code and not failed:
                for partition in range(PARTITIONS):
                    self._history.add(
                        "waited",
                        group=request.group_id,
                        member=self._member(exchange, request),
                        topic=TOPIC,
                        partition=partition,
                        since=exchange.sent_ms,
                        time=self._now(),
                    )
        super()._answered(exchange)

    def _tell(
        self,
        exchange: Exchange,
        request: ShareRequest,
        op: str,
        place: tuple[bytes, int],
        offset: int,
        **more: object,
    ) -> None:
        if op == "deliver" or more.get("kind") == "renew":
            more["free"] = self._now() + self._lock_ms + self._backoff_ms + _ROUNDED_MS
        super()._tell(exchange, request, op, place, offset, **more)


class BuriedQueues(Queues):
    """`queues`: rejected and exhausted records have one dead letter each, with or without a copy of the record."""

    name = "queues-dead-letters"
    services: Mapping[str, object] = {"dead_letters": True}

    def group_configs(self) -> dict[str, str]:
        return {
            "errors.deadletterqueue.topic.name": LETTERS,
            "errors.deadletterqueue.copy.record.enable": ("false", "true")[self.seed % 2],
        }

    async def prepare(self) -> None:
        await self.create_topic(LETTERS, 2, {"errors.deadletterqueue.group.enable": "true"})
        await super().prepare()

    async def expected(self, ends: Mapping[int, int]) -> list[list[object]]:
        for index, end in ends.items():
            while await self._begins_at(index) < end:  # noqa: ASYNC110
                await asyncio.sleep(0.1)  # until the last letters are written
        await self.world.spawn("undertaker", self._read_letters).task
        return await super().expected(ends)

    async def _read_letters(self) -> None:
        async with reader(self.world) as consumer:
            consumer.assign([TopicPartition(LETTERS, index) for index in range(2)])
            quiet = 0
            while quiet < _QUIET_POLLS:
                letters = await consumer.poll(300)
                quiet = 0 if letters else quiet + 1
                for letter in letters:
                    said = dict(letter.headers)
                    partition, offset = (int(said[name] or b"") for name in (PARTITION, OFFSET))
                    self.history.add("letter", group=GROUP, topic=TOPIC, partition=partition, offset=offset)
                    if bool(self.seed % 2) is not bool(letter.value):
                        self.find("letter", f"the letter of {offset} of {TOPIC}-{partition} holds {letter.value!r}")


class DelayedQueues(Queues):
    """`queues`, where half of the records say in a header when they are to be delivered."""

    name = "queues-delayed"
    kinds = tuple(kind for kind in EVERYWHERE if kind != "clock-jump")

    def group_configs(self) -> dict[str, str]:
        return {"penstock.share.delivery.time.header": "not-before"}

    async def _produce(self) -> None:
        chance = random.Random(f"producer of {self.seed}")
        async with await started(Producer(**access(self.world), **PATIENT)) as producer:
            number = 0
            while number < _RECORDS:
                pending: list[tuple[int, int, Delivery]] = []
                for _ in range(chance.randint(1, 8)):
                    partition, due_ms = chance.randrange(PARTITIONS), 0
                    if chance.random() < 0.5:
                        due_ms = self.world.now_ms + chance.choice([20, 500, 2_500, 8_000])
                    headers = [("not-before", str(EPOCH_MS + due_ms).encode())] if due_ms else []
                    sent = await producer.send(TOPIC, str(number), partition=partition, headers=headers)
                    pending.append((partition, due_ms, sent))
                    number += 1
                for partition, due_ms, delivery in pending:
                    offset = (await delivery).offset
                    if due_ms:
                        place = {"group": GROUP, "topic": TOPIC, "partition": partition, "offset": offset}
                        self.history.add("due", **place, time=due_ms - _ROUNDED_MS)
                await asyncio.sleep(chance.uniform(0, 0.3))


class CommittedQueues(Queues):
    """`queues` with `share.isolation.level=read_committed`: two transactional producers commit and abort, and nobody
    works on what was aborted."""

    name = "queues-read-committed"
    services: Mapping[str, object] = {"isolation": "read_committed"}

    def group_configs(self) -> dict[str, str]:
        return {"share.isolation.level": "read_committed"}

    async def load(self) -> None:
        programs = [self.world.spawn(name, self._transact, name) for name in ("txn-a", "txn-b")]
        programs.append(self.world.spawn("producer", self._produce))
        await asyncio.gather(*(each.task for each in programs))

    async def _transact(self, name: str) -> None:
        chance = random.Random(f"{name} of {self.seed}")
        course = Course(producers=6, fewest=1, most=4, transaction_timeout_ms=10_000)
        await transact(
            self.world, name, name, course, chance, lambda producer, txn: self._transaction(producer, txn, chance)
        )

    async def _transaction(self, producer: Producer, txn: str, chance: random.Random) -> None:
        outcome = Outcome()
        try:
            async with transaction(producer, lambda: chance.random() < 0.5) as outcome:
                for number in range(chance.randint(1, 4)):
                    value, partition = f"{txn}-{number}", chance.randrange(PARTITIONS)
                    record = await (await producer.send(TOPIC, value, partition=partition))
                    # Only the end of a transaction waits for the disk: a write alone promises nothing.
                    sent = {"process": txn, "topic": TOPIC, "partition": partition, "value": value, "txn": txn}
                    self.history.add("send", **sent, result="unknown", offset=record.offset)
                    await asyncio.sleep(chance.uniform(0, 0.05))
        finally:
            self.history.add("txn-end", txn=txn, result=outcome.result)

    async def expected(self, ends: Mapping[int, int]) -> list[list[object]]:
        """What read_committed readers see."""
        return await self.world.spawn("reader", self._read_all).task

    async def _read_all(self) -> list[list[object]]:
        seen: list[list[object]] = []
        async with reader(self.world) as consumer:
            consumer.assign([TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
            quiet = 0
            while quiet < _QUIET_POLLS:
                records = await consumer.poll(300)
                quiet = 0 if records else quiet + 1
                seen += [[TOPIC, each.partition, each.offset] for each in records]
        return seen


class UnreadableQueues(Queues):
    """`queues`, and batches that nobody can open: their records are archived and reported, and hold nobody up."""

    name = "queues-unreadable"

    def before_start(self) -> None:
        super().before_start()
        self._reports = Reports(self.world)

    async def load(self) -> None:
        breaking = self.world.spawn("breaker", self._produce_broken)
        await asyncio.gather(super().load(), breaking.task)

    async def _produce_broken(self) -> None:
        chance = random.Random(f"breaker of {self.seed}")
        for _ in range(4):
            await asyncio.sleep(chance.uniform(0.1, 0.8))
            batch = broken_batch(chance.randint(2, 9))
            data = m.ProduceRequest.PartitionProduceData(index=chance.randrange(PARTITIONS), records=batch)
            topic = m.ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
            try:
                client = await self.connect("breaker")
                await client.ask(m.ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=[topic]), m.ProduceResponse, 12)
                client.close()
            except Lost:
                pass

    async def expected(self, ends: Mapping[int, int]) -> list[list[object]]:
        client = await self.connect("reader")
        for index, end in ends.items():
            offset = 0
            while offset < end:
                answer = await client.ask(fetch_request({index: offset}, 0, 0, TOPIC), m.FetchResponse, 12)
                for _, header in iter_headers(cast(Buffer, answer.responses[0].partitions[0].records or b"")):
                    offset = header.next_offset
                    if header.attributes:
                        self._are_over(index, range(header.base_offset, header.next_offset))
        return await super().expected(ends)

    def _are_over(self, partition: int, broken: range) -> None:
        """Records of a batch that cannot be opened: workers who were given all of it have answered for it, and what the
        broker has reported is archived."""
        answered = {
            each["offset"]
            for each in self.history.operations
            if each["op"] == "acknowledge" and each["partition"] == partition and each["result"] == "ok"
            if each["kind"] in ("accept", "reject")
        }
        for offset in broken:
            place = {"group": GROUP, "topic": TOPIC, "partition": partition, "offset": offset}
            self.history.add("unreadable", **place, time=self.world.now_ms)
            if offset not in answered and (partition, offset) in self._reports.offsets:
                self.history.add("archive", **place, time=self.world.now_ms)

    async def _take_the_rest(self) -> None:
        while True:
            try:
                await super()._take_the_rest()
                return
            except CorruptMessage as error:
                self.world.tell("last", f"begins anew: {error}")

    def expects(self, error: str) -> bool:
        return "is unreadable" in error


class Reports(logging.Handler):
    """Takes note of what brokers report as archived because nobody can read it."""

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(logging.ERROR)
        self.offsets: set[tuple[int, int]] = set()
        listened = logging.getLogger("penstock.share")
        listened.addHandler(self)
        world.over.callback(listened.removeHandler, self)

    def emit(self, record: logging.LogRecord) -> None:
        if "are archived for group" in str(record.msg) and isinstance(record.args, tuple):
            _, _, partition, _, first, last, _ = record.args
            assert isinstance(partition, int)
            assert isinstance(first, int)
            assert isinstance(last, int)
            self.offsets.update((partition, offset) for offset in range(first, last + 1))
