"""Playing scenarios against a running broker, and keeping what Apache Kafka said.

The recordings under golden/ are Apache Kafka's own answers: one file per scenario, its transcripts by version. The
default tests compare Penstock with them and need no Java; `python -m tests.conformance` asks a real Kafka anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .conversation import ConnectionLostError, Conversation, ConversationError, Transcript
from .scenarios import Scenario
from .secured import PASSWORDS

AT_A_TIME = 4
GOLDEN = Path(__file__).parent / "golden"

# The same for both brokers: few partitions keep the internal topics cheap, nobody waits for stragglers, and members,
# locks and transactions may expire while somebody watches.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}

PENSTOCK_SETTINGS = {**SETTINGS, "node.id": "1"}

Recording = dict[str, Transcript]
"""Version as text, then the transcript."""


def play(scenario: Scenario, port: int, version: int) -> Transcript:
    talk = Conversation(port, scenario.name, version, passwords=PASSWORDS if scenario.secured else {})
    try:
        scenario.play(talk)
    finally:
        talk.close()
    return talk.transcript


def played(scenario: Scenario, port: int, version: int) -> Transcript:
    """As `play`; a conversation that breaks off is a transcript too, which says why."""
    try:
        return play(scenario, port, version)
    except (ConversationError, ConnectionLostError, OSError, ValueError, LookupError, TypeError) as error:
        return [{"request": "the whole scenario", "broke off": f"{type(error).__name__}: {error}"[:300]}]


def play_all(scenario: Scenario, port: int, versions: Iterable[int]) -> Recording:
    """Every version of a scenario, several at a time: most of a conversation is waiting."""
    with ThreadPoolExecutor(1 if scenario.alone else AT_A_TIME) as pool:
        futures = {str(version): pool.submit(played, scenario, port, version) for version in versions}
        return {version: future.result() for version, future in futures.items()}


def golden_file(scenario: Scenario) -> Path:
    return GOLDEN / scenario.family / f"{scenario.name}.json"


def save(scenario: Scenario, recording: Recording) -> None:
    """One step per line, so that a change in Kafka's answers reads as a small diff."""
    lines = []
    for version, transcript in recording.items():
        steps = ",\n".join("  " + json.dumps(step, separators=(",", ":"), sort_keys=True) for step in transcript)
        lines.append(f' "{version}": [\n{steps}\n ]')
    file = golden_file(scenario)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def load(scenario: Scenario) -> Recording:
    recording: Recording = json.loads(golden_file(scenario).read_text())
    return recording
