"""A share consumer that exceeds its quota: it is told to wait, and holds nothing meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client import sync
from penstock.client.admin import ClientQuotaEntity
from penstock.testing import Broker
from tests.broker.share.share_client import ShareMember, Wire, acquired, initialize, produce, topic_id

CLIENT_ID = "test"
SIZE = 10_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t")
        yield running


def limit(broker: Broker, rate: float | None) -> None:
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        changes = {ClientQuotaEntity(client_id=CLIENT_ID): {"consumer_byte_rate": rate}}
        assert set(admin.alter_client_quotas(changes).values()) == {None}


def test_a_throttled_share_fetch_acquires_nothing(broker: Broker) -> None:
    with Wire(broker) as first_wire, Wire(broker) as second_wire, Wire(broker) as third_wire:
        topic = topic_id(first_wire, "t")
        assert initialize(first_wire, "g", topic, 1) == [0]
        produce(first_wire, "t", [b"x" * SIZE] * 3, 0, batch_size=1)
        limit(broker, 1)
        first, second, third = (
            ShareMember(wire, "g", f"m{number}", topic, 2)
            for number, wire in enumerate((first_wire, second_wire, third_wire))
        )
        got = first.fetch(max_records=1)
        assert acquired(got) == [(0, 0, 1)]  # nothing was fetched before, so even a batch beyond the quota passes
        throttled = second.fetch(max_records=1)
        assert throttled.throttle_time_ms > SIZE * 900
        assert acquired(throttled) == []
        limit(broker, None)
        assert acquired(third.fetch(max_records=10)) == [(1, 2, 1)]  # delivered for the first time
