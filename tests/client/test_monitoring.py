"""Views of brokers are found by the protocol, and read over HTTP as the client's own user."""

from __future__ import annotations

import json

import pytest

from penstock.client.admin import Admin
from penstock.client.monitoring import NotShown, find_addresses, read, url_of
from penstock.testing.broker import Broker
from tests.cli.test_cleaner import free_port


def test_an_address_of_this_machine_is_plain_http_and_any_other_is_https() -> None:
    assert url_of("127.0.0.1:9644") == "http://127.0.0.1:9644"
    assert url_of("[::1]:9644") == "http://[::1]:9644"
    assert url_of("localhost:9644") == "http://localhost:9644"
    assert url_of("broker.example:9644") == "https://broker.example:9644"
    assert url_of("127.0.0.1:9644", is_of_here="0.0.0.0:9644") == "https://127.0.0.1:9644"
    assert url_of("https://a:1") == "https://a:1"


async def test_a_broker_says_where_it_shows_its_views() -> None:
    port = free_port()
    with Broker({"penstock.metrics.listen": f"127.0.0.1:{port}"}) as broker:
        async with Admin(broker.client_settings()) as admin:
            (url,) = (await find_addresses(admin)).values()
        assert url == f"http://127.0.0.1:{port}"
        assert json.loads(read(url, "/groups", {}, {})) == []
        with pytest.raises(NotShown) as refused:
            read(url, "/nothing", {}, {})
        assert refused.value.status == 404
    with pytest.raises(NotShown) as gone:
        read(url, "/groups", {}, {}, patience=5)
    assert gone.value.status is None


async def test_a_broker_that_shows_nothing_has_no_address() -> None:
    with Broker() as broker:
        async with Admin(broker.client_settings()) as admin:
            assert await find_addresses(admin) == {}
