"""One broker of a simulated world, on a machine of its own: started, killed, paused, and started again.

The broker is the one of production. What it stands on (catalog, storage, listener) is its `Ground`, which outlives it.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import Foundation, OnFailure, Settings
from penstock.broker.listeners import Address
from penstock.broker.server import Broker
from penstock.broker.world import LoopWorld, World
from penstock.simulation.loop import Process, SimulatedLoop
from penstock.simulation.strands import SimulatedThreads

if TYPE_CHECKING:
    from penstock.simulation.world import SimulatedWorld

EPOCH_MS = 1_700_000_000_000
"""What time it is when a world begins that does not say otherwise."""
_FOLDERS = re.compile(r"(?:/[\w.-]+)+/")


class Loss(NamedTuple):
    """What a power cut took from a log."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int


class Ground(Protocol):
    """What a broker stands on."""

    @property
    def has_threads(self) -> bool:
        """Whether the broker waits in threads, and in its event loop."""

    def lay(
        self, node: Node, process: Process, config: BrokerConfig, world: World, on_failure: OnFailure
    ) -> Foundation: ...

    def process_died(self, node: Node, now_ms: int) -> None:
        """The broker was killed; its machine goes on."""

    def power_cut(self, node: Node, now_ms: int) -> list[Loss]:
        """The machine went down. Returns what its disk has lost."""


class BrokerWorld(LoopWorld):
    """What a broker process sees of time, chance and threads."""

    def __init__(self, loop: SimulatedLoop, process: Process, chance: random.Random, begins_ms: int) -> None:
        super().__init__(loop)
        self.precise = loop.time
        self._process = process
        self._chance = chance
        self._begins_ms = begins_ms
        if process.has_threads:
            self.threads = SimulatedThreads(loop.strands, process)

    def now_ms(self) -> int:
        return self._begins_ms + round(self._loop.time() * 1000) + self._process.clock_ahead_ms

    def new_id(self) -> bytes:
        return self._chance.randbytes(16)

    def random_between(self, low: int, high: int) -> int:
        return self._chance.randrange(low, high)


class Node:
    def __init__(self, world: SimulatedWorld, address: Address, ground: Ground, configs: Mapping[str, str]) -> None:
        self.name = address.host
        """Of its machine, as the network knows it."""
        self.address = address
        self.ground = ground
        self.configs = dict(configs)
        """What the broker is started with the next time."""
        self._world = world
        self._process: Process | None = None
        self._server: Broker | None = None
        self._serving: asyncio.Task[None]
        self._starts = 0
        world.network.hosts.add(address.host)

    @property
    def broker(self) -> Broker:
        assert self._server is not None, f"{self.name} is not running"
        return self._server

    @property
    def is_serving(self) -> bool:
        """Whether there is a broker that nobody has killed or stopped."""
        return self._server is not None

    @property
    def process(self) -> Process:
        assert self._process is not None, f"{self.name} is not running"
        return self._process

    @property
    def node_id(self) -> int:
        return int(self.configs.get("node.id", "1"))

    # -- life ----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the broker. Raises what keeps it from starting."""
        world = self._world
        self._starts += 1
        world.network.unreachable.discard(self.name)
        ahead = self._process.clock_ahead_ms if self._process is not None else 0
        name = f"{self.name} {self._starts}"
        process = self._process = Process(name, self.name, has_threads=self.ground.has_threads)
        process.clock_ahead_ms = ahead
        started: asyncio.Future[Broker] = world.loop.create_future()
        self._serving = world.loop.create_task(self._serve(process, started), context=process.context)
        self._server = await started
        world.tell(self.name, "serves")

    async def _serve(self, process: Process, started: asyncio.Future[Broker]) -> None:
        world = self._world

        def lay(settings: Settings, config: BrokerConfig, around: World, on_failure: OnFailure) -> Foundation:
            return self.ground.lay(self, process, config, around, on_failure)

        try:
            settings = Settings(configs=dict(self.configs))
            server = Broker(settings, lay, lambda loop: BrokerWorld(world.loop, process, world.chance, world.begins_ms))
            await server.start()
            started.set_result(server)
            await server.serve()
            world.tell(self.name, "has stopped")
        except Exception as error:
            if process.is_dead:
                return  # what it does when the world is over is done by nobody
            # Folders have other names each time, and the same seed has the same trace.
            world.tell(self.name, f"failed: {_FOLDERS.sub('', repr(error))}")
            if started.done():
                world.broker_failures.append(error)
            else:
                started.set_exception(error)
        if self._process is process:
            self._server = None

    async def has_ended(self, seconds: float) -> bool:
        """Wait until the broker has ended by itself. Its process is gone then, in any case."""
        process = self.process
        ended, _ = await asyncio.wait([self._serving], timeout=seconds)
        self._world.loop.kill(process)
        self._world.network.process_died(process, silently=False)
        self._server = None
        return bool(ended)

    async def stop(self) -> None:
        """A clean stop, unless the broker is killed before it has ended."""
        process, server = self.process, self.broker
        self._world.fault("clean-stop", self._label)
        self._server = None
        self._world.loop.call_soon(server.stop, context=process.context)
        await asyncio.wait([self._serving])
        if not process.is_dead:
            self._world.loop.kill(process)

    def kill(self) -> None:
        """Kill the broker as SIGKILL does: memory is lost, the operating system keeps what was written."""
        self._world.fault("kill", self._label)
        self._end(silently=False)
        self.ground.process_died(self, self._world.begins_ms + self._world.now_ms)

    def cut_power(self, *, vanishes: bool = False) -> list[Loss]:
        """The machine goes down: unsynced writes may be lost, and connections do not notice.

        Whoever connects is refused by the network, or hears nothing if the machine `vanishes`.
        """
        self._world.fault("power-cut", self._label)
        self._end(silently=True)
        if vanishes:
            self._world.network.unreachable.add(self.name)
        losses = self.ground.power_cut(self, self._world.begins_ms + self._world.now_ms)
        for loss in losses:
            self._world.losses.append((self._world.now_ms, loss))
            lost = f"lost offsets {loss.first_offset} to {loss.end_offset - 1} of {loss.topic}-{loss.partition}"
            self._world.tell("disk", f"{lost} {self._label}".rstrip())
        return losses

    def _end(self, *, silently: bool) -> None:
        self._world.loop.kill(self.process)
        self._world.network.process_died(self.process, silently=silently)
        self._server = None

    # -- the machine ---------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        self._world.fault("pause", self._label)
        self._world.loop.pause(self.process)

    def resume(self) -> None:
        self._world.tell("world", f"resume {self._label}".rstrip())
        self._world.loop.resume(self.process)

    def jump_clock(self, milliseconds: int) -> None:
        """Set the machine's wall clock forward or back."""
        self._world.fault("clock-jump", f"{milliseconds:+d} ms {self._label}".rstrip())
        self.process.clock_ahead_ms += milliseconds

    @property
    def _label(self) -> str:
        """What tells it from others in a story."""
        return self.name if len(self._world.nodes) > 1 else ""
