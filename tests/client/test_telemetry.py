"""The client pushes its metrics to a broker that subscribes to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.client import Consumer, Producer
from penstock.client.metrics import MetricName, Metrics, PollTimes
from penstock.client.telemetry import Reporter, subscribed_points, telemetry_name
from penstock.testing import Broker

SENT = MetricName("producer-metrics", "record-send-total", "c")
LATENCY = MetricName("producer-metrics", "request-latency-avg", "c")


def test_names_are_those_of_kip_714() -> None:
    name = MetricName("consumer-fetch-manager-metrics", "fetch-latency-avg", "c")
    assert telemetry_name(name) == "org.apache.kafka.consumer.fetch.manager.fetch.latency.avg"


def test_only_what_was_subscribed_to_and_is_known_is_sent() -> None:
    snapshot = {SENT: 3.0, LATENCY: float("nan")}
    (point,) = subscribed_points(snapshot, ["org.apache.kafka.producer."], {}, is_delta=False)
    assert (point.name, point.value, point.is_sum, point.is_delta) == (telemetry_name(SENT), 3.0, True, False)
    assert subscribed_points(snapshot, ["org.apache.kafka.consumer."], {}, is_delta=False) == []
    assert len(subscribed_points({**snapshot, LATENCY: 1.0}, ["*"], {}, is_delta=False)) == 2


def test_of_totals_the_increments_are_sent() -> None:
    (point,) = subscribed_points({SENT: 10.0}, ["*"], {telemetry_name(SENT): 4.0}, is_delta=True)
    assert (point.value, point.is_delta) == (6.0, True)


def test_before_the_first_poll_its_age_is_minus_one() -> None:
    metrics = Metrics("c")
    polls = PollTimes(metrics, "consumer-metrics")
    name = MetricName("consumer-metrics", "last-poll-seconds-ago", "c")
    assert metrics.snapshot()[name] == -1
    polls.started()
    polls.ended()
    polls.started()
    found = metrics.snapshot()
    assert found[name] >= 0
    assert found[MetricName("consumer-metrics", "time-between-poll-max", "c")] >= 0
    assert 0 <= found[MetricName("consumer-metrics", "poll-idle-ratio-avg", "c")] <= 1


async def shown(text: Callable[[], str], *parts: str) -> None:
    async with asyncio.timeout(60):
        while True:
            if any(all(part in line for part in parts) for line in text().splitlines()):
                return
            await asyncio.sleep(0.05)


async def test_a_producer_and_a_consumer_appear_in_the_metrics_of_the_broker() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        parts = broker._running().parts
        broker._call(lambda: parts.configs.set_client_metrics("fast", {"metrics": "*", "interval.ms": "100"}))
        servers = broker.bootstrap_servers

        def text() -> str:
            return broker._call(parts.metrics.text)

        async with Producer(bootstrap_servers=servers, client_id="writer") as producer:
            producer._reporter._first_request_seconds = 0
            await producer.send_and_wait("orders", b"x")
            await shown(text, "penstock_client_metric{", "writer", "producer.record.send.total", " 1.0")
        async with Consumer(bootstrap_servers=servers, client_id="reader", group_id="g") as consumer:
            consumer._reporter._first_request_seconds = 0
            consumer.subscribe(["orders"])
            await consumer.poll(100)
            await shown(text, "penstock_client_last_poll_age_seconds{", "reader")


async def test_a_broker_that_takes_no_metrics_is_left_alone() -> None:
    with Broker() as broker:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            reporter = Reporter(producer._cluster, producer._metrics, first_request_seconds=0)
            reporter.start()
            assert reporter._task is not None
            async with asyncio.timeout(30):
                await reporter._task
            await reporter.close()


async def test_a_client_that_is_told_so_pushes_nothing() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        async with Producer(bootstrap_servers=broker.bootstrap_servers, enable_metrics_push=False) as producer:
            assert producer._reporter._task is None
