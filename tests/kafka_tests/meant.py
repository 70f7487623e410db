"""Tests that pass on Apache Kafka and are meant to fail here, each with its reason; any other failure is a bug.

A test that is listed and passes all the same is reported too, so the list cannot outlive what it excuses, unless it
passes by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .report import Verdict

WHOLE_BATCHES = "it demands that a share fetch acquires whole producer batches; Penstock hands out what was requested"
STREAMS = "it changes configs of Streams groups (KIP-1071), which Penstock does not have"
RACE = (
    "it stops the only broker and sends: if the Java client has gone back to its bootstrap servers before, it gives up "
    "after ten seconds, else after two minutes, which the test does not wait for"
)


@dataclass(frozen=True, slots=True)
class Meant:
    reason: str
    by_chance: bool = False
    """Whether it passes now and then, on Apache Kafka as here."""


EVERYWHERE = {
    "ShareConsumerTest#testPollInBatchOptimizedMode[1]": Meant(WHOLE_BATCHES),
    "ConfigCommandIntegrationTest#testAlterStreamsGroupNumOfStandbyReplicas[1]": Meant(STREAMS),
    "ConfigCommandIntegrationTest#testAlterStreamsGroupNumOfStandbyReplicas[2]": Meant(STREAMS),
    "ProducerFailureHandlingTest#testNotEnoughReplicasAfterBrokerShutdown[1]": Meant(RACE, by_chance=True),
}


@dataclass(frozen=True, slots=True)
class Judgement:
    bugs: list[Verdict]
    """Tests that fail and should not."""
    meant: list[tuple[Verdict, str]]
    """Tests that fail as they are meant to, each with the reason."""
    outlived: list[str]
    """Tests that pass although they are listed."""

    @property
    def is_good(self) -> bool:
        return not self.bugs and not self.outlived


def judge(found: Iterable[Verdict], meant: Mapping[str, Meant]) -> Judgement:
    judgement = Judgement([], [], [])
    for verdict in found:
        entry = meant.get(verdict.test)
        if not verdict.passed:
            if entry is None:
                judgement.bugs.append(verdict)
            else:
                judgement.meant.append((verdict, entry.reason))
        elif entry is not None and not entry.by_chance:
            judgement.outlived.append(verdict.test)
    return judgement
