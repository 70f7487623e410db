"""Time, chance and threads: everything the shell takes from outside of itself, in one object.

The broker is handed a `World` and asks it for the time, for timers, for random numbers and for a thread to wait in. A
test that owns the world owns the broker's time: `LoopWorld` is the real one, on an asyncio event loop.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Protocol, TypeVar, TypeVarTuple

from penstock.threads import THREADS, Threads

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Timer(Protocol):
    def cancel(self) -> None: ...


class Task(Protocol):
    def cancel(self) -> bool: ...


class WaitsFor(Enum):
    """What work in a thread waits for. Each has threads of its own, so that what hangs holds up only its like."""

    THIS_MACHINE = "a processor or a disk"
    STORE = "the object store"
    SERVER = "PostgreSQL, an identity provider, a collector of metrics"


_THREADS_MAX = {WaitsFor.STORE: 16, WaitsFor.SERVER: 8}


class World(Protocol):
    @property
    def threads(self) -> Threads:
        """For what waits in threads of its own."""

    def now_ms(self) -> int:
        """The wall clock, which may jump: for timestamps and for deadlines that outlive the process."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back: for waits."""
        ...

    def precise(self) -> float:
        """Seconds on a clock that shows how long work took, which the other one may be too coarse for."""
        ...

    def call_later(self, seconds: float, callback: Callable[[*Ts], object], *args: *Ts) -> Timer: ...

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts) -> Timer:
        """Call back when whatever runs now has finished."""
        ...

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        """The same from any thread."""
        ...

    def spawn(self, work: Coroutine[object, None, None]) -> Task:
        """Run a coroutine beside everything else; who needs it to the end keeps what is returned."""
        ...

    def in_thread(self, work: Callable[[], T], waits_for: WaitsFor = WaitsFor.THIS_MACHINE) -> asyncio.Future[T]:
        """Run work that waits without holding up everybody else."""
        ...

    def new_id(self) -> bytes:
        """The 16 bytes of a random UUID."""
        ...

    def random_between(self, low: int, high: int) -> int:
        """A number that nobody can foresee, `high` excluded."""
        ...


class SteadyTime:
    """The wall clock as it was, moved on by the clock that never goes back: for sessions and other timeouts.

    A wall clock that is set, by hand or by NTP, must neither expel the members of a group nor keep the dead in it.
    """

    __slots__ = ("_ahead_ms", "_world", "call_later", "call_soon", "spawn")

    def __init__(self, world: World) -> None:
        self._world = world
        self._ahead_ms = world.now_ms() - int(world.monotonic() * 1000)
        self.call_later = world.call_later
        self.call_soon = world.call_soon
        self.spawn = world.spawn

    def now_ms(self) -> int:
        return self._ahead_ms + int(self._world.monotonic() * 1000)


class LoopWorld:
    """The real world, as an asyncio event loop shows it."""

    threads = THREADS

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.monotonic = loop.time
        self.precise = time.perf_counter
        self.call_later = loop.call_later
        self.call_soon = loop.call_soon
        self._pools: dict[WaitsFor, ThreadPoolExecutor] = {}

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def spawn(self, work: Coroutine[object, None, None]) -> Task:
        return self._loop.create_task(work)

    def in_thread(self, work: Callable[[], T], waits_for: WaitsFor = WaitsFor.THIS_MACHINE) -> asyncio.Future[T]:
        if waits_for is WaitsFor.THIS_MACHINE:
            return self._loop.run_in_executor(None, work)
        pool = self._pools.get(waits_for)
        if pool is None:
            pool = ThreadPoolExecutor(_THREADS_MAX[waits_for], f"penstock-{waits_for.name.lower()}")
            self._pools[waits_for] = pool
        return self._loop.run_in_executor(pool, work)

    def new_id(self) -> bytes:
        return uuid.uuid4().bytes

    def random_between(self, low: int, high: int) -> int:
        return random.randrange(low, high)
