"""What of a transaction waits for the disk: its end, and nothing before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.topics import Partition
from penstock.broker.transaction_durability import TransactionDurability
from penstock.log.errors import StorageError
from penstock.log.partition import PartitionLog
from penstock.storage.checkpoint import BOOT_ID, CLEAN_SHUTDOWN
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.disk import SlowDisk
from tests.transactions.wire_client import RETRIABLE, Producer, Wire, eventually, patiently

NONE = ErrorCode.NONE
TOPIC = "orders"
OFFSETS = "__consumer_offsets"
COORDINATOR = "__transaction_state"
BOTH = pytest.mark.parametrize("classic", [True, False], ids=["classic", "kip-890"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker({"penstock.acks.all.flush": "true"}, data=tmp_path / "data") as broker:
        wire = Wire(broker.port)
        wire.create_topic(TOPIC, 2)
        wire.close()
        yield broker


def write_all(producer: Producer) -> None:
    """Everything that a transaction may consist of, each step answered."""
    if producer.classic:
        assert producer.add((TOPIC, 0), (TOPIC, 1)) == NONE
    assert producer.write(TOPIC, b"one") == NONE
    assert producer.write(TOPIC, b"two", partition=1) == NONE
    if producer.classic:
        assert producer.add_offsets("group") == NONE
    assert producer.commit_offset("group", TOPIC, 0, 7) == NONE


@BOTH
@pytest.mark.parametrize("slow", [TOPIC, OFFSETS])
def test_a_commit_is_decided_when_all_that_belongs_to_it_is_on_disk(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, slow: str, classic: bool
) -> None:
    wire, other = Wire(broker.port), Wire(broker.port)
    producer = Producer(wire, "shop", classic=classic).start()
    disk = SlowDisk(monkeypatch, slow)
    disk.stall()
    try:
        write_all(producer)
        producer.post_end(commit=True)
        assert not wire.is_readable(0.1)
        assert other.transaction_state("shop") == "Ongoing"
    finally:
        disk.go_on()
    assert producer.take_end() == NONE
    assert other.fetch(TOPIC, 0) + other.fetch(TOPIC, 1) == [b"one", b"two"]


@BOTH
def test_a_commit_is_answered_when_the_decision_is_on_disk(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, classic: bool
) -> None:
    wire, other = Wire(broker.port), Wire(broker.port)
    producer = Producer(wire, "shop", classic=classic).start()
    disk = SlowDisk(monkeypatch, COORDINATOR)
    disk.stall()
    try:
        write_all(producer)
        producer.post_end(commit=True)
        assert (
            eventually(lambda: other.transaction_state("shop"), lambda now: now == "PrepareCommit") == "PrepareCommit"
        )
        assert not wire.is_readable(0.1)
        assert other.fetch(TOPIC) == []
    finally:
        disk.go_on()
    assert producer.take_end() == NONE
    assert other.fetch(TOPIC) == [b"one"]


@BOTH
def test_an_abort_does_not_wait_for_what_it_throws_away(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, classic: bool
) -> None:
    wire, other = Wire(broker.port), Wire(broker.port)
    producer = Producer(wire, "shop", classic=classic).start()
    disk = SlowDisk(monkeypatch, TOPIC)
    disk.stall()
    try:
        write_all(producer)
        producer.post_end(commit=False)
        assert eventually(lambda: other.transaction_state("shop"), lambda now: now == "PrepareAbort") == "PrepareAbort"
    finally:
        disk.go_on()
    assert producer.take_end() == NONE
    assert eventually(lambda: other.transaction_state("shop"), lambda now: now == "CompleteAbort") == "CompleteAbort"
    assert other.fetch(TOPIC) == []


def with_unsynced_end(broker: Broker, monkeypatch: pytest.MonkeyPatch, producer: Producer) -> SlowDisk:
    """A transaction whose Complete record is written, and does not come to the disk."""
    held: list[Callable[[], object]] = []
    write_markers = TransactionDurability._write_markers
    disk = SlowDisk(monkeypatch, COORDINATOR)

    def held_back(*args: object) -> None:
        loop = asyncio.get_running_loop()
        held.append(lambda: loop.call_soon_threadsafe(write_markers, *args))  # type: ignore[arg-type]

    monkeypatch.setattr(TransactionDurability, "_write_markers", held_back)
    if producer.classic:
        assert producer.add((TOPIC, 0)) == NONE
    assert producer.write(TOPIC, b"one") == NONE
    assert producer.end(commit=True) == NONE
    assert eventually(lambda: len(held), lambda number: number == 1) == 1
    disk.stall()
    monkeypatch.setattr(TransactionDurability, "_write_markers", write_markers)
    held[0]()
    other = Wire(broker.port)
    assert eventually(lambda: other.transaction_state("shop"), lambda now: now == "CompleteCommit") == "CompleteCommit"
    return disk


def test_a_classic_transaction_begins_when_the_end_of_the_last_one_is_on_disk(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its epoch is the same: a marker of the last one that is written again would end it."""
    wire = Wire(broker.port)
    producer = Producer(wire, "shop", classic=True).start()
    disk = with_unsynced_end(broker, monkeypatch, producer)
    try:
        wire.post(producer.add_request((TOPIC, 1)), 3)
        assert not wire.is_readable(0.1)
    finally:
        disk.go_on()
    answer = wire.take(m.AddPartitionsToTxnResponse)
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == NONE
    disk.stall()
    try:
        assert producer.add((TOPIC, 0)) == NONE  # the second partition waits for nothing
    finally:
        disk.go_on()


def test_a_transaction_with_an_epoch_of_its_own_begins_at_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Producer(Wire(broker.port), "shop").start()
    disk = with_unsynced_end(broker, monkeypatch, producer)
    try:
        assert producer.write(TOPIC, b"two") == NONE
    finally:
        disk.go_on()
    assert producer.end(commit=True) == NONE
    assert Wire(broker.port).fetch(TOPIC) == [b"one", b"two"]


def test_a_commit_fails_with_the_disk_and_the_next_start_trusts_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = PartitionLog.sync

    def failing(log: PartitionLog) -> None:
        if log.folder.name.startswith(TOPIC):
            raise StorageError("the disk is gone")
        sync(log)

    data = tmp_path / "data"
    broker = Broker({"penstock.acks.all.flush": "true"}, data=data).start()
    wire = Wire(broker.port)
    wire.create_topic(TOPIC, 2)
    producer = Producer(wire, "shop").start()
    assert (data / BOOT_ID).exists()
    monkeypatch.setattr(PartitionLog, "sync", failing)
    assert producer.write(TOPIC, b"lost") == NONE
    try:
        assert producer.end(commit=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    except ConnectionError:
        pass  # the broker has stopped already
    with pytest.raises(StorageError):
        broker.close()
    assert not (data / BOOT_ID).exists()
    monkeypatch.setattr(PartitionLog, "sync", sync)
    with Broker({"penstock.acks.all.flush": "true"}, data=data) as broker:
        producer.wire = Wire(broker.port)
        assert patiently(lambda: producer.end(commit=True)) not in {NONE, *RETRIABLE}
        assert producer.wire.fetch(TOPIC) == []


def test_after_a_power_cut_the_coordinator_serves_nobody_before_it_could_write_that_all_are_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(data=tmp_path) as broker:
        producer = Producer(Wire(broker.port), "shop").start()
    (tmp_path / BOOT_ID).write_text("before the power cut")
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    append = Partition.append_internal
    is_full = True

    def on_a_full_disk(*args: Any) -> object:
        if is_full:
            raise StorageError("no space left")
        return append(*args)

    monkeypatch.setattr(Partition, "append_internal", on_a_full_disk)
    with Broker(data=tmp_path) as broker:
        producer.wire = Wire(broker.port)
        assert "transactional producers are fenced" in caplog.text
        assert producer.end(commit=False) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (tmp_path / BOOT_ID).read_text() == "before the power cut"
        is_full = False
        assert patiently(lambda: producer.end(commit=False)) == ErrorCode.PRODUCER_FENCED
        assert eventually(lambda: (tmp_path / BOOT_ID).read_text() != "before the power cut", bool)
