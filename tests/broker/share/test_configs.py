"""From configs to settings."""

from __future__ import annotations

import pytest

from penstock.broker.share.configs import duration_ms
from penstock.testing import Broker
from tests.broker.share.share_client import ShareMember, Wire, initialize, set_group_configs, topic_id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT10M", 600_000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt1.25s", 1_250),
        ("PT0S", 0),
    ],
)
def test_durations_are_iso_8601(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


def test_a_changed_config_counts_for_the_next_request() -> None:
    with Broker() as broker, Wire(broker) as wire:
        broker.create_topic("jobs")
        topic = topic_id(wire, "jobs")
        initialize(wire, "g", topic)
        member = ShareMember(wire, "g", "m", topic)
        assert member.fetch().acquisition_lock_timeout_ms == 30_000
        set_group_configs(wire, "g", share_record_lock_duration_ms=20_000)
        assert member.fetch().acquisition_lock_timeout_ms == 20_000
