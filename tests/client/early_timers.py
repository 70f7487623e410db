"""Timers that fire before their time, as uvloop's do, whose clock counts whole milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class EarlyTimer:
    """A timer that fires when half of its time is over."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self.when = lambda: when
        self._handle = loop.call_at((when + loop.time()) / 2, callback)
        self.cancel, self.cancelled = self._handle.cancel, self._handle.cancelled


class EarlyLoop:
    """The running loop, with such timers."""

    def __init__(self) -> None:
        self.time = asyncio.get_running_loop().time
        self.call_at = EarlyTimer
