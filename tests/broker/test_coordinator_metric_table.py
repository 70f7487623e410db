"""The metrics of coordinators are part of the table."""

from __future__ import annotations

from penstock.broker.coordinator_metric_table import COORDINATOR_SECTIONS
from penstock.broker.metric_table import SECTIONS


def test_every_coordinator_has_its_section_in_the_table() -> None:
    assert {"Groups", "Transactions", "Share groups"} <= COORDINATOR_SECTIONS.keys()
    for name, section in COORDINATOR_SECTIONS.items():
        assert SECTIONS[name] is section
