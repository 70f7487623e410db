"""Your programs in a simulated world: a whole broker, its clients, and what can happen to them, decided by one seed.

    world = World(seed=7)

    async def story() -> None:
        await world.start_broker()
        world.create_topic("orders", partitions=2)
        shop = world.spawn("shop", sell, world)
        await world.trouble(seconds=5)
        await shop.task

    world.run(story())

Programs are coroutines on `penstock.client`, unchanged. They see simulated time, so minutes pass in milliseconds. The
same seed repeats the same run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, TypeVarTuple

from penstock.records.record import iter_records
from penstock.simulation.world import BOOTSTRAP, Program, Simulation

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_UNTIL_SECONDS = 600.0
_LOOK_SECONDS = 0.1
_SLOW_SECONDS = (0.001, 0.3)


class World(Simulation):
    """One broker, and any number of programs. `configs` are the broker's."""

    bootstrap_servers = BOOTSTRAP

    def __init__(self, seed: int, configs: Mapping[str, str] | None = None) -> None:
        super().__init__(seed, configs)
        self._programs: list[Program[Any]] = []

    def spawn(self, name: str, program: Callable[[*Ts], Coroutine[object, object, T]], *args: *Ts) -> Program[T]:
        """Run a program as a process of its own. If it fails, `run` raises what it has raised."""
        spawned = super().spawn(name, program, *args)
        self._programs.append(spawned)
        return spawned

    def run(self, main: Coroutine[object, object, T]) -> T:
        result = super().run(main)
        for program in self._programs:
            if not program.process.is_dead and program.task.done() and not program.task.cancelled():
                failure = program.task.exception()
                if failure is not None:
                    failure.add_note(
                        f"raised by the program {program.process.name!r}, in the world of seed {self.seed}"
                    )
                    raise failure
        return result

    # -- the broker ------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; configs with underscores for dots: `create_topic("t", cleanup_policy="compact")`."""
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        self.broker.parts.topics.create(name, partitions, named)

    def values(self, topic: str) -> list[bytes]:
        """The values of all records of a topic, by partition and offset."""
        return [
            bytes(record.value or b"")
            for log in self.disk.logs_of(topic).values()
            for batch in log.batches()
            for record in iter_records(batch)
        ]

    async def restart_broker(self, how: str = "kill", seconds: float = 0.5) -> None:
        """Stop the broker ("kill", "power-cut" or "stop") and start it again after a while."""
        if how == "kill":
            self.kill_broker()
        elif how == "power-cut":
            self.cut_power()
        elif how == "stop":
            await self.stop_broker()
        else:
            raise ValueError(f"a broker ends by 'kill', 'power-cut' or 'stop', not by {how!r}")
        await asyncio.sleep(seconds)
        await self.start_broker()

    async def slow_broker(self, seconds: float) -> None:
        """Pause the broker for a while, like a machine that is out of memory."""
        self.pause_broker()
        await asyncio.sleep(seconds)
        self.resume_broker()

    # -- programs and their connections ----------------------------------------------------------------------------

    async def pause(self, program: Program[Any], seconds: float) -> None:
        """Pause a program for a while; its group goes on without it after the session timeout."""
        self.fault("pause-client", program.process.name)
        self.loop.pause(program.process)
        await asyncio.sleep(seconds)
        self.loop.resume(program.process)

    async def part(self, program: Program[Any], seconds: float) -> None:
        """Partition a program from the broker for a while; its connections stay open."""
        self.fault("partition", program.process.name)
        self.network.part(program.process.name)
        await asyncio.sleep(seconds)
        self.network.heal()

    def cut_connections(self) -> None:
        """Reset every connection to the broker."""
        for connection in self.network.of(self.broker_process):
            self.fault("cut", connection.client.name if connection.client else "")
            connection.cut()

    async def slow_network(self, seconds: float) -> None:
        """Delay every piece of data by up to 0.3 seconds, for a while."""
        self.fault("slow-network")
        before, self.network.latency_seconds = self.network.latency_seconds, _SLOW_SECONDS
        await asyncio.sleep(seconds)
        self.network.latency_seconds = before

    # -- stories ---------------------------------------------------------------------------------------------------

    async def trouble(self, seconds: float) -> None:
        """Inject faults chosen by the seed, one after the other, for a while; afterwards none is left."""
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            await asyncio.sleep(self.chance.uniform(0.05, 1.0))
            living = [each for each in self._programs if not each.task.done() and not each.process.is_dead]
            kinds = ["kill", "power-cut", "stop", "slow broker", "slow network", "cut"]
            if living:
                kinds += ["pause", "part"]
            await self._happen(self.chance.choice(kinds), living)

    async def _happen(self, kind: str, living: Sequence[Program[Any]]) -> None:
        seconds = self.chance.uniform(0, 3)
        if kind == "cut":
            self.cut_connections()
        elif kind == "slow broker":
            await self.slow_broker(seconds)
        elif kind == "slow network":
            await self.slow_network(seconds)
        elif kind == "pause":
            await self.pause(self.chance.choice(living), 3 * seconds)
        elif kind == "part":
            await self.part(self.chance.choice(living), 3 * seconds)
        else:
            await self.restart_broker(kind, seconds)

    async def until(self, condition: Callable[[], object], seconds: float = _UNTIL_SECONDS) -> None:
        """Let time pass until a condition is true. Raises AssertionError, with the story, if it never is."""
        end = self.loop.time() + seconds
        while not condition():
            if self.loop.time() > end:
                lines = "\n".join(f"{at_ms:>7} ms  {who:<12} {what}" for at_ms, who, what in self.story)
                raise AssertionError(
                    f"it did not become true within {seconds:g} s, in the world of seed {self.seed}\n{lines}"
                )
            await asyncio.sleep(_LOOK_SECONDS)
