"""`penstock.testing.World`: the example of the guide, and each thing that can happen on its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Consumer, Producer
from penstock.testing import World

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "testing.md"


async def produce(world: World, count: int) -> None:
    async with Producer(bootstrap_servers=world.bootstrap_servers, delivery_timeout_ms=300_000) as producer:
        for number in range(count):
            await producer.send_and_wait("t", str(number))
            await asyncio.sleep(0.05)


def test_the_example_of_the_guide_runs() -> None:
    _, _, chapter = GUIDE.read_text().partition("## Your programs in a simulated world")
    code = chapter.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    names["test_every_order_is_billed_whatever_happens"]()


def test_trouble_is_of_many_kinds_and_loses_nothing() -> None:
    happened = Counter[str]()
    for seed in range(6):
        world = World(seed)

        async def story(world: World = world) -> None:
            await world.start_broker()
            world.create_topic("t", cleanup_policy="delete")
            program = world.spawn("producer", produce, world, 30)
            await world.trouble(seconds=20)
            await program.task
            assert sorted(map(int, world.values("t"))) == list(range(30))

        world.run(story())
        happened.update(world.faults)
    assert happened.keys() >= {"kill", "power-cut", "clean-stop", "pause", "slow-network", "cut", "partition"}


def test_a_program_that_is_paused_for_long_is_replaced_in_its_group() -> None:
    world = World(1)
    seen: dict[str, list[bytes]] = {"first": [], "second": []}

    async def read(name: str) -> None:
        settings: dict[str, Any] = {"group_id": "g", "session_timeout_ms": 6_000, "auto_offset_reset": "earliest"}
        async with Consumer(bootstrap_servers=world.bootstrap_servers, **settings) as consumer:
            consumer.subscribe(["t"])
            while True:
                seen[name] += [bytes(record.value or b"") for record in await consumer.poll(500)]

    async def story() -> None:
        await world.start_broker()
        world.create_topic("t")
        first = world.spawn("first", read, "first")
        await asyncio.sleep(5)
        world.spawn("second", read, "second")
        await asyncio.sleep(10)
        await asyncio.gather(world.pause(first, 60), world.spawn("producer", produce, world, 20).task)
        await world.until(lambda: len(set(seen["first"] + seen["second"])) == 20)

    world.run(story())
    assert len(seen["second"]) >= 10


def test_what_a_program_raises_is_raised() -> None:
    world = World(1)

    async def fail() -> None:
        raise LookupError("no such order")

    async def story() -> None:
        await world.start_broker()
        world.spawn("program", fail)
        await asyncio.sleep(1)

    with pytest.raises(LookupError, match="no such order"):
        world.run(story())


def test_what_never_becomes_true_is_told_with_the_story() -> None:
    world = World(1)

    async def story() -> None:
        await world.start_broker()
        await world.restart_broker("stop")
        await world.until(lambda: False, seconds=5)

    with pytest.raises(AssertionError, match="clean-stop"):
        world.run(story())


def test_an_end_of_the_broker_that_there_is_not_is_refused() -> None:
    world = World(1)

    async def story() -> None:
        await world.start_broker()
        await world.restart_broker("gently")

    with pytest.raises(ValueError, match="'kill', 'power-cut' or 'stop'"):
        world.run(story())
