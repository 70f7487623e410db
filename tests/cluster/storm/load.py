"""The load of a storm: producers, transactions, consumer groups of both kinds, a share group, and readers of all.

All of them are clients of `penstock.client` in one event loop, and go on whatever happens: a client that gets a fatal
error is made anew. On request Spark copies the stream as well, in a process of its own. Each value is sent once by a
program; whether it arrived is known, or is recorded as unknown.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from penstock.client import Admin, Consumer, Producer, ResourceType, ShareConsumer, TopicPartition
from penstock.client.accumulator import Delivery
from penstock.client.errors import UsageError
from penstock.wire.errors import KafkaError
from tests.cluster.storm import maintained, spark
from tests.cluster.storm.history import History, now_ms
from tests.cluster.storm.maintained import Maintained

STREAM, TRANSACTIONS, JOBS, BULK, COPIES = "stream", "transactions", "jobs", "bulk", "copies"
PARTITIONS = {STREAM: 3, TRANSACTIONS: 2, JOBS: 3, BULK: 2, COPIES: 3}
QUEUE, CLASSIC, MODERN, COPIERS = "workers", "classic-readers", "consumer-readers", "copiers"
DELIVERY_LIMIT = 10
LOCK_MS = 6_000
BULK_BYTES = 400_000
_PATIENT: dict[str, Any] = {"delivery_timeout_ms": 180_000, "request_timeout_ms": 5_000}
_CLIENT: dict[str, Any] = {"request_timeout_ms": 5_000, "retry_backoff_ms": 50, "retry_backoff_max_ms": 500}
_QUIET_SECONDS = 8.0
_READ_BYTES_PER_SECOND = 2e6
"""What a reader gets through on a busy machine, at the least, with every byte passing a proxy."""


class Load:
    def __init__(self, bootstrap: str, history: History, seed: int, spark_folder: Path | None = None) -> None:
        """`spark_folder` keeps the checkpoint and the log of Spark; without one there is no Spark."""
        self.history = history
        self.is_over = False
        """No more is produced."""
        self.is_settled = False
        """Nobody works any more."""
        self.restarts: Counter[str] = Counter()
        """How often each program had to make its client anew, and why."""
        self.acknowledged: Counter[str] = Counter()
        self._bootstrap: dict[str, Any] = {"bootstrap_servers": bootstrap}
        self._seed = seed
        settings, producers = {**self._bootstrap, **_CLIENT}, {**self._bootstrap, **_PATIENT}
        self.maintained = Maintained(settings, producers, seed, lambda: self.is_over)
        self._spark_folder = spark_folder
        self._copies = {COPIERS: COPIES} if spark_folder is None else {COPIERS: COPIES, "spark": spark.COPIES}
        """Who copies the stream, and to which topic."""
        self._partitions = PARTITIONS if spark_folder is None else {**PARTITIONS, spark.COPIES: spark.PARTITIONS}
        self._sent: dict[str, dict[tuple[int, str], str]] = {topic: {} for topic in self._partitions}
        self._transactions: dict[str, tuple[str, list[tuple[int, str]]]] = {}
        self._last_reader: dict[tuple[str, int], set[str]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._workers: list[asyncio.Task[None]] = []

    async def prepare(self, replicas: int) -> None:
        async with Admin(**self._bootstrap) as admin:
            for topic, partitions in self._partitions.items():
                configs = {"segment.bytes": str(1 << 20)} if topic == BULK else {}
                await admin.create_topic(topic, partitions, replicas, configs)
            for topic, topic_configs in maintained.CONFIGS.items():
                await admin.create_topic(topic, 1, replicas, topic_configs)
            share = {
                "share.auto.offset.reset": "earliest",
                "share.delivery.count.limit": str(DELIVERY_LIMIT),
                "share.record.lock.duration.ms": str(LOCK_MS),
            }
            await admin.alter_configs(ResourceType.GROUP, QUEUE, share)
            for topic in self._partitions:
                await admin.describe_topic(topic)
            self.history.topics = dict(admin.cluster.metadata.names)
        self.history.add("share-settings", group=QUEUE, delivery_limit=DELIVERY_LIMIT)

    def start(self) -> None:
        producers = [("idempotent-1", STREAM, 0), ("idempotent-2", STREAM, 0), ("bulk", BULK, BULK_BYTES)]
        producers.append(("jobs", JOBS, 0))
        for name, topic, size in producers:
            self._tasks.append(self._run(name, partial(self._produce, name, topic, size)))
        for name in ("transactional-1", "transactional-2"):
            self._tasks.append(self._run(name, partial(self._transact, name)))
        self._tasks.append(self._run("overwriter", self.maintained.overwrite))
        self._tasks.append(self._run("trimmer", self.maintained.trim))
        programs: dict[str, Callable[[], Awaitable[None]]] = {
            "copier": self._copy,
            "observer": self._observe,
            "reader-uncommitted": lambda: self._follow("reader-uncommitted", "read_uncommitted"),
            "reader-committed": lambda: self._follow("reader-committed", "read_committed"),
        }
        if self._spark_folder is not None:
            programs["spark"] = self._run_spark
        for n in (1, 2):
            programs[f"worker-{n}"] = partial(self._work, f"worker-{n}")
            for group in (CLASSIC, MODERN):
                programs[f"{group}-{n}"] = partial(self._consume, group, f"{group}-{n}")
        for name, program in programs.items():
            self._workers.append(self._run(name, program))

    def _run(self, name: str, program: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        async def again_and_again() -> None:
            while True:
                try:
                    await program()
                    return
                except (KafkaError, UsageError, TimeoutError) as error:
                    self.restarts[f"{name.rstrip('-12')}: {type(error).__name__}"] += 1
                    await asyncio.sleep(0.3)

        return asyncio.create_task(again_and_again(), name=name)

    # -- producers -------------------------------------------------------------------------------------------------

    async def _produce(self, name: str, topic: str, size: int) -> None:
        chance = random.Random(f"{name} of {self._seed} at {len(self._sent[topic])}")
        async with Producer(**self._bootstrap, **_PATIENT, linger_ms=5) as producer:
            while not self.is_over:
                pending = []
                for _ in range(1 if size else chance.randint(1, 5)):
                    partition = chance.randrange(PARTITIONS[topic])
                    value = f"{name}:{len(self._sent[topic])}"
                    self._sent[topic][partition, value] = "unknown"
                    body = value.encode() + (b"|" + chance.randbytes(size) if size else b"")
                    pending.append((value, partition, await producer.send(topic, body, partition=partition)))
                for value, partition, delivery in pending:
                    await self._delivered(name, topic, value, partition, delivery)
                await asyncio.sleep(chance.uniform(0.2, 0.5) if size else chance.uniform(0, 0.15))

    async def _delivered(
        self, name: str, topic: str, value: str, partition: int, delivery: Delivery, txn: str | None = None
    ) -> bool:
        fields: dict[str, object] = {"process": name, "topic": topic, "partition": partition, "value": value}
        if txn is not None:
            fields["txn"] = txn
        try:
            record = await delivery
        except KafkaError as error:
            self.history.add("send", **fields, result="unknown", error=type(error).__name__)
            return False
        self._sent[topic][partition, value] = "ok"
        self.acknowledged[topic] += 1
        self.history.add("send", **fields, result="ok", offset=record.offset)
        return True

    async def _transact(self, name: str) -> None:
        chance = random.Random(f"{name} of {self._seed} at {len(self._transactions)}")
        settings: dict[str, Any] = {
            **self._bootstrap,
            **_PATIENT,
            "max_block_ms": 60_000,
            "transaction_timeout_ms": 60_000,
        }
        async with Producer(**settings, transactional_id=name) as producer:
            while not self.is_over:
                await self._transaction(producer, name, f"{name}/{len(self._transactions)}", chance)
                await asyncio.sleep(chance.uniform(0, 0.2))

    async def _transaction(self, producer: Producer, name: str, txn: str, chance: random.Random) -> None:
        sent: list[tuple[int, str]] = []
        self._transactions[txn] = ("unknown", sent)
        outcome = "unknown"
        try:
            producer.begin_transaction()
            pending = []
            for number in range(chance.randint(1, 4)):
                partition, value = chance.randrange(PARTITIONS[TRANSACTIONS]), f"{txn}#{number}"
                sent.append((partition, value))
                pending.append((value, partition, await producer.send(TRANSACTIONS, value, partition=partition)))
            for value, partition, delivery in pending:
                await self._delivered(name, TRANSACTIONS, value, partition, delivery, txn)
            if chance.random() < 0.25:
                await producer.abort_transaction()
                outcome = "aborted"
            else:
                await producer.commit_transaction()
                outcome = "committed"
        finally:
            self._transactions[txn] = (outcome, sent)
            self.history.add("txn-end", txn=txn, result=outcome)

    # -- groups ----------------------------------------------------------------------------------------------------

    async def _consume(self, group: str, name: str) -> None:
        protocol = "classic" if group == CLASSIC else "consumer"
        settings = {**self._bootstrap, **_CLIENT, "group_id": group, "group_protocol": protocol}
        settings |= {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        if protocol == "classic":
            settings |= {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 1_000}
        async with Consumer(**settings) as consumer:
            consumer.subscribe([STREAM])
            while not self.is_settled:
                records = await consumer.poll(500)
                self._saw(name, records, "subscribe", "read_uncommitted")
                if records:
                    try:
                        await consumer.commit(timeout_ms=5_000)
                    except KafkaError as error:
                        self.restarts[f"{group}, no commit: {type(error).__name__}"] += 1

    async def _observe(self) -> None:
        """Read committed offsets again and again: they never go back either."""
        async with (
            Consumer(**self._bootstrap, **_CLIENT, group_id=CLASSIC) as classic,
            Consumer(**self._bootstrap, **_CLIENT, group_id=MODERN) as modern,
        ):
            while not self.is_settled:
                for group, consumer in ((CLASSIC, classic), (MODERN, modern)):
                    asked = now_ms()
                    found = await consumer.committed([TopicPartition(STREAM, n) for n in range(PARTITIONS[STREAM])])
                    for place, offset in found.items():
                        if offset is not None:
                            self.history.committed(
                                group, (place.topic, place.partition), offset.offset, asked, is_read=True
                            )
                await asyncio.sleep(1)

    async def _copy(self) -> None:
        """Exactly once: what is read and what is written are committed together."""
        settings: dict[str, Any] = {
            **self._bootstrap,
            **_CLIENT,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        async with (
            Producer(**self._bootstrap, **_PATIENT, max_block_ms=60_000, transactional_id="copier") as producer,
            Consumer(**settings, group_id=COPIERS, isolation_level="read_committed") as consumer,
        ):
            consumer.subscribe([STREAM])
            while not self.is_settled:
                records = await consumer.poll(500)
                if not records:
                    continue
                offsets = {}
                producer.begin_transaction()
                for record in records:
                    await producer.send(COPIES, record.value, partition=record.partition)
                    offsets[record.topic_partition] = record.offset + 1
                await producer.send_offsets_to_transaction(offsets, consumer)
                await producer.commit_transaction()

    async def _run_spark(self) -> None:
        """Start its driver, again whenever it ends, as a supervisor would."""
        assert self._spark_folder is not None
        command = [sys.executable, "-m", "tests.cluster.storm.spark"]
        command += [self._bootstrap["bootstrap_servers"], str(self._spark_folder)]
        while not self.is_settled:
            driver = await asyncio.create_subprocess_exec(*command, start_new_session=True)
            try:
                self.restarts[f"spark: exit status {await driver.wait()}"] += 1
            finally:
                if driver.returncode is None:
                    os.killpg(driver.pid, signal.SIGKILL)
                    await driver.wait()

    # -- the queue -------------------------------------------------------------------------------------------------

    async def _work(self, name: str) -> None:
        chance = random.Random(f"{name} of {self._seed} at {now_ms()}")
        async with ShareConsumer(
            **self._bootstrap, **_CLIENT, group_id=QUEUE, share_acknowledgement_mode="explicit", max_poll_records=20
        ) as worker:
            worker.subscribe([JOBS])
            while not self.is_settled:
                for record in await worker.poll(500):
                    if chance.random() < 0.05 and not self.is_over:
                        worker.release(record)
                    else:
                        worker.accept(record)
                if chance.random() < 0.7:
                    await worker.commit()

    # -- readers ---------------------------------------------------------------------------------------------------

    def _saw(self, name: str, records: list[Any], how: str, isolation: str) -> None:
        seen = [[each.topic, each.partition, each.offset, text_of(each.value)] for each in records]
        if seen:
            self.history.add("poll", process=name, records=seen, how=how, isolation=isolation)

    def _places(self, isolation: str) -> list[TopicPartition]:
        """What readers of this level read: copies only as far as they are committed."""
        topics = [STREAM, TRANSACTIONS, BULK, JOBS]
        if isolation == "read_committed":
            topics += self._copies.values()
        return [TopicPartition(topic, n) for topic in topics for n in range(self._partitions[topic])]

    async def _follow(self, name: str, isolation: str) -> None:
        settings: dict[str, Any] = {
            **self._bootstrap,
            **_CLIENT,
            "auto_offset_reset": "none",
            "isolation_level": isolation,
        }
        async with Consumer(**settings) as consumer:
            places = self._places(isolation)
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            self.history.add("moved", process=name)
            while not self.is_settled:
                self._saw(name, await consumer.poll(500), "assign", isolation)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def finish(self, patience_seconds: float) -> list[str]:
        """The faults are over: wait until everything has been handled, read all of it once more, and stop.

        Returns what is wrong that the checkers of histories do not look for.
        """
        self.is_over = True
        wrong: list[str] = []
        try:
            async with asyncio.timeout(patience_seconds):
                await asyncio.gather(*self._tasks)
        except TimeoutError:
            wrong += [f"{task.get_name()} is stuck" for task in self._tasks if not task.done()]
        try:
            async with asyncio.timeout(patience_seconds):
                await self._settle()
        except TimeoutError:
            wrong.append(f"the groups have not come to the end: {self._behind()}")
        try:
            async with asyncio.timeout(
                patience_seconds + self.acknowledged[BULK] * BULK_BYTES / _READ_BYTES_PER_SECOND
            ):
                for isolation in ("read_uncommitted", "read_committed"):
                    await self._read_all(isolation)
                self.history.add("drained")
                wrong += await self.maintained.judge([TopicPartition(STREAM, n) for n in range(PARTITIONS[STREAM])])
        except (TimeoutError, KafkaError) as error:
            wrong.append(f"not everything can be read to the end: {error!r}")
        self.is_settled = True
        for task in (*self._tasks, *self._workers):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._workers, return_exceptions=True)
        self._expect_copies()
        self._settle_queue()
        return [*wrong, *self._broken_transactions()]

    def too_little(self, least: int) -> list[str]:
        """What has been done less often than so many times: a storm without load proves nothing."""
        done: Counter[str] = Counter({f"records of {topic}": 0 for topic in (STREAM, TRANSACTIONS, JOBS, BULK)})
        done |= dict.fromkeys(("committed transactions", "confirmed acceptances", "confirmed commits"), 0)
        done.update({f"records of {topic}": count for topic, count in self.acknowledged.items()})
        done |= {f"records of {topic}": self.maintained.acknowledged[topic] for topic in maintained.CONFIGS}
        for each in self.history.operations:
            if each["op"] == "txn-end" and each["result"] == "committed":
                done["committed transactions"] += 1
            elif each["op"] == "acknowledge" and (each["kind"], each["result"]) == ("accept", "ok"):
                done["confirmed acceptances"] += 1
            elif each["op"] == "offset-commit" and not each["read"]:
                done["confirmed commits"] += 1
        return [f"only {count} {name}, of at least {least}" for name, count in done.items() if count < least]

    def _behind(self) -> dict[str, int]:
        return {group: self._unread(group) for group in (CLASSIC, MODERN, *self._copies)} | {
            QUEUE: len(self._unhandled())
        }

    def _unread(self, group: str) -> int:
        """How many acknowledged values of the stream the members of a group have not seen."""
        seen = self._seen(group)
        return sum(state == "ok" and value not in seen for (_, value), state in self._sent[STREAM].items())

    def _seen(self, group: str) -> set[str]:
        found: set[str] = set()
        for each in self.history.operations:
            if each["op"] != "poll":
                continue
            if group in self._copies:
                found.update(r[3] for r in each["records"] if r[0] == self._copies[group])  # type: ignore[attr-defined]
            elif str(each["process"]).startswith(group):
                found.update(r[3] for r in each["records"])  # type: ignore[attr-defined]
        return found

    def _unhandled(self) -> set[tuple[int, int]]:
        offsets = {
            (each["partition"], each["offset"])
            for each in self.history.operations
            if each["op"] == "send" and each["topic"] == JOBS and each["result"] == "ok"
        }
        ended = {
            (each["partition"], each["offset"])
            for each in self.history.operations
            if each["op"] == "acknowledge" and each["kind"] == "accept" and each["result"] in ("ok", "unknown")
        }
        return offsets - ended  # type: ignore[return-value]

    async def _settle(self) -> None:
        while any(self._behind().values()):  # noqa: ASYNC110
            await asyncio.sleep(1)
        # An acceptance whose outcome is unknown comes again when its lock runs out, if it was not made.
        last = -1
        while last != (last := self.history.counts["deliver"]):  # noqa: ASYNC110
            await asyncio.sleep(_QUIET_SECONDS)

    async def _read_all(self, isolation: str) -> None:
        """Everything from the beginning to the end, by a reader of its own."""
        name = f"last-{isolation}"
        settings: dict[str, Any] = {
            **self._bootstrap,
            **_CLIENT,
            "auto_offset_reset": "none",
            "isolation_level": isolation,
        }
        async with Consumer(**settings) as consumer:
            places = self._places(isolation)
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            ends = await consumer.end_offsets(places)
            while True:
                records = await consumer.poll(500)
                self._saw(name, records, "assign", isolation)
                for record in records:
                    self._last_reader.setdefault((isolation, record.partition), set()).add(
                        f"{record.topic}/{text_of(record.value)}"
                    )
                if all([await consumer.position(place) >= ends[place] for place in places]):
                    return

    def _expect_copies(self) -> None:
        """Every acknowledged value of the stream is in the copies, once: the checker finds what is not."""
        for (partition, value), state in self._sent[STREAM].items():
            for copier, topic in self._copies.items() if state == "ok" else ():
                sent = {"process": copier, "topic": topic, "partition": partition, "value": value}
                self.history.add("send", **sent, result="ok")

    def _settle_queue(self) -> None:
        records = [
            [JOBS, each["partition"], each["offset"]]
            for each in self.history.operations
            if each["op"] == "send" and each["topic"] == JOBS and each["result"] == "ok"
        ]
        self.history.add("settled", group=QUEUE, time=now_ms(), records=records)

    def _broken_transactions(self) -> list[str]:
        """Transactions of which only a part can be seen, whatever is known of their outcome."""
        broken = []
        for txn, (outcome, sent) in self._transactions.items():
            seen = [
                f"{TRANSACTIONS}/{value}" in self._last_reader.get(("read_committed", partition), ())
                for partition, value in sent
            ]
            if any(seen) and not all(seen):
                broken.append(f"transaction {txn} ({outcome}) is visible in part: {list(zip(sent, seen, strict=True))}")
        return broken


def text_of(value: bytes | None) -> str:
    """The name of a value, without what makes it large."""
    return bytes(value or b"").partition(b"|")[0].decode()
