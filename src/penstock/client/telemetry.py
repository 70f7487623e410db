"""Pushes a client's metrics to the cluster that it uses (KIP-714), for as long as the cluster subscribes to them.

The broker says which metrics it wants, how often, and how large a push may be; a broker that offers no subscriptions is
left alone. The first request waits a second, since a client that has ended by then has nothing to report. The first
push waits between half an interval and one and a half, so that clients that were started together do not push together.
Nothing here ever makes a program fail: errors are logged, and the push is repeated at the next interval.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Mapping

from penstock.client.cluster import Cluster
from penstock.client.metrics import MetricName, Metrics
from penstock.records.codecs import Codec, compress
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError, UnsupportedVersion
from penstock.wire.otlp import Point, encode_metrics

_log = logging.getLogger("penstock.client")

_FIRST_REQUEST_SECONDS = 1.0
_CLOSE_SECONDS = 1.0
_SHORTEST_SECONDS = 0.1
_RETRY_SECONDS = 60.0
_TOTALS = ("-total", "-count")
_SUBSCRIBE_AGAIN = (
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.TELEMETRY_TOO_LARGE,
)
_HOPELESS = (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_VERSION)

Subscribed = m.GetTelemetrySubscriptionsResponse


class Reporter:
    """Reports the metrics of one client."""

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        labels: Callable[[], Mapping[str, str]],
        *,
        first_request_seconds: float = _FIRST_REQUEST_SECONDS,
    ) -> None:
        """`labels` say of whom the metrics are, as far as that is known: of which group, member, rack."""
        self._cluster = cluster
        self._metrics = metrics
        self._labels = labels
        self._first_request_seconds = first_request_seconds
        self._subscribed: Subscribed | None = None
        self._reported: dict[MetricName, float] = {}
        self._started_ns = self._since_ns = time.time_ns()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._cluster.config.enable_metrics_push and self._task is None:
            self._task = asyncio.create_task(self._run(), name="penstock-telemetry")

    async def close(self) -> None:
        """Push for the last time, if there is something that somebody wants."""
        if self._task is None:
            return
        is_running = not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if is_running and self._subscribed is not None and self._subscribed.requested_metrics:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._push(self._subscribed, terminating=True)
            except (KafkaError, TimeoutError) as error:
                _log.debug("the last metrics were not pushed: %s", error)

    async def _run(self) -> None:
        await asyncio.sleep(self._first_request_seconds)
        while True:
            try:
                pause = await self._report()
            except UnsupportedVersion:
                return
            except KafkaError as error:
                _log.debug("metrics were not pushed: %s", error)
                pause = _RETRY_SECONDS
            if pause is None:
                return
            await asyncio.sleep(pause)

    async def _report(self) -> float | None:
        """Subscribe or push; returns how long to wait before the next time, None for good."""
        if self._subscribed is None:
            answer = await self._cluster.request(
                m.GetTelemetrySubscriptionsRequest(client_instance_id=self._metrics.instance_id), Subscribed
            )
            if answer.error_code in _HOPELESS:
                return None
            interval = max(answer.push_interval_ms / 1000, _SHORTEST_SECONDS)
            if answer.error_code != ErrorCode.NONE:
                return _RETRY_SECONDS
            self._metrics.instance_id = answer.client_instance_id
            if not answer.requested_metrics:
                return interval
            self._subscribed = answer
            return interval * random.uniform(0.5, 1.5)
        subscribed = self._subscribed
        error_code = await self._push(subscribed)
        if error_code in _HOPELESS:
            _log.warning("the broker refuses this client's metrics: %s", ErrorCode(error_code).name)
            return None
        if error_code in _SUBSCRIBE_AGAIN:
            self._subscribed = None
            # One that is too large will be so again at once; the others are repaired by the new subscription.
            return 0.0 if error_code != ErrorCode.TELEMETRY_TOO_LARGE else subscribed.push_interval_ms / 1000
        return max(subscribed.push_interval_ms / 1000, _SHORTEST_SECONDS)

    async def _push(self, subscribed: Subscribed, *, terminating: bool = False) -> int:
        snapshot = self._metrics.snapshot()
        points = subscribed_points(snapshot, subscribed.requested_metrics, self._reported, subscribed.delta_temporality)
        now_ns = time.time_ns()
        since_ns = self._since_ns if subscribed.delta_temporality else self._started_ns
        labels = tuple((key, value) for key, value in self._labels().items() if value)
        data = encode_metrics(points, labels, since_ns, now_ns)
        codec = Codec.GZIP if Codec.GZIP in subscribed.accepted_compression_types else Codec.NONE
        if len(data) > subscribed.telemetry_max_bytes:
            _log.debug("the metrics have %d bytes, the broker takes %d", len(data), subscribed.telemetry_max_bytes)
            return ErrorCode.NONE
        answer = await self._cluster.request(
            m.PushTelemetryRequest(
                client_instance_id=subscribed.client_instance_id,
                subscription_id=subscribed.subscription_id,
                terminating=terminating,
                compression_type=int(codec),
                metrics=compress(codec, data),
            ),
            m.PushTelemetryResponse,
        )
        if answer.error_code == ErrorCode.NONE:
            self._since_ns = now_ns
            self._reported.update(snapshot)
        return answer.error_code


def telemetry_name(name: MetricName) -> str:
    """A metric's name in KIP-714: `producer-metrics`, `request-latency-avg` is
    `org.apache.kafka.producer.request.latency.avg`."""
    return f"org.apache.kafka.{name.group.removesuffix('-metrics')}.{name.name}".replace("-", ".")


def subscribed_points(
    snapshot: Mapping[MetricName, float], prefixes: list[str], reported: Mapping[MetricName, float], is_delta: bool
) -> list[Point]:
    """What a broker that subscribes to these prefixes is sent; of totals only the increments, if it wants that."""
    takes_all, starts = "*" in prefixes, tuple(prefixes)
    points = []
    for metric, value in snapshot.items():
        name = telemetry_name(metric)
        if math.isnan(value) or not (takes_all or name.startswith(starts)):
            continue
        is_sum = metric.name.endswith(_TOTALS)
        if is_sum and is_delta:
            value -= reported.get(metric, 0.0)
        attributes = tuple((key.replace("-", "_"), tag) for key, tag in metric.tags)
        points.append(Point(name, value, attributes, is_delta=is_sum and is_delta, is_sum=is_sum))
    return points
