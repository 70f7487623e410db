"""Writes the table of error codes in docs/reference/errors.md. Run it as `python -m tests.docs.errors_page`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import penstock
from penstock.wire import errors
from penstock.wire.errors import ErrorCode, KafkaError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
_HEADING = "## Error codes\n"
_TABLE = "| code | name | class | retried | what it means |\n|---|---|---|---|---|\n"

_SOURCES = Path(penstock.__file__).parent
_CLIENTS_AND_TABLES = ("wire", "client", "spark", "simulation", "testing", "console", "cli", "mirror")

MEANINGS = {
    ErrorCode.BROKER_ID_NOT_REGISTERED: "no broker has this node id",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "the user may not create delegation tokens",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "the connection does not allow requests about delegation tokens",
    ErrorCode.DUPLICATE_VOTER: "there is no quorum of controllers whose voters could change",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "the fetch session mixes topic names and ids; the client opens another",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the request is meant for another cluster",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "the principal is not a user",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "the request is meant for a controller; use the address of a broker",
    ErrorCode.REPLICA_NOT_AVAILABLE: "the broker has no replica of the partition; refresh the metadata",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "the request names an unknown type of endpoint",
    ErrorCode.VOTER_NOT_FOUND: "there is no quorum of controllers whose voters could change",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the user lacks a right on the cluster: `penstock acl explain`",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "delegation tokens are not supported; use SCRAM or OAUTHBEARER",
    ErrorCode.DUPLICATE_RESOURCE: "the request names something twice",
    ErrorCode.ELECTION_NOT_NEEDED: "the partition is led by its preferred leader already",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no broker that could lead the partition is running",
    ErrorCode.FENCED_LEADER_EPOCH: "the client's metadata is older than the partition's leader; refresh it",
    ErrorCode.FENCED_MEMBER_EPOCH: "the coordinator has removed this member; it rejoins by itself",
    ErrorCode.FENCED_STATE_EPOCH: "an administrator has reset the queue meanwhile",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "the fetch session was evicted; the client opens another",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the user lacks a right on the group: `penstock acl explain`",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read the topic; stop them first",
    ErrorCode.ILLEGAL_SASL_STATE: "the client sent another request in the middle of authentication",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "a fetch was lost or repeated; the client opens another session",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the transactional id has expired or belongs to another producer id; "
    "start the producer again",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "the subscription pattern is not one of RE2",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "the transaction timeout is above `transaction.max.timeout.ms`",
    ErrorCode.INVALID_UPDATE_VERSION: "the feature cannot have this level",
    ErrorCode.LOG_DIR_NOT_FOUND: "a broker has one data folder, and replicas cannot be moved to another",
    ErrorCode.NETWORK_EXCEPTION: "the connection failed: `BrokerUnreachable` or `Disconnected`",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "there is no reassignment to cancel",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer brokers run than `min.insync.replicas`, or the object store takes no commits",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "the same, after the records were written",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "another part of the request failed, so this one was not tried",
    ErrorCode.POLICY_VIOLATION: "the request is larger than the broker allows, or is not allowed on this topic",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the preferred leader is not running",
    ErrorCode.RESOURCE_NOT_FOUND: "the user or client-metrics subscription does not exist",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "the broker does not accept the user, the password or the token",
    ErrorCode.SECURITY_DISABLED: "the broker has no authorizer, so there are no ACLs",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "the broker has as many share sessions as `group.share.max.share.sessions`",
    ErrorCode.STALE_MEMBER_EPOCH: "the group has rebalanced since; the client repeats the commit",
    ErrorCode.TELEMETRY_TOO_LARGE: "the pushed metrics exceed `telemetry.max.bytes`",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "the user creates and deletes faster than `controller_mutation_rate` allows",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the user lacks a right on the topic: `penstock acl explain`",
    ErrorCode.TOPIC_DELETION_DISABLED: "`delete.topic.enable` is false",
    ErrorCode.TRANSACTION_ABORTABLE: "the transaction cannot be committed; abort it and start another",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "another broker coordinates the transaction now",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user lacks WRITE on the transactional id",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "no transaction has this id",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "the name is empty, or the number of iterations is out of range",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "the client's metadata is newer than the broker's; it tries again",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "the subscription to client metrics has changed; the client gets the new one",
    ErrorCode.UNRELEASED_INSTANCE_ID: "a running consumer has the same `group.instance.id`; stop it, or choose another",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "a transaction has offsets of the group open; the client tries again",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the broker has no assignor of this name; use `uniform` or `range`",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the client is too old for the codec of the records",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "the listener does not offer the SASL mechanism",
}


def page(text: str) -> str:
    """The page with the table of error codes at its end."""
    introduction = text[text.index(_HEADING) :].split("\n| ", 1)[0].rstrip()
    rows = [row(each) for each in sorted(sent(), key=lambda each: each.code)]
    return f"{text[: text.index(_HEADING)]}{introduction}\n\n{_TABLE}{''.join(rows)}"


def classes() -> list[type[KafkaError]]:
    """The class of each error code."""
    found = (each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, KafkaError))
    return [each for each in found if each is not KafkaError]


def sent() -> list[type[KafkaError]]:
    """The classes of the error codes that a broker of ours sends."""
    files = (path for path in _SOURCES.rglob("*.py") if path.relative_to(_SOURCES).parts[0] not in _CLIENTS_AND_TABLES)
    words = set(re.findall(r"\w+", " ".join(path.read_text("utf-8") for path in files)))
    return [each for each in classes() if {each.__name__, each.code.name} & words]


def row(error: type[KafkaError]) -> str:
    meaning = MEANINGS.get(error.code, error.what)
    assert meaning != error.code.name.lower().replace("_", " "), f"say what {error.code.name} means"
    retried = "yes" if error.retriable else ""
    return f"| {error.code.value} | {error.code.name} | `{error.__name__}` | {retried} | {meaning} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
