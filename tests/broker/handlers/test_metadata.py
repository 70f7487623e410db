"""What clients are told about the broker."""

from __future__ import annotations

from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from tests.broker.raw import RawClient


def test_clients_learn_where_the_broker_stands() -> None:
    with Broker({"broker.rack": "cellar"}) as broker, RawClient(broker.port) as client:
        metadata = client.request(ApiKey.METADATA, m.MetadataRequest(topics=[]), 12)
        cluster = client.request(ApiKey.DESCRIBE_CLUSTER, m.DescribeClusterRequest(), 1)
    assert isinstance(metadata, m.MetadataResponse)
    assert isinstance(cluster, m.DescribeClusterResponse)
    assert [metadata.brokers[0].rack, cluster.brokers[0].rack] == ["cellar", "cellar"]
