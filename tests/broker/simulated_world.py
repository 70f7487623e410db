"""A world without an event loop: time passes when the test says so, and work for threads is done at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from penstock.broker.world import WaitsFor
from penstock.threads import THREADS
from tests.coordination.simulated import SimulatedTime

T = TypeVar("T")


class SimulatedWorld(SimulatedTime):
    threads = THREADS

    def __init__(self) -> None:
        super().__init__()
        self.in_threads = 0
        """How much work was given to threads."""
        self.clock_ahead_ms = 0
        """How far the wall clock was set forward."""

    def now_ms(self) -> int:
        return super().now_ms() + self.clock_ahead_ms

    def monotonic(self) -> float:
        return super().now_ms() / 1000

    def precise(self) -> float:
        return self.monotonic()

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        self.call_soon(callback)

    def in_thread(self, work: Callable[[], T], waits_for: WaitsFor = WaitsFor.THIS_MACHINE) -> asyncio.Future[T]:
        self.in_threads += 1
        done: asyncio.Future[T] = asyncio.Future(loop=_NoLoop())  # type: ignore[arg-type]
        done.set_result(work())
        return done

    def random_between(self, low: int, high: int) -> int:
        return low


class _NoLoop:
    """Enough of a loop for a future that nobody waits for."""

    def get_debug(self) -> bool:
        return False
