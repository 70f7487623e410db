from __future__ import annotations

from penstock.client.metrics import ConnectionMetrics, MetricName, Metrics, Rebalances


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


def test_how_long_each_broker_takes_is_known_by_its_id() -> None:
    metrics = Metrics("me")
    connections = ConnectionMetrics(metrics, "consumer-share")
    connections.created.record()
    connections.latency_of(1).record(4)
    connections.latency_of(2).record(6)
    connections.latency_of(1).record(2)
    found = metrics.snapshot()
    assert found[MetricName("consumer-share-metrics", "connection-creation-total", "me")] == 1
    name = MetricName("consumer-share-node-metrics", "request-latency-avg", "me")
    assert found[name._replace(tags=(("node-id", "node-1"),))] == 3
    assert found[name._replace(tags=(("node-id", "node-2"),))] == 6


def test_a_rebalance_lasts_from_when_it_was_first_heard_of() -> None:
    metrics = Metrics("me")
    rebalances = Rebalances(metrics, "consumer-coordinator-metrics")

    def found(name: str) -> float:
        return metrics.snapshot()[MetricName("consumer-coordinator-metrics", name, "me")]

    assert found("last-rebalance-seconds-ago") == -1
    rebalances.begin()
    rebalances.begin()
    rebalances.end()
    lasted_ms = found("rebalance-latency-total")
    assert lasted_ms > 0
    assert found("rebalance-total") == 1
    assert found("last-rebalance-seconds-ago") >= 0
    rebalances.end()  # one that nobody has announced
    assert (found("rebalance-total"), found("rebalance-latency-total")) == (2, lasted_ms)
