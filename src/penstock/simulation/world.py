"""The simulated world as a whole: one broker, the programs that talk to it, and everything that can happen to them.

One seed decides all of it. The broker is the one of production; what it stands on and its `World` are handed in.
Programs see the world's time too: while it runs, `time.time`, `time.monotonic`, `uuid.uuid4` and the functions of
`random` answer from it.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar, TypeVarTuple

from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import Foundation, OnFailure, Settings
from penstock.broker.server import Broker
from penstock.broker.world import LoopWorld, World
from penstock.catalog.memory import MemoryCatalog
from penstock.simulation.disk import Disk, Loss
from penstock.simulation.loop import Process, SimulatedLoop
from penstock.simulation.network import Network, SimulatedListener

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BOOTSTRAP = "broker:9092"
_EPOCH_MS = 1_700_000_000_000

CONFIGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}


class BrokerWorld(LoopWorld):
    """What a broker process sees of time and chance."""

    def __init__(self, loop: SimulatedLoop, process: Process, chance: random.Random) -> None:
        super().__init__(loop)
        self.precise = loop.time
        self._process = process
        self._chance = chance

    def now_ms(self) -> int:
        return _EPOCH_MS + round(self._loop.time() * 1000) + self._process.clock_ahead_ms

    def new_id(self) -> bytes:
        return self._chance.randbytes(16)

    def random_between(self, low: int, high: int) -> int:
        return self._chance.randrange(low, high)


class Simulation:
    """A world. `configs` are the broker's, on top of what keeps its internal topics small."""

    def __init__(self, seed: int, configs: Mapping[str, str] | None = None) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.loop = SimulatedLoop(self.chance)
        self.network = Network(self.loop, self.chance)
        self.disk = Disk(self.chance)
        self.catalog = MemoryCatalog()
        self.story: list[tuple[int, str, str]] = []
        """When, who, what."""
        self.faults: Counter[str] = Counter()
        """What was injected, by kind."""
        self.losses: list[tuple[int, Loss]] = []
        """What power cuts took, and when."""
        self.broker_failures: list[BaseException] = []
        """What ended a broker that nobody had killed."""
        self._configs = {**CONFIGS, **(configs or {})}
        self._process: Process | None = None
        self._server: Broker | None = None
        self._serving: asyncio.Task[None]
        self._starts = 0

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, main: Coroutine[object, object, T]) -> T:
        """Run the world until `main`, which belongs to no process, has ended."""
        with self._standard_library():
            try:
                return self.loop.run_until_complete(self.loop.create_task(main, context=contextvars.copy_context()))
            finally:
                self.loop.bury_tasks()
                self.loop.close()

    @property
    def now_ms(self) -> int:
        """Since the world began, by a clock that nothing disturbs."""
        return round(self.loop.time() * 1000)

    def tell(self, who: str, what: str) -> None:
        self.story.append((self.now_ms, who, what))

    def fault(self, kind: str, what: str = "") -> None:
        self.faults[kind] += 1
        self.tell("world", f"{kind} {what}".rstrip())

    @property
    def trace(self) -> tuple[object, ...]:
        """Equal for two runs if and only if the same happened in both, byte for byte."""
        return (self.loop.callbacks, self.network.digest, self.network.delivered_bytes, self.disk.syncs, *self.story)

    # -- programs --------------------------------------------------------------------------------------------------

    def spawn(self, name: str, program: Callable[[*Ts], Coroutine[object, object, T]], *args: *Ts) -> Program[T]:
        """Run a program as a process of its own."""
        process = Process(name)
        return Program(process, self.loop.create_task(program(*args), name=name, context=process.context))

    def kill(self, process: Process, *, silently: bool = False) -> None:
        """Kill a program; silently as with its whole machine, or so that its connections are reset."""
        self.loop.kill(process)
        self.network.process_died(process, silently=silently)

    # -- the broker ------------------------------------------------------------------------------------------------

    @property
    def broker(self) -> Broker:
        assert self._server is not None, "the broker is not running"
        return self._server

    @property
    def is_serving(self) -> bool:
        """Whether there is a broker that nobody has killed or told to stop."""
        return self._server is not None

    @property
    def broker_process(self) -> Process:
        assert self._process is not None, "the broker is not running"
        return self._process

    async def start_broker(self) -> None:
        self._starts += 1
        ahead = self._process.clock_ahead_ms if self._process is not None else 0
        process = self._process = Process(f"broker {self._starts}")
        process.clock_ahead_ms = ahead
        started: asyncio.Future[Broker] = self.loop.create_future()
        self._serving = self.loop.create_task(self._serve(process, started), context=process.context)
        self._server = await started
        self.tell("broker", "serves")

    async def _serve(self, process: Process, started: asyncio.Future[Broker]) -> None:
        def lay(settings: Settings, config: BrokerConfig, world: World, on_failure: OnFailure) -> Foundation:
            self.disk.attach(world.call_soon_threadsafe, world.call_later)
            return Foundation(self.catalog, self.disk, lambda: [SimulatedListener(self.network, process)])

        try:
            server = Broker(
                Settings(configs=dict(self._configs)), lay, lambda loop: BrokerWorld(self.loop, process, self.chance)
            )
            await server.start()
            started.set_result(server)
            await server.serve()
        except Exception as error:
            self.broker_failures.append(error)
            self.tell("broker", f"failed: {error!r}")
            if not started.done():
                started.set_exception(error)

    def kill_broker(self) -> None:
        """As by SIGKILL: everything in memory is gone, the operating system keeps what was written."""
        self.fault("kill")
        self._end_broker(silently=False)
        self.disk.process_died(_EPOCH_MS + self.now_ms)

    def cut_power(self) -> list[Loss]:
        """The machine goes down: what was not synced may be gone, and nobody hears of it."""
        self.fault("power-cut")
        self._end_broker(silently=True)
        losses = self.disk.power_cut(_EPOCH_MS + self.now_ms)
        for loss in losses:
            self.losses.append((self.now_ms, loss))
            self.tell(
                "disk", f"lost offsets {loss.first_offset} to {loss.end_offset - 1} of {loss.topic}-{loss.partition}"
            )
        return losses

    def _end_broker(self, *, silently: bool) -> None:
        self.loop.kill(self.broker_process)
        self.network.listen(None)
        self.network.process_died(self.broker_process, silently=silently)
        self._server = None

    async def stop_broker(self) -> None:
        """A clean stop."""
        process, server = self.broker_process, self.broker
        self.fault("clean-stop")
        self._server = None
        self.loop.call_soon(server.stop, context=process.context)
        await asyncio.wait([self._serving])
        self.loop.kill(process)

    def pause_broker(self) -> None:
        self.fault("pause")
        self.loop.pause(self.broker_process)

    def resume_broker(self) -> None:
        self.tell("world", "resume")
        self.loop.resume(self.broker_process)

    def jump_clock(self, milliseconds: int) -> None:
        """Set the broker's wall clock forward or back."""
        self.fault("clock-jump", f"{milliseconds:+d} ms")
        self.broker_process.clock_ahead_ms += milliseconds

    # -- what programs see -----------------------------------------------------------------------------------------

    @contextmanager
    def _standard_library(self) -> Iterator[None]:
        state = random.getstate()
        saved = time.time, time.monotonic, uuid.uuid4
        random.seed(self.seed)
        time.time = lambda: _EPOCH_MS / 1000 + self.loop.time()
        time.monotonic = self.loop.time
        uuid.uuid4 = lambda: uuid.UUID(int=self.chance.getrandbits(128), version=4)
        try:
            yield
        finally:
            time.time, time.monotonic, uuid.uuid4 = saved
            random.setstate(state)


@dataclass(slots=True, frozen=True)
class Program(Generic[T]):
    """A running program."""

    process: Process
    task: asyncio.Task[T]
