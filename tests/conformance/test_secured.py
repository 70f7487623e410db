"""Penstock answers its users as Apache Kafka 4.3.1 did, whatever they may do: against the recordings.

No Java is needed. `make conformance` holds the same conversations with a live Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers import PenstockPeer
from tests.conformance.scenarios import Scenario, all_scenarios
from tests.conformance.secured import SecuredPenstockPeer
from tests.conformance.stage import PENSTOCK_SETTINGS
from tests.conformance.test_recorded import assert_answered_as_by_kafka

SECURED = sorted((s for s in all_scenarios().values() if s.secured), key=lambda scenario: scenario.title)


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockPeer]:
    with SecuredPenstockPeer(PENSTOCK_SETTINGS) as peer:
        yield peer


@pytest.mark.parametrize("scenario", SECURED, ids=lambda scenario: scenario.title)
def test_every_user_is_answered_as_kafka_answers_them(broker: PenstockPeer, scenario: Scenario) -> None:
    assert_answered_as_by_kafka(broker, scenario)
