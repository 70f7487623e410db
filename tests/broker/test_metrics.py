"""The broker's figures as Prometheus reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from penstock.broker.metrics import Metric
from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.handlers.records import batch, produce
from tests.transactions.wire_client import Wire


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        it.create_topic("orders", 2)
        yield it


def text(broker: Broker) -> str:
    return broker._call(broker._running().parts.metrics.text)


def figures(broker: Broker) -> dict[str, float]:
    lines = [line for line in text(broker).splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_requests_are_counted_by_api(broker: Broker) -> None:
    wire = Wire(broker.port)
    name = 'kafka_network_requestmetrics_requests_total{request="DescribeCluster"}'
    assert name not in figures(broker)
    for _ in range(3):
        wire.ask(m.DescribeClusterRequest(), m.DescribeClusterResponse, 1)
    found = figures(broker)
    wire.close()
    assert found[name] == 3
    assert found["kafka_server_socketservermetrics_connection_count"] == 1


def test_each_partition_tells_its_size_and_its_ends(broker: Broker) -> None:
    wire = Wire(broker.port)
    records = batch(b"a", b"b")
    produce(wire, "orders", records, partition=1)
    wire.close()
    found = figures(broker)
    of_partition = '{topic="orders",partition="1"}'
    assert found[f"kafka_log_log_size{of_partition}"] == len(records)
    assert found[f"kafka_log_log_logstartoffset{of_partition}"] == 0
    assert found[f"kafka_log_log_logendoffset{of_partition}"] == 2
    assert found["kafka_controller_kafkacontroller_globaltopiccount"] == 1
    assert found["kafka_controller_kafkacontroller_globalpartitioncount"] == 2


def test_every_sample_follows_the_help_and_the_type_of_its_metric(broker: Broker) -> None:
    name, kind = "", ""
    for line in text(broker).splitlines():
        if line.startswith("# HELP"):
            name, kind = line.split()[2], ""
        elif line.startswith("# TYPE"):
            _, _, typed, kind = line.split()
            assert typed == name
            assert kind in ("counter", "gauge")
        else:
            assert kind
            assert re.fullmatch(rf'{name}(\{{(\w+="[^"]*",?)+\}})? [-+.e0-9]+', line), line


def test_what_others_register_is_collected_when_somebody_looks(broker: Broker) -> None:
    level = [1]
    metrics = broker._running().parts.metrics
    broker._call(lambda: metrics.register(lambda: [Metric("water_level", "gauge", "Water.").add(level[0])]))
    level[0] = 5
    assert figures(broker)["water_level"] == 5


def test_labels_that_are_not_plain_text_are_escaped(broker: Broker) -> None:
    odd = Metric("odd", "gauge", "Odd.").add(1, label='a"b\\c\nd')
    broker._call(lambda: broker._running().parts.metrics.register(lambda: [odd]))
    assert r'odd{label="a\"b\\c\nd"} 1' in text(broker).splitlines()
