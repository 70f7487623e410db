"""Metrics by OTLP: what the broker exports is what `/metrics` shows, read with OpenTelemetry's own messages."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from penstock.broker.config import BrokerConfig, ConfigError
from penstock.broker.metrics import Metric, Metrics
from penstock.broker.otlp_export import OtlpExport
from penstock.testing import Broker
from tests.broker.handlers.records import batch, produce
from tests.broker.process import free_port
from tests.broker.simulated_world import SimulatedWorld
from tests.broker.test_metrics import figures
from tests.otlp_receiver import attributes, otlp_receiver
from tests.transactions.wire_client import Wire

VICTORIA = shutil.which("victoria-metrics")
WAIT_SECONDS = 60.0


def test_a_broker_exports_its_metrics_with_all_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret")
    with otlp_receiver() as receiver:
        with Broker({"penstock.otlp.endpoint": receiver.address, "penstock.otlp.interval.ms": "100"}) as broker:
            broker.create_topic("orders", 1)
            wire = Wire(broker.port)
            produce(wire, "orders", batch(b"a", b"b"))
            wire.close()
            receiver.wait_for(
                lambda: any(
                    attributes(point).get("topic") == "orders" and point.as_double == 2
                    for metric in receiver.metrics().values()
                    if metric.name == "kafka_server_brokertopicmetrics_messagesin_total"
                    for point in metric.sum.data_points
                )
            )
            shown = {name.partition("{")[0] for name in figures(broker)}
        metrics = receiver.metrics()
        resource = attributes(receiver.requests[-1].resource_metrics[0].resource)
        assert resource["service.name"] == "penstock"
        assert receiver.headers[-1]["api-key"] == "a secret"
    made_up = {f"{name}_{part}" for name in metrics for part in ("bucket", "sum", "count")}
    assert shown <= metrics.keys() | made_up
    counter = metrics["kafka_server_brokertopicmetrics_messagesin_total"].sum
    assert counter.is_monotonic
    assert counter.aggregation_temporality == 2
    (times,) = [
        point
        for point in metrics["kafka_network_requestmetrics_totaltimems"].histogram.data_points
        if attributes(point) == {"request": "Produce"}
    ]
    assert (times.count, sum(times.bucket_counts)) == (1, 1)
    assert len(times.bucket_counts) == len(times.explicit_bounds) + 1
    assert times.sum > 0
    assert metrics["process_resident_memory_bytes"].unit == "By"
    assert metrics["process_resident_memory_bytes"].gauge.data_points[0].as_double > 1 << 20


@pytest.mark.skipif(VICTORIA is None, reason="victoria-metrics is not installed (Debian has it)")
def test_a_real_receiver_takes_what_a_broker_exports(tmp_path: Path) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    options = [f"-storageDataPath={tmp_path}", f"-httpListenAddr=127.0.0.1:{port}", "-search.latencyOffset=0s"]
    with subprocess.Popen([str(VICTORIA), *options], stderr=subprocess.DEVNULL) as receiver:
        try:
            until(lambda: reads(f"{address}/health") == "OK")
            configs = {"penstock.otlp.endpoint": f"{address}/opentelemetry", "penstock.otlp.interval.ms": "200"}
            with Broker(configs) as broker:
                broker.create_topic("orders", 1)
                wire = Wire(broker.port)
                produce(wire, "orders", batch(b"a", b"b"))
                wire.close()

                def found(expression: str) -> list[str]:
                    text = reads(f"{address}/prometheus/api/v1/query?{urlencode({'query': expression})}")
                    return [each["value"][1] for each in json.loads(text or "{}").get("data", {}).get("result", ())]

                until(lambda: found('kafka_server_brokertopicmetrics_messagesin_total{topic="orders"}') == ["2"])
                until(lambda: found('kafka_network_requestmetrics_totaltimems_count{request="Produce"}') == ["1"])
                until(lambda: found("penstock_broker_info") == ["1"])
        finally:
            receiver.terminate()


def reads(url: str) -> str:
    """What is shown at an address; nothing if nobody answers."""
    try:
        with urlopen(url, timeout=10) as answer:
            return str(answer.read(), "utf-8")
    except OSError:
        return ""


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Exported:
    def __init__(self, endpoint: str = "http://collector:4318", level: int = 1) -> None:
        self.world = SimulatedWorld()
        self.sent: list[Request] = []
        self.failure: Exception | None = None
        metrics = Metrics(self.world.precise)
        metrics.register(lambda: [Metric("penstock_topic_size_bytes").add(level, "orders")])
        config = BrokerConfig({"penstock.otlp.endpoint": endpoint, "penstock.otlp.interval.ms": "10000"})
        self.export = OtlpExport(metrics, config, "cluster", "0", self.world, self.send)
        self.export.start()

    def send(self, request: Request) -> None:
        if self.failure is not None:
            raise self.failure
        self.sent.append(request)

    def pass_interval(self) -> None:
        self.world.pass_ms(10_000)
        self.world.run_tasks()


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/metrics"),
        ("https://otlp.example.org/tenant/", "https://otlp.example.org/tenant/v1/metrics"),
        ("http://collector:4318/v1/metrics", "http://collector:4318/v1/metrics"),
    ],
)
def test_the_path_of_metrics_follows_the_address(endpoint: str, url: str) -> None:
    exported = Exported(endpoint)
    exported.pass_interval()
    assert [request.full_url for request in exported.sent] == [url]


@pytest.mark.parametrize("endpoint", ["collector:4317", "grpc://collector:4317", "http://"])
def test_what_is_no_address_of_http_is_refused_with_what_to_write(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"like http://127\.0\.0\.1:4318"):
        Exported(endpoint)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (URLError("Connection refused"), "Connection refused"),
        (HTTPError("", 429, "Too Many Requests", {}, None), "it answers 429 Too Many Requests"),  # type: ignore[arg-type]
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_what_cannot_be_delivered_is_logged_and_tried_again(
    failure: Exception, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    exported = Exported()
    exported.failure = failure
    with caplog.at_level(logging.WARNING):
        exported.pass_interval()
    assert f"cannot export metrics to http://collector:4318/v1/metrics: {message}" in caplog.text
    assert exported.export.success_ages() == {"export of metrics": 10.0}
    exported.failure = None
    exported.pass_interval()
    assert (exported.export.exports, exported.export.failures) == (1, 1)
    assert exported.export.success_ages() == {"export of metrics": 0.0}


def test_an_export_that_was_stopped_sends_no_more() -> None:
    exported = Exported()
    exported.export.stop()
    exported.pass_interval()
    assert exported.sent == []
