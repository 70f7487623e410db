"""Which of Apache Kafka's tests belong to which group, and which of them pass on Apache Kafka itself.

A test is named as JUnit knows it: the class without its package, the method, the number of the invocation
(`ShareConsumerTest#testPollNoSubscribeFails[1]`). on-kafka.json lists those that pass on Apache Kafka through this
harness: tests that look inside the broker object pass nowhere and are not counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RECORD = Path(__file__).parent / "on-kafka.json"
NAMED = "named"
"""The group of a class that belongs to no other."""


def _server(*names: str) -> tuple[str, ...]:
    return tuple(f"kafka.server.{name}Test" for name in names)


def _clients(*names: str) -> tuple[str, ...]:
    return tuple(f"org.apache.kafka.clients.{name}Test" for name in names)


GROUPS = {
    "requests": _server(
        "ApiVersionsRequest",
        "JoinGroupRequest",
        "SyncGroupRequest",
        "HeartbeatRequest",
        "LeaveGroupRequest",
        "OffsetCommitRequest",
        "OffsetFetchRequest",
        "OffsetDeleteRequest",
        "ListGroupsRequest",
        "DescribeGroupsRequest",
        "DeleteGroupsRequest",
        "ConsumerGroupHeartbeatRequest",
        "ConsumerGroupDescribeRequest",
        "TxnOffsetCommitRequest",
        "WriteTxnMarkersRequest",
        "ShareGroupHeartbeatRequest",
        "ShareGroupDescribeRequest",
        "ShareFetchAcknowledgeRequest",
        "ConsumerProtocolMigration",
    ),
    "consumer": _clients(
        "consumer.PlaintextConsumer",
        "consumer.PlaintextConsumerPoll",
        "consumer.PlaintextConsumerCommit",
        "consumer.PlaintextConsumerCallback",
        "consumer.PlaintextConsumerSubscription",
        "consumer.PlaintextConsumerFetch",
        "consumer.PlaintextConsumerClose",
        "consumer.PlaintextConsumerAssign",
        "consumer.ConsumerTopicCreation",
        "consumer.ConsumerIntegration",
        "consumer.ConsumerBounce",
    ),
    "share": _clients("consumer.ShareConsumer"),
    "rest": _clients(
        "TransactionsExpiration",
        "TransactionsWithMaxInFlightOne",
        "MetricsDuringTopicCreationDeletion",
        "producer.ProducerIdExpiration",
        "producer.ProducerFailureHandling",
        "producer.ProducerCompression",
        "producer.ProducerSendWhileDeletion",
        "producer.ProducerIntegration",
        "admin.AutoTopicCreation",
        "admin.ClientTelemetry",
        "admin.ListOffsetsIntegration",
        "admin.DeleteTopic",
        "admin.DynamicGroupConfigIntegration",
        "admin.AdminFenceProducers",
        "admin.DescribeProducersWithBrokerId",
        "admin.StaticBrokerConfig",
        "admin.DescribeFeatures",
        "admin.ConcurrentListOffsetsRequest",
    ),
    "security": (
        *_server("SaslApiVersionsRequest"),
        *_clients("consumer.SaslPlainPlaintextConsumer", "admin.DescribeAuthorizedOperations"),
        "org.apache.kafka.server.quota.ClientQuotasRequestTest",
        "org.apache.kafka.tools.AclCommandTest",
        "org.apache.kafka.tools.UserScramCredentialsCommandTest",
        "org.apache.kafka.tools.ConfigCommandIntegrationTest",
    ),
}


@dataclass(frozen=True, slots=True)
class TestMethod:
    """A test method, which JUnit may invoke several times with different clusters."""

    __test__ = False  # for pytest, which takes the name for a class of tests

    class_name: str
    method: str
    unique_id: str

    @property
    def name(self) -> str:
        return f"{simple(self.class_name)}#{self.method}"


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run: classes, each with the methods that are wanted (None: all of them)."""

    classes: dict[str, frozenset[str] | None]

    def holds(self, test: TestMethod) -> bool:
        methods = self.classes.get(test.class_name, frozenset())
        return methods is None or test.method in methods

    def by_name(self, test: TestMethod) -> bool:
        return self.holds(test) and self.classes[test.class_name] is not None


class UnknownTestError(Exception):
    """Neither a group nor a class that the groups know."""


def choose(words: Iterable[str]) -> Choice:
    """The classes and methods that GROUP, CLASS and CLASS#METHOD stand for."""
    known = {simple(name): name for names in GROUPS.values() for name in names}
    chosen: dict[str, frozenset[str] | None] = {}
    for word in words:
        if word in GROUPS:
            chosen.update(dict.fromkeys(GROUPS[word]))
            continue
        class_name, _, method = word.partition("#")
        full = class_name if "." in class_name else known.get(class_name)
        if full is None:
            raise UnknownTestError(
                f"{word} is neither a group ({', '.join(GROUPS)}) nor a class of one; a class that belongs to no group "
                "is named with its package"
            )
        before = chosen.get(full, frozenset())
        chosen[full] = None if before is None or not method else before | {method}
    return Choice(chosen)


def simple(class_name: str) -> str:
    return class_name.rpartition(".")[2]


def method_of(test: str) -> str:
    """`Class#method` of `Class#method[2]`."""
    return test.partition("[")[0]


def group_of(test: str) -> str:
    class_name = test.partition("#")[0]
    return next((g for g, names in GROUPS.items() if any(simple(n) == class_name for n in names)), NAMED)


def passes_on_kafka() -> frozenset[str]:
    return frozenset(json.loads(RECORD.read_text()))


def record(run: Iterable[str], passed: Iterable[str]) -> None:
    """Replaces what on-kafka.json says about the methods that were run."""
    methods = {method_of(test) for test in run}
    kept = {test for test in passes_on_kafka() if method_of(test) not in methods}
    RECORD.write_text(json.dumps(sorted(kept | set(passed)), indent=0) + "\n")
