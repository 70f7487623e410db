"""Nothing is left of what has gone: topics, groups, queues, producers, transactions, connections, in broker and client.

`make soak` goes on for `PENSTOCK_SOAK_SECONDS`, an hour unless told. After each round everything that it has made is
deleted; open files, objects of Penstock's own classes, tasks and, in the long run, the memory of the process are where
they were.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Admin, Consumer, Producer, ShareConsumer
from penstock.testing import Broker
from penstock.wire.errors import GroupIdNotFound, NonEmptyGroup

SECONDS = float(os.environ.get("PENSTOCK_SOAK_SECONDS", "3600"))
_WARM_ROUNDS = 3
_RECORDS = 30
_LEAVING_ROUNDS = 60
_GROWN_MB_MAX = 24
_CONFIGS = {
    # A member that is closed while it joins is expelled, not waited for.
    "group.share.min.session.timeout.ms": 1000,
    "group.share.session.timeout.ms": 1500,
    "group.share.min.heartbeat.interval.ms": 300,
    "group.share.heartbeat.interval.ms": 500,
}
# What Penstock keeps by design: the last events and samples, each with a bound of its own.
_BOUNDED = ("Event", "Sample", "Point")


async def one_round(bootstrap: str, number: int) -> None:
    """Make a topic, a group of either protocol, a queue and a transaction, use them, and delete them all."""
    topic, group, queue = f"topic-{number}", f"group-{number}", f"queue-{number}"
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, num_partitions=2)
        await asyncio.gather(
            _produce(bootstrap, topic, f"writer-{number % 4}"),
            _consume(bootstrap, topic, group, ("classic", "consumer")[number % 2]),
            _work(bootstrap, topic, queue),
        )
        await _when_empty(lambda: admin.delete_groups([group]))
        await _when_empty(lambda: admin.delete_share_group_offsets(queue, [topic]))
        await _when_empty(lambda: admin.delete_groups([queue]))
        await admin.delete_topic(topic)


async def _when_empty(delete: Callable[[], Awaitable[object]]) -> None:
    """The last member may be about to leave."""
    for _ in range(_LEAVING_ROUNDS):
        try:
            await delete()
            return
        except GroupIdNotFound:
            return  # nobody had joined it yet
        except NonEmptyGroup:
            await asyncio.sleep(1)
    raise AssertionError("a member that was closed is still in its group")


async def _produce(bootstrap: str, topic: str, transactional_id: str) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(_RECORDS // 2):
            await producer.send_and_wait(topic, str(number))
    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer,
        producer.transaction(),
    ):
        for number in range(_RECORDS // 2):
            await producer.send(topic, str(number))


async def _consume(bootstrap: str, topic: str, group: str, protocol: str) -> None:
    settings: dict[str, Any] = {"group_id": group, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    async with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        consumer.subscribe([topic])
        seen = 0
        while seen < _RECORDS:
            seen += len(await consumer.poll(500))
        await consumer.commit()


async def _work(bootstrap: str, topic: str, queue: str) -> None:
    async with ShareConsumer(bootstrap_servers=bootstrap, group_id=queue, fetch_max_wait_ms=100) as worker:
        worker.subscribe([topic])
        for _ in range(4):
            await worker.poll(200)


def objects() -> Counter[str]:
    """How many objects there are of each class of Penstock's, and how many tasks."""
    gc.collect()
    kinds = Counter(type(each) for each in gc.get_objects())
    return Counter(
        {
            f"{kind.__module__}.{kind.__qualname__}": count
            for kind, count in kinds.items()
            if (str(kind.__module__).startswith("penstock.") or kind is asyncio.Task) and kind.__name__ not in _BOUNDED
        }
    )


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def churn(broker: Broker, first: int, rounds: int) -> None:
    for number in range(first, first + rounds):
        asyncio.run(one_round(broker.bootstrap_servers, number))
    time.sleep(0.5)  # connections end, and files are closed, in the broker's own time


def grown(before: Counter[str], after: Counter[str], rounds: int) -> dict[str, int]:
    """The classes of which every round has left something."""
    return {name: count - before[name] for name, count in after.items() if count - before[name] >= rounds}


def test_rounds_leave_nothing_behind() -> None:
    with Broker(_CONFIGS) as broker:
        churn(broker, 0, _WARM_ROUNDS)
        before, files = objects(), open_files()
        churn(broker, _WARM_ROUNDS, 4)
        assert grown(before, objects(), 4) == {}
        assert open_files() - files < 4


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 600)
def test_rounds_leave_nothing_behind_for_long() -> None:
    with Broker(_CONFIGS) as broker:
        churn(broker, 0, 40)
        before, files, memory = objects(), open_files(), memory_mb()
        end, rounds = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            churn(broker, 40 + rounds, 10)
            rounds += 10
        print(f"{rounds} rounds: {memory:.0f} MB, then {memory_mb():.0f} MB; {files} files, then {open_files()}")
        assert grown(before, objects(), rounds) == {}
        assert open_files() - files < 10
        assert memory_mb() - memory < _GROWN_MB_MAX
