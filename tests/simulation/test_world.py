"""The world as a whole: a broker that is killed, loses power, is paused, and a client that lives through it."""

from __future__ import annotations

import asyncio
import random
import time
import tokenize
from pathlib import Path

import penstock
from penstock.client.producer import Producer
from penstock.simulation import Simulation


async def produce(world: Simulation, count: int) -> None:
    async with Producer(bootstrap_servers="broker:9092") as producer:
        for number in range(count):
            record = await producer.send_and_wait("t", str(number), partition=0)
            world.tell("producer", f"{number} at {record.offset}")


async def crashes(world: Simulation, how: str) -> None:
    await world.start_broker()
    world.broker.parts.topics.create("t", 1, {})
    program = world.spawn("producer", produce, world, 60)
    for _ in range(3):
        await asyncio.sleep(world.chance.uniform(0.05, 0.2))
        if how == "kill":
            world.kill_broker()
        elif how == "power-cut":
            world.cut_power()
        else:
            await world.stop_broker()
        await asyncio.sleep(0.1)
        await world.start_broker()
    await program.task


def story_of(world: Simulation, who: str) -> list[str]:
    return [what for _, by, what in world.story if by == who]


def test_a_client_lives_through_every_kind_of_end_and_nothing_is_lost_or_doubled() -> None:
    for how in ("kill", "power-cut", "clean-stop"):
        for seed in range(3):
            world = Simulation(seed)
            world.run(crashes(world, how))
            assert story_of(world, "producer") == [f"{number} at {number}" for number in range(60)]
            assert world.faults[how] == 3
            assert not world.broker_failures


def test_the_same_seed_gives_the_same_trace_and_another_one_another() -> None:
    def trace(seed: int) -> tuple[object, ...]:
        world = Simulation(seed)
        world.run(crashes(world, "power-cut"))
        return world.trace

    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_a_paused_broker_answers_when_it_goes_on() -> None:
    world = Simulation(1)

    async def main() -> None:
        await world.start_broker()
        world.broker.parts.topics.create("t", 1, {})
        program = world.spawn("producer", produce, world, 20)
        await asyncio.sleep(0.15)
        world.pause_broker()
        before = len(story_of(world, "producer"))
        await asyncio.sleep(5)
        assert len(story_of(world, "producer")) <= before + 1
        world.resume_broker()
        await program.task

    world.run(main())
    assert len(story_of(world, "producer")) == 20


def test_the_clock_of_the_broker_jumps_and_the_one_for_waits_does_not() -> None:
    world = Simulation(1)

    async def main() -> None:
        await world.start_broker()
        parts = world.broker.parts
        now_ms, monotonic = parts.world.now_ms(), parts.world.monotonic()
        world.jump_clock(-60_000)
        assert parts.world.now_ms() == now_ms - 60_000
        assert parts.world.monotonic() == monotonic

    world.run(main())


def test_programs_see_the_time_of_the_world_and_afterwards_the_real_one_again() -> None:
    before, state = time.time(), random.getstate()
    world = Simulation(1)

    async def main() -> float:
        await asyncio.sleep(1000)
        return time.monotonic()

    assert world.run(main()) == 1000
    assert time.time() >= before
    assert random.getstate() == state


def test_a_killed_program_is_gone_and_the_broker_hears_of_it() -> None:
    world = Simulation(1)

    async def main() -> None:
        await world.start_broker()
        world.broker.parts.topics.create("t", 1, {})
        program = world.spawn("producer", produce, world, 1000)
        await asyncio.sleep(1)
        assert world.broker.parts.dispatcher.connections
        world.kill(program.process)
        told_before = len(story_of(world, "producer"))
        await asyncio.sleep(1)
        assert len(story_of(world, "producer")) == told_before
        assert not world.broker.parts.dispatcher.connections

    world.run(main())


def test_production_code_does_not_ask_whether_it_is_simulated() -> None:
    """No name of its code has to do with it; prose may."""
    root = Path(penstock.__file__).parent
    for path in root.rglob("*.py"):
        is_of_the_world = path.relative_to(root).parts[0] in ("simulation", "testing")
        if not is_of_the_world and "simulat" in path.read_text().lower():
            with path.open("rb") as source:
                names = {each.string for each in tokenize.tokenize(source.readline) if each.type == tokenize.NAME}
            assert not [name for name in names if "simulat" in name.lower()], path
