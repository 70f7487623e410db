"""Who is let in."""

from __future__ import annotations

from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from tests.broker.raw import RawClient


def is_served(client: RawClient) -> bool:
    answer = client.request(ApiKey.API_VERSIONS, m.ApiVersionsRequest(), 0)
    assert isinstance(answer, m.ApiVersionsResponse)
    return not answer.error_code


def test_one_address_may_have_so_many_connections() -> None:
    with Broker({"max.connections.per.ip": 2}) as broker, RawClient(broker.port) as first:
        with RawClient(broker.port) as second:
            assert is_served(first)
            assert is_served(second)
            with RawClient(broker.port) as third:
                assert third.is_closed_by_broker()
        assert is_served(first)


def test_an_address_may_be_excepted_from_the_limit() -> None:
    configs = {"max.connections.per.ip": 0, "max.connections.per.ip.overrides": "10.0.0.1:0,127.0.0.1:1"}
    with Broker(configs) as broker, RawClient(broker.port) as first:
        assert is_served(first)
        with RawClient(broker.port) as second:
            assert second.is_closed_by_broker()
