"""A broker on real files that is used by everybody, and what it promises meanwhile, each promise with its time."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import NamedTuple

from penstock.client.admin import Admin
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.share_consumer import ShareConsumer
from penstock.log.partition import PartitionLog
from penstock.storage.contract import LogConfig
from penstock.testing import Broker
from tests.images.recorder import Recording, recorded

STREAM, TRANSACTIONS, JOBS, GROUP = "stream", "ledger", "jobs", "readers"
LATE = "late"
"""A topic that is created while steps are recorded."""
_PASSING_EVERY = 10
"""So often is a topic created that is deleted a little later."""
CONFIGS = {
    "auto.create.topics.enable": "false",  # a producer still looks for a topic that was deleted
    "penstock.acks.all.flush": "true",
    "penstock.share.flush.interval.ms": "0",
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}


_SMALL = {"internal_segment_bytes": 4096, "index_interval_bytes": 256}


class Promise(NamedTuple):
    since: int
    """How many steps had been taken when it was given."""
    kind: str
    """`record`, `transaction`, `commit`, `accept`, `created` or `deleted`."""
    topic: str
    partition: int
    offset: int
    values: tuple[bytes, ...] = ()


class OpenLog(NamedTuple):
    topic: str
    partition: int
    topic_id: bytes
    config: LogConfig


class Loaded(NamedTuple):
    recording: Recording
    promises: list[Promise]
    logs: list[OpenLog]


def record_a_load(folder: Path, rounds: int, seed: int = 1) -> Loaded:
    """Used a little first, so that what is recorded does not begin with empty logs."""
    with Broker(CONFIGS, data=folder) as broker:
        for topic in (STREAM, TRANSACTIONS, JOBS):
            broker.create_topic(topic, partitions=1, **_SMALL)
        asyncio.run(_Load(broker, None, random.Random(0)).run(6))
        with recorded(folder) as recording:
            load = _Load(broker, recording, random.Random(seed))
            asyncio.run(load.run(rounds))
            logs = [
                OpenLog(log.topic, log.partition, log.topic_id, log.config)
                for log in broker._running().parts.storage.logs()
                if isinstance(log, PartitionLog)
            ]
    return Loaded(recording, load.promises, logs)


class _Load:
    def __init__(self, broker: Broker, recording: Recording | None, chance: random.Random) -> None:
        self.promises: list[Promise] = []
        self._broker = broker
        self._bootstrap = broker.bootstrap_servers
        self._recording = recording
        self._chance = chance

    def _promise(self, kind: str, topic: str, offset: int, *values: bytes) -> None:
        if self._recording is not None:
            self.promises.append(Promise(len(self._recording.steps), kind, topic, 0, offset, values))

    async def run(self, rounds: int) -> None:
        await asyncio.gather(self._produce(rounds), self._transact(rounds), self._work(rounds))

    async def _produce(self, rounds: int) -> None:
        """Records, and offsets that are committed for them."""
        async with (
            Producer(bootstrap_servers=self._bootstrap) as producer,
            Consumer(bootstrap_servers=self._bootstrap, group_id=GROUP, enable_auto_commit=False) as consumer,
        ):
            consumer.assign([(STREAM, 0)])
            for number in range(rounds):
                if self._recording is not None and number == rounds // 3:
                    self._broker.create_topic(LATE, **_SMALL)
                    self._promise("created", LATE, 0)
                value = b"%d %s" % (number, bytes(self._chance.randrange(10, 400)))
                record = await producer.send_and_wait(STREAM, value, partition=0)
                self._promise("record", STREAM, record.offset, value)
                if self._recording is not None and number >= rounds // 3:
                    late = await producer.send_and_wait(LATE, value, partition=0)
                    self._promise("record", LATE, late.offset, value)
                if self._recording is not None and number % _PASSING_EVERY == 0:
                    await self._pass_by(producer, f"passing-{number}")
                if number % 3 == 2:
                    await consumer.commit({(STREAM, 0): record.offset})
                    self._promise("commit", STREAM, record.offset)

    async def _pass_by(self, producer: Producer, topic: str) -> None:
        """A topic that is used for a moment."""
        self._broker.create_topic(topic, **_SMALL)
        await producer.send_and_wait(topic, b"passing", partition=0)
        async with Admin(bootstrap_servers=self._bootstrap) as admin:
            await admin.delete_topic(topic)
        self._promise("deleted", topic, 0)

    async def _transact(self, rounds: int) -> None:
        async with Producer(bootstrap_servers=self._bootstrap, transactional_id="writer") as producer:
            for number in range(rounds // 2):
                values = tuple(b"%d-%d-%d" % (id(self), number, each) for each in range(self._chance.randint(1, 3)))
                producer.begin_transaction()
                pending = [await producer.send(TRANSACTIONS, value, partition=0) for value in values]
                if self._chance.random() < 0.3:
                    await producer.flush()
                    await producer.abort_transaction()
                    continue
                await producer.commit_transaction()
                first = await pending[0]
                self._promise("transaction", TRANSACTIONS, first.offset, *values)

    async def _work(self, rounds: int) -> None:
        async with (
            Producer(bootstrap_servers=self._bootstrap) as producer,
            ShareConsumer(
                bootstrap_servers=self._bootstrap, group_id="workers", share_acknowledgement_mode="explicit"
            ) as worker,
        ):
            worker.subscribe([JOBS])
            await worker.poll(100)  # so that the group has begun to read before there is something
            for number in range(rounds // 3):
                await producer.send_and_wait(JOBS, b"%d" % number, partition=0)
                for record in await worker.poll(200):
                    worker.accept(record)
                    await worker.commit()
                    self._promise("accept", JOBS, record.offset)
