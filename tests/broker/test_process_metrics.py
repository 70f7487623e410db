"""The process and its event loop, measured."""

from __future__ import annotations

import time

import pytest

from penstock.broker.process_metrics import LoopLag, broker_info, process_metrics


def test_the_process_tells_what_it_uses() -> None:
    found = {metric.name: metric.samples[0][1] for metric in process_metrics()}
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_virtual_memory_bytes"] > found["process_resident_memory_bytes"] > 1 << 20
    assert 2 < found["process_open_fds"] <= found["process_max_fds"]


def test_the_start_of_the_process_is_told_and_stays() -> None:
    started = [{each.name: each.samples for each in process_metrics()} for _ in range(2)]
    ((_, first),), ((_, second),) = (each["process_start_time_seconds"] for each in started)
    assert first == second
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert booted < first < time.time()


def test_a_broker_says_what_it_is() -> None:
    info = broker_info("1.2", "cluster", 3)
    assert info.label_names == ("version", "clusterId", "nodeId")
    assert info.samples == [(("1.2", "cluster", "3"), 1)]


class LateWorld:
    """A world whose timers fire when we say so."""

    def __init__(self) -> None:
        self.now = 10.0
        self.calls: list[tuple[float, object]] = []
        self.cancelled = 0

    def precise(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: object) -> LateWorld:
        self.calls.append((self.now + seconds, callback))
        return self

    def cancel(self) -> None:
        self.cancelled += 1


def test_how_late_the_event_loop_calls_back_is_measured_again_and_again() -> None:
    world = LateWorld()
    lag = LoopLag(world)  # type: ignore[arg-type]
    lag.start()
    for late in (0.25, 0.5):
        due, callback = world.calls.pop()
        world.now = due + late
        callback()  # type: ignore[operator]
    assert lag.times.count == 2
    assert lag.times.seconds == pytest.approx(0.75)
    lag.stop()
    assert world.cancelled == 1
