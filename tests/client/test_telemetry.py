"""The client pushes its metrics to a broker that subscribes to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.catalog.contract import replaced_by
from penstock.client import Consumer, Producer
from penstock.client.metrics import MetricName, Metrics, PollTimes
from penstock.client.telemetry import Reporter, subscribed_points, telemetry_name
from penstock.testing import Broker

SENT = MetricName("producer-metrics", "record-send-total", "c")
LATENCY = MetricName("producer-metrics", "request-latency-avg", "c")
REQUIRED_OF_ALL = {
    "connection.creation.rate",
    "connection.creation.total",
    "node.request.latency.avg",
    "node.request.latency.max",
}
REQUIRED_OF_PRODUCERS = REQUIRED_OF_ALL | {
    "produce.throttle.time.avg",
    "produce.throttle.time.max",
    "record.queue.time.avg",
    "record.queue.time.max",
}
REQUIRED_OF_CONSUMERS = REQUIRED_OF_ALL | {
    "poll.idle.ratio.avg",
    "coordinator.commit.latency.avg",
    "coordinator.commit.latency.max",
    "coordinator.assigned.partitions",
    "coordinator.rebalance.latency.avg",
    "coordinator.rebalance.latency.max",
    "coordinator.rebalance.latency.total",
    "fetch.manager.fetch.latency.avg",
    "fetch.manager.fetch.latency.max",
}
"""What KIP-714 requires of clients; see its standard producer and consumer metrics."""


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
    (point,) = subscribed_points({SENT: 10.0}, ["*"], {SENT: 4.0}, is_delta=True)
    assert (point.value, point.is_delta) == (6.0, True)


def test_what_is_known_of_each_broker_names_it_in_an_attribute() -> None:
    snapshot = {LATENCY._replace(tags=(("node-id", f"node-{number}"),)): float(number) for number in (1, 2)}
    points = subscribed_points(snapshot, ["*"], {}, is_delta=True)
    assert [(point.value, point.attributes) for point in points] == [
        (1.0, (("node_id", "node-1"),)),
        (2.0, (("node_id", "node-2"),)),
    ]


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
        broker._call(
            lambda: parts.configs.change_client_metrics("fast", replaced_by({"metrics": "*", "interval.ms": "100"}))
        )
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


def pushed(client: Producer | Consumer[bytes, bytes], kind: str) -> dict[str, float]:
    """What a client that has worked reports by now, without the prefix of its kind."""
    points = subscribed_points(client.metrics(), [f"org.apache.kafka.{kind}."], {}, is_delta=False)
    return {point.name.removeprefix(f"org.apache.kafka.{kind}."): point.value for point in points}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_clients_report_what_kip_714_requires(protocol: str) -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("orders", b"x")
            found = pushed(producer, "producer")
            assert found.keys() >= REQUIRED_OF_PRODUCERS
            assert found["connection.creation.total"] >= 1
            assert 0 < found["node.request.latency.avg"] <= found["node.request.latency.max"]
        settings = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest", "client_rack": "r1"}
        async with Consumer(settings, bootstrap_servers=servers) as consumer:
            consumer.subscribe(["orders"])
            assert len(await consumer.poll(30_000)) == 1
            await consumer.commit()
            found = pushed(consumer, "consumer")
            assert found.keys() >= REQUIRED_OF_CONSUMERS
            assert found["coordinator.assigned.partitions"] == 1
            assert found["coordinator.rebalance.total"] == 1
            assert 0 < found["coordinator.rebalance.latency.avg"] == found["coordinator.rebalance.latency.total"]
            assert 0 < found["coordinator.commit.latency.avg"] <= found["coordinator.commit.latency.max"]
            assert found["last.poll.seconds.ago"] >= 0
            assert found["coordinator.last.rebalance.seconds.ago"] >= 0
            labels = consumer._labels()
            assert (labels["group_id"], labels["client_rack"]) == ("g", "r1")
            assert labels["group_member_id"] == consumer.group_metadata().member_id


async def test_a_broker_that_takes_no_metrics_is_left_alone() -> None:
    with Broker() as broker:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            reporter = Reporter(producer._cluster, producer._metrics, dict, first_request_seconds=0)
            reporter.start()
            assert reporter._task is not None
            async with asyncio.timeout(30):
                await reporter._task
            await reporter.close()


async def test_a_client_that_is_told_so_pushes_nothing() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        async with Producer(bootstrap_servers=broker.bootstrap_servers, enable_metrics_push=False) as producer:
            assert producer._reporter._task is None
