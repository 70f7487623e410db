"""Metrics of the process, under the names that Prometheus' own clients use, and how late its event loop is."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker.histogram import Histogram
from penstock.broker.metrics import Metric
from penstock.portable import open_files_max

if TYPE_CHECKING:
    from penstock.broker.world import Timer, World

_PROBE_SECONDS = 0.5
_PROBES_PER_MINUTE = int(60 / _PROBE_SECONDS)
_PROC = Path("/proc/self")
_IDLE = (
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
)


class LoopLag:
    """Asks to be called in a while, and notes how much later it is called."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._timer: Timer | None = None
        self._due = 0.0
        self._used: deque[tuple[float, float]] = deque(maxlen=_PROBES_PER_MINUTE + 1)
        self.times = Histogram()

    def start(self) -> None:
        self._due = self._world.precise() + _PROBE_SECONDS
        self._timer = self._world.call_later(_PROBE_SECONDS, self._called)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _called(self) -> None:
        now = self._world.precise()
        self.times.add(max(0.0, now - self._due))
        self._used.append((now, time.thread_time()))
        self.start()

    def metrics(self) -> Iterator[Metric]:
        yield Metric("penstock_event_loop_lag_ms").add_histogram(self.times)
        # Kafka has threads for the network and threads for requests; here one loop does the work of both.
        for name in _IDLE:
            yield Metric(name).add(self._idle())

    def _idle(self) -> float:
        """Which share of the last minute the thread of the loop did not compute."""
        if len(self._used) < 2:
            return 1.0
        (began, used), (now, used_now) = self._used[0], self._used[-1]
        return min(1.0, max(0.0, 1 - (used_now - used) / (now - began))) if now > began else 1.0


def broker_info(version: str, cluster_id: str, node_id: int) -> Metric:
    """Which broker of which cluster runs which version: for dashboards, and to see an upgrade go through."""
    return Metric("penstock_broker_info").add(1, version, cluster_id, str(node_id))


def process_metrics() -> Iterator[Metric]:
    used = os.times()
    yield Metric("process_cpu_seconds_total").add(used.user + used.system)
    limit = open_files_max()
    if limit is not None:
        yield Metric("process_max_fds").add(limit)
    if _PROC.exists():
        yield Metric("process_start_time_seconds").add(_started())
        virtual, resident = (int(pages) for pages in (_PROC / "statm").read_text("ascii").split()[:2])
        yield Metric("process_virtual_memory_bytes").add(virtual * os.sysconf("SC_PAGE_SIZE"))
        yield Metric("process_resident_memory_bytes").add(resident * os.sysconf("SC_PAGE_SIZE"))
        yield Metric("process_open_fds").add(len(os.listdir(_PROC / "fd")))
        yield from _disk_metrics()


@cache
def _started() -> float:
    """When the process started, in seconds since 1970: the kernel counts it from the start of the machine."""
    ticks = int((_PROC / "stat").read_text("ascii").rpartition(")")[2].split()[19])
    seconds_ago = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return round(time.time() - seconds_ago, 2)


def _disk_metrics() -> Iterator[Metric]:
    """What the process made the disks do, as the kernel counts it, which some containers hide."""
    try:
        counted = dict(line.split(": ") for line in (_PROC / "io").read_text("ascii").splitlines())
    except OSError:
        return
    for kind in ("read", "write"):
        yield Metric(f"kafka_server_kafkaserver_linux_disk_{kind}_bytes").add(int(counted[f"{kind}_bytes"]))
