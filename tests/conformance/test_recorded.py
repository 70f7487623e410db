"""Penstock answers as Apache Kafka 4.3.1 did: every conversation, every version, against the recordings.

No Java is needed. `make conformance` holds the same conversations with a live Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kio.schema.index import api_key_map

from bench.peers import PenstockPeer
from tests.conformance import document
from tests.conformance.allowed import Allowed, idle, judged
from tests.conformance.compare import differences
from tests.conformance.conversation import Conversation
from tests.conformance.meant import ALLOWED
from tests.conformance.meant_cluster import CLUSTER, allowed_here, in_a_cluster, place
from tests.conformance.scenarios import Scenario, Stage, all_scenarios
from tests.conformance.stage import PENSTOCK_SETTINGS, load, play_all

SCENARIOS = sorted(all_scenarios().values(), key=lambda scenario: scenario.title)
OPEN = [scenario for scenario in SCENARIOS if scenario.stage is Stage.OPEN]


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockPeer]:
    with PenstockPeer(PENSTOCK_SETTINGS) as peer:
        yield peer


@pytest.mark.parametrize("scenario", OPEN, ids=lambda scenario: scenario.title)
def test_every_version_is_answered_as_kafka_answers_it(broker: PenstockPeer, scenario: Scenario) -> None:
    assert_answered_as_by_kafka(broker, scenario)


def assert_answered_as_by_kafka(broker: PenstockPeer, scenario: Scenario) -> None:
    recording = load(scenario)
    assert set(recording) == {str(version) for version in scenario.versions}, "the recording is out of date"
    answers = play_all(scenario, broker.port, scenario.versions)
    found: list[str] = []
    used: set[Allowed] = set()
    allowed = allowed_here()
    for version, transcript in answers.items():
        left, covering = judged(scenario.title, differences(recording[version], transcript), allowed)
        found += [f"v{version}: {difference}" for difference in left]
        used |= covering
    assert not found, "\n".join(["differs from Apache Kafka:", *found])
    outlived = [str(entry) for entry in idle(scenario.title, used, allowed)]
    assert not outlived, "\n".join(["excuses nothing any more:", *outlived])


def test_every_api_and_version_that_is_advertised_occurs_in_a_conversation(broker: PenstockPeer) -> None:
    talk = Conversation(broker.port, "coverage", 0)
    advertised = talk.quietly("api_versions", {"client_software_name": "x", "client_software_version": "1"}, 4)
    talk.close()
    body = {
        step["request"].split(":")[0] for scenario in SCENARIOS for steps in load(scenario).values() for step in steps
    }
    expected = {
        f"{api_key_map[api['api_key']]} v{version}"
        for api in advertised["api_keys"]
        for version in range(api["min_version"], api["max_version"] + 1)
    }
    assert len(expected) > 200
    assert not expected - body


def test_a_difference_that_is_meant_belongs_to_a_conversation_and_is_there_once() -> None:
    for allowed in (ALLOWED, in_a_cluster()):
        assert {entry.scenario for entry in allowed} <= {scenario.title for scenario in SCENARIOS}
        places = [place(entry) for entry in allowed]
        assert len(set(places)) == len(places)


def test_what_a_cluster_answers_differently_says_so() -> None:
    alone = {place(entry): entry for entry in ALLOWED}
    assert not [entry for entry in CLUSTER if str(alone.get(place(entry))) == str(entry)]


def test_the_document_lists_every_difference_that_is_meant() -> None:
    text = document.DOCUMENT.read_text()
    assert document.revised(text) == text
    assert document.FIELDS.read_text() == document.page()
