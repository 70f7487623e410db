"""What an unused broker shows of its coordinators, which it has not built."""

from __future__ import annotations

import pytest

from penstock.broker.metric_table import SECTIONS
from penstock.broker.metrics import Metric
from penstock.broker.parts import Parts
from penstock.testing import Broker

PARTS = {
    "groups": "Groups",
    "transactions": "Transactions",
    "share_groups": "Share groups",
    "cleaning": "Log cleaner",
    "telemetry": "Clients",
}
OF_DEMAND = ("_partition_", "kafka_server_sharepartitionmetrics_")
"""Single partitions, which are shown on request only."""


def shown(parts: Parts) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    """The samples of the metrics of coordinators."""
    names = {spec.name for section in PARTS.values() for spec in SECTIONS[section]}
    found: dict[str, list[tuple[tuple[str, ...], float]]] = {}
    for collector in parts.metrics._collectors:
        for metric in collector():
            if isinstance(metric, Metric) and metric.name in names:
                assert metric.name not in found, f"{metric.name} is shown twice"
                found[metric.name] = list(metric.samples)
    return {name: samples for name, samples in found.items() if not any(part in name for part in OF_DEMAND)}


def test_it_is_what_the_parts_show_when_they_have_just_been_built() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        parts = broker._running().parts
        before = broker._call(lambda: shown(parts))
        assert not any(parts.is_built(part) for part in PARTS)
        broker._call(parts.build_all)
        assert all(parts.is_built(part) for part in PARTS)
        assert broker._call(lambda: shown(parts)) == before


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_built_shows_itself(part: str) -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        parts = broker._running().parts
        before = broker._call(lambda: shown(parts)).keys()
        broker._call(lambda: parts.build(part))
        assert broker._call(lambda: shown(parts)).keys() == before
