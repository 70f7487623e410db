"""Members of groups, each a real client in a thread, and a ledger of who owns what at every moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_SECONDS = 30.0
Partition = tuple[str, int]


def wait_until(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s until {what}"
        time.sleep(0.01)


class Ledger:
    """Who owns which partition, and which records came. A partition with two owners is a failure at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[Partition, str] = {}
        self.seen: dict[bytes, int] = {}
        self.problems: list[str] = []

    def assigned(self, member: str, partitions: Iterable[Partition]) -> None:
        with self._lock:
            for partition in partitions:
                holder = self._owners.get(partition)
                if holder not in (None, member):
                    self.problems.append(f"{partition} went to {member} while {holder} held it")
                self._owners[partition] = member

    def revoked(self, member: str, partitions: Iterable[Partition]) -> None:
        with self._lock:
            for partition in partitions:
                if self._owners.get(partition) == member:
                    del self._owners[partition]

    def forget(self, member: str) -> None:
        with self._lock:
            self._owners = {partition: owner for partition, owner in self._owners.items() if owner != member}

    def record(self, value: bytes) -> None:
        with self._lock:
            self.seen[value] = self.seen.get(value, 0) + 1

    def shares(self) -> dict[str, int]:
        with self._lock:
            counts: dict[str, int] = {}
            for owner in self._owners.values():
                counts[owner] = counts.get(owner, 0) + 1
            return counts

    def is_shared_by(self, members: int, partitions: int) -> bool:
        """All partitions are owned, by so many members, in equal shares."""
        shares = sorted(self.shares().values())
        balanced = bool(shares) and shares[-1] - shares[0] <= 1
        return sum(shares) == partitions and len(shares) == min(members, partitions) and balanced

    def check(self) -> None:
        assert not self.problems, self.problems[0]


class Member:
    """A confluent-kafka consumer that commits what it has read."""

    def __init__(self, ledger: Ledger, bootstrap: str, name: str, topics: list[str], **configs: object) -> None:
        self.ledger = ledger
        self.name = name
        self.errors: list[KafkaError] = []
        self._incremental = configs.get("group_protocol") == "consumer" or "cooperative" in str(
            configs.get("partition_assignment_strategy", "")
        )
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "group",
            "client.id": name,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "enable.auto.commit": False,
        }
        if configs.get("group_protocol") != "consumer":
            settings |= {"heartbeat.interval.ms": 100, "session.timeout.ms": 3_000}
        settings |= {key.replace("_", "."): value for key, value in configs.items()}
        self._consumer = Consumer(settings)
        self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __enter__(self) -> Member:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.ledger.assigned(self.name, [(p.topic, p.partition) for p in partitions])
        if self._incremental:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        self.ledger.revoked(self.name, [(p.topic, p.partition) for p in partitions])

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            if message is not None:
                self._on_message(message)
        self._consumer.close()
        self.ledger.forget(self.name)

    def _on_message(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self.errors.append(error)
            return
        self.ledger.record(message.value() or b"")
        try:
            self._consumer.commit(message=message, asynchronous=True)
        except Exception:  # a commit in a rebalance may fail: the record is read again
            return

    def close(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), f"{self.name} does not stop"


def create_topic(bootstrap: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions)])[name].result(WAIT_SECONDS)


def produce(bootstrap: str, topic: str, partitions: int, values: Iterable[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=index % partitions)
    assert producer.flush(WAIT_SECONDS) == 0
