"""Clients that write down what they were told: producers, a consumer group, and workers on a queue."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from penstock.client.sync import Consumer, Producer, ShareConsumer
from penstock.client.types import ConsumerRecord, TopicPartition
from penstock.wire.errors import KafkaError

STREAM, QUEUE = "stream", "queue"
PARTITIONS = 6


@dataclass(slots=True)
class Seen:
    """What all clients were told. Each list has one writer."""

    acknowledged: dict[str, list[list[tuple[float, int]]]] = field(default_factory=dict)
    """By topic and partition: when, and which number."""
    consumed: list[dict[int, list[int]]] = field(default_factory=list)
    """By consumer and partition, in the order of arrival."""
    accepted: list[list[tuple[int, int]]] = field(default_factory=list)
    """By worker: partition and number of each record whose acceptance was confirmed."""
    unsure: list[list[tuple[int, int]]] = field(default_factory=list)
    """By worker: those that were handled, and whose acceptance was not confirmed: they may come again or not."""


class Load:
    """Idempotent producers on every partition of two topics, two consumers of one group, two workers of one queue."""

    def __init__(self, bootstrap: str) -> None:
        self.seen = Seen()
        self._bootstrap = bootstrap
        self._producing = threading.Event()
        self._reading = threading.Event()
        self._threads: list[threading.Thread] = []
        self._readers: list[threading.Thread] = []

    def start(self) -> None:
        for topic in (STREAM, QUEUE):
            self.seen.acknowledged[topic] = [[] for _ in range(PARTITIONS)]
            for partition in range(PARTITIONS):
                self._threads.append(self._thread(self._produce, topic, partition))
        for _ in range(2):
            self.seen.consumed.append({partition: [] for partition in range(PARTITIONS)})
            self.seen.accepted.append([])
            self.seen.unsure.append([])
            self._readers.append(self._thread(self._consume, self.seen.consumed[-1]))
            self._readers.append(self._thread(self._work, self.seen.accepted[-1], self.seen.unsure[-1]))

    def _thread(self, work: object, *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        thread.start()
        return thread

    def acknowledged(self, topic: str) -> int:
        return sum(map(len, self.seen.acknowledged[topic]))

    def consumed(self) -> int:
        return sum(len(set().union(*(each[p] for each in self.seen.consumed))) for p in range(PARTITIONS))

    def handled(self) -> int:
        """Jobs that need not come again."""
        return len({record for each in (*self.seen.accepted, *self.seen.unsure) for record in each})

    def finish(self, seconds: float) -> None:
        """Stop producing, and let the readers come to the end."""
        self._producing.set()
        for thread in self._threads:
            thread.join(seconds)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._is_done():
            time.sleep(0.2)
        self._reading.set()
        for thread in self._readers:
            thread.join(seconds)

    def _is_done(self) -> bool:
        return self.consumed() >= self.acknowledged(STREAM) and self.handled() >= self.acknowledged(QUEUE)

    def _produce(self, topic: str, partition: int) -> None:
        noted = self.seen.acknowledged[topic][partition]
        size, pause = (20_000, 0.005) if topic == STREAM else (1000, 0.05)
        with Producer(bootstrap_servers=self._bootstrap, acks="all", enable_idempotence=True) as producer:
            number = 0
            while not self._producing.is_set():
                producer.send(topic, b"%d " % number + bytes(size), partition=partition).result()
                noted.append((time.monotonic(), number))
                number += 1
                self._producing.wait(pause)

    def _consume(self, noted: dict[int, list[int]]) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "auto.offset.reset": "earliest"}
        with Consumer(settings, group_id="readers", group_protocol="consumer") as consumer:
            consumer.subscribe([STREAM])
            while not self._reading.is_set():
                for record in consumer.poll(200):
                    noted[record.partition].append(_number(record.value))

    def _work(self, noted: list[tuple[int, int]], unsure: list[tuple[int, int]]) -> None:
        settings = {"bootstrap.servers": self._bootstrap}
        with ShareConsumer(settings, group_id="workers", share_acknowledgement_mode="explicit") as worker:
            worker.subscribe([QUEUE])
            while not self._reading.is_set():
                records: list[ConsumerRecord[bytes, bytes]] = []
                confirmed: set[TopicPartition] = set()
                try:
                    records = worker.take(50, 200)
                    for record in records:
                        worker.accept(record)
                    if records:
                        confirmed = {tp for tp, error in worker.commit().items() if error is None}
                except KafkaError:
                    pass  # a broker is away, and the next attempt finds another
                for record in records:
                    known = noted if record.topic_partition in confirmed else unsure
                    known.append((record.partition, _number(record.value)))


def _number(value: bytes | None) -> int:
    return int((value or b"").partition(b" ")[0])
