"""Producing, reading and asking for offsets as users who may do so to some topics, to none and to all."""

from __future__ import annotations

from collections.abc import Iterable

from ..batches import batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from ..rights import (
    ALL,
    ALLOW,
    DENY,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    grant,
    id_of,
    revoke,
    rule,
    topics_by_right,
)
from . import secured_scenario

EVERYBODY = ("alice", "nobody", "owner", "admin")
SOME = ("none", "describe", "read", "write", "all", "no-write", "no-read", "no-describe")
ABSENT = ("absent.none", "absent.describe", "absent.all")


def record(text: str = "v") -> bytes:
    return batch(*values(text))


def producing(talk: Conversation, ids: dict[str, str], words: Iterable[str], acks: int = 1) -> dict[str, Json]:
    topics = [
        {
            "name": talk.name(word),
            "topic_id": id_of(talk, ids, word),
            "partition_data": [{"index": 0, "records": record()}],
        }
        for word in words
    ]
    return {"acks": acks, "timeout": 10_000, "topic_data": topics}


@secured_scenario("produce")
def secured_produce(talk: Conversation) -> None:
    ids = topics_by_right(talk, *SOME, absent=ABSENT)
    words = (*SOME, *ABSENT)
    for user in EVERYBODY:
        talk.send("produce", producing(talk, ids, words), on=user, note="all topics")
    for word in ("none", "describe", "absent.none", "absent.describe"):
        talk.send("produce", producing(talk, ids, [word]), on="alice", note=word)
    unanswered = talk.post("produce", producing(talk, ids, ["none"], acks=0), on="bob")
    talk.no_answer(unanswered, "denied without acknowledgement")
    talk.send("produce", producing(talk, ids, ["none"]), on="bob", note="on the same connection afterwards")
    talk.send("produce", {**producing(talk, ids, []), "transactional_id": talk.name("x")}, on="alice", note="nothing")


class Reading:
    def __init__(self, talk: Conversation, ids: dict[str, str]) -> None:
        self.talk, self.ids = talk, ids

    def body(self, words: Iterable[str], **more: Json) -> dict[str, Json]:
        topics = [
            {
                "topic": self.talk.name(word),
                "topic_id": id_of(self.talk, self.ids, word),
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
            }
            for word in words
        ]
        body: dict[str, Json] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
        return {**body, "replica_id": -1, "topics": topics, **more}

    def fetch(self, user: str, note: str, words: Iterable[str], **more: Json) -> Json:
        return self.talk.send("fetch", self.body(words, **more), on=user, note=note)


@secured_scenario("fetch")
def secured_fetch(talk: Conversation) -> None:
    ids = topics_by_right(talk, *SOME, absent=ABSENT)
    for word in ("none", "read", "all"):
        talk.append(talk.name(word), record(word))
    reading = Reading(talk, ids)
    for user in EVERYBODY:
        reading.fetch(user, "all topics", (*SOME, *ABSENT))
    for word in ("none", "describe", "absent.none", "absent.describe"):
        reading.fetch("alice", word, [word])
    for user in ("alice", "nobody", "actor", "owner"):
        as_replica: dict[str, Json] = {"replica_id": 7, "replica_state": {"replica_id": 7, "replica_epoch": 1}}
        reading.fetch(user, "as if it were a replica", ("none", "read"), **as_replica)


@secured_scenario("fetch", least=7)
def secured_fetch_sessions(talk: Conversation) -> None:
    """A right that comes or goes within a session binds the next fetch."""
    ids = topics_by_right(talk, "none", "read", "describe")
    for word in ids:
        talk.append(talk.name(word), record(word))
    reading = Reading(talk, ids)
    opened = reading.fetch("alice", "opens a session", ids, session_epoch=0)
    if not (session := opened.get("session_id")):
        return
    reading.fetch("alice", "goes on", [], session_id=session, session_epoch=1)
    given, taken = rule("alice", READ, TOPIC, talk.name("none")), rule("alice", READ, TOPIC, talk.name("read"))
    grant(talk, given)
    reading.fetch("alice", "after a right was given", [], session_id=session, session_epoch=2)
    revoke(talk, taken)
    talk.append(talk.name("read"), record("unseen"))
    reading.fetch("alice", "after a right was taken away", [], session_id=session, session_epoch=3)
    reading.fetch("bob", "in the session of another", [], session_id=session, session_epoch=4)


@secured_scenario("list_offsets")
def secured_list_offsets(talk: Conversation) -> None:
    topics_by_right(talk, *SOME, absent=ABSENT)
    parts = [{"partition_index": index, "timestamp": -1} for index in (0, 9)]
    topics = [{"name": talk.name(word), "partitions": parts} for word in (*SOME, *ABSENT)]
    for user in EVERYBODY:
        talk.send("list_offsets", {"replica_id": -1, "topics": topics}, on=user, note="all topics")
    twice = [{"name": talk.name("none"), "partitions": [parts[0], parts[0]]}]
    talk.send("list_offsets", {"replica_id": -1, "topics": twice}, on="alice", note="the same partition twice")
    for user in ("nobody", "actor"):
        talk.send("list_offsets", {"replica_id": 7, "topics": topics[:3]}, on=user, note="as if it were a replica")


@secured_scenario("offset_for_leader_epoch")
def secured_offset_for_leader_epoch(talk: Conversation) -> None:
    topics_by_right(talk, *SOME, absent=ABSENT)
    parts = [{"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in (0, 9)]
    topics = [{"topic": talk.name(word), "partitions": parts} for word in (*SOME, *ABSENT)]
    for user in (*EVERYBODY, "actor"):
        talk.send("offset_for_leader_epoch", {"replica_id": -1, "topics": topics}, on=user, note="all topics")


@secured_scenario("delete_records")
def secured_delete_records(talk: Conversation) -> None:
    words = ("none", "describe", "delete", "all", "no-delete")
    topics_by_right(talk, *words, absent=(*ABSENT, "absent.delete"))
    for word in words:
        talk.append(talk.name(word), record())
    parts = [{"partition_index": index, "offset": 1} for index in (0, 9)]
    topics = [{"name": talk.name(word), "partitions": parts} for word in (*words, *ABSENT, "absent.delete")]
    for user in EVERYBODY:
        talk.send("delete_records", {"topics": topics, "timeout": 10_000}, on=user, note="all topics")


@secured_scenario("describe_producers")
def secured_describe_producers(talk: Conversation) -> None:
    topics_by_right(talk, *SOME, absent=(*ABSENT, "absent.read"))
    topics = [{"name": talk.name(word), "partition_indexes": [0, 9]} for word in (*SOME, *ABSENT, "absent.read")]
    for user in EVERYBODY:
        talk.send("describe_producers", {"topics": topics}, on=user, note="all topics")


@secured_scenario("produce", only=(9, 13))
def secured_rules(talk: Conversation) -> None:
    """Which rules allow: by prefix, by wildcard, by host, for everybody, and that a denial wins."""
    words = (
        *("prefix-a", "prefix-b", "prefix-denied", "other-prefix", "here", "elsewhere", "not-here", "not-elsewhere"),
        *(
            "everybody",
            "everybody-denied",
            "everything",
            "another-kind",
            "all-denied",
            "write-denied",
            "READ",
            "read-only",
        ),
    )
    ids = _plain_topics(talk, words)
    name = talk.name

    def write(
        word: str, pattern: int = LITERAL, *, to: str = "alice", permission: int = ALLOW, host: str = "*"
    ) -> Json:
        return rule(to, WRITE, TOPIC, name(word), pattern, permission=permission, host=host)

    everybodys = write("everybody", to="*")
    grant(
        talk,
        write("prefix-", PREFIXED),
        write("prefix-denied", permission=DENY),
        write("here", host="127.0.0.1"),
        write("elsewhere", host="10.1.2.3"),
        write("not-here"),
        write("not-here", permission=DENY, host="127.0.0.1"),
        write("not-elsewhere"),
        write("not-elsewhere", permission=DENY, host="10.1.2.3"),
        everybodys,
        write("everybody-denied"),
        write("everybody-denied", to="*", permission=DENY),
        rule("alice", ALL, TOPIC, name("everything")),
        rule("alice", ALL, 3, name("another-kind")),
        rule("alice", WRITE, TOPIC, name("all-denied")),
        rule("alice", ALL, TOPIC, name("all-denied"), permission=DENY),
        rule("alice", ALL, TOPIC, name("write-denied")),
        rule("alice", WRITE, TOPIC, name("write-"), PREFIXED, permission=DENY),
        write("read"),
        rule("alice", READ, TOPIC, name("read-only")),
    )
    requested = [{"name": name(word)} for word in words]
    for user in ("alice", "bob", "owner", "outcast", "admin"):
        talk.send("produce", producing(talk, ids, words), on=user, note="all topics")
        body = {"topics": requested, "allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
        talk.send("metadata", body, version=12, on=user, note="what may be done to them")
    revoke(talk, everybodys)  # who may write to any topic may write idempotently


def _plain_topics(talk: Conversation, words: Iterable[str]) -> dict[str, str]:
    return {word: talk.create_topic(talk.name(word)) for word in words}


@secured_scenario("produce", only=(9, 13), alone=True)
def secured_wildcard_rules(talk: Conversation) -> None:
    """Rules on every topic there is or will be."""
    ids = _plain_topics(talk, ("a", "b"))
    rules = {
        "everybody may write everything": rule("*", WRITE, TOPIC, "*"),
        "but not alice": rule("alice", WRITE, TOPIC, "*", permission=DENY),
        "nor anybody anything from here": rule("*", ALL, TOPIC, "*", permission=DENY, host="127.0.0.1"),
    }
    for note, one in rules.items():
        grant(talk, one)
        for user in ("alice", "bob", "owner", "admin"):
            talk.send("produce", producing(talk, ids, (*ids, "absent")), on=user, note=note)
    revoke(talk, *rules.values())
    grant(talk, rule("alice", WRITE, TOPIC, talk.name(""), PREFIXED))
    for user in ("alice", "bob"):
        talk.send("produce", producing(talk, ids, (*ids, "absent")), on=user, note="a prefix")
