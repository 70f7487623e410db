"""What clients are told about the broker."""

from __future__ import annotations

from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.raw import RawClient


def test_clients_learn_where_the_broker_stands() -> None:
    with Broker({"broker.rack": "cellar"}) as broker, RawClient(broker.port) as client:
        metadata = client.ask(m.MetadataRequest(topics=[]), m.MetadataResponse, 12)
        cluster = client.ask(m.DescribeClusterRequest(), m.DescribeClusterResponse, 1)
    assert [metadata.brokers[0].rack, cluster.brokers[0].rack] == ["cellar", "cellar"]
