"""Client metrics under Kafka's own names, kept in memory and read with `metrics()`.

A sensor records once per request or batch, never per record. Averages, maxima and rates cover the last
`WINDOW_SECONDS`, totals the client's lifetime.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

WINDOW_SECONDS = 30.0
_MAX_SAMPLES = 4096

Tags = tuple[tuple[str, str], ...]


class MetricName(NamedTuple):
    """As in Kafka: `producer-metrics`, `consumer-fetch-manager-metrics`… hold the name, tags say whose it is."""

    group: str
    name: str
    client_id: str
    tags: Tags = ()
    """Beyond the client's id: of metrics of single brokers, `node-id`."""


class Sensor:
    """Numbers as they come, with their total, and the latest of them for averages, maxima and rates."""

    __slots__ = ("_samples", "count", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0
        self._samples: deque[tuple[float, float]] = deque(maxlen=_MAX_SAMPLES)

    def record(self, value: float = 1.0) -> None:
        self.total += value
        self.count += 1
        self._samples.append((time.monotonic(), value))

    def _recent(self) -> list[float]:
        since = time.monotonic() - WINDOW_SECONDS
        return [value for at, value in self._samples if at >= since]

    def average(self) -> float:
        recent = self._recent()
        return sum(recent) / len(recent) if recent else float("nan")

    def maximum(self) -> float:
        return max(self._recent(), default=float("nan"))

    def rate(self) -> float:
        """Per second, over the window."""
        return sum(self._recent()) / WINDOW_SECONDS

    def seconds_ago(self) -> float:
        """Since the latest number; -1 before the first one, as in Kafka."""
        return time.monotonic() - self._samples[-1][0] if self._samples else -1.0


class Metrics:
    """The sensors of one client. A statistic is named `sensor` + `-rate`, `-total`, `-avg` or `-max`."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._started = time.monotonic()
        self._sensors: dict[tuple[str, str, tuple[str, ...], Tags], Sensor] = {}
        self._gauges: dict[tuple[str, str], Callable[[], float]] = {}
        self.instance_id = bytes(16)
        """How brokers that take this client's metrics know it (KIP-714)."""

    def sensor(self, group: str, name: str, *statistics: str, tags: Tags = ()) -> Sensor:
        """A sensor whose `statistics` (rate, total, avg, max, count) show up in the snapshot."""
        return self._sensors.setdefault((group, name, statistics, tags), Sensor())

    def gauge(self, group: str, name: str, value: Callable[[], float]) -> None:
        """A number that is looked up when somebody reads it."""
        self._gauges[group, name] = value

    def snapshot(self) -> dict[MetricName, float]:
        values: dict[MetricName, float] = {}
        for (group, name, statistics, tags), sensor in self._sensors.items():
            for statistic in statistics:
                values[MetricName(group, f"{name}-{statistic}", self._client_id, tags)] = _value(sensor, statistic)
        for (group, name), value in self._gauges.items():
            values[MetricName(group, name, self._client_id)] = value()
        return values


class ConnectionMetrics:
    """How often a client connects, and how long each broker takes to answer it."""

    def __init__(self, metrics: Metrics, kind: str) -> None:
        """`kind` begins the names of the groups of metrics: `producer`, `consumer` or `consumer-share`."""
        self.created = metrics.sensor(f"{kind}-metrics", "connection-creation", "rate", "total")
        self._metrics = metrics
        self._kind = kind

    def latency_of(self, node_id: int) -> Sensor:
        tags = (("node-id", f"node-{node_id}"),)
        return self._metrics.sensor(f"{self._kind}-node-metrics", "request-latency", "avg", "max", tags=tags)


class Rebalances:
    """How many rebalances a member of a group has been through, and how long they took."""

    __slots__ = ("_began", "_ended", "_latency")

    def __init__(self, metrics: Metrics, group: str) -> None:
        self._began: float | None = None
        self._latency = metrics.sensor(group, "rebalance-latency", "avg", "max", "total")
        self._ended = metrics.sensor(group, "rebalance", "total")
        metrics.gauge(group, "last-rebalance-seconds-ago", self._ended.seconds_ago)

    def begin(self) -> None:
        """The member has to join again, or is to have other partitions. It may hear so several times."""
        if self._began is None:
            self._began = time.monotonic()

    def end(self) -> None:
        """The member has taken its partitions over."""
        self._ended.record()
        if self._began is not None:
            self._latency.record((time.monotonic() - self._began) * 1000)
            self._began = None


class PollTimes:
    """When a consumer polls, how long it takes between polls, and how much of its time it waits in them."""

    __slots__ = ("_between", "_ended", "_idle", "_started")

    def __init__(self, metrics: Metrics, group: str) -> None:
        self._started = self._ended = 0.0
        self._between = metrics.sensor(group, "time-between-poll", "avg", "max")
        self._idle = metrics.sensor(group, "poll-idle-ratio", "avg")
        metrics.gauge(group, "last-poll-seconds-ago", self.seconds_ago)

    def started(self) -> None:
        now = time.monotonic()
        if self._started:
            self._between.record((now - self._started) * 1000)
        self._started = now

    def ended(self) -> None:
        now = time.monotonic()
        waited, worked = now - self._started, self._started - self._ended if self._ended else 0.0
        if waited + worked > 0:
            self._idle.record(waited / (waited + worked))
        self._ended = now

    def seconds_ago(self) -> float:
        """Since the last poll began; -1 before the first one, as in Kafka."""
        return time.monotonic() - self._started if self._started else -1.0


def _value(sensor: Sensor, statistic: str) -> float:
    if statistic == "rate":
        return sensor.rate()
    if statistic == "avg":
        return sensor.average()
    if statistic == "max":
        return sensor.maximum()
    if statistic == "count":
        return float(sensor.count)
    return sensor.total
