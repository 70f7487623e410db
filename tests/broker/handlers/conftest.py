"""A broker for the tests of a module, a connection to it, and names that nobody else uses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from penstock.testing import Broker
from tests.transactions.wire_client import Wire

_numbers = count()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with Broker() as broker:
        yield broker.port


@pytest.fixture
def wire(port: int) -> Iterator[Wire]:
    wire = Wire(port)
    yield wire
    wire.close()


@pytest.fixture
def topic(wire: Wire) -> str:
    name = f"topic-{next(_numbers)}"
    wire.create_topic(name, 2)
    return name


@pytest.fixture
def name() -> str:
    return f"id-{next(_numbers)}"
