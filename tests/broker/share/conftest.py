from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from tests.broker.share.share_client import Wire


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.share.min.record.lock.duration.ms": 1000}) as it:
        it.create_topic("jobs", 2)
        yield it


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as it:
        yield it
