"""A real broker on a disk that fills up: it refuses what it cannot store, serves the rest, and recovers by itself."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.process import WAIT_SECONDS, BrokerProcess

PARTITIONS = 4
CONFIGS: dict[str, Any] = {
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "log_segment_bytes": 1 << 20,
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


class Client:
    """Ordinary clients, which hear of each failure within seconds."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.settings: dict[str, Any] = {"bootstrap.servers": broker.address, "log_level": 0}
        self.admin = AdminClient(self.settings)
        self.producer = Producer({**self.settings, "acks": "all", "delivery.timeout.ms": 3000})
        self.acknowledged: list[bytes] = []
        self.refused = 0

    def produce(self, topic: str, size: int, count: int = 1) -> None:
        for number in range(count):
            value = b"%d/%d:" % (len(self.acknowledged) + self.refused, number) + os.urandom(size)
            self.producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=self._heard)
        assert self.producer.flush(WAIT_SECONDS) == 0

    def _heard(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value())
        else:
            self.refused += 1

    def commit(self, offset: int) -> None:
        consumer = Consumer({**self.settings, "group.id": "readers"})
        try:
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        finally:
            consumer.close()

    def commit_often(self, offset: int) -> None:
        """More than fits into the page that the disk has given already."""
        for _ in range(1000):
            self.commit(offset)

    def committed(self) -> int:
        consumer = Consumer({**self.settings, "group.id": "readers"})
        try:
            return int(consumer.committed([TopicPartition("orders", 0)], WAIT_SECONDS)[0].offset)
        finally:
            consumer.close()

    def create_topic(self, name: str) -> None:
        self.admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(WAIT_SECONDS)

    def read(self, topic: str) -> list[bytes]:
        consumer = Consumer(
            {**self.settings, "group.id": "judge", "isolation.level": "read_committed", "enable.partition.eof": True}
            | {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        found, ended = [], 0
        while ended < PARTITIONS:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, f"{topic} does not end"
            if message.error():
                ended += 1
            else:
                found.append(message.value() or b"")
        consumer.close()
        return found


def fill(folder: Path) -> Path:
    """A file that takes all that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def eventually(attempt: Callable[[], object]) -> None:
    """Until it succeeds: clients and coordinators try again by themselves."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            attempt()
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_a_broker_on_a_full_disk_goes_on_by_itself_when_there_is_space(small_disk: Path) -> None:
    with BrokerProcess(small_disk / "data", **CONFIGS) as broker:
        client = Client(broker)
        for topic in ("orders", "shop"):
            client.create_topic(topic)
        shop = Producer({**client.settings, "transactional.id": "shop", "transaction.timeout.ms": 60_000})
        shop.init_transactions(WAIT_SECONDS)
        client.produce("orders", 10_000, 40)
        client.commit(1)
        shop.begin_transaction()
        for index in range(PARTITIONS):
            shop.produce("shop", b"never", partition=index)
        shop.flush(WAIT_SECONDS)

        ballast = fill(small_disk)
        stored = list(client.acknowledged)
        client.produce("orders", 10_000, 40)
        assert client.refused
        with pytest.raises(KafkaException):
            client.create_topic("one-more")
        with pytest.raises(KafkaException):
            client.commit_often(2)
        assert set(stored) <= set(client.read("orders"))

        ballast.unlink()
        eventually(lambda: shop.abort_transaction(WAIT_SECONDS))
        client.refused = 0
        client.produce("orders", 10_000, 40)
        assert not client.refused
        eventually(lambda: client.commit(3))
        eventually(lambda: client.create_topic("one-more"))
        shop.begin_transaction()
        for index in range(PARTITIONS):
            shop.produce("shop", b"sold", partition=index)
        shop.commit_transaction(WAIT_SECONDS)

        broker.kill()
        broker.start()
        assert set(client.acknowledged) <= set(client.read("orders"))
        assert client.read("shop") == [b"sold"] * PARTITIONS
        assert client.committed() == 3
        assert broker.stop() == 0
