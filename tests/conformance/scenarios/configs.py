"""Reading and changing the configs of topics, brokers and groups."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

# Broker configs that say the same on every machine and that Penstock has a use for.
BROKER_KEYS = [
    "auto.create.topics.enable",
    "compression.type",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.min.session.timeout.ms",
    "log.cleaner.backoff.ms",
    "log.flush.interval.messages",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.ms",
    "log.segment.bytes",
    "message.max.bytes",
    "min.insync.replicas",
    "node.id",
    "num.partitions",
    "offsets.retention.minutes",
    "offsets.topic.num.partitions",
    "transaction.max.timeout.ms",
]


def resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Json]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


@scenario("describe_configs")
def describe_topic_configs(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic, 1, {"retention.ms": "12345", "cleanup.policy": "compact,delete"})
    everything = {"resources": [resource(TOPIC, topic)], "include_synonyms": True, "include_documentation": True}
    talk.send("describe_configs", everything, note="all of a topic, synonyms, documentation")
    some = resource(TOPIC, topic, ["retention.ms", "segment.bytes", "no.such.key"])
    talk.send("describe_configs", {"resources": [some]}, note="three keys, one unknown")
    talk.send("describe_configs", {"resources": [resource(TOPIC, topic, [])]}, note="empty list of keys")
    talk.send("describe_configs", {"resources": [resource(TOPIC, talk.name("absent"))]}, note="unknown topic")
    talk.send("describe_configs", {"resources": [resource(TOPIC, "a/b")]}, note="invalid topic name")
    talk.send("describe_configs", {"resources": [resource(TOPIC, "")]}, note="empty topic name")
    talk.send("describe_configs", {"resources": [resource(77, "x")]}, note="unknown resource type")
    talk.send("describe_configs", {"resources": []}, note="nothing")


@scenario("describe_configs")
def describe_broker_configs(talk: Conversation) -> None:
    talk.send(
        "describe_configs",
        {"resources": [resource(BROKER, "1", BROKER_KEYS)], "include_synonyms": True},
        note="some keys",
    )
    talk.send("describe_configs", {"resources": [resource(BROKER, "", BROKER_KEYS)]}, note="cluster-wide default")
    talk.send("describe_configs", {"resources": [resource(BROKER, "99", BROKER_KEYS)]}, note="another broker")
    talk.send("describe_configs", {"resources": [resource(BROKER, "one", BROKER_KEYS)]}, note="not a number")


@scenario("describe_configs")
def describe_group_configs(talk: Conversation) -> None:
    keys = ["consumer.heartbeat.interval.ms", "consumer.session.timeout.ms", "share.auto.offset.reset"]
    talk.send(
        "describe_configs",
        {"resources": [resource(GROUP, talk.name("g"), keys)], "include_synonyms": True},
        note="a group",
    )
    talk.send("describe_configs", {"resources": [resource(GROUP, "", keys)]}, note="no group name")


def change(kind: int, name: str, *configs: tuple[str, int, str | None]) -> dict[str, Json]:
    entries = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in configs]
    return {"resource_type": kind, "resource_name": name, "configs": entries}


@scenario("incremental_alter_configs")
def incremental_alter_configs(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic)

    def alter(note: str, *resources: dict[str, Json], validate_only: bool = False) -> None:
        talk.send(
            "incremental_alter_configs", {"resources": list(resources), "validate_only": validate_only}, note=note
        )

    def shown(*keys: str, expected: dict[str, str]) -> None:
        body = {"resources": [resource(TOPIC, topic, list(keys))]}
        talk.until(
            lambda answer: {c["name"]: c["value"] for c in answer["results"][0]["configs"]} == expected,
            "describe_configs",
            body,
            4,
        )
        talk.send("describe_configs", body, version=4, note="afterwards")

    alter("set", change(TOPIC, topic, ("retention.ms", SET, "60000"), ("cleanup.policy", SET, "compact")))
    shown("retention.ms", "cleanup.policy", expected={"retention.ms": "60000", "cleanup.policy": "compact"})
    alter("append", change(TOPIC, topic, ("cleanup.policy", APPEND, "delete")))
    shown("cleanup.policy", expected={"cleanup.policy": "compact,delete"})
    alter("append what is there", change(TOPIC, topic, ("cleanup.policy", APPEND, "delete")))
    alter("subtract", change(TOPIC, topic, ("cleanup.policy", SUBTRACT, "compact")))
    shown("cleanup.policy", expected={"cleanup.policy": "delete"})
    alter("delete", change(TOPIC, topic, ("retention.ms", DELETE, None)))
    shown("retention.ms", expected={"retention.ms": "604800000"})
    alter("delete what is not set", change(TOPIC, topic, ("retention.ms", DELETE, None)))
    alter("validate only", change(TOPIC, topic, ("retention.ms", SET, "5")), validate_only=True)
    alter("append to a number", change(TOPIC, topic, ("retention.ms", APPEND, "5")))
    alter("bad value", change(TOPIC, topic, ("retention.ms", SET, "soon")))
    alter("null value", change(TOPIC, topic, ("retention.ms", SET, None)))
    alter("unknown key", change(TOPIC, topic, ("no.such.key", SET, "1")))
    alter("unknown operation", change(TOPIC, topic, ("retention.ms", 9, "1")))
    alter("twice the same key", change(TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")))
    alter("unknown topic", change(TOPIC, talk.name("absent"), ("retention.ms", SET, "1")))
    alter("invalid topic name", change(TOPIC, "a/b", ("retention.ms", SET, "1")))
    alter("unknown type", change(77, "x", ("retention.ms", SET, "1")))
    alter(
        "twice the same resource",
        change(TOPIC, topic, ("retention.ms", SET, "1")),
        change(TOPIC, topic, ("retention.ms", SET, "2")),
    )
    alter("no changes", change(TOPIC, topic))
    alter("nothing")


@scenario("incremental_alter_configs", alone=True)
def incremental_alter_broker_configs(talk: Conversation) -> None:
    def alter(note: str, name: str, *configs: tuple[str, int, str | None]) -> None:
        talk.send("incremental_alter_configs", {"resources": [change(BROKER, name, *configs)]}, note=note)

    alter("dynamic", "1", ("log.cleaner.backoff.ms", SET, "14000"))
    alter("cluster-wide", "", ("log.cleaner.backoff.ms", SET, "13000"))
    alter("back", "1", ("log.cleaner.backoff.ms", DELETE, None))
    alter("back", "", ("log.cleaner.backoff.ms", DELETE, None))
    alter("read-only", "1", ("num.partitions", SET, "bad"))
    alter("read-only", "1", ("node.id", SET, "7"))
    alter("bad value", "1", ("message.max.bytes", SET, "many"))
    alter("another broker", "99", ("message.max.bytes", SET, "1000000"))
    alter("not a number", "one", ("message.max.bytes", SET, "1000000"))


@scenario("incremental_alter_configs")
def incremental_alter_group_configs(talk: Conversation) -> None:
    group = talk.name("g")

    def alter(note: str, name: str, *configs: tuple[str, int, str | None]) -> None:
        talk.send("incremental_alter_configs", {"resources": [change(GROUP, name, *configs)]}, note=note)

    alter("set", group, ("share.auto.offset.reset", SET, "earliest"), ("consumer.session.timeout.ms", SET, "50000"))
    keys = ["share.auto.offset.reset", "consumer.session.timeout.ms"]
    body = {"resources": [resource(GROUP, group, keys)]}
    talk.until(lambda a: a["results"][0]["configs"][0]["value"] in ("earliest", "50000"), "describe_configs", body, 4)
    talk.send("describe_configs", body, version=4, note="afterwards")
    alter("below the minimum", group, ("consumer.session.timeout.ms", SET, "1"))
    alter("above the maximum", group, ("share.record.lock.duration.ms", SET, "3600000"))
    alter("bad value", group, ("share.auto.offset.reset", SET, "sometime"))
    alter("unknown key", group, ("retention.ms", SET, "1"))
    alter("no group name", "", ("share.auto.offset.reset", SET, "earliest"))
    alter("delete", group, ("share.auto.offset.reset", DELETE, None), ("consumer.session.timeout.ms", DELETE, None))


@scenario("alter_configs")
def alter_configs(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic, 1, {"retention.ms": "1000"})

    def alter(
        note: str, name: str, *pairs: tuple[str, str | None], kind: int = TOPIC, validate_only: bool = False
    ) -> None:
        entry = {"resource_type": kind, "resource_name": name, "configs": [{"name": n, "value": v} for n, v in pairs]}
        talk.send("alter_configs", {"resources": [entry], "validate_only": validate_only}, note=note)

    alter("validate only", topic, ("segment.bytes", "2000000"), validate_only=True)
    alter("replaces all", topic, ("segment.bytes", "3000000"))
    body = {"resources": [resource(TOPIC, topic, ["retention.ms", "segment.bytes"])]}
    talk.until(lambda a: "3000000" in [c["value"] for c in a["results"][0]["configs"]], "describe_configs", body, 4)
    talk.send("describe_configs", body, version=4, note="afterwards")
    alter("bad value", topic, ("segment.bytes", "x"))
    alter("null value", topic, ("segment.bytes", None))
    alter("unknown key", topic, ("no.such.key", "1"))
    alter("unknown topic", talk.name("absent"), ("segment.bytes", "3000000"))
    alter("unknown type", "x", ("segment.bytes", "3000000"), kind=77)
    alter("no configs", topic)


@scenario("list_config_resources")
def list_config_resources(talk: Conversation) -> None:
    talk.create_topic(talk.name("t"))
    if talk.version == 0:
        talk.send("list_config_resources", {}, note="client metrics", mine="config_resources")
        return
    talk.send("list_config_resources", {"resource_types": []}, note="all", mine="config_resources")
    talk.send("list_config_resources", {"resource_types": [TOPIC]}, note="topics", mine="config_resources")
    talk.send("list_config_resources", {"resource_types": [BROKER]}, note="brokers")
    talk.send("list_config_resources", {"resource_types": [BROKER, LOGGER]}, note="brokers and loggers")
    talk.send("list_config_resources", {"resource_types": [77]}, note="unknown type")
