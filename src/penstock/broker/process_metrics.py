"""Metrics of the process, under the names that Prometheus' own clients use, and how late its event loop is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker.histogram import Histogram
from penstock.broker.metrics import Metric
from penstock.portable import open_files_max

if TYPE_CHECKING:
    from penstock.broker.world import Timer, World

_PROBE_SECONDS = 0.5
_PROC = Path("/proc/self")


class LoopLag:
    """Asks to be called in a while, and notes how much later it is called."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._timer: Timer | None = None
        self._due = 0.0
        self.times = Histogram()

    def start(self) -> None:
        self._due = self._world.precise() + _PROBE_SECONDS
        self._timer = self._world.call_later(_PROBE_SECONDS, self._called)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _called(self) -> None:
        self.times.add(max(0.0, self._world.precise() - self._due))
        self.start()

    def metrics(self) -> Iterator[Metric]:
        yield Metric("penstock_event_loop_lag_ms").add_histogram(self.times)


def process_metrics() -> Iterator[Metric]:
    used = os.times()
    yield Metric("process_cpu_seconds_total").add(used.user + used.system)
    limit = open_files_max()
    if limit is not None:
        yield Metric("process_max_fds").add(limit)
    if _PROC.exists():
        pages = int((_PROC / "statm").read_text("ascii").split()[1])
        yield Metric("process_resident_memory_bytes").add(pages * os.sysconf("SC_PAGE_SIZE"))
        yield Metric("process_open_fds").add(len(os.listdir(_PROC / "fd")))
