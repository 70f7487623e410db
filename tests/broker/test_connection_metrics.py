"""Connections, measured."""

from __future__ import annotations

from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.test_metrics import figures
from tests.transactions.wire_client import Wire


def test_connections_are_counted_by_listener() -> None:
    with Broker() as broker:
        wires = [Wire(broker.port) for _ in range(2)]
        for wire in wires:
            wire.ask(m.DescribeClusterRequest(), m.DescribeClusterResponse, 1)
        found = figures(broker)
        for wire in wires:
            wire.close()
    assert found['kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}'] == 2
