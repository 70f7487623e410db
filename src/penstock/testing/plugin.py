"""The pytest plugin, registered by installing Penstock.

def test_orders_arrive(penstock_broker):
    producer = Producer({"bootstrap.servers": penstock_broker.bootstrap_servers})
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import Broker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "penstock(**configs): Kafka broker configs for penstock_broker, underscores for dots"
    )


@pytest.fixture
def penstock_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A fresh broker for one test. `@pytest.mark.penstock(num_partitions=3)` sets its configs."""
    from penstock.testing.broker import Broker

    marker = request.node.get_closest_marker("penstock")
    configs = {name.replace("_", "."): value for name, value in marker.kwargs.items()} if marker else {}
    with Broker(configs) as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_session_broker() -> Iterator[Broker]:
    """One broker for all tests of a run: fast, but topics and groups of other tests are there."""
    from penstock.testing.broker import Broker

    with Broker() as broker:
        yield broker
