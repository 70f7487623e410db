"""A worker of a share group without Spark around it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

import pytest

from penstock.client import Admin, Producer, Reject, ResourceType
from penstock.client.errors import UsageError
from penstock.spark.control import Attempt, Control, Counters
from penstock.spark.worker import Job, Record, group_lag, run_worker
from penstock.spark.workers import work
from penstock.testing import AsyncBroker

TOPIC, GROUP = "jobs", "workers"


async def put(broker: AsyncBroker, count: int, partitions: int = 1) -> None:
    broker.create_topic(TOPIC, partitions)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            await producer.send(TOPIC, str(number))
        await producer.flush()
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.alter_configs(ResourceType.GROUP, GROUP, {"share.auto.offset.reset": "earliest"})


def job(broker: AsyncBroker, **changes: object) -> Job:
    settings = {
        "bootstrap_servers": broker.bootstrap_servers,
        "topics": (TOPIC,),
        "group": GROUP,
        "concurrency": 4,
        "until_empty": True,
        **changes,
    }
    return Job(**settings)  # type: ignore[arg-type]


def hear(control: Control, accepted: int) -> None:
    """Wait until the tasks have told of this many records."""
    deadline = time.monotonic() + 60
    while control.total().accepted < accepted:
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def bounded(work: object) -> Counters:
    async with asyncio.timeout(60):
        return await work  # type: ignore[misc, no-any-return]


async def test_a_worker_drains_the_queue_and_ends_by_itself() -> None:
    async with AsyncBroker() as broker:
        await put(broker, 50)
        seen: Counter[bytes | None] = Counter()
        counters = await bounded(run_worker(job(broker), lambda r: seen.update([r.value]), Attempt(0, 0)))
        assert counters == Counters(accepted=50)
        assert sorted(seen.values()) == [1] * 50


async def test_success_accepts_an_exception_releases_and_reject_rejects() -> None:
    async with AsyncBroker() as broker:
        await put(broker, 10)

        async def handler(record: Record) -> None:
            if record.value == b"3":
                raise Reject("not an order")
            if record.value == b"5" and record.delivery_count < 3:
                raise RuntimeError("try again")

        counters = await bounded(run_worker(job(broker), handler, Attempt(0, 0)))
        assert counters == Counters(accepted=9, released=2, rejected=1, redelivered=2)


async def test_a_handler_that_takes_longer_than_the_lock_keeps_its_record() -> None:
    async with AsyncBroker({"group.share.min.record.lock.duration.ms": 1000}) as broker:
        await put(broker, 1)
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.alter_configs(ResourceType.GROUP, GROUP, {"share.record.lock.duration.ms": "1000"})
        over = threading.Event()

        def slow(record: Record) -> None:
            over.wait(2.5)

        both = [run_worker(job(broker), slow, Attempt(number, 0)) for number in range(2)]
        totals = [await bounded(each) for each in map(asyncio.ensure_future, both)]
        assert sorted(total.accepted for total in totals) == [0, 1]
        assert sum(total.redelivered for total in totals) == 0


async def test_what_a_handler_opens_is_closed_once_per_task() -> None:
    class Handler:
        calls: list[str] = []  # noqa: RUF012

        async def open(self) -> None:
            self.calls.append("open")

        async def __call__(self, record: Record) -> None:
            self.calls.append("record")

        def close(self) -> None:
            self.calls.append("close")

    async with AsyncBroker() as broker:
        await put(broker, 2)
        await bounded(run_worker(job(broker), Handler(), Attempt(0, 0)))
        assert Handler.calls == ["open", "record", "record", "close"]


async def test_the_driver_sees_counters_and_stops_workers_gently() -> None:
    control = Control("127.0.0.1", "127.0.0.1")
    try:
        async with AsyncBroker() as broker:
            await put(broker, 5)
            settings = job(broker, until_empty=False, control=control.address)
            running = asyncio.create_task(run_worker(settings, lambda record: None, Attempt(3, 1)))
            await asyncio.to_thread(hear, control, 5)
            control.stop_tasks()
            assert (await bounded(running)).accepted == 5
            assert control.heard() == {Attempt(3, 1): Counters(accepted=5)}
    finally:
        control.close()


async def test_a_stranger_on_the_control_port_is_not_listened_to() -> None:
    control = Control("127.0.0.1", "127.0.0.1")
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", control.address.port)
        writer.write(b'{"token": "guessed", "task": 0, "attempt": 0}\n{"accepted": 7}\n')
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()
        assert control.total() == Counters()
    finally:
        control.close()


async def test_workers_stop_when_their_driver_is_gone() -> None:
    control = Control("127.0.0.1", "127.0.0.1")
    async with AsyncBroker() as broker:
        await put(broker, 1)
        settings = job(broker, until_empty=False, control=control.address)
        running = asyncio.create_task(run_worker(settings, lambda record: None, Attempt(0, 0)))
        await asyncio.to_thread(hear, control, 1)
        control.close()
        assert (await bounded(running)).accepted == 1


async def test_lag_counts_what_is_not_done_and_knows_empty_partitions() -> None:
    async with AsyncBroker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await put(broker, 0, partitions=3)
        assert await group_lag(admin, GROUP, (TOPIC,)) == 0
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send(TOPIC, "one", partition=1)
        assert await group_lag(admin, GROUP, (TOPIC,)) is None  # the group has not begun
        await bounded(run_worker(job(broker), lambda record: None, Attempt(0, 0)))
        assert await group_lag(admin, GROUP, (TOPIC,)) == 0
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send(TOPIC, "two", partition=1)
        assert await group_lag(admin, GROUP, (TOPIC,)) == 1


@pytest.mark.parametrize(
    ("topic", "group", "parallelism", "missing"),
    [("", "g", 1, "topic"), ("t", "", 1, "share group"), ("t", "g", 0, "parallelism")],
)
def test_what_is_missing_is_named(topic: str, group: str, parallelism: int, missing: str) -> None:
    with pytest.raises(UsageError, match=missing):
        work(topic, group, print, parallelism)
