"""Reading back: fetches, sessions, offsets by time and epoch, deletion of records."""

from __future__ import annotations

from ..batches import TIMESTAMP_MS, batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"
EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -2, -1, -3, -4, -5, -6


class Reader:
    """Sends Fetch requests of the conversation's version, by topic name or by topic id as the version wants."""

    def __init__(self, talk: Conversation, partitions: int = 1) -> None:
        self.talk = talk
        self.topic = talk.name("t")
        self.topic_id = talk.create_topic(self.topic, partitions)

    def partition(self, offset: int, index: int = 0, max_bytes: int = 1 << 20, **more: Json) -> dict[str, Json]:
        return {"partition": index, "fetch_offset": offset, "partition_max_bytes": max_bytes, **more}

    def body(self, *partitions: dict[str, Json], **more: Json) -> dict[str, Json]:
        topics = (
            [{"topic": self.topic, "topic_id": self.topic_id, "partitions": list(partitions)}] if partitions else []
        )
        full = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, "topics": topics, **more}
        if self.talk.version < 15:
            full.setdefault("replica_id", -1)
        return full

    def fetch(self, note: str, *partitions: dict[str, Json], **more: Json) -> Json:
        return self.talk.send("fetch", self.body(*partitions, **more), note=note)


@scenario("fetch")
def fetch(talk: Conversation) -> None:
    reader = Reader(talk, 2)
    reader.fetch("an empty partition", reader.partition(0))
    talk.append(reader.topic, batch(*values("a", "b", "c")), batch((b"k", b"d")), batch(*values("e", "f")))
    talk.append(reader.topic, batch((b"p", b"1")), partition=1)
    reader.fetch("from the start", reader.partition(0))
    reader.fetch("inside the first batch", reader.partition(1))
    reader.fetch("the second batch", reader.partition(3))
    reader.fetch("at the end", reader.partition(6))
    reader.fetch("past the end", reader.partition(7))
    reader.fetch("before the start", reader.partition(-5))
    reader.fetch("both partitions", reader.partition(0), reader.partition(0, 1))
    reader.fetch("max bytes one", reader.partition(0), reader.partition(0, 1), max_bytes=1)
    reader.fetch("partition max bytes one", reader.partition(0, max_bytes=1), reader.partition(0, 1, max_bytes=1))
    reader.fetch("one batch and a bit", reader.partition(0, max_bytes=100))
    reader.fetch("max bytes zero", reader.partition(0), max_bytes=0)
    reader.fetch("read committed", reader.partition(0), isolation_level=1)
    reader.fetch("unknown isolation level", reader.partition(0), isolation_level=7)
    reader.fetch("unknown partition", reader.partition(0, 9))
    reader.fetch("negative wait", reader.partition(0), max_wait=-1)
    reader.fetch("waits for more than there is", reader.partition(0), max_wait=50, min_bytes=1_000_000)
    unknown = {"topic": talk.name("absent"), "topic_id": UNKNOWN_ID, "partitions": [reader.partition(0)]}
    talk.send("fetch", {**reader.body(), "topics": [unknown]}, note="unknown topic")
    reader.fetch("nothing")


@scenario("fetch", least=9)
def fetch_with_leader_epochs(talk: Conversation) -> None:
    reader = Reader(talk)
    talk.append(reader.topic, batch(*values("a", "b")))
    reader.fetch("current epoch", reader.partition(0, current_leader_epoch=0))
    reader.fetch("newer epoch", reader.partition(0, current_leader_epoch=1))
    reader.fetch("no epoch", reader.partition(0, current_leader_epoch=-1))
    if talk.version >= 12:
        reader.fetch("last fetched epoch", reader.partition(1, last_fetched_epoch=0))
        reader.fetch("last fetched epoch is unknown", reader.partition(1, last_fetched_epoch=5))


@scenario("fetch", least=7)
def fetch_sessions(talk: Conversation) -> None:
    reader = Reader(talk, 3)
    talk.append(reader.topic, batch(*values("a", "b")))
    everything = [reader.partition(0), reader.partition(0, 1), reader.partition(0, 2)]
    session = reader.fetch("opens a session", *everything, session_epoch=0)["session_id"]

    def go_on(note: str, epoch: int, *partitions: dict[str, Json], **more: Json) -> Json:
        return reader.fetch(note, *partitions, session_id=session, session_epoch=epoch, **more)

    go_on("nothing new but unread", 1)
    go_on("moves on", 2, reader.partition(2))
    go_on("no news", 3)
    talk.append(reader.topic, batch((b"k", b"new")), partition=1)
    go_on("news in one", 4)
    forgotten = {"topic": reader.topic, "topic_id": reader.topic_id, "partitions": [1]}
    go_on("forgets it", 5, forgotten_topics_data=[forgotten])
    go_on("wrong epoch", 9)
    go_on("the right one still works", 6)
    go_on("unknown partition joins", 7, reader.partition(0, 8))
    reader.fetch("unknown session", session_id=12345678, session_epoch=1)
    reader.fetch("closes the session", session_id=session, session_epoch=-1)
    go_on("is gone", 8)


@scenario("fetch", least=7)
def fetch_session_of_a_deleted_topic(talk: Conversation) -> None:
    reader = Reader(talk)
    session = reader.fetch("opens a session", reader.partition(0), session_epoch=0)["session_id"]
    topic = {"name": reader.topic, "topic_id": "0" * 32}
    talk.quietly("delete_topics", {"topics": [topic], "timeout": 10_000}, 6)
    gone = {"topics": [{"name": reader.topic, "topic_id": "0" * 32}], "allow_auto_topic_creation": False}
    talk.until(lambda a: a["topics"][0]["error_code"] == "UNKNOWN_TOPIC_OR_PARTITION", "metadata", gone, 12)
    reader.fetch("after the deletion", session_id=session, session_epoch=1)


@scenario("fetch", least=13)
def fetch_of_a_recreated_topic(talk: Conversation) -> None:
    reader = Reader(talk)
    topic = {"name": reader.topic, "topic_id": "0" * 32}
    talk.quietly("delete_topics", {"topics": [topic], "timeout": 10_000}, 6)
    gone = {"topics": [topic], "allow_auto_topic_creation": False}
    talk.until(lambda a: a["topics"][0]["error_code"] == "UNKNOWN_TOPIC_OR_PARTITION", "metadata", gone, 12)
    talk.create_topic(reader.topic)
    reader.fetch("with the old id", reader.partition(0))


@scenario("list_offsets")
def list_offsets(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic, 2)

    def ask(note: str, *timestamps: int, partition: int = 0, name: str = topic, **more: Json) -> None:
        parts = [
            {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
            for timestamp in timestamps
        ]
        talk.send(
            "list_offsets", {"replica_id": -1, "topics": [{"name": name, "partitions": parts}], **more}, note=note
        )

    special = [EARLIEST, LATEST]
    special += [MAX_TIMESTAMP] if talk.version >= 7 else []
    special += [EARLIEST_LOCAL] if talk.version >= 8 else []
    special += [LATEST_TIERED] if talk.version >= 9 else []
    special += [EARLIEST_PENDING] if talk.version >= 11 else []
    for timestamp in special:
        ask(f"empty log, {timestamp}", timestamp)
    talk.append(topic, batch(*values("a", "b", "c")), batch((b"k", b"d"), timestamp_ms=TIMESTAMP_MS + 1000))
    for timestamp in special:
        ask(f"four records, {timestamp}", timestamp)
    for delta in (-1000, 0, 1, 2, 3, 1000, 1001):
        ask(f"by time {delta:+}", TIMESTAMP_MS + delta)
    ask("time zero", 0)
    ask("unknown special", -10)
    ask("special of a later version", EARLIEST_PENDING)
    ask("unknown partition", LATEST, partition=9)
    ask("unknown topic", LATEST, name=talk.name("absent"))
    ask("twice the same partition", EARLIEST, LATEST)
    ask("as a follower", LATEST, replica_id=5)
    ask("as a debugger", LATEST, replica_id=-2)
    if talk.version >= 2:
        ask("read committed", LATEST, isolation_level=1)
    if talk.version >= 4:
        for epoch in (0, 1):
            parts = [{"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": epoch}]
            talk.send(
                "list_offsets",
                {"replica_id": -1, "topics": [{"name": topic, "partitions": parts}]},
                note=f"epoch {epoch}",
            )


@scenario("offset_for_leader_epoch")
def offset_for_leader_epoch(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic)

    def ask(note: str, epoch: int, current: int = -1, partition: int = 0, name: str = topic) -> None:
        part = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        body = {"topics": [{"topic": name, "partitions": [part]}]}
        talk.send("offset_for_leader_epoch", body | ({"replica_id": -1} if talk.version >= 3 else {}), note=note)

    ask("empty log", 0)
    talk.append(topic, batch(*values("a", "b", "c")))
    ask("the epoch of the log", 0)
    ask("a later epoch", 3)
    ask("a negative epoch", -1)
    ask("current epoch", 0, 0)
    ask("current epoch too new", 0, 4)
    ask("unknown partition", 0, partition=6)
    ask("unknown topic", 0, name=talk.name("absent"))


@scenario("delete_records")
def delete_records(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic, 2)
    talk.append(topic, batch(*values("a", "b", "c")), batch(*values("d", "e")))

    def delete(note: str, offset: int, partition: int = 0, name: str = topic) -> None:
        part = {"partition_index": partition, "offset": offset}
        talk.send("delete_records", {"topics": [{"name": name, "partitions": [part]}], "timeout": 10_000}, note=note)

    delete("inside the first batch", 2)
    delete("what is gone already", 1)
    delete("past the end", 6)
    delete("below minus one", -2)
    delete("unknown partition", 0, 9)
    delete("unknown topic", 0, name=talk.name("absent"))
    delete("empty partition", 0, 1)
    body = {
        "replica_id": -1,
        "topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": EARLIEST}]}],
    }
    talk.send("list_offsets", body, version=1, note="start offset afterwards")
    part = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1000}
    body = {"max_wait": 0, "max_bytes": 1000, "replica_id": -1, "topics": [{"topic": topic, "partitions": [part]}]}
    talk.send("fetch", body, version=5, note="below the start offset")
    part["fetch_offset"] = 2
    talk.send("fetch", body, version=5, note="at the start offset")
    delete("everything", -1)
    delete("an internal topic", 0, name="__cluster_metadata")


@scenario("describe_log_dirs")
def describe_log_dirs(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic, 2)
    talk.append(topic, batch(*values("a", "b", "c")))
    talk.send("describe_log_dirs", {"topics": [{"topic": topic, "partitions": [0, 1]}]}, note="two partitions")
    talk.send("describe_log_dirs", {"topics": [{"topic": topic, "partitions": [5]}]}, note="unknown partition")
    talk.send(
        "describe_log_dirs", {"topics": [{"topic": talk.name("absent"), "partitions": [0]}]}, note="unknown topic"
    )
    talk.send("describe_log_dirs", {"topics": []}, note="no topics")
