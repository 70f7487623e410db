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
    from penstock.testing.callable_broker import CallableBroker


# Arguments of the marker that are not broker configs.
_SECURITY = ("tls", "sasl", "users", "acls", "super_users")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "penstock(**configs): Kafka broker configs for penstock_broker, underscores for dots; "
        "and tls, sasl, users, acls, super_users",
    )


@pytest.fixture
def penstock_broker(request: pytest.FixtureRequest) -> Iterator[CallableBroker]:
    """A fresh broker for one test. `@pytest.mark.penstock(num_partitions=3)` sets its configs.

    Called, it gives another one: `penstock_broker(sasl="SCRAM-SHA-512", tls=True, users={"alice": "secret"})`.
    """
    from penstock.testing.callable_broker import CallableBroker

    marker = request.node.get_closest_marker("penstock")
    given = dict(marker.kwargs) if marker else {}
    security = {name: given.pop(name) for name in _SECURITY if name in given}
    configs = {name.replace("_", "."): value for name, value in given.items()}
    with CallableBroker(configs, **security) as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_session_broker() -> Iterator[Broker]:
    """One broker for all tests of a run: fast, but topics and groups of other tests are there."""
    from penstock.testing.broker import Broker

    with Broker() as broker:
        yield broker
