"""Penstock answers clients that push their metrics as Apache Kafka 4.3.1 with a receiver did: against the recordings.

No Java is needed. `make conformance` holds the same conversations with a live Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers import PenstockPeer
from tests.conformance.receiving import ReceivingPenstockPeer
from tests.conformance.scenarios import Scenario, Stage, all_scenarios
from tests.conformance.stage import PENSTOCK_SETTINGS
from tests.conformance.test_recorded import assert_answered_as_by_kafka

RECEIVING = sorted((s for s in all_scenarios().values() if s.stage is Stage.RECEIVING), key=lambda each: each.title)


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockPeer]:
    with ReceivingPenstockPeer(PENSTOCK_SETTINGS) as peer:
        yield peer


@pytest.mark.parametrize("scenario", RECEIVING, ids=lambda scenario: scenario.title)
def test_clients_that_push_are_answered_as_kafka_answers_them(broker: PenstockPeer, scenario: Scenario) -> None:
    assert_answered_as_by_kafka(broker, scenario)
