"""Topics and configs as users who may see, create, change or delete some of them."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from ..rights import (
    ALTER_CONFIGS,
    CREATE,
    DESCRIBE_CONFIGS,
    GROUP,
    PREFIXED,
    TOPIC,
    grant,
    rights_by_name,
    rule,
    topics_by_right,
)
from . import secured_scenario

NO_ID = "0" * 32
UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"
EVERYBODY = ("alice", "nobody", "owner", "admin")
SEEN = ("none", "describe", "read", "write", "delete", "alter", "create", "describe-configs", "alter-configs", "all")
DENIED = ("no-describe", "no-read")
ABSENT = ("absent.none", "absent.describe", "absent.create")


@secured_scenario("metadata")
def secured_metadata(talk: Conversation) -> None:
    ids = topics_by_right(talk, *SEEN, *DENIED, absent=ABSENT)
    names = [{"name": talk.name(word), "topic_id": NO_ID} for word in (*SEEN, *DENIED, *ABSENT)]
    body: dict[str, Json] = {"topics": names, "allow_auto_topic_creation": False}
    if talk.version < 4:
        body["topics"] = names[: -len(ABSENT)]  # what is not there would be created
    operations = {"include_topic_authorized_operations": True}
    if 8 <= talk.version <= 10:
        operations["include_cluster_authorized_operations"] = True
    for user in EVERYBODY:
        talk.send("metadata", body, on=user, note="by name")
        if talk.version >= 8:
            talk.send("metadata", body | operations, on=user, note="with authorized operations")
        everything: dict[str, Json] = {"topics": None if talk.version >= 1 else [], "allow_auto_topic_creation": False}
        talk.send("metadata", everything, on=user, note="all topics", mine="topics")
    if 8 <= talk.version <= 10:
        for user in ("describer", "creator", "outcast"):
            talk.send("metadata", {"topics": []} | operations, on=user, note="the cluster")
    if talk.version >= 12:
        for user in EVERYBODY:
            topics = [{"name": None, "topic_id": topic_id} for topic_id in (*ids.values(), UNKNOWN_ID)]
            by_id = {"topics": topics, "include_topic_authorized_operations": True}
            talk.send("metadata", by_id, on=user, note="by id")


@secured_scenario("metadata", least=4)
def secured_metadata_creates(talk: Conversation) -> None:
    """A topic that is asked for is created for whoever may create it, or create topics in the cluster."""
    words = ("absent.none", "absent.describe", "absent.create", "absent.read", "absent.all")
    grant(talk, *rights_by_name(talk, TOPIC, words), rule("creator", 8, TOPIC, talk.name("absent.read")))
    for user in ("nobody", "alice"):
        topics = [{"name": talk.name(word), "topic_id": NO_ID} for word in words]
        talk.send("metadata", {"topics": topics, "allow_auto_topic_creation": True}, on=user, note="creates")
    talk.wait_for_topic(talk.name("absent.all"))
    for word in ("absent.read", "absent.none"):
        topics = [{"name": talk.name(word), "topic_id": NO_ID}]
        talk.send(
            "metadata", {"topics": topics, "allow_auto_topic_creation": True}, on="creator", note=f"creates {word}"
        )
    talk.send(
        "metadata",
        {"topics": [{"name": "bad name!", "topic_id": NO_ID}], "allow_auto_topic_creation": True},
        on="nobody",
        note="a bad name",
    )


@secured_scenario("describe_topic_partitions")
def secured_describe_topic_partitions(talk: Conversation) -> None:
    topics_by_right(talk, *SEEN, *DENIED, absent=ABSENT)
    names = [{"name": talk.name(word)} for word in (*SEEN, *DENIED, *ABSENT)]
    for user in EVERYBODY:
        talk.send(
            "describe_topic_partitions", {"topics": names, "response_partition_limit": 2000}, on=user, note="by name"
        )
    limited = {"topics": names, "response_partition_limit": 3}
    talk.send("describe_topic_partitions", limited, on="alice", note="three at most")


@secured_scenario("describe_cluster")
def secured_describe_cluster(talk: Conversation) -> None:
    for user in ("nobody", "alice", "describer", "alterer", "config-writer", "outcast", "owner", "admin"):
        for operations in (False, True):
            body = {"include_cluster_authorized_operations": operations, "endpoint_type": 1}
            note = "with authorized operations" if operations else "plain"
            talk.send("describe_cluster", body, on=user, note=note)
    if talk.version >= 2:
        talk.send(
            "describe_cluster", {"endpoint_type": 1, "include_fenced_brokers": True}, on="nobody", note="fenced ones"
        )


@secured_scenario("create_topics")
def secured_create_topics(talk: Conversation) -> None:
    topics_by_right(talk, "none", "create", "describe")
    words = ("new.none", "new.create", "new.describe", "new.read", "new.alter", "new.describe-configs", "new.all")
    grant(
        talk,
        *rights_by_name(talk, TOPIC, words),
        rule("bob", CREATE, TOPIC, talk.name("bobs-"), PREFIXED),
        rule("bob", DESCRIBE_CONFIGS, TOPIC, talk.name("bobs-seen"), PREFIXED),
    )

    def create(user: str, note: str, *names: str, dry: bool = False) -> None:
        topics = [{"name": talk.name(name), "num_partitions": 1, "replication_factor": 1} for name in names]
        talk.send("create_topics", {"topics": topics, "timeout": 10_000, "validate_only": dry}, on=user, note=note)

    there = ("none", "create", "describe")
    create("nobody", "some", *words, *there)
    create("nobody", "twice the same", "twin", "twin")
    create("alice", "tries", *words, *there, dry=True)
    create("alice", "some", *words, *there)
    create("bob", "by a prefix", "bobs-own", "bobs-seen", "another")
    create("creator", "in the cluster", "by-creator", "none", "new.all")
    create("outcast", "denied in the cluster", "by-outcast")
    create("config-reader", "may read configs of the cluster", "by-config-reader")
    create("admin", "the administrator", "by-admin", "none")
    bad = {"name": "bad name!", "num_partitions": 1, "replication_factor": 1}
    for user in ("nobody", "creator"):
        talk.send("create_topics", {"topics": [bad], "timeout": 10_000}, on=user, note="a bad name")
        talk.send("create_topics", {"topics": [], "timeout": 10_000}, on=user, note="nothing")
    metadata_topic = {"name": "__cluster_metadata", "num_partitions": 1, "replication_factor": 1}
    for user in ("nobody", "creator"):
        talk.send("create_topics", {"topics": [metadata_topic], "timeout": 10_000}, on=user, note="the metadata topic")


@secured_scenario("delete_topics")
def secured_delete_topics(talk: Conversation) -> None:
    words = ("none", "describe", "delete", "all", "no-delete", "no-describe")
    absent = ("absent.none", "absent.describe", "absent.delete")
    ids = topics_by_right(talk, *words, absent=absent)

    def delete(user: str, note: str, *names: str) -> None:
        if talk.version >= 6:
            body: dict[str, Json] = {"topics": [{"name": talk.name(name), "topic_id": NO_ID} for name in names]}
        else:
            body = {"topic_names": [talk.name(name) for name in names]}
        talk.send("delete_topics", {**body, "timeout": 10_000}, on=user, note=note)

    delete("nobody", "by name", *words, *absent)
    if talk.version >= 6:
        topics = [{"name": None, "topic_id": ids[word]} for word in ("none", "describe", "no-describe", "no-delete")]
        topics.append({"name": None, "topic_id": UNKNOWN_ID})
        for user in ("nobody", "alice"):
            talk.send("delete_topics", {"topics": topics, "timeout": 10_000}, on=user, note="by id")
        both = [{"name": talk.name("none"), "topic_id": ids["none"]}, {"name": None, "topic_id": NO_ID}]
        talk.send("delete_topics", {"topics": both, "timeout": 10_000}, on="nobody", note="both, and neither")
        twice = [{"name": talk.name("none"), "topic_id": NO_ID}, {"name": None, "topic_id": ids["none"]}]
        talk.send("delete_topics", {"topics": twice, "timeout": 10_000}, on="nobody", note="by name and by id")
    delete("nobody", "twice the same", "none", "none")
    delete("alice", "by name", *words, *absent)
    delete("alice", "again", *words, *absent)
    delete("admin", "by name", "none", "no-delete", "absent.none")


@secured_scenario("create_partitions")
def secured_create_partitions(talk: Conversation) -> None:
    words = ("none", "describe", "create", "alter", "all", "no-alter")
    absent = ("absent.none", "absent.describe", "absent.alter")
    topics_by_right(talk, *words, absent=absent)

    def grow(user: str, note: str, count: int, *names: str) -> None:
        topics = [{"name": talk.name(name), "count": count, "assignments": None} for name in names]
        talk.send(
            "create_partitions", {"topics": topics, "timeout": 10_000, "validate_only": False}, on=user, note=note
        )

    for user in ("nobody", "alice"):
        grow(user, "to two", 2, *words, *absent)
    grow("nobody", "twice the same", 3, "none", "none")
    grow("alterer", "may alter the cluster", 3, "none")
    grow("admin", "the administrator", 3, *words, *absent)


TOPIC_TYPE, BROKER, LOGGER, CLIENT_METRICS, GROUP_TYPE = 2, 4, 8, 16, 32
CONFIGS = (
    "none",
    "describe",
    "read",
    "describe-configs",
    "alter-configs",
    "all",
    "no-describe-configs",
    "no-alter-configs",
)
GROUPS = ("g.none", "g.describe", "g.describe-configs", "g.alter-configs", "g.all")
CONFIG_USERS = (
    "alice",
    "nobody",
    "config-reader",
    "config-writer",
    "describer",
    "alterer",
    "outcast",
    "owner",
    "admin",
)


def resources(talk: Conversation) -> list[tuple[int, str]]:
    topics = [(TOPIC_TYPE, talk.name(word)) for word in (*CONFIGS, "absent.none", "absent.alter-configs")]
    groups = [(GROUP_TYPE, talk.name(word)) for word in GROUPS]
    return [*topics, *groups, (BROKER, "1"), (BROKER, ""), (LOGGER, "1"), (CLIENT_METRICS, talk.name("metrics"))]


def stage_for_configs(talk: Conversation) -> None:
    topics_by_right(talk, *CONFIGS, absent=("absent.none", "absent.alter-configs"))
    grant(talk, *rights_by_name(talk, GROUP, GROUPS))


@secured_scenario("describe_configs")
def secured_describe_configs(talk: Conversation) -> None:
    stage_for_configs(talk)
    keys = {TOPIC_TYPE: ["retention.ms"], BROKER: ["num.partitions"], GROUP_TYPE: ["consumer.session.timeout.ms"]}
    keys |= {LOGGER: ["kafka"], CLIENT_METRICS: ["interval.ms"]}
    requested = [{"resource_type": k, "resource_name": n, "configuration_keys": keys[k]} for k, n in resources(talk)]
    without_loggers = [one for one in requested if one["resource_type"] != LOGGER]
    for user in CONFIG_USERS:
        talk.send("describe_configs", {"resources": without_loggers}, on=user, note="everything")
    for user in ("nobody", "config-writer"):
        odd = [{"resource_type": 77, "resource_name": "x", "configuration_keys": None}]
        talk.send("describe_configs", {"resources": odd}, on=user, note="an unknown type")
        empty: list[dict[str, Json]] = [
            {"resource_type": TOPIC_TYPE, "resource_name": name, "configuration_keys": []} for name in ("", "a/b")
        ]
        talk.send("describe_configs", {"resources": empty}, on=user, note="bad names")
        another: list[dict[str, Json]] = [
            {"resource_type": BROKER, "resource_name": name, "configuration_keys": []} for name in ("99", "one")
        ]
        talk.send("describe_configs", {"resources": another}, on=user, note="another broker")


def changed(kind: int) -> tuple[str, str]:
    return {
        TOPIC_TYPE: ("retention.ms", "60000"),
        BROKER: ("log.cleaner.backoff.ms", "15000"),
        GROUP_TYPE: ("consumer.session.timeout.ms", "50000"),
        LOGGER: ("kafka.none", "INFO"),
        CLIENT_METRICS: ("interval.ms", "60000"),
    }[kind]


@secured_scenario("incremental_alter_configs")
def secured_incremental_alter_configs(talk: Conversation) -> None:
    stage_for_configs(talk)
    requested = []
    for kind, name in resources(talk):
        key, value = changed(kind)
        one = {"name": key, "config_operation": 0, "value": value}
        if kind not in (LOGGER, CLIENT_METRICS):
            requested.append({"resource_type": kind, "resource_name": name, "configs": [one]})
    for user in CONFIG_USERS:
        body = {"resources": requested, "validate_only": True}
        talk.send("incremental_alter_configs", body, on=user, note="everything")
    for user in ("nobody", "config-writer"):
        wrong = [{"name": "retention.ms", "config_operation": 0, "value": "soon"}]
        topics = [{"resource_type": TOPIC_TYPE, "resource_name": talk.name("none"), "configs": wrong}]
        body = {"resources": topics, "validate_only": True}
        talk.send("incremental_alter_configs", body, on=user, note="a bad value")
        twice = [*topics, *topics]
        talk.send("incremental_alter_configs", {"resources": twice, "validate_only": True}, on=user, note="twice")
        odd = [{"resource_type": 77, "resource_name": "x", "configs": wrong}]
        talk.send("incremental_alter_configs", {"resources": odd, "validate_only": True}, on=user, note="unknown type")
    if talk.version == 1:
        talk.send("incremental_alter_configs", {"resources": requested[:6]}, on="alice", note="in earnest")
        grant(talk, rule("bob", ALTER_CONFIGS, TOPIC, talk.name("none")))
        talk.send("incremental_alter_configs", {"resources": requested[:1]}, on="bob", note="in earnest")


@secured_scenario("alter_configs")
def secured_alter_configs(talk: Conversation) -> None:
    stage_for_configs(talk)
    requested = []
    for kind, name in resources(talk):
        key, value = changed(kind)
        if kind in (TOPIC_TYPE, BROKER):
            requested.append({"resource_type": kind, "resource_name": name, "configs": [{"name": key, "value": value}]})
    for user in CONFIG_USERS:
        talk.send("alter_configs", {"resources": requested, "validate_only": True}, on=user, note="everything")
    odd = [{"resource_type": 77, "resource_name": "x", "configs": []}]
    talk.send("alter_configs", {"resources": odd, "validate_only": True}, on="nobody", note="unknown type")


@secured_scenario("list_config_resources")
def secured_list_config_resources(talk: Conversation) -> None:
    topics_by_right(talk, "none", "all")
    for user in CONFIG_USERS:
        if talk.version == 0:
            talk.send("list_config_resources", {}, on=user, note="client metrics", mine="config_resources")
            continue
        talk.send("list_config_resources", {"resource_types": []}, on=user, note="all", mine="config_resources")
        body = {"resource_types": [BROKER]}
        talk.send("list_config_resources", body, on=user, note="brokers")
        talk.send("list_config_resources", {"resource_types": [77]}, on=user, note="unknown type")
