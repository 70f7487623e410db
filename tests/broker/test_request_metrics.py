"""Requests and connections, measured."""

from __future__ import annotations

from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.test_metrics import figures
from tests.transactions.wire_client import Wire


def test_requests_are_counted_by_api_and_connections_by_listener() -> None:
    name = 'kafka_network_requestmetrics_requests_total{request="DescribeCluster"}'
    with Broker() as broker:
        assert name not in figures(broker)
        wire = Wire(broker.port)
        for _ in range(3):
            wire.ask(m.DescribeClusterRequest(), m.DescribeClusterResponse, 1)
        found = figures(broker)
        wire.close()
    assert found[name] == 3
    assert found['kafka_server_socketservermetrics_connection_count{listener="PLAINTEXT"}'] == 1
