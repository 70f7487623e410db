"""Penstock answers as Apache Kafka 4.3.1 did: every conversation, every version, against the recordings.

No Java is needed. `make conformance` holds the same conversations with a live Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers import PenstockPeer
from tests.conformance.allowed import ALLOWED, unexplained
from tests.conformance.compare import differences
from tests.conformance.scenarios import Scenario, all_scenarios
from tests.conformance.stage import GOLDEN, PENSTOCK_SETTINGS, load, play_all

SCENARIOS = sorted(all_scenarios().values(), key=lambda scenario: scenario.title)
DOCUMENT = GOLDEN.parents[2] / "docs" / "compatibility.md"


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockPeer]:
    with PenstockPeer(PENSTOCK_SETTINGS) as peer:
        yield peer


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.title)
def test_every_version_is_answered_as_kafka_answers_it(broker: PenstockPeer, scenario: Scenario) -> None:
    recording = load(scenario)
    assert set(recording) == {str(version) for version in scenario.versions}, "the recording is out of date"
    answers = play_all(scenario, broker.port, scenario.versions)
    found = [
        f"v{version}: {difference}"
        for version, transcript in answers.items()
        for difference in unexplained(scenario.title, differences(recording[version], transcript))
    ]
    assert not found, "\n".join(["differs from Apache Kafka:", *found])


def test_every_difference_that_is_meant_stands_in_the_document() -> None:
    text = " ".join(DOCUMENT.read_text().split())
    missing = [entry.reason for entry in ALLOWED if entry.reason not in text]
    assert not missing
