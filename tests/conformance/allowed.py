"""The differences from Apache Kafka that are meant, each with its reason.

docs/compatibility.md is checked against this list: every reason stands there word for word. An entry that no longer
matches any difference is reported, so that the list does not outlive what it excuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .compare import Difference


@dataclass(frozen=True, slots=True)
class Allowed:
    """Differences whose scenario, step, path and values match (as regular expressions) are meant."""

    reason: str
    path: str = ""
    step: str = ""
    scenario: str = ""
    kafka: str = ""
    penstock: str = ""

    def covers(self, scenario: str, difference: Difference) -> bool:
        return (
            re.search(self.scenario, scenario) is not None
            and re.search(self.step, difference.step) is not None
            and re.search(self.path, difference.path) is not None
            and re.search(self.kafka, str(difference.kafka)) is not None
            and re.search(self.penstock, str(difference.penstock)) is not None
        )


STREAMS = "Kafka Streams groups (KIP-1071) are not served; Streams applications run with the classic protocol."

ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "While partitions move, the heartbeat interval that a consumer or share group's members are told is short, so "
        "that the group settles at once; it grows back to the configured one when the group is stable.",
        path=r"^response\.heartbeat_interval$",
        kafka="^5000$",
    ),
    Allowed(
        "A feature update that changes nothing succeeds without a message.",
        scenario="update-features",
        path=r"results\[group\.version\]\.error_message$",
    ),
    Allowed(STREAMS, path=r"features\[streams\.version\]$", penstock="^<absent>$"),
    Allowed(
        "An error carries a sentence that says what is wrong where Kafka sends only the code.",
        path=r"error_message$",
        kafka="^None$",
        penstock="^<text>$",
    ),
    Allowed(
        "A fetch answers with whole batches only; Kafka may add the beginning of a batch that the reader has to drop.",
        path=r"records$",
        kafka="bytes of a cut batch",
    ),
    Allowed(
        "The records inside a compressed batch are not opened when they are appended, so a batch whose compressed part "
        "is broken is found by its reader, not refused to its writer.",
        scenario="produce-broken-batches",
        step="says gzip|garbage after|good again",
    ),
    Allowed(
        "A produce request without records is refused with INVALID_RECORD; Kafka 4.3.1 never answers it.",
        step="produce v.*no records",
    ),
    Allowed(
        "A topic that a Metadata request creates is there in the answer to that same request; Kafka tells the client "
        "to ask again.",
        step="metadata v.*first time",
    ),
    Allowed(
        "min.insync.replicas is a plain default; Kafka's eligible-leader-replicas feature writes it as a cluster-wide "
        "setting.",
        path=r"min\.insync\.replicas",
    ),
    Allowed(
        "min.insync.replicas is a plain default; Kafka's eligible-leader-replicas feature writes it as a cluster-wide "
        "setting.",
        step="cluster-wide default",
        kafka=r"min\.insync\.replicas",
    ),
    Allowed(
        "Requests that make Kafka fail inside (UNKNOWN_SERVER_ERROR) get the error that says what is wrong with them.",
        path=r"error_code|error_message",
        kafka="UNKNOWN_SERVER_ERROR|^None$",
        step="unknown operation|neither name nor id|describe_topic_partitions v0: unknown names|unknown isolation",
    ),
    Allowed(
        "Requests that make Kafka fail inside (UNKNOWN_SERVER_ERROR) get the error that says what is wrong with them.",
        step="neither name nor id",
        path=r"brokers|controller_id|topics\[0\]\.name",
    ),
    Allowed(
        "A share fetch is answered with the acquired records only: a producer's batch that is acquired in part is cut, "
        "where Kafka sends all of it.",
        scenario="^share/",
        path=r"records(\[\d+\]\.(batch_length|last_offset_delta|payload|records\[\d+\]|records_count))?$",
    ),
)


def unexplained(scenario: str, found: Iterable[Difference], used: set[Allowed] | None = None) -> list[Difference]:
    """The differences that no entry covers; the entries that cover the others are added to `used`."""
    left = []
    for difference in found:
        covering = [entry for entry in ALLOWED if entry.covers(scenario, difference)]
        if used is not None:
            used.update(covering)
        if not covering:
            left.append(difference)
    return left
