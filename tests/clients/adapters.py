"""Four Kafka clients behind one face, so that each does the same jobs."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

import aiokafka
import aiokafka.admin
import aiokafka.structs
import confluent_kafka
import kafka
import kafka.admin
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_SECONDS = 30
WAIT_MS = WAIT_SECONDS * 1000


T = TypeVar("T")


@dataclass(frozen=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = field(default=None, compare=False)


class Client(Protocol):
    """Records go to and come from partition 0."""

    name: str
    address: str

    def create_topic(self, topic: str) -> None: ...

    def produce(
        self,
        topic: str,
        records: list[Record],
        *,
        codec: str = "none",
        idempotent: bool = False,
        one_batch: bool = False,
    ) -> None: ...

    def read(
        self, topic: str, count: int, *, offset: int | None = None, timestamp_ms: int | None = None
    ) -> list[Record]:
        """Read from the beginning, from an offset, or from the first record at or after a time."""
        ...


class Confluent:
    name = "confluent-kafka"

    def __init__(self, address: str) -> None:
        self.address = address

    def create_topic(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_SECONDS)

    def produce(
        self,
        topic: str,
        records: list[Record],
        *,
        codec: str = "none",
        idempotent: bool = False,
        one_batch: bool = False,
    ) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.address,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": 2000 if one_batch else 1,
                "message.max.bytes": 2_000_000,
            }
        )
        errors: list[object] = []
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                0,
                timestamp=record.timestamp_ms or 0,
                headers=list(record.headers),
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        assert producer.flush(WAIT_SECONDS) == 0
        assert errors == []

    def read(
        self, topic: str, count: int, *, offset: int | None = None, timestamp_ms: int | None = None
    ) -> list[Record]:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.address, "group.id": "g", "enable.auto.commit": False}
        )
        try:
            if timestamp_ms is not None:
                requested = [confluent_kafka.TopicPartition(topic, 0, timestamp_ms)]
                offset = consumer.offsets_for_times(requested, WAIT_SECONDS)[0].offset
            consumer.assign(
                [
                    confluent_kafka.TopicPartition(
                        topic, 0, confluent_kafka.OFFSET_BEGINNING if offset is None else offset
                    )
                ]
            )
            found: list[confluent_kafka.Message] = []
            while len(found) < count:
                more = consumer.consume(min(count - len(found), 10_000), WAIT_SECONDS)
                assert more, f"{len(found)} of {count} records came"
                found += more
            return [Record(m.value(), m.key(), _headers(m), m.timestamp()[1]) for m in found]
        finally:
            consumer.close()


class KafkaPython:
    name = "kafka-python"

    def __init__(self, address: str) -> None:
        self.address = address

    def create_topic(self, topic: str) -> None:
        admin = kafka.KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.create_topics([kafka.admin.NewTopic(topic, num_partitions=1, replication_factor=1)])
        finally:
            admin.close()

    def produce(
        self,
        topic: str,
        records: list[Record],
        *,
        codec: str = "none",
        idempotent: bool = False,
        one_batch: bool = False,
    ) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.address,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            max_request_size=2_000_000,
            batch_size=1_000_000 if one_batch else 16_384,
            linger_ms=2000 if one_batch else 0,
        )
        try:
            futures = [
                producer.send(topic, r.value, r.key, list(r.headers), 0, timestamp_ms=r.timestamp_ms) for r in records
            ]
            for future in futures:
                future.get(WAIT_SECONDS)
        finally:
            producer.close(WAIT_SECONDS)

    def read(
        self, topic: str, count: int, *, offset: int | None = None, timestamp_ms: int | None = None
    ) -> list[Record]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=self.address, consumer_timeout_ms=WAIT_MS)
        try:
            partition = kafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            if timestamp_ms is not None:
                offset = consumer.offsets_for_times({partition: timestamp_ms})[partition].offset
            if offset is None:
                consumer.seek_to_beginning(partition)
            else:
                consumer.seek(partition, offset)
            found: list[Record] = []
            while len(found) < count:
                batches = consumer.poll(WAIT_MS, max_records=count - len(found))
                assert batches, f"{len(found)} of {count} records came"
                for batch in batches.values():
                    found += [Record(m.value, m.key, tuple(m.headers), m.timestamp) for m in batch]
            return found
        finally:
            consumer.close()


class Aiokafka:
    name = "aiokafka"

    def __init__(self, address: str) -> None:
        self.address = address

    def create_topic(self, topic: str) -> None:
        async def create() -> None:
            admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=self.address)
            await admin.start()
            try:
                new = aiokafka.admin.NewTopic(topic, num_partitions=1, replication_factor=1)
                response = await admin.create_topics([new])
                assert [error[1] for error in response.topic_errors] == [0]
            finally:
                await admin.close()

        _run(create)

    def produce(
        self,
        topic: str,
        records: list[Record],
        *,
        codec: str = "none",
        idempotent: bool = False,
        one_batch: bool = False,
    ) -> None:
        async def produce() -> None:
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.address,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                max_request_size=2_000_000,
                max_batch_size=1_000_000 if one_batch else 16_384,
                linger_ms=2000 if one_batch else 0,
            ) as producer:
                sent = [
                    await producer.send(topic, r.value, r.key, 0, timestamp_ms=r.timestamp_ms, headers=list(r.headers))
                    for r in records
                ]
                await asyncio.gather(*sent)

        _run(produce)

    def read(
        self, topic: str, count: int, *, offset: int | None = None, timestamp_ms: int | None = None
    ) -> list[Record]:
        async def read() -> list[Record]:
            async with aiokafka.AIOKafkaConsumer(bootstrap_servers=self.address) as consumer:
                partition = aiokafka.structs.TopicPartition(topic, 0)
                consumer.assign([partition])
                start = offset
                if timestamp_ms is not None:
                    start = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition].offset
                if start is None:
                    await consumer.seek_to_beginning(partition)
                else:
                    consumer.seek(partition, start)
                found: list[Record] = []
                while len(found) < count:
                    batches = await consumer.getmany(timeout_ms=WAIT_MS, max_records=count - len(found))
                    assert batches, f"{len(found)} of {count} records came"
                    for batch in batches.values():
                        found += [Record(m.value, m.key, tuple(m.headers), m.timestamp) for m in batch]
                return found

        return _run(read)


def _headers(message: confluent_kafka.Message) -> tuple[tuple[str, bytes], ...]:
    return tuple(cast("list[tuple[str, bytes]]", message.headers() or []))


def _run(work: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work(), 2 * WAIT_SECONDS)

    return asyncio.run(bounded())


class Kcat:
    """Text only: kcat cuts its input at delimiters. Topics come into being when they are written to."""

    name = "kcat"

    def __init__(self, address: str) -> None:
        self.address = address

    # `make test` puts it beside Python where the system has none.
    program = shutil.which("kcat") or shutil.which("kcat", path=Path(sys.executable).parent)

    @classmethod
    def is_installed(cls) -> bool:
        return cls.program is not None

    def create_topic(self, topic: str) -> None:
        self._kcat("-L", "-t", topic, "-X", "allow.auto.create.topics=true")

    def produce(
        self,
        topic: str,
        records: list[Record],
        *,
        codec: str = "none",
        idempotent: bool = False,
        one_batch: bool = False,
    ) -> None:
        options = ["-z", codec, "-X", f"enable.idempotence={'true' if idempotent else 'false'}"]
        options += ["-X", f"linger.ms={2000 if one_batch else 1}", "-X", "message.max.bytes=2000000"]
        # kcat gives the same headers to all records of a call.
        runs: list[list[Record]] = []
        for record in records:
            if runs and runs[-1][0].headers == record.headers:
                runs[-1].append(record)
            else:
                runs.append([record])
        for run in runs:
            headers = [part for name, value in run[0].headers for part in ("-H", f"{name}={value.decode()}")]
            lines = b"".join((r.key or b"") + b"|" + (r.value or b"") + b"\n" for r in run)
            self._kcat("-P", "-t", topic, "-p", "0", "-K", "|", "-Z", *options, *headers, stdin=lines)

    def read(
        self, topic: str, count: int, *, offset: int | None = None, timestamp_ms: int | None = None
    ) -> list[Record]:
        start = "beginning" if offset is None else str(offset)
        if timestamp_ms is not None:
            start = f"s@{timestamp_ms}"
        lines = self._kcat("-C", "-t", topic, "-p", "0", "-o", start, "-c", str(count), "-J").splitlines()
        found = []
        for line in map(json.loads, lines):
            pairs = line.get("headers", [])
            headers = tuple(zip(pairs[::2], (value.encode() for value in pairs[1::2]), strict=True))
            key, value = (None if line[name] is None else line[name].encode() for name in ("key", "payload"))
            found.append(Record(value, key, headers, line["ts"]))
        return found

    def _kcat(self, *arguments: str, stdin: bytes = b"") -> bytes:
        assert self.program is not None
        command = [self.program, "-q", "-b", self.address, *arguments]
        result = subprocess.run(command, input=stdin, capture_output=True, timeout=WAIT_SECONDS * 2)
        assert result.returncode == 0, result.stderr.decode()
        return result.stdout


ALL: list[Callable[[str], Client]] = [Confluent, KafkaPython, Aiokafka, Kcat]
