from __future__ import annotations

from penstock.client.metrics import MetricName, Metrics


def test_statistics_have_kafkas_names() -> None:
    metrics = Metrics("me")
    sensor = metrics.sensor("producer-metrics", "record-send", "rate", "total", "avg", "max", "count")
    sensor.record(3)
    sensor.record(5)
    found = metrics.snapshot()
    assert found[MetricName("producer-metrics", "record-send-total", "me")] == 8
    assert found[MetricName("producer-metrics", "record-send-avg", "me")] == 4
    assert found[MetricName("producer-metrics", "record-send-max", "me")] == 5
    assert found[MetricName("producer-metrics", "record-send-count", "me")] == 2
    assert found[MetricName("producer-metrics", "record-send-rate", "me")] > 0
