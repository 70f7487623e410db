"""Tasks copy what is there, and the mirror goes on from where they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from penstock.client import Admin, OffsetSpec, Producer, TopicPartition
from penstock.mirror import bulk as module
from penstock.mirror.bulk import Copied, Part, Settings, copy_parts, shares
from penstock.mirror.run import Mirror
from penstock.mirror.source import read
from penstock.testing.broker import Broker
from tests.mirror.conftest import QUICK, caught_up, sides, until
from tests.mirror.test_source import produce

TP = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def few_are_worth_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH_A_TASK", 100)


class Threads:
    """Runs each task in a thread, as often as it is told to."""

    def __init__(self, times: int = 1) -> None:
        self.parts: list[Part] = []
        self.copied: list[Copied] = []
        self._times = times

    async def __call__(self, from_: Settings, to: Settings, parts: Sequence[Part]) -> list[Copied]:
        self.parts = list(parts)
        work = [
            asyncio.to_thread(copy_parts, from_, to, share) for _ in range(self._times) for share in shares(parts, 2)
        ]
        self.copied = [each for done in await asyncio.gather(*work) for each in done]
        return self.copied


async def mirrored(source: Broker, target: Broker, spread: module.Spread, **ends: int) -> Mirror:
    """A mirror that has caught up, and was stopped."""
    async with Mirror(*sides(source, target), QUICK, spread=spread) as mirror:
        task = asyncio.create_task(mirror.run())
        try:
            await caught_up(mirror, **ends)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return mirror


def part(name: str, offsets: int) -> Part:
    return Part(name, 0, bytes(16), 1, 0, is_compacted=False, begins_at=5, ends_at=5 + offsets)


def test_shares_are_of_about_the_same_size() -> None:
    parts = [part("a", 10), part("b", 30), part("c", 20), part("d", 25)]
    assert [[each.topic for each in share] for share in shares(parts, 2)] == [["b", "a"], ["d", "c"]]
    assert len(shares(parts, 10)) == 4
    assert shares([], 3) == []


async def test_tasks_copy_what_is_far_behind_and_the_mirror_the_rest(
    source: Broker, target: Broker, from_: Admin, to: Admin
) -> None:
    for name, count in (("t", 500), ("u", 300), ("small", 10)):
        source.create_topic(name)
        await produce(source, count, topic=name)
    tasks = Threads()
    mirror = await mirrored(source, target, tasks, t=500, u=300, small=10)
    assert sorted((each.tp.topic, each.records) for each in tasks.copied) == [("t", 500), ("u", 300)]
    assert mirror.status().records == 810
    assert mirror.status().problems + mirror.status().notes == []
    for name, count in (("t", 500), ("u", 300), ("small", 10)):
        tp = TopicPartition(name, 0)
        assert await read(to, tp, 0, count) == await read(from_, tp, 0, count)


async def test_a_task_that_runs_twice_at_a_time_doubles_nothing(
    source: Broker, target: Broker, from_: Admin, to: Admin
) -> None:
    source.create_topic("t")
    await produce(source, 2000)
    await mirrored(source, target, Threads(times=3), t=2000)
    assert await read(to, TP, 0, 2000) == await read(from_, TP, 0, 2000)


async def test_a_task_gives_a_partition_back_at_a_gap(source: Broker, target: Broker, from_: Admin, to: Admin) -> None:
    source.create_topic("t")
    await produce(source, 150)
    async with (
        Producer(bootstrap_servers=source.bootstrap_servers, transactional_id="x") as producer,
        producer.transaction(),
    ):
        await producer.send("t", b"in a transaction", partition=0)
    await produce(source, 150, 150)
    tasks = Threads()
    end = (await from_.list_offsets({TP: OffsetSpec.LATEST}))[TP].offset
    await mirrored(source, target, tasks, t=end)
    assert [each.records for each in tasks.copied] == [151]
    ours = await read(to, TP, 0, end)
    assert ours == await read(from_, TP, 0, end)
    assert len(ours) == 301


async def test_a_task_ends_where_the_partition_ended(source: Broker, target: Broker, to: Admin) -> None:
    source.create_topic("t")
    await produce(source, 200)
    found: list[Copied] = []

    async def spread(from_: Settings, to: Settings, parts: Sequence[Part]) -> list[Copied]:
        await produce(source, 300, 200)
        found.extend(await asyncio.to_thread(copy_parts, from_, to, parts))
        return found

    await mirrored(source, target, spread, t=500)
    assert [each.records for each in found] == [200]


async def test_the_mirror_copies_what_tasks_have_left(source: Broker, target: Broker, from_: Admin, to: Admin) -> None:
    source.create_topic("t")
    await produce(source, 500)

    async def spread(from_: Settings, to: Settings, parts: Sequence[Part]) -> list[Copied]:
        raise RuntimeError("no executor was left")

    mirror = await mirrored(source, target, spread, t=500)
    assert mirror.status().notes == [
        "the tasks did not finish (no executor was left): what they have left is copied by the mirror itself"
    ]
    assert await read(to, TP, 0, 500) == await read(from_, TP, 0, 500)


async def test_a_target_that_is_no_copy_is_left_to_the_mirror_to_report(source: Broker, target: Broker) -> None:
    source.create_topic("t")
    target.create_topic("t")
    await produce(source, 500)
    await produce(target, 50, 7)
    tasks = Threads()
    async with Mirror(*sides(source, target), QUICK, spread=tasks) as mirror:
        task = asyncio.create_task(mirror.run())
        await until(lambda: mirror.status().problems)
        assert "t-0 holds something else at offset 0" in mirror.status().problems[0]
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert [each.records for each in tasks.copied] == [0]


async def test_lag_is_shown_while_tasks_copy(source: Broker, target: Broker) -> None:
    source.create_topic("t")
    await produce(source, 500)
    goes_on = asyncio.Event()

    async def spread(from_: Settings, to: Settings, parts: Sequence[Part]) -> list[Copied]:
        await goes_on.wait()
        return []

    async with Mirror(*sides(source, target), QUICK, spread=spread) as mirror:
        task = asyncio.create_task(mirror.run())
        await until(lambda: mirror.status().lag == 500)
        assert not mirror.status().is_ready
        goes_on.set()
        await caught_up(mirror, t=500)
        await until(lambda: mirror.status().is_ready and mirror.status().lag == 0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
