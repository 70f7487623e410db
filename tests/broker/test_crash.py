"""A broker that is killed under load and started again has every acknowledged record, once, in order."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.records.builder import build_batch
from penstock.testing import Broker
from penstock.wire.errors import ErrorCode
from tests.broker.process import WAIT_SECONDS, BrokerProcess
from tests.broker.raw import create_topic, end_offset, produce_error

TOPIC = "orders"
PARTITIONS = 3
LONG_ROUNDS = int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "50"))


class Load(threading.Thread):
    """An idempotent producer that numbers the records of each partition, until it is told to stop."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
        self.errors: list[str] = []
        self.enough = threading.Event()
        self.left = -1
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "message.timeout.ms": 120_000,
                "queue.buffering.max.messages": 2000,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        number = 0
        while not self.enough.is_set():
            try:
                for partition in range(PARTITIONS):
                    self._producer.produce(
                        TOPIC, b"%d" % number, partition=partition, on_delivery=self._report(partition, number)
                    )
            except BufferError:
                # Only the partitions that were taken have this number; the next round uses a new one for all.
                self._producer.poll(0.05)
            number += 1
            self._producer.poll(0)
        self.left = self._producer.flush(120)

    def _report(self, partition: int, number: int) -> Callable[[object, object], None]:
        def report(error: object, message: object) -> None:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.acknowledged[partition].append((number, message.offset()))  # type: ignore[attr-defined]

        return report

    @property
    def count(self) -> int:
        return sum(len(part) for part in self.acknowledged)


def read_partition(address: str, partition: int) -> list[tuple[int, int]]:
    """(number, offset) of every record."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), WAIT_SECONDS)
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        found: list[tuple[int, int]] = []
        while len(found) < end:
            messages = consumer.consume(min(end - len(found), 10_000), WAIT_SECONDS)
            assert messages, f"only {len(found)} of {end} records of partition {partition} came"
            found += [(int(message.value() or b""), int(message.offset() or 0)) for message in messages]
        return found
    finally:
        consumer.close()


def kill_and_restart(folder: Path, rounds: int, seed: int) -> None:
    source = random.Random(seed)
    with BrokerProcess(folder, num_partitions=PARTITIONS, log_segment_bytes=1 << 20) as process:
        load = Load(process.address)
        load.start()
        for _ in range(rounds):
            # Let some records through, then die at a moment that nobody chose.
            target = load.count + source.randrange(200, 5000)
            deadline = time.monotonic() + WAIT_SECONDS
            while load.count < target:
                assert time.monotonic() < deadline, f"no progress: {load.count} acknowledged, errors {load.errors}"
                time.sleep(source.random() / 100)
            process.kill()
            process.start()
        load.enough.set()
        load.join(150)
        assert load.errors == []
        assert load.left == 0
        for partition, acknowledged in enumerate(load.acknowledged):
            stored = read_partition(process.address, partition)
            assert stored == acknowledged
            assert [number for number, _ in stored] == sorted({number for number, _ in stored})


def test_killed_under_load_three_times(tmp_path: Path) -> None:
    kill_and_restart(tmp_path, rounds=3, seed=1)


@pytest.mark.long
@pytest.mark.timeout(60 * LONG_ROUNDS)
def test_killed_under_load_many_times(tmp_path: Path) -> None:
    kill_and_restart(tmp_path, rounds=LONG_ROUNDS, seed=random.SystemRandom().randrange(2**32))


def test_a_graceful_stop_keeps_what_was_only_in_memory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as process:
        producer = Producer({"bootstrap.servers": process.address, "acks": 1})
        for number in range(1000):
            producer.produce(TOPIC, b"%d" % number, partition=0)
        assert producer.flush(WAIT_SECONDS) == 0
        assert process.stop() == 0
        process.start()
        assert [number for number, _ in read_partition(process.address, 0)] == list(range(1000))


@pytest.mark.parametrize("damage", ["torn", "garbage", "zeros"])
def test_a_broken_tail_is_cut_and_the_rest_is_there(tmp_path: Path, damage: str) -> None:
    fill_and_kill(tmp_path)
    [segment] = tmp_path.glob(f"{TOPIC}-0/*.log")
    whole = segment.stat().st_size
    with segment.open("r+b") as file:
        if damage == "torn":
            file.truncate(whole - 7)
        else:
            file.seek(0, os.SEEK_END)
            file.write(random.Random(1).randbytes(500) if damage == "garbage" else bytes(5000))
    with BrokerProcess(tmp_path) as process:
        numbers = [number for number, _ in read_partition(process.address, 0)]
        assert numbers == list(range(9 if damage == "torn" else 10))


def test_missing_indexes_are_built_anew(tmp_path: Path) -> None:
    fill_and_kill(tmp_path)
    for name in ("index", "timeindex"):
        for path in tmp_path.glob(f"{TOPIC}-0/*.{name}"):
            path.unlink()
    with BrokerProcess(tmp_path) as process:
        assert [number for number, _ in read_partition(process.address, 0)] == list(range(10))


def fill_and_kill(folder: Path) -> None:
    """Ten batches of one record each, and no goodbye."""
    with BrokerProcess(folder) as process:
        create_topic(process.port, TOPIC)
        for number in range(10):
            assert produce_number(process.port, number) == ErrorCode.NONE


def produce_number(port: int, number: int) -> int:
    return produce_error(port, TOPIC, build_batch([(1_700_000_000_000 + number, None, b"%d" % number, [])]), acks=-1)


def test_an_idempotent_producer_is_recognised_after_a_restart() -> None:
    """The retry of a batch whose acknowledgement was lost with the broker gets the offset that it had."""
    with Broker() as broker:
        broker.create_topic(TOPIC)
        batch = build_batch([(0, None, b"once", [])], producer_id=4000, producer_epoch=0, base_sequence=0)
        assert produce_error(broker.port, TOPIC, bytearray(batch)) == ErrorCode.NONE
        broker.restart()
        assert produce_error(broker.port, TOPIC, bytearray(batch)) == ErrorCode.NONE
        assert end_offset(broker.port, TOPIC) == 1
