"""What a broker measures as long as somebody may look."""

from __future__ import annotations

from pathlib import Path

from penstock.testing import Broker
from tests.broker.test_metrics import figures
from tests.broker.test_shared_catalog import pair


def test_nothing_is_measured_where_nobody_can_look() -> None:
    with Broker() as broker:
        parts = broker._running().parts
        assert parts.measuring is None
        assert parts.dispatcher.times is None


async def test_a_broker_alone_reads_no_lag_elsewhere_and_one_of_several_does(tmp_path: Path) -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        assert 'penstock_success_age_seconds{task="lag on other brokers"}' not in figures(broker)
    async with pair(tmp_path, {"penstock.metrics.listen": "127.0.0.1:0"}) as brokers:
        for each in brokers:
            assert 'penstock_success_age_seconds{task="lag on other brokers"}' in each.parts.metrics.text()
