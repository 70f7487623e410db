"""Penstock answers its users as Apache Kafka 4.3.1 did, whatever they may do: against the recordings.

No Java is needed. `make conformance` holds the same conversations with a live Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kio.schema.index import api_key_map

from bench.peers import PenstockPeer
from penstock.broker.handlers.table import SERVED
from tests.conformance.scenarios import Scenario, all_scenarios
from tests.conformance.secured import SecuredPenstockPeer
from tests.conformance.stage import PENSTOCK_SETTINGS, load
from tests.conformance.test_recorded import assert_answered_as_by_kafka

SECURED = sorted((s for s in all_scenarios().values() if s.secured), key=lambda scenario: scenario.title)


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockPeer]:
    with SecuredPenstockPeer(PENSTOCK_SETTINGS) as peer:
        yield peer


@pytest.mark.parametrize("scenario", SECURED, ids=lambda scenario: scenario.title)
def test_every_user_is_answered_as_kafka_answers_them(broker: PenstockPeer, scenario: Scenario) -> None:
    assert_answered_as_by_kafka(broker, scenario)


def test_every_api_that_checks_rights_is_asked_by_users_who_lack_them() -> None:
    covered = set()
    for scenario in SECURED:
        for steps in load(scenario).values():
            for step in steps:
                request, _, user = step["request"].split(":")[0].partition(" as ")
                if user in ("alice", "bob", "nobody"):
                    covered.add(request.split()[0])
    checked = {api_key_map[key] for key, served in SERVED.items() if served.accesses}
    assert len(checked) > 60
    assert not checked - covered
