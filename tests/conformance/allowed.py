"""The differences from Apache Kafka that are meant, each with its reason.

docs/compatibility.md is checked against this list: every reason stands there word for word. An entry that no longer
matches any difference is reported, so that the list does not outlive what it excuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .compare import Difference
from .kio_codec import api_key


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


SECURITY = "Authentication, authorization and delegation tokens are not part of this release."
QUOTAS = "Quotas and SCRAM credentials are not part of this release."
REPLICAS = "There is one copy of each partition and no Raft quorum, so there is nothing to elect, move, join or leave."
STREAMS = "Kafka Streams groups (KIP-1071) are not served; Streams applications run with the classic protocol."
FEATURES = "Feature levels are fixed by the release."

# APIs that Apache Kafka answers and Penstock does not advertise: clients see that and do not call them.
NOT_ANSWERED: dict[str, str] = {
    "sasl_handshake": SECURITY,
    "sasl_authenticate": SECURITY,
    "describe_acls": SECURITY,
    "create_acls": SECURITY,
    "delete_acls": SECURITY,
    "create_delegation_token": SECURITY,
    "renew_delegation_token": SECURITY,
    "expire_delegation_token": SECURITY,
    "describe_delegation_token": SECURITY,
    "describe_client_quotas": QUOTAS,
    "alter_client_quotas": QUOTAS,
    "describe_user_scram_credentials": QUOTAS,
    "alter_user_scram_credentials": QUOTAS,
    "alter_replica_log_dirs": REPLICAS,
    "elect_leaders": REPLICAS,
    "alter_partition_reassignments": REPLICAS,
    "list_partition_reassignments": REPLICAS,
    "describe_quorum": REPLICAS,
    "unregister_broker": REPLICAS,
    "add_raft_voter": REPLICAS,
    "remove_raft_voter": REPLICAS,
    "update_features": FEATURES,
    "streams_group_heartbeat": STREAMS,
    "streams_group_describe": STREAMS,
}

ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "While partitions move, the heartbeat interval that a consumer or share group's members are told is short, so "
        "that the group settles at once; it grows back to the configured one when the group is stable.",
        path=r"^response\.heartbeat_interval$",
        kafka="^5000$",
    ),
    *(
        Allowed(reason, path=rf"^response\.api_keys\[{api_key(api)}\]$", penstock="^<absent>$")
        for api, reason in NOT_ANSWERED.items()
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
