"""Exports the broker's metrics by OTLP over HTTP, for those who collect with OpenTelemetry and not with Prometheus.

It is off unless `penstock.otlp.endpoint` names a receiver. The metrics are those of `/metrics`, under the same names,
encoded a little at a time and sent by a thread. What cannot be delivered is logged and lost: the values are totals, so
the next export makes up for it.
"""

from __future__ import annotations

import gzip
import logging
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.config import ConfigError
from penstock.broker.histogram import BOUNDS_MS
from penstock.broker.metric_specs import COUNTER, HISTOGRAM, unit_of
from penstock.broker.metrics import Metric
from penstock.broker.world import WaitsFor
from penstock.wire.otlp import (
    CUMULATIVE,
    encode_bounds,
    encode_data,
    encode_gauge,
    encode_histogram,
    encode_histogram_point,
    encode_number,
    encode_sum,
    encode_times,
)

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.metrics import Metrics
    from penstock.broker.world import Task, Timer, World

log = logging.getLogger("penstock.broker")

_PATH = "/v1/metrics"
_PATIENCE_SECONDS = 10.0
_POINTS_PER_PIECE = 100
_HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
_UNITS = {"bytes": "By", "seconds": "s"}
_BOUNDS = encode_bounds(BOUNDS_MS)

Send = Callable[[Request], None]


class OtlpExport:
    def __init__(
        self,
        metrics: Metrics,
        config: BrokerConfig,
        cluster_id: str,
        version: str,
        world: World,
        send: Send | None = None,
    ) -> None:
        """Raises ConfigError for an endpoint that is no address of HTTP."""
        endpoint = config.penstock_otlp_endpoint
        if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).netloc:
            raise ConfigError(
                f"penstock.otlp.endpoint is {endpoint!r}; it must be the address of a receiver of OTLP over HTTP, "
                "like http://127.0.0.1:4318"
            )
        self._url = endpoint if urlsplit(endpoint).path.endswith(_PATH) else endpoint.rstrip("/") + _PATH
        self._metrics = metrics
        self._interval_seconds = config.penstock_otlp_interval_ms / 1000
        self._resource = (
            ("service.name", "penstock"),
            ("service.version", version),
            ("service.instance.id", f"{cluster_id}-{config.node_id}"),
            ("messaging.system", "kafka"),
        )
        self._world = world
        self._send = send or _post
        self._failures = BoundedLog(log, world.monotonic, "exports of metrics failed")
        self._started_ns = world.now_ms() * 1_000_000
        self._timer: Timer | None = None
        self._task: Task | None = None
        self._succeeded = world.monotonic()
        self.exports = self.failures = 0

    def start(self) -> None:
        self._timer = self._world.call_later(self._interval_seconds, self._begin)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def success_ages(self) -> dict[str, float]:
        return {"export of metrics": self._world.monotonic() - self._succeeded}

    def metrics(self) -> Iterator[Metric]:
        outcomes = Metric("penstock_otlp_exports_total")
        yield outcomes.add(self.exports, "delivered").add(self.failures, "failed")

    def _begin(self) -> None:
        self._task = self._world.spawn(self._export())

    async def _export(self) -> None:
        try:
            body = await self._encode()
            await self._world.in_thread(lambda: self._send(self._request(body)), WaitsFor.SERVER)
        except Exception as error:
            self.failures += 1
            self._failures.warning("cannot export metrics to %s: %s", self._url, _reason(error))
        else:
            self.exports += 1
            self._succeeded = self._world.monotonic()
        self.start()

    async def _encode(self) -> bytes:
        times = encode_times(self._started_ns, self._world.now_ms() * 1_000_000)
        pieces = await self._metrics.render(lambda metric: _encoded(metric, times))
        return encode_data(pieces, self._resource, "penstock.broker")

    def _request(self, body: bytes) -> Request:
        headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            **_given_headers(os.environ.get(_HEADERS_VARIABLE, "")),
        }
        return Request(self._url, gzip.compress(body, 6), headers, method="POST")


def _encoded(metric: Metric, times: bytes) -> Iterator[bytes]:
    """The metric, after empty pieces that mark where the event loop may serve others."""
    points: list[bytes] = []
    names = metric.label_names
    for samples in metric.drain(_POINTS_PER_PIECE):
        points += [encode_number(value, tuple(zip(names, labels, strict=True)), times) for labels, value in samples]
        yield b""
    for labels, histogram in metric.histograms:
        attributes = tuple(zip(names, labels, strict=True))
        points.append(encode_histogram_point(histogram.counts, histogram.milliseconds, _BOUNDS, attributes, times))
        yield b""
    if not points:
        return
    unit = _UNITS.get(unit_of(metric.name, metric.kind), "")
    if metric.kind == HISTOGRAM:
        yield encode_histogram(metric.name, points, metric.help, "ms")
    elif metric.kind == COUNTER:
        yield encode_sum(metric.name, points, CUMULATIVE, metric.help, unit)
    else:
        yield encode_gauge(metric.name, points, metric.help, unit)


def _post(request: Request) -> None:
    with urlopen(request, timeout=_PATIENCE_SECONDS) as answer:
        answer.read()


def _given_headers(text: str) -> dict[str, str]:
    """OpenTelemetry's variable for headers: `name=value,name=value`, percent-encoded."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"it answers {error.code} {error.reason}"
    return str(getattr(error, "reason", error)) or type(error).__name__
