"""A backup that is made while everything goes on restores to a state that the checkers of histories accept.

Producers, a pipeline with transactions, a queue with workers, compaction, retention and topics that come and go run
before, while and after the backup is made. What clients were told before it was requested must be in it; what they did
while it was made may be; what they did afterwards may not. The restored broker then finishes the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from penstock.checks import Operation, check
from penstock.checks.history import checked
from penstock.client.sync import Admin, Consumer, Producer, ShareConsumer
from penstock.client.types import TopicPartition
from tests.broker.process import BrokerProcess
from tests.cluster.members import INTERNAL
from tests.operation.conftest import done

JOBS = 6000
INPUTS = 6000
PARTITIONS = 3
LOCK_MS = 30_000
LIVELY: dict[str, Any] = {
    **INTERNAL,
    "log_cleaner_backoff_ms": 50,
    "log_retention_check_interval_ms": 50,
    "log_segment_delete_delay_ms": 0,
    "group_share_delivery_count_limit": 10,
    "auto_create_topics_enable": "false",  # or producers would create deleted topics anew
}


class Noted(NamedTuple):
    called: float
    answered: float
    operation: Operation


class Load:
    """Clients at work, each in a thread of its own, and what they did and saw."""

    def __init__(self, address: str) -> None:
        self.settings = {"bootstrap.servers": address}
        self.noted: list[Noted] = []
        self.latest: dict[int, list[tuple[float, float, int]]] = {key: [] for key in range(5)}
        self.failures: list[BaseException] = []
        self.passed = 0
        """Topics that were created and deleted again."""
        self._stopping = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        works = (self._chain, self._pipeline, self._workers, self._table, self._come_and_go)
        threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join(30)
        assert not self.failures, self.failures

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.failures.append(error)

    def wait_until_busy(self) -> None:
        """Until everything that goes on has left a trace."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not self.failures:
            found = {str(noted.operation["op"]) for noted in self.noted}
            if {"send", "acknowledge", "txn-end"} <= found and self.passed > 2 and len(self.latest[4]) > 10:
                return
            time.sleep(0.05)
        raise AssertionError(f"no load within 30 seconds: {self.failures}")

    def note(self, called: float, **operation: object) -> None:
        self.noted.append(Noted(called, time.monotonic(), dict(operation)))

    def _chain(self) -> None:
        """Numbers over three partitions, each sent when the one before it was acknowledged."""
        number = 0
        with Producer(self.settings, acks="all", enable_idempotence=True) as producer:
            while not self._stopping.is_set():
                called = time.monotonic()
                sent = producer.send("chain", b"%d" % number, partition=number % PARTITIONS).result()
                self.note(
                    called,
                    op="send",
                    process="chain",
                    topic="chain",
                    partition=number % PARTITIONS,
                    value=number,
                    result="ok",
                    offset=sent.offset,
                )
                number += 1

    def _pipeline(self) -> None:
        run_pipeline(self.settings, self._stopping, self, 20)

    def _workers(self) -> None:
        with ShareConsumer(self.settings, group_id="queue", share_acknowledgement_mode="explicit") as worker:
            worker.subscribe("jobs")
            while not self._stopping.is_set():
                work_once(worker, self, "before")
                time.sleep(0.005)  # so that work is left for those after the restore

    def _table(self) -> None:
        """Ever newer values of a few keys, in a topic that is compacted all the time."""
        number = 0
        with Producer(self.settings, acks="all") as producer:
            while not self._stopping.is_set():
                called = time.monotonic()
                producer.send("table", b"%d" % number + bytes(60_000), key=b"%d" % (number % 5)).result()
                self.latest[number % 5].append((called, time.monotonic(), number))
                producer.send("short", bytes(60_000)).result()
                number += 1

    def _come_and_go(self) -> None:
        with Admin(self.settings) as admin, Producer(self.settings) as producer:
            number = 0
            while not self._stopping.is_set():
                name = f"passing-{number}"
                admin.create_topic(name, 2)
                producer.send(name, b"x").result()
                admin.delete_topic(name)
                self.passed = number = number + 1

    def history(self, began: float, ended: float) -> list[Operation]:
        """What the backup must agree with: certain what was answered before it began, possible what was under way."""
        found = []
        for noted in self.noted:
            operation = dict(noted.operation)
            if noted.answered >= began:
                if noted.called > ended or operation["op"] not in ("send", "acknowledge", "txn-end"):
                    continue
                operation.pop("offset" if operation["op"] == "send" else "", None)
                operation["result"] = "unknown"
            found.append(operation)
        return found


def work_once(worker: ShareConsumer[bytes, bytes], load: Load, member: str, most: int = 5) -> int:
    called = time.monotonic()
    records = worker.take(most, 300)
    now = round(called * 1000)
    for record in records:
        load.note(
            called,
            op="deliver",
            group="queue",
            member=member,
            topic="jobs",
            partition=record.partition,
            offset=record.offset,
            count=record.delivery_count,
            time=now,
            until=now + LOCK_MS,
        )
        worker.accept(record)
    if records:
        called = time.monotonic()
        assert set(worker.commit().values()) == {None}
        for record in records:
            load.note(
                called,
                op="acknowledge",
                group="queue",
                member=member,
                topic="jobs",
                partition=record.partition,
                offset=record.offset,
                kind="accept",
                result="ok",
                time=round(called * 1000),
            )
    return len(records)


def run_pipeline(settings: dict[str, str], stopping: threading.Event, load: Load, most: int) -> None:
    """Read inputs, write outputs, commit both in one transaction."""
    consumer = confluent_kafka.Consumer(
        {
            **settings,
            "group.id": "pipeline",
            "group.instance.id": "pipeline",  # so that the one after the restore need not wait for this one's end
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = confluent_kafka.Producer({**settings, "transactional.id": "pipeline", "log_level": 0})
    producer.init_transactions(30)
    consumer.subscribe(["inputs"])
    number = 0
    deadline = time.monotonic() + 30
    while not stopping.is_set() and time.monotonic() < deadline:
        messages = consumer.consume(most, 0.2)
        if not messages:
            if (
                all(each.offset == INPUTS for each in consumer.position(consumer.assignment()))
                and consumer.assignment()
            ):
                break
            continue
        txn = f"{id(load)}-{number}"
        number += 1
        producer.begin_transaction()
        called = time.monotonic()
        for message in messages:
            value = message.value()
            assert value is not None
            producer.produce("outputs", value, partition=int(value) % PARTITIONS)
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30
        )
        producer.flush(30)
        for message in messages:
            number_of = int(message.value() or b"")
            where = {"topic": "outputs", "partition": number_of % PARTITIONS}
            load.note(called, op="send", process="pipeline", value=number_of, result="unknown", txn=txn, **where)
        called = time.monotonic()
        producer.commit_transaction(30)
        load.note(called, op="txn-end", txn=txn, result="committed")
    consumer.close()


def read_all(
    settings: dict[str, str], topic: str, partitions: int, isolation: str
) -> list[tuple[str, int, int, bytes]]:
    tps = [TopicPartition(topic, index) for index in range(partitions)]
    found = []
    with Consumer({**settings, "isolation.level": isolation}) as consumer:
        consumer.assign(tps)
        ends = consumer.end_offsets(tps)
        for tp in tps:
            consumer.seek_to_beginning(tp)
        while any(consumer.position(tp) < ends[tp] for tp in tps):
            found += [(each.topic, each.partition, each.offset, each.value or b"") for each in consumer.poll(1000)]
    return found


@pytest.fixture
def prepared(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", **LIVELY) as process:
        settings = {"bootstrap.servers": process.address}
        with Admin(settings) as admin:
            for name in ("chain", "outputs"):
                admin.create_topic(name, PARTITIONS)
            for name in ("inputs", "jobs"):
                admin.create_topic(name, 1)
            admin.create_topic(
                "table",
                1,
                configs={
                    "cleanup.policy": "compact",
                    "segment.bytes": "1048576",
                    "min.cleanable.dirty.ratio": "0.01",
                },
            )
            admin.create_topic("short", 1, configs={"segment.bytes": "1048576", "retention.bytes": "2097152"})
            admin.alter_share_group_offsets("queue", {TopicPartition("jobs", 0): 0})
        with Producer(settings) as producer:
            for number in range(INPUTS):
                producer.send("inputs", b"%d" % number)
            for number in range(JOBS):
                producer.send("jobs", b"%d" % number)
        yield process


def test_a_backup_under_load_restores_to_a_state_that_the_checkers_accept(
    prepared: BrokerProcess, tmp_path: Path
) -> None:
    load = Load(prepared.address)
    backup, data = tmp_path / "backup", tmp_path / "restored"
    with load.running():
        load.wait_until_busy()
        began = time.monotonic()
        made = done("backup", "create", str(backup), "--data", str(prepared.data))
        ended = time.monotonic()
        time.sleep(0.2)
    prepared.kill()
    assert done("backup", "restore", str(backup), "--data", str(data))["time_ms"] == made["time_ms"]

    history = load.history(began, ended)
    with BrokerProcess(data, **LIVELY) as restored:
        settings = {"bootstrap.servers": restored.address}
        history.append({"op": "fault", "kind": "power-cut", "time": round(ended * 1000)})
        history.append(
            {"op": "gone", "group": "queue", "member": "before", "time": round(ended * 1000), "fetching": True}
        )
        check_table(settings, load, began, ended)
        check_chain(settings, load, began, history)
        check_pipeline(settings, history)
        check_queue(settings, history)
        with Admin(settings) as admin:
            assert len([each for each in admin.list_topics() if each.name.startswith("passing-")]) <= 1
    found = check(checked(operation, line) for line, operation in enumerate(history, 1))
    assert [str(each) for each in found] == []


def check_chain(settings: dict[str, str], load: Load, began: float, history: list[Operation]) -> None:
    """Each number was sent when the one before it was safe, so one moment of all partitions has no gap."""
    records = read_all(settings, "chain", PARTITIONS, "read_uncommitted")
    numbers = sorted(int(value) for _, _, _, value in records)
    assert numbers == list(range(len(numbers)))
    sent = [noted for noted in load.noted if noted.operation.get("topic") == "chain"]
    assert sum(noted.answered < began for noted in sent) <= len(numbers) < len(sent)
    history.append({"op": "poll", "process": "after", "records": as_polled(records), "how": "assign"})


def check_pipeline(settings: dict[str, str], history: list[Operation]) -> None:
    outputs = read_all(settings, "outputs", PARTITIONS, "read_committed")
    with Admin(settings) as admin:
        committed = admin.list_group_offsets("pipeline")[TopicPartition("inputs", 0)].offset
    assert committed == len(outputs) > 0
    after = Load(settings["bootstrap.servers"])
    run_pipeline(settings, threading.Event(), after, 500)
    assert after.noted
    history += [dict(noted.operation) for noted in after.noted]
    records = read_all(settings, "outputs", PARTITIONS, "read_committed")
    assert sorted(int(value) for _, _, _, value in records) == list(range(INPUTS))
    isolation = "read_committed"
    history.append({"op": "poll", "process": "reader", "records": as_polled(records), "isolation": isolation})
    history.append({"op": "drained"})


def check_queue(settings: dict[str, str], history: list[Operation]) -> None:
    after = Load(settings["bootstrap.servers"])
    with ShareConsumer(settings, group_id="queue", share_acknowledgement_mode="explicit") as worker:
        worker.subscribe("jobs")
        finished = 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            done_now = work_once(worker, after, "after", 500)
            finished += done_now
            if not done_now and queue_start(settings) == JOBS:
                break
    assert finished
    history += [dict(noted.operation) for noted in after.noted]
    history.append({"op": "settled", "group": "queue", "time": round(time.monotonic() * 1000)})


def queue_start(settings: dict[str, str]) -> int | None:
    tp = TopicPartition("jobs", 0)
    with Admin(settings) as admin:
        return admin.list_share_group_offsets("queue", [tp])[tp].start_offset


def check_table(settings: dict[str, str], load: Load, began: float, ended: float) -> None:
    """Of each key the value that was the latest at some moment while the backup was made, or a later one."""
    found = {}
    with Consumer(settings) as consumer:
        tp = TopicPartition("table", 0)
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        consumer.seek_to_beginning(tp)
        while consumer.position(tp) < end:
            for record in consumer.poll(1000):
                found[int(record.key or b"")] = int((record.value or b"").rstrip(b"\0"))
    for key, sent in load.latest.items():
        safe = max(number for _, answered, number in sent if answered < began)
        possible = max(number for called, _, number in sent if called < ended)
        assert safe <= found[key] <= possible


def as_polled(records: list[tuple[str, int, int, bytes]]) -> list[list[object]]:
    return [[topic, partition, offset, int(value)] for topic, partition, offset, value in records]
