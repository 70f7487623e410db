"""Exactly-once copying: a group of programs that consume, transform and produce in transactions (KIP-98, KIP-447).

The input comes in transactions too, so that what a copier reads is on disk. Each copy carries the name of the
transaction that wrote it; of every record of the input there is one copy in the end.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.types import ConsumerRecord
from penstock.wire.errors import KafkaError
from tests.simulation.faults import EVERYWHERE
from tests.simulation.raw import access
from tests.simulation.stream_requests import PARTITIONS, TOPIC
from tests.simulation.streams import Pending, Transactions
from tests.simulation.transacting import Outcome, transaction, transactional

OUT = "copies"
GROUP = "copiers"
_COMMITTED = 1
_CAUGHT_UP_ROUNDS = 200
_STOPPED_SECONDS = 30


class Copying(Transactions):
    """Transactional producers, and three copiers that consume, transform and produce in transactions, commit and abort;
    either group protocol and either transaction.version by turns. In the end there is one copy of each record."""

    name = "exactly-once"
    lasts_ms = 5_000
    kinds = (*EVERYWHERE, "pause-client", "pause-client", "partition")

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "4000",
            "group.consumer.min.heartbeat.interval.ms": "500",
            "group.consumer.heartbeat.interval.ms": "500",
            "group.consumer.assignment.interval.ms": "0",
        }

    async def prepare(self) -> None:
        await self.create_topic(OUT, PARTITIONS)
        await super().prepare()
        self.transactions = 0
        for number in range(3):
            self.crowd.start(f"copier-{number}", self._copy)

    async def load(self) -> None:
        programs = [self.world.spawn(name, self._transact, name, f"txn-{name}") for name in ("a", "b")]
        await asyncio.gather(*(each.task for each in programs))

    # -- copiers -------------------------------------------------------------------------------------------------------

    async def _copy(self, name: str) -> None:
        chance = random.Random(f"{name} of {self.seed} at {self.world.now_ms}")
        while not self.stopped:
            try:
                async with AsyncExitStack() as stack:
                    producer = await stack.enter_async_context(self._producer(name))
                    consumer = await stack.enter_async_context(self._consumer(chance))
                    consumer.subscribe([TOPIC])
                    for _ in range(chance.randint(5, 40)):
                        if self.stopped:
                            return
                        records = await consumer.poll(300)
                        if records:
                            await self._transfer(producer, consumer, records, name, chance)
            except KafkaError as error:
                self.world.tell(name, f"begins anew: {error!r}")
                await asyncio.sleep(0.05)

    def _producer(self, name: str) -> Producer:
        return transactional(self.world, name, delivery_timeout_ms=20_000, transaction_timeout_ms=10_000)

    def _consumer(self, chance: random.Random) -> Consumer[bytes, bytes]:
        classic = self.seed % 4 < 2
        more: dict[str, Any] = {"session_timeout_ms": 4_000, "heartbeat_interval_ms": 500} if classic else {}
        return Consumer(
            **access(self.world),
            group_id=GROUP,
            group_protocol="classic" if classic else "consumer",
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=chance.choice([1, 5, 100]),
            request_timeout_ms=2_000,
            fetch_max_wait_ms=200,
            **more,
        )

    async def _transfer(
        self,
        producer: Producer,
        consumer: Consumer[bytes, bytes],
        records: list[ConsumerRecord[bytes, bytes]],
        name: str,
        chance: random.Random,
    ) -> None:
        self.transactions += 1
        txn = f"{name}@{self.transactions}"
        values = [(bytes(each.value or b"").decode(), each) for each in records]
        seen = [[TOPIC, each.partition, each.offset, value] for value, each in values]
        self.history.add("poll", process=name, records=seen, how="subscribe", isolation="read_committed", txn=txn)
        pending, outcome = [], Outcome()
        try:
            async with transaction(producer, lambda: chance.random() < 0.8) as outcome:
                for value, record in values:
                    copy, partition = f"{value}={txn}", record.partition
                    pending.append(Pending(OUT, partition, copy, await producer.send(OUT, copy, partition=partition)))
                    await asyncio.sleep(chance.choice([0, 0, 0.01, 0.1]))
                offsets = {(TOPIC, record.partition): record.offset + 1 for record in records}
                await producer.send_offsets_to_transaction(offsets, consumer)
            if outcome.result == "aborted":
                for record in reversed(records):
                    if (TOPIC, record.partition) in consumer.assignment():
                        consumer.seek((TOPIC, record.partition), record.offset)
        finally:
            for each in pending:
                await self._written(name, each, txn, outcome.result)
            self.history.add("txn-end", process=name, txn=txn, result=outcome.result)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        wanted = await self._visible("seen", TOPIC)
        for number in range(_CAUGHT_UP_ROUNDS):
            copied = await self._visible(f"copied-{number}", OUT)
            if wanted.keys() <= copied.keys():
                break
            await asyncio.sleep(0.5)
        self.stopped = True
        await asyncio.sleep(_STOPPED_SECONDS)
        copied = await self._visible("copied", OUT)
        for value in sorted(wanted.keys() - copied.keys()):
            self.find("not-copied", f"of {value} there is no copy")
        for value in sorted(copied.keys() - wanted.keys()):
            self.find("not-copied", f"{value} was copied, and is not in the input")
        for value, times in sorted(copied.items()):
            if times > 1:
                self.find("copied-twice", f"of {value} there are {times} copies")
        await super().finish()

    async def _visible(self, reader: str, topic: str) -> Counter[str]:
        """What a `read_committed` reader sees of a topic: the values of the input, and how often each is there."""
        await self.read_all(reader, _COMMITTED, topic)
        return Counter(
            record[3].partition("=")[0]
            for operation in self.history.operations
            if operation["op"] == "poll" and operation["process"] == reader
            for record in operation["records"]  # type: ignore[attr-defined]
        )
