"""Faults: a plan of them from a seed, and what carries it out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from penstock.simulation import Simulation


class Fault(NamedTuple):
    at_ms: int
    kind: str
    for_ms: int
    size: int

    def __str__(self) -> str:
        return f"{self.kind} at {self.at_ms} ms for {self.for_ms} ms"


def plan_of(seed: int, kinds: Sequence[str], until_ms: int, most: int = 6) -> list[Fault]:
    """Some faults, in the order of their times. Their number and nature depend on the seed alone."""
    chance = random.Random(f"faults of {seed}")
    times = sorted(chance.randrange(20, until_ms) for _ in range(chance.randint(1, most)))
    return [
        Fault(at_ms, chance.choice(list(kinds)), chance.randint(10, 1500), chance.randint(-90_000, 90_000))
        for at_ms in times
    ]


async def carry_out(world: Simulation, plan: Sequence[Fault], on_crash: Callable[[str], object]) -> None:
    """Let each fault happen at its time; they heal one after the other. `on_crash` hears that the broker is gone."""
    for fault in plan:
        await asyncio.sleep(max(0, fault.at_ms - world.now_ms) / 1000)
        await KINDS[fault.kind](world, fault, on_crash)


OnCrash = Callable[[str], object]


async def _kill(world: Simulation, fault: Fault, on_crash: OnCrash) -> None:
    world.kill_broker()
    on_crash("kill")
    await asyncio.sleep(fault.for_ms / 1000)
    await world.start_broker()


async def _power_cut(world: Simulation, fault: Fault, on_crash: OnCrash) -> None:
    world.cut_power()
    on_crash("power-cut")
    await asyncio.sleep(fault.for_ms / 1000)
    await world.start_broker()


async def _clean_stop(world: Simulation, fault: Fault, on_crash: OnCrash) -> None:
    await world.stop_broker()
    on_crash("clean-stop")
    await asyncio.sleep(fault.for_ms / 1000)
    await world.start_broker()


async def _pause(world: Simulation, fault: Fault, on_crash: OnCrash) -> None:
    world.pause_broker()
    await asyncio.sleep(fault.for_ms / 100)
    world.resume_broker()


async def _clock_jump(world: Simulation, fault: Fault, on_crash: OnCrash) -> None:
    world.jump_clock(fault.size)


async def _cut(world: Simulation, fault: Fault, on_crash: OnCrash) -> None:
    for connection in world.network.of(world.broker_process):
        if world.chance.random() < 0.6:
            world.fault("cut", connection.client.name if connection.client else "")
            connection.cut()


async def _half_open(world: Simulation, fault: Fault, on_crash: OnCrash) -> None:
    for connection in world.network.of(world.broker_process):
        if world.chance.random() < 0.4:
            world.fault("half-open", connection.client.name if connection.client else "")
            connection.fall_silent()


async def _slow_network(world: Simulation, fault: Fault, on_crash: OnCrash) -> None:
    world.fault("slow-network")
    before = world.network.latency_seconds
    world.network.latency_seconds = (0.001, 0.2)
    await asyncio.sleep(fault.for_ms / 1000)
    world.network.latency_seconds = before


async def _slow_disk(world: Simulation, fault: Fault, on_crash: OnCrash) -> None:
    world.fault("slow-disk")
    world.disk.is_stalled = True
    await asyncio.sleep(fault.for_ms / 1000)
    world.disk.is_stalled = False


KINDS: dict[str, Callable[[Simulation, Fault, OnCrash], Awaitable[None]]] = {
    "kill": _kill,
    "power-cut": _power_cut,
    "clean-stop": _clean_stop,
    "pause": _pause,
    "clock-jump": _clock_jump,
    "cut": _cut,
    "half-open": _half_open,
    "slow-network": _slow_network,
    "slow-disk": _slow_disk,
}
