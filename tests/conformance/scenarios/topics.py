"""Creating, growing and deleting topics, and the wrong ways to do it."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"
NO_ID = "0" * 32


def new_topic(name: str, partitions: int = 1, factor: int = 1, **more: Json) -> dict[str, Json]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


def config(**pairs: str | None) -> list[dict[str, Json]]:
    return [{"name": name.replace("_", "."), "value": value} for name, value in pairs.items()]


@scenario("create_topics")
def create_topics(talk: Conversation) -> None:
    def create(note: str, *topics: dict[str, Json], validate_only: bool = False) -> None:
        talk.send(
            "create_topics", {"topics": list(topics), "timeout": 10_000, "validate_only": validate_only}, note=note
        )

    create("plain", new_topic(talk.name("plain"), 3))
    talk.wait_for_topic(talk.name("plain"), 3)
    create("exists", new_topic(talk.name("plain")))
    create("exists, validate only", new_topic(talk.name("plain")), validate_only=True)
    create("validate only", new_topic(talk.name("dry"), 2), validate_only=True)
    create("two at once, one wrong", new_topic(talk.name("x")), new_topic(talk.name("y"), 0))
    create("twice in one request", new_topic(talk.name("twin")), new_topic(talk.name("twin")))
    create("with configs", new_topic(talk.name("set"), configs=config(cleanup_policy="compact", retention_ms="1000")))
    create("collides with dots and underscores", new_topic(talk.name("a.b")))
    talk.wait_for_topic(talk.name("a.b"))
    create("collides with dots and underscores", new_topic(talk.name("a_b")))
    create("nothing")


@scenario("create_topics")
def create_topics_with_bad_arguments(talk: Conversation) -> None:
    talk.quietly("find_coordinator", {"key": "any", "key_type": 0}, 2)
    talk.wait_for_topic("__consumer_offsets")
    cases: list[tuple[str, dict[str, Json]]] = [
        ("empty name", new_topic("")),
        ("dot", new_topic(".")),
        ("two dots", new_topic("..")),
        ("slash", new_topic("a/b")),
        ("space", new_topic("a b")),
        ("non-ascii", new_topic("grün")),
        ("250 characters", new_topic("n" * 250)),
        ("no partitions", new_topic(talk.name("p0"), 0)),
        ("negative partitions", new_topic(talk.name("p-2"), -2)),
        ("no replicas", new_topic(talk.name("r0"), 1, 0)),
        ("negative replicas", new_topic(talk.name("r-2"), 1, -2)),
        ("more replicas than brokers", new_topic(talk.name("r2"), 1, 2)),
        ("unknown config", new_topic(talk.name("c1"), configs=config(no_such_thing="1"))),
        ("bad number", new_topic(talk.name("c2"), configs=config(retention_ms="soon"))),
        ("bad policy", new_topic(talk.name("c3"), configs=config(cleanup_policy="burn"))),
        ("null value", new_topic(talk.name("c4"), configs=config(retention_ms=None))),
        ("too small", new_topic(talk.name("c5"), configs=config(segment_bytes="1"))),
        ("min isr zero", new_topic(talk.name("c6"), configs=config(min_insync_replicas="0"))),
        ("bad timestamp type", new_topic(talk.name("c7"), configs=config(message_timestamp_type="Noon"))),
        ("bad compression", new_topic(talk.name("c8"), configs=config(compression_type="rar"))),
        ("bad boolean", new_topic(talk.name("c9"), configs=config(preallocate="maybe"))),
        ("bad ratio", new_topic(talk.name("c10"), configs=config(min_cleanable_dirty_ratio="1.5"))),
        ("the offsets topic", new_topic("__consumer_offsets", 1, 5)),
    ]
    for note, topic in cases:
        body = {"topics": [topic], "timeout": 10_000, "validate_only": True}
        talk.send("create_topics", body, note=note)


@scenario("create_topics")
def create_topics_with_assignments(talk: Conversation) -> None:
    def create(
        note: str, name: str, assignments: list[dict[str, Json]], partitions: int = -1, factor: int = -1
    ) -> None:
        topic = new_topic(talk.name(name), partitions, factor, assignments=assignments)
        talk.send("create_topics", {"topics": [topic], "timeout": 10_000}, note=note)

    def place(partition: int, *brokers: int) -> dict[str, Json]:
        return {"partition_index": partition, "broker_ids": list(brokers)}

    create("two partitions by hand", "good", [place(0, 1), place(1, 1)])
    create("unknown broker", "broker", [place(0, 99)])
    create("twice on one broker", "twice", [place(0, 1, 1)])
    create("hole in the partitions", "hole", [place(0, 1), place(2, 1)])
    create("no brokers", "none", [place(0)])
    create("a count as well", "count", [place(0, 1)], 1)
    create("a factor as well", "factor", [place(0, 1)], -1, 1)
    if talk.version >= 4:
        talk.send(
            "create_topics", {"topics": [new_topic(talk.name("default"), -1, -1)], "timeout": 10_000}, note="defaults"
        )


@scenario("delete_topics")
def delete_topics(talk: Conversation) -> None:
    topic_ids = {word: talk.create_topic(talk.name(word)) for word in ("a", "b", "c")}

    def delete(note: str, *names: str) -> None:
        if talk.version >= 6:
            body: dict[str, Json] = {"topics": [{"name": name, "topic_id": NO_ID} for name in names]}
        else:
            body = {"topic_names": list(names)}
        talk.send("delete_topics", {**body, "timeout": 10_000}, note=note)

    delete("one there and one not", talk.name("a"), talk.name("absent"))
    delete("again", talk.name("a"))
    delete("twice in one request", talk.name("b"), talk.name("b"))
    delete("empty name", "")
    delete("nothing")
    if talk.version >= 6:
        by_id = {"name": None, "topic_id": topic_ids["c"]}
        unknown = {"name": None, "topic_id": UNKNOWN_ID}
        talk.send("delete_topics", {"topics": [by_id, unknown], "timeout": 10_000}, note="by id")
        talk.send("delete_topics", {"topics": [by_id], "timeout": 10_000}, note="by id again")
        both = {"name": talk.name("b"), "topic_id": topic_ids["b"]}
        talk.send("delete_topics", {"topics": [both], "timeout": 10_000}, note="name and id")
        talk.send("delete_topics", {"topics": [{"name": None, "topic_id": NO_ID}], "timeout": 10_000}, note="neither")


@scenario("create_partitions")
def create_partitions(talk: Conversation) -> None:
    talk.create_topic(talk.name("t"), 2)

    def grow(note: str, count: int, name: str = "t", assignments: Json = None, validate_only: bool = False) -> None:
        topic = {"name": talk.name(name), "count": count, "assignments": assignments}
        talk.send(
            "create_partitions", {"topics": [topic], "timeout": 10_000, "validate_only": validate_only}, note=note
        )

    grow("validate only", 5, validate_only=True)
    grow("to four", 4)
    talk.wait_for_topic(talk.name("t"), 4)
    grow("same count", 4)
    grow("fewer", 3)
    grow("zero", 0)
    grow("negative", -1)
    grow("unknown topic", 3, "absent")
    grow("assignment", 5, assignments=[{"broker_ids": [1]}])
    talk.wait_for_topic(talk.name("t"), 5)
    grow("too many assignments", 6, assignments=[{"broker_ids": [1]}, {"broker_ids": [1]}])
    grow("unknown broker", 6, assignments=[{"broker_ids": [9]}])
    grow("two replicas", 6, assignments=[{"broker_ids": [1, 1]}])
    grow("empty assignments", 6, assignments=[])
    twin = {"name": talk.name("t"), "count": 7, "assignments": None}
    talk.send("create_partitions", {"topics": [twin, twin], "timeout": 10_000}, note="twice in one request")
    talk.send("create_partitions", {"topics": [], "timeout": 10_000}, note="nothing")
