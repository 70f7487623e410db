"""Topics, their configs and the cluster, asked about in odd ways: repeated, unnamed, out of range."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario
from .topics import NO_ID, UNKNOWN_ID, config, new_topic

LARGEST_16, LARGEST_32 = (1 << 15) - 1, (1 << 31) - 1
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@scenario("create_topics")
def create_odd_topics(talk: Conversation) -> None:
    def create(note: str, *topics: dict[str, Json], **more: Json) -> None:
        body = {"topics": list(topics), "timeout": 10_000, "validate_only": True, **more}
        talk.send("create_topics", body, note=note, hidden=("configs",))

    name = talk.name("t")
    create("ten thousand and one partitions", new_topic(name, 10_001))
    create("a hundred thousand partitions", new_topic(name, 100_000))
    create("the most partitions", new_topic(name, LARGEST_32))
    create("the fewest partitions", new_topic(name, -LARGEST_32 - 1))
    create("too many partitions together", new_topic(name, 6_000), new_topic(name + "2", 6_000))
    create("too many partitions and a wrong name", new_topic(name, 10_001), new_topic("a/b"))
    create("too many partitions, to be made", new_topic(name, LARGEST_32), validate_only=False)
    create("too many partitions and one twice", new_topic(name, 10_001), new_topic(name + "2"), new_topic(name + "2"))
    create("too many partitions by repetition", new_topic(name, 6_000), new_topic(name, 6_000), new_topic(name + "2"))
    create("too many partitions and an existing one", new_topic(name, 10_001), new_topic("__consumer_offsets"))
    create("the most replicas", new_topic(name, 1, LARGEST_16))
    create("the fewest replicas", new_topic(name, 1, -LARGEST_16 - 1))
    create("neither partitions nor replicas", new_topic(name, 0, 0))
    create("too many partitions and replicas", new_topic(name, LARGEST_32, 3))
    create("an empty config name", new_topic(name, configs=[{"name": "", "value": "1"}]))
    create("an empty config value", new_topic(name, configs=config(retention_ms="")))
    create(
        "a config twice",
        new_topic(name + "c", configs=[{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]),
        validate_only=False,
    )
    create("a negative config", new_topic(name, configs=config(retention_ms="-7")))
    create("a config too large", new_topic(name, configs=config(segment_bytes="99999999999")))
    create("a config of another kind", new_topic(name, configs=config(log_retention_ms="5")))
    create("spaces around a number", new_topic(name + "s", configs=config(retention_ms=" 5 ")))
    create("an empty policy", new_topic(name + "p", configs=config(cleanup_policy="")))
    create("a policy twice", new_topic(name + "q", configs=config(cleanup_policy="delete,delete")))
    create("three of one name", new_topic(name), new_topic(name), new_topic(name))
    create("two without a name", new_topic(""), new_topic(""))
    create("one twice and one once", new_topic(name), new_topic(name), new_topic(talk.name("other")))
    create("249 characters", new_topic("n" * 249))
    create("a null character", new_topic("a\0b"))
    create("a percent sign", new_topic("a%b"))
    create("the metadata topic", new_topic("__cluster_metadata"))
    create(
        "assignments of a negative partition",
        new_topic(name, -1, -1, assignments=[{"partition_index": -1, "broker_ids": [1]}]),
    )
    create(
        "assignments of one partition twice",
        new_topic(
            name,
            -1,
            -1,
            assignments=[{"partition_index": 0, "broker_ids": [1]}, {"partition_index": 0, "broker_ids": [1]}],
        ),
    )
    create(
        "assignments to a negative broker",
        new_topic(name, -1, -1, assignments=[{"partition_index": 0, "broker_ids": [-1]}]),
    )
    create("no patience", new_topic(talk.name("hasty")), timeout=0)


@scenario("delete_topics")
def delete_odd_topics(talk: Conversation) -> None:
    topic_id = talk.create_topic(talk.name("t"))

    def delete(note: str, *topics: tuple[str | None, str], **more: Json) -> None:
        if talk.version >= 6:
            body: dict[str, Json] = {"topics": [{"name": name, "topic_id": identifier} for name, identifier in topics]}
        else:
            body = {"topic_names": [name for name, _ in topics]}
        talk.send("delete_topics", {**body, "timeout": 10_000, **more}, note=note)

    absent = talk.name("absent")
    delete("an empty name twice", ("", NO_ID), ("", NO_ID))
    delete("an unknown one twice", (absent, NO_ID), (absent, NO_ID))
    delete("an unknown one three times", (absent, NO_ID), (absent, NO_ID), (absent, NO_ID))
    delete("a wrong name", ("a/b", NO_ID))
    delete("a long name", ("n" * 300, NO_ID))
    delete("no patience", (absent, NO_ID), timeout=0)
    delete("negative patience", (absent, NO_ID), timeout=-1)
    if talk.version >= 6:
        name = talk.name("t")
        delete("neither name nor id, twice", (None, NO_ID), (None, NO_ID))
        delete("an empty name and an id", ("", topic_id))
        delete("a name and a wrong id", (name, UNKNOWN_ID))
        delete("an unknown id twice", (None, UNKNOWN_ID), (None, UNKNOWN_ID))
        delete("by name and by id", (name, NO_ID), (None, topic_id))
        delete("by id and by name and id", (None, topic_id), (name, topic_id))
        delete("by id twice", (None, topic_id), (None, topic_id))
        delete("neither, and an unknown one", (None, NO_ID), (absent, NO_ID))


@scenario("create_partitions")
def create_odd_partitions(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name, 2)

    def grow(note: str, *topics: Json, **more: Json) -> None:
        body = {"topics": list(topics), "timeout": 10_000, "validate_only": True, **more}
        talk.send("create_partitions", body, note=note)

    def to(count: int, topic: str = name, assignments: Json = None) -> Json:
        return {"name": topic, "count": count, "assignments": assignments}

    grow("ten thousand and two", to(10_002))
    grow("ten thousand and three", to(10_003))
    grow("the fewest", to(-LARGEST_32 - 1))
    grow("an empty name", to(3, ""))
    grow("a wrong name", to(3, "a/b"))
    grow("an empty name twice", to(3, ""), to(3, ""))
    grow("an unknown one twice", to(3, talk.name("absent")), to(4, talk.name("absent")))
    grow("no patience", to(3), timeout=0)
    grow("negative patience", to(3), timeout=-1)
    grow("nobody's assignment", to(3, assignments=[{"broker_ids": []}]))
    grow("a negative broker", to(3, assignments=[{"broker_ids": [-1]}]))
    grow("fewer, with an assignment", to(1, assignments=[{"broker_ids": [1]}]))
    grow("an assignment of nothing", to(2, assignments=[]))


def resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Json]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


@scenario("describe_configs")
def describe_odd_configs(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name)
    some = ["retention.ms"]

    def describe(note: str, *resources: Json, **more: Json) -> None:
        talk.send("describe_configs", {"resources": list(resources), **more}, note=note)

    describe("a topic twice", resource(TOPIC, name, some), resource(TOPIC, name, some))
    describe("a topic twice with different keys", resource(TOPIC, name, some), resource(TOPIC, name, ["segment.ms"]))
    describe("an unknown topic twice", resource(TOPIC, talk.name("absent")), resource(TOPIC, talk.name("absent")))
    describe("a key twice", resource(TOPIC, name, some * 2))
    describe("an empty key", resource(TOPIC, name, [""]))
    describe("a long name", resource(TOPIC, "n" * 300, some))
    describe("a broker's loggers", resource(LOGGER, "1", ["root"]))
    describe("another broker's loggers", resource(LOGGER, "9", ["root"]))
    describe("no broker's loggers", resource(LOGGER, "", ["root"]))
    describe("an unknown broker's loggers", resource(LOGGER, "x", ["root"]))
    describe("client metrics", resource(METRICS, talk.name("m")))
    describe("client metrics without a name", resource(METRICS, ""))
    describe("no kind", resource(0, name))
    describe("any kind", resource(1, name))
    describe("a negative kind", resource(-1, name))
    describe("a negative broker", resource(BROKER, "-1", ["node.id"]))
    describe("a broker with zeros", resource(BROKER, "01", ["node.id"]))
    describe("a broker and a wrong one", resource(BROKER, "1", ["node.id"]), resource(BROKER, "2", ["node.id"]))
    describe("a topic's key of a broker", resource(BROKER, "1", some))
    describe("a broker's key of a topic", resource(TOPIC, name, ["log.retention.ms"]))


def change(kind: int, name: str, *configs: tuple[str, int, str | None]) -> dict[str, Json]:
    entries = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in configs]
    return {"resource_type": kind, "resource_name": name, "configs": entries}


@scenario("incremental_alter_configs")
def alter_odd_configs_bit_by_bit(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name)

    def alter(note: str, *resources: Json) -> None:
        talk.send("incremental_alter_configs", {"resources": list(resources), "validate_only": True}, note=note)

    keep = ("retention.ms", 0, "1000")
    alter("three of one topic", change(TOPIC, name, keep), change(TOPIC, name, keep), change(TOPIC, name, keep))
    alter("an unknown topic twice", *[change(TOPIC, talk.name("absent"), keep)] * 2)
    alter("a topic twice, and another", *[change(TOPIC, name, keep)] * 2, change(TOPIC, talk.name("absent"), keep))
    alter("an empty key", change(TOPIC, name, ("", 0, "1")))
    alter("an empty value", change(TOPIC, name, ("retention.ms", 0, "")))
    alter("an empty list", change(TOPIC, name, ("cleanup.policy", 0, "")))
    alter("appends nothing", change(TOPIC, name, ("cleanup.policy", 2, "")))
    alter("appends null", change(TOPIC, name, ("cleanup.policy", 2, None)))
    alter("takes away null", change(TOPIC, name, ("cleanup.policy", 3, None)))
    alter("takes all away", change(TOPIC, name, ("cleanup.policy", 3, "delete")))
    alter("takes away what is not there", change(TOPIC, name, ("cleanup.policy", 3, "compact")))
    alter("deletes with a value", change(TOPIC, name, ("retention.ms", 1, "5")))
    alter("deletes an unknown key", change(TOPIC, name, ("no.such.key", 1, None)))
    alter("an empty topic name", change(TOPIC, "", keep))
    alter("no kind", change(0, name, keep))
    alter("any kind", change(1, name, keep))
    alter("a negative kind", change(-1, name, keep))
    alter("client metrics with an unknown key", change(METRICS, talk.name("m"), keep))
    alter("client metrics without a name", change(METRICS, "", ("interval.ms", 0, "1000")))
    alter("client metrics", change(METRICS, talk.name("m"), ("interval.ms", 0, "1000")))
    alter("a group with a topic's key", change(GROUP, talk.name("g"), keep))
    alter("a negative broker", change(BROKER, "-1", ("log.cleaner.backoff.ms", 0, "14000")))
    alter("a broker with an unknown key", change(BROKER, "1", ("no.such.key", 0, "14000")))
    alter("a broker with a topic's key", change(BROKER, "1", keep))
    alter("a logger", change(LOGGER, "1", ("root", 0, "INFO")))
    alter("a logger's unknown level", change(LOGGER, "1", ("root", 0, "LOUD")))
    alter("an unknown logger", change(LOGGER, "1", ("no.such.logger", 0, "INFO")))
    alter("another broker's logger", change(LOGGER, "9", ("root", 0, "INFO")))
    alter("appends to a logger", change(LOGGER, "1", ("root", 2, "INFO")))
    alter("deletes the root logger", change(LOGGER, "1", ("root", 1, None)))


@scenario("alter_configs")
def alter_odd_configs(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name)

    def alter(note: str, *resources: tuple[int, str, list[tuple[str, str | None]]]) -> None:
        entries = [
            {
                "resource_type": kind,
                "resource_name": of,
                "configs": [{"name": key, "value": value} for key, value in pairs],
            }
            for kind, of, pairs in resources
        ]
        talk.send("alter_configs", {"resources": entries, "validate_only": True}, note=note)

    keep: list[tuple[str, str | None]] = [("retention.ms", "1000")]
    alter("nothing")
    alter("a topic twice", (TOPIC, name, keep), (TOPIC, name, keep))
    alter("a key twice", (TOPIC, name, keep * 2))
    alter("an empty key", (TOPIC, name, [("", "1")]))
    alter("an empty value", (TOPIC, name, [("retention.ms", "")]))
    alter("an empty topic name", (TOPIC, "", keep))
    alter("a wrong topic name", (TOPIC, "a/b", keep))
    alter("no kind", (0, name, keep))
    alter("any kind", (1, name, keep))
    alter("a negative kind", (-1, name, keep))
    alter("a negative broker", (BROKER, "-1", [("log.cleaner.backoff.ms", "14000")]))
    alter("no number", (BROKER, "x", [("log.cleaner.backoff.ms", "14000")]))
    alter("a broker with an unknown key", (BROKER, "1", [("no.such.key", "14000")]))
    alter("a logger", (LOGGER, "1", [("root", "INFO")]))
    alter("a group", (GROUP, talk.name("g"), [("consumer.session.timeout.ms", "50000")]))
    alter("a group without a name", (GROUP, "", [("consumer.session.timeout.ms", "50000")]))
    alter("client metrics", (METRICS, talk.name("m"), [("interval.ms", "1000")]))


@scenario("list_config_resources", least=1)
def list_odd_config_resources(talk: Conversation) -> None:
    talk.create_topic(talk.name("t"))
    for note, kinds in (
        ("a kind twice", [TOPIC, TOPIC]),
        ("no kind", [0]),
        ("any kind", [1]),
        ("a negative kind", [-1]),
        ("a known and an unknown kind", [TOPIC, 77]),
    ):
        talk.send("list_config_resources", {"resource_types": kinds}, note=note, mine="config_resources")


@scenario("metadata", least=4)
def odd_metadata(talk: Conversation) -> None:
    name = talk.name("t")
    topic_id = talk.create_topic(name)

    def ask(note: str, *topics: tuple[str | None, str], **more: Json) -> None:
        found = [{"name": topic, "topic_id": identifier} for topic, identifier in topics]
        talk.send("metadata", {"topics": found, "allow_auto_topic_creation": False, **more}, note=note)

    ask("a topic twice", (name, NO_ID), (name, NO_ID))
    ask("a wrong name twice", ("a/b", NO_ID), ("a/b", NO_ID))
    ask("249 characters", ("n" * 249, NO_ID))
    ask("a null character", ("a\0b", NO_ID))
    ask("a wrong name to be made", ("a/b", NO_ID), allow_auto_topic_creation=True)
    ask("no name to be made", ("", NO_ID), allow_auto_topic_creation=True)
    if talk.version >= 12:
        ask("a name and its id", (name, topic_id))
        ask("a name and another id", (name, UNKNOWN_ID))
        ask("an unknown name and an id", (talk.name("absent"), topic_id))
        ask("an id twice", (None, topic_id), (None, topic_id))
        ask("an unknown id twice", (None, UNKNOWN_ID), (None, UNKNOWN_ID))
        ask("an id and its name", (None, topic_id), (name, NO_ID))
        ask("a known and an unknown id", (None, topic_id), (None, UNKNOWN_ID))
        ask("an unknown id and an unknown name", (None, UNKNOWN_ID), (talk.name("absent"), NO_ID))


@scenario("describe_topic_partitions")
def describe_odd_topic_partitions(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name, 3)

    def ask(note: str, *names: str, limit: int = 2000, cursor: Json = None) -> None:
        body = {"topics": [{"name": each} for each in names], "response_partition_limit": limit, "cursor": cursor}
        talk.send("describe_topic_partitions", body, note=note)

    ask("a topic twice", name, name)
    ask("an unknown topic twice", talk.name("absent"), talk.name("absent"))
    ask("a negative limit", name, limit=-1)
    ask("the largest limit", name, limit=LARGEST_32)
    ask("a long name", "n" * 300)
    ask("a cursor without a name", name, cursor={"topic_name": "", "partition_index": 0})
    ask("a cursor far past the end", name, cursor={"topic_name": name, "partition_index": LARGEST_32})
    ask("a cursor at the end", name, cursor={"topic_name": name, "partition_index": 3})
    ask("a cursor past all topics", name, cursor={"topic_name": talk.name("z"), "partition_index": 0})
    ask("a cursor and an unknown topic", name, talk.name("absent"), cursor={"topic_name": name, "partition_index": 1})


@scenario("find_coordinator")
def find_odd_coordinators(talk: Conversation) -> None:
    talk.wait_for_coordinator(talk.name("g"))
    talk.wait_for_coordinator(talk.name("g"), 1)

    def find(note: str, *keys: str, kind: int = 0) -> None:
        body: dict[str, Json] = {"coordinator_keys": list(keys)} if talk.version >= 4 else {"key": keys[0]}
        talk.send("find_coordinator", {**body, "key_type": kind} if talk.version >= 1 else body, note=note)

    name = talk.name("g")
    find("a group", name)
    find("no group", "")
    find("a long group", "g" * 1000)
    if talk.version >= 1:
        find("no transactional id", "", kind=1)
        for kind in (2, 3, 7, -1):
            find(f"kind {kind}", name, kind=kind)
    if talk.version >= 4:
        find("nobody")
        find("a group twice", name, name)
        find("kind 7, nobody", kind=7)
        find("two groups of kind 7", name, "", kind=7)
    if talk.version >= 6:
        for key in ("a:b", "a:b:c", ":AAAAAAAAAAAAAAAAAAAAAA:0", "g:AAAAAAAAAAAAAAAAAAAAAA:x", "g:not an id:0"):
            find(f"share-partition {key}", key, kind=2)
