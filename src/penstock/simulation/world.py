"""The simulated world as a whole: brokers, the programs that talk to them, and everything that can happen to them.

One seed decides all of it. Brokers are those of production; what they stand on and their `World` are handed in.
Programs see the world's time too: while it runs, `time.time`, `time.monotonic`, `uuid.uuid4`, `os.urandom` and the
functions of `random` and `secrets` answer from it.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import random
import secrets
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple

from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import Foundation, OnFailure
from penstock.broker.listeners import Address
from penstock.broker.server import Broker
from penstock.broker.world import World
from penstock.catalog.memory import MemoryCatalog
from penstock.security.protocols import SecurityProtocol
from penstock.simulation.disk import Disk
from penstock.simulation.loop import Process, SimulatedLoop
from penstock.simulation.network import Network
from penstock.simulation.node import EPOCH_MS, Loss, Node
from penstock.simulation.tls import listener_of

if TYPE_CHECKING:
    from penstock.catalog.contract import Catalog
    from penstock.simulation.files import FileDisk

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BOOTSTRAP = "broker:9092"
PORT = 9092

CONFIGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}


class DiskGround:
    """A catalog and a disk in memory. See `node.Ground`."""

    has_threads = False

    def __init__(self, network: Network, catalog: MemoryCatalog, disk: Disk) -> None:
        self._network = network
        self._catalog = catalog
        self._disk = disk

    def lay(
        self, node: Node, process: Process, config: BrokerConfig, world: World, on_failure: OnFailure
    ) -> Foundation:
        self._disk.attach(world.call_soon_threadsafe, world.call_later)
        return Foundation(
            self._catalog, self._disk, lambda: [listener_of(self._network, process, node.address, config)]
        )

    def process_died(self, node: Node, now_ms: int) -> None:
        self._disk.process_died(now_ms)

    def power_cut(self, node: Node, now_ms: int) -> list[Loss]:
        return self._disk.power_cut(now_ms)


class SimulatedWorld(ABC):
    """Time, chance, a network, programs, and the machines of brokers, which subclasses make."""

    def __init__(
        self,
        seed: int,
        configs: Mapping[str, str] | None = None,
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    ) -> None:
        """`configs` are the brokers', on top of what keeps their internal topics small; `protocol` is that of their
        listeners."""
        self.seed = seed
        self.protocol = protocol
        self.begins_ms = EPOCH_MS
        """What time it is when the world begins."""
        self.login: Mapping[str, Any] = {}
        """As whom programs log in: settings of `penstock.client`."""
        self.chance = random.Random(seed)
        self.loop = SimulatedLoop(self.chance)
        self.network = Network(self.loop, self.chance)
        self.story: list[tuple[int, str, str]] = []
        """When, who, what."""
        self.faults: Counter[str] = Counter()
        """What was injected, by kind."""
        self.losses: list[tuple[int, Loss]] = []
        """What power cuts took, and when."""
        self.broker_failures: list[BaseException] = []
        """What ended a broker that nobody had killed."""
        self.over = ExitStack()
        """What is done when the world is over."""
        self.nodes = self._build({**CONFIGS, **(configs or {})})
        """The brokers."""

    @abstractmethod
    def _build(self, configs: Mapping[str, str]) -> list[Node]:
        """Make the machines of the brokers, and what they stand on."""

    @property
    def figures(self) -> dict[str, int]:
        """Counts of events."""
        return {}

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, main: Coroutine[object, object, T]) -> T:
        """Run the world until `main` has ended, which belongs to no process."""
        with _uncollected(), self._standard_library():
            try:
                return self.loop.run_until_complete(self.loop.create_task(main, context=contextvars.copy_context()))
            finally:
                self.loop.bury_tasks()
                self.loop.close()
                self.over.close()

    @property
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`."""
        return ",".join(str(node.address) for node in self.nodes)

    def _address(self, host: str) -> Address:
        """Of a broker's listener."""
        return Address(self.protocol.value, host, PORT, self.protocol)

    async def start(self) -> None:
        """Start all brokers, one after the other."""
        for node in self.nodes:
            await node.start()

    @property
    def now_ms(self) -> int:
        """Milliseconds since the world began, by a clock that cannot be set."""
        return round(self.loop.time() * 1000)

    def tell(self, who: str, what: str) -> None:
        """Add a line to the story."""
        self.story.append((self.now_ms, who, what))

    def fault(self, kind: str, what: str = "") -> None:
        """Count a fault, and add it to the story."""
        self.faults[kind] += 1
        self.tell("world", f"{kind} {what}".rstrip())

    @property
    def trace(self) -> tuple[object, ...]:
        """A hash that is equal for two runs if and only if they were identical, byte for byte."""
        return (
            self.loop.callbacks,
            self.network.digest,
            self.network.delivered_bytes,
            *self.figures.values(),
            *self.story,
        )

    # -- programs --------------------------------------------------------------------------------------------------

    def spawn(self, name: str, program: Callable[[*Ts], Coroutine[object, object, T]], *args: *Ts) -> Program[T]:
        """Run a program as a process of its own."""
        process = Process(name)
        return Program(process, self.loop.create_task(program(*args), name=name, context=process.context))

    def kill(self, process: Process, *, silently: bool = False) -> None:
        """Kill a program; silently as with its whole machine, or so that its connections are reset."""
        self.loop.kill(process)
        self.network.process_died(process, silently=silently)

    # -- what programs see -----------------------------------------------------------------------------------------

    @contextmanager
    def _standard_library(self) -> Iterator[None]:
        state = random.getstate()
        saved = time.time, time.monotonic, uuid.uuid4, os.urandom
        secret = secrets.token_bytes, secrets.token_hex, secrets.token_urlsafe
        random.seed(self.seed)
        time.time = lambda: self.begins_ms / 1000 + self.loop.time()
        time.monotonic = self.loop.time
        uuid.uuid4 = lambda: uuid.UUID(int=self.chance.getrandbits(128), version=4)
        os.urandom = self.chance.randbytes
        secrets.token_bytes = lambda nbytes=None: self.chance.randbytes(nbytes or 32)
        secrets.token_hex = secrets.token_urlsafe = lambda nbytes=None: self.chance.randbytes(nbytes or 32).hex()
        try:
            yield
        finally:
            time.time, time.monotonic, uuid.uuid4, os.urandom = saved
            secrets.token_bytes, secrets.token_hex, secrets.token_urlsafe = secret
            random.setstate(state)


class OneBroker(SimulatedWorld):
    """One broker, whatever it stands on."""

    catalog: Catalog
    disk: Disk | FileDisk

    @property
    def broker(self) -> Broker:
        """The running broker."""
        return self.nodes[0].broker

    @property
    def is_serving(self) -> bool:
        """Whether the broker is running."""
        return self.nodes[0].is_serving

    @property
    def broker_process(self) -> Process:
        """The broker's process."""
        return self.nodes[0].process

    async def start_broker(self) -> None:
        """Start the broker; returns when clients can connect."""
        await self.nodes[0].start()

    def kill_broker(self) -> None:
        """Kill the broker as SIGKILL does: memory is lost, the operating system keeps what was written."""
        self.nodes[0].kill()

    def cut_power(self) -> list[Loss]:
        """The machine goes down: unsynced writes may be lost, and connections do not notice."""
        return self.nodes[0].cut_power()

    async def stop_broker(self) -> None:
        """A clean stop."""
        await self.nodes[0].stop()

    def pause_broker(self) -> None:
        """Freeze the broker until `resume_broker`."""
        self.nodes[0].pause()

    def resume_broker(self) -> None:
        """Let a frozen broker continue."""
        self.nodes[0].resume()

    def jump_clock(self, milliseconds: int) -> None:
        """Set the broker's wall clock forward or back."""
        self.nodes[0].jump_clock(milliseconds)


class Simulation(OneBroker):
    """One broker, with its disk and its catalog in memory."""

    def _build(self, configs: Mapping[str, str]) -> list[Node]:
        self.disk: Disk = Disk(self.chance)
        catalog = self.catalog = MemoryCatalog()
        ground = DiskGround(self.network, catalog, self.disk)
        return [Node(self, self._address("broker"), ground, configs)]

    @property
    def figures(self) -> dict[str, int]:
        return {"syncs": self.disk.syncs}


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the garbage collector, which takes a tenth of the time, and would come at a moment that depends on what
    ran before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(slots=True, frozen=True)
class Program(Generic[T]):
    """A running program."""

    process: Process
    task: asyncio.Task[T]
