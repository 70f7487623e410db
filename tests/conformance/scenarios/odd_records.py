"""Records written and read in odd ways: topics without partitions, partitions twice, numbers out of range."""

from __future__ import annotations

from ..batches import batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario
from .fetch import Reader
from .produce import UNKNOWN_ID, Writer
from .topics import NO_ID

LARGEST_32, LARGEST_64 = (1 << 31) - 1, (1 << 63) - 1


@scenario("produce")
def produce_oddly(talk: Conversation) -> None:
    writer = Writer(talk, partitions=2)
    talk.wait_for_coordinator(talk.name("g"))
    good = batch((b"k", b"v"))

    def topic(*partitions: Json, name: str = writer.topic, identifier: str = writer.topic_id) -> Json:
        return {"name": name, "topic_id": identifier, "partition_data": list(partitions)}

    def part(index: int, records: bytes = good) -> Json:
        return {"index": index, "records": records}

    def produce(note: str, *topics: Json, **more: Json) -> None:
        talk.send("produce", {"acks": 1, "timeout": 1000, "topic_data": list(topics), **more}, note=note)

    produce("a topic without partitions", topic())
    produce("a topic without partitions and one with", topic(name="a/b", identifier=UNKNOWN_ID), topic(part(0)))
    produce("a topic twice", topic(part(0)), topic(part(1)))
    produce("the largest partition", topic(part(LARGEST_32)))
    produce("no name and no id", topic(part(0), name="", identifier=NO_ID))
    produce("a wrong name", topic(part(0), name="a/b", identifier=UNKNOWN_ID))
    produce("a long name", topic(part(0), name="n" * 300, identifier=UNKNOWN_ID))
    produce("known and unknown partitions", topic(part(0), part(9)))
    for acks in (-2, 2, 100, -32768):
        produce(f"acks {acks}", topic(part(0)), acks=acks)
        produce(f"acks {acks}, nothing", acks=acks)
        produce(f"acks {acks}, an unknown partition", topic(part(9)), acks=acks)
    produce("no patience", topic(part(0)), acks=-1, timeout=0)
    produce("negative patience", topic(part(0)), acks=-1, timeout=-1)
    produce("a transactional id without a transaction", topic(part(0)), transactional_id="x")
    produce("an empty transactional id", topic(part(0)), transactional_id="")
    produce("an empty transactional id, nothing", transactional_id="")
    produce("to an internal topic", topic(part(0), name="__consumer_offsets", identifier=UNKNOWN_ID))
    produce("to an internal topic, acks 7", topic(part(0), name="__consumer_offsets", identifier=UNKNOWN_ID), acks=7)
    produce("a partition twice", topic(part(0), part(0)))


@scenario("fetch")
def fetch_oddly(talk: Conversation) -> None:
    reader = Reader(talk, 2)
    talk.append(reader.topic, batch(*values("a", "b", "c")))

    def topic(*partitions: Json, name: str = reader.topic, identifier: str = reader.topic_id) -> Json:
        return {"topic": name, "topic_id": identifier, "partitions": list(partitions)}

    def fetch(note: str, *topics: Json, **more: Json) -> None:
        talk.send("fetch", reader.body(topics=list(topics), **more), note=note)

    first = reader.partition(0)
    fetch("unknown isolation level, nothing", isolation_level=7)
    fetch("negative isolation level", topic(first), isolation_level=-1)
    fetch("unknown isolation level, a topic without partitions", topic(), isolation_level=7)
    fetch("unknown isolation level, an unknown topic", topic(first, name="x", identifier=UNKNOWN_ID), isolation_level=7)
    fetch("a topic without partitions", topic())
    fetch("an unknown topic without partitions", topic(name="x", identifier=UNKNOWN_ID))
    fetch("a topic twice", topic(first), topic(reader.partition(0, 1)))
    fetch("a partition twice", topic(first, reader.partition(3)))
    fetch("no name and no id", topic(first, name="", identifier=NO_ID))
    fetch("a wrong name", topic(first, name="a/b", identifier=UNKNOWN_ID))
    fetch("a negative partition", topic(reader.partition(0, -1)))
    fetch("the largest partition", topic(reader.partition(0, LARGEST_32)))
    fetch("the largest offset", topic(reader.partition(LARGEST_64)))
    fetch("no offset", topic(reader.partition(-1)))
    fetch("the smallest offset", topic(reader.partition(-LARGEST_64 - 1)))
    fetch("negative size of a partition", topic(reader.partition(0, max_bytes=-1)))
    fetch("no size of a partition", topic(reader.partition(0, max_bytes=0)))
    fetch("negative size", topic(first), max_bytes=-1)
    fetch("negative least size", topic(reader.partition(3)), min_bytes=-1, max_wait=1000)
    fetch("no least size", topic(reader.partition(3)), min_bytes=0, max_wait=1000)
    fetch("the largest sizes", topic(reader.partition(0, max_bytes=LARGEST_32)), max_bytes=LARGEST_32)
    fetch("nothing, with patience", max_wait=100)
    fetch("one wrong among two", topic(first, reader.partition(0, 9)), max_wait=100, min_bytes=1 << 20)
    if talk.version < 15:
        fetch("as a debugger", topic(first), replica_id=-2)
        fetch("as nobody", topic(first), replica_id=-7)
        fetch("as a follower", topic(first), replica_id=1)
        fetch("as an unknown follower", topic(first), replica_id=77)
    if talk.version >= 9:
        fetch("an epoch below all", topic(reader.partition(0, current_leader_epoch=-5)))
        fetch("the largest epoch", topic(reader.partition(0, current_leader_epoch=LARGEST_32)))
    if talk.version >= 12:
        fetch("the largest last epoch", topic(reader.partition(3, last_fetched_epoch=LARGEST_32)))
        fetch("a last epoch below all", topic(reader.partition(3, last_fetched_epoch=-5)))


@scenario("fetch", least=7)
def fetch_in_odd_sessions(talk: Conversation) -> None:
    reader = Reader(talk, 2)
    talk.append(reader.topic, batch(*values("a", "b", "c")))
    first = reader.partition(0)

    def forget(*partitions: int) -> list[Json]:
        return [{"topic": reader.topic, "topic_id": reader.topic_id, "partitions": list(partitions)}]

    for session in (12_345, 1, -1):
        for epoch in (-2, -1, 0, 1, LARGEST_32):
            note = f"session {session}, epoch {epoch}"
            answer = reader.fetch(note, first, session_id=session, session_epoch=epoch)
            reader.fetch(f"{note}, nothing", session_id=session, session_epoch=epoch)
            if answer.get("session_id", 0) not in (0, session):
                talk.quietly("fetch", reader.body(session_id=answer["session_id"]), talk.version)
    reader.fetch("no session, the first epoch", first, session_id=0, session_epoch=1)
    reader.fetch("no session, an epoch below all", first, session_id=0, session_epoch=-2)
    reader.fetch("opens one of nothing", session_id=0, session_epoch=0)
    reader.fetch("forgets without a session", first, session_epoch=-1, forgotten_topics_data=forget(0))
    for epoch in (-1, 0, 1):
        reader.fetch(f"the largest session, epoch {epoch}", session_id=LARGEST_32, session_epoch=epoch)
    opened = reader.fetch("opens", first, session_epoch=0)["session_id"]
    reader.fetch("an epoch below all", session_id=opened, session_epoch=-2)
    reader.fetch("forgets what it asks for", first, session_id=opened, session_epoch=1, forgotten_topics_data=forget(0))
    reader.fetch("it is gone", session_id=opened, session_epoch=2)
    opened = reader.fetch("opens another", first, session_epoch=0)["session_id"]
    reader.fetch("forgets an unknown", session_id=opened, session_epoch=1, forgotten_topics_data=forget(1, 9))
    reader.fetch("forgets nothing", session_id=opened, session_epoch=2, forgotten_topics_data=forget())
    reader.fetch("adds one twice", first, reader.partition(3), session_id=opened, session_epoch=3)
    reader.fetch("goes on", session_id=opened, session_epoch=4)
    reader.fetch("an unknown isolation level", session_id=opened, session_epoch=5, isolation_level=7)
    reader.fetch("opens another in place of it", first, session_id=opened, session_epoch=0)
    reader.fetch("the old one is gone", session_id=opened, session_epoch=6)
    empty = reader.fetch("opens one of nothing", session_epoch=0)["session_id"]
    reader.fetch("goes on with nothing", session_id=empty, session_epoch=1)
    reader.fetch("goes on with nothing again", session_id=empty, session_epoch=2)


@scenario("list_offsets")
def list_odd_offsets(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name, 2)
    talk.append(name, batch(*values("a", "b", "c")))

    def part(index: int = 0, timestamp: int = -1, epoch: int = -1) -> Json:
        return {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}

    def ask(note: str, *topics: tuple[str, list[Json]], **more: Json) -> None:
        found = [{"name": topic, "partitions": partitions} for topic, partitions in topics]
        talk.send("list_offsets", {"replica_id": -1, "topics": found, **more}, note=note)

    absent = talk.name("absent")
    ask("nothing")
    ask("a topic without partitions", (name, []))
    ask("an unknown topic without partitions", (absent, []))
    ask("a topic twice", (name, [part(0)]), (name, [part(1)]))
    ask("an unknown partition twice", (name, [part(9), part(9)]))
    ask("a partition three times and another", (name, [part(), part(), part(), part(1)]))
    ask("a negative partition", (name, [part(-1)]))
    ask("a topic without a name", ("", [part()]))
    ask("a topic with a wrong name", ("a/b", [part()]))
    ask("the largest time", (name, [part(0, LARGEST_64)]))
    for timestamp in (-3, -4, -5, -6, -7, -100, -LARGEST_64 - 1):
        ask(f"time {timestamp}", (name, [part(0, timestamp)]))
    ask("as nobody", (name, [part()]), replica_id=-7)
    if talk.version >= 2:
        ask("unknown isolation level", (name, [part()]), isolation_level=7)
        ask("negative isolation level", (name, [part()]), isolation_level=-1)
        ask("unknown isolation level, nothing", isolation_level=7)
    if talk.version >= 4:
        ask("an epoch below all", (name, [part(epoch=-5)]))
        ask("the largest epoch", (name, [part(epoch=LARGEST_32)]))
    if talk.version >= 10:
        ask("negative patience", (name, [part()]), timeout=-1)


@scenario("offset_for_leader_epoch")
def odd_leader_epochs(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name)
    talk.append(name, batch(*values("a", "b", "c")))

    def part(index: int = 0, epoch: int = 0, current: int = -1) -> Json:
        return {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch}

    def ask(note: str, *topics: tuple[str, list[Json]], replica: int = -1) -> None:
        body: dict[str, Json] = {"topics": [{"topic": topic, "partitions": parts} for topic, parts in topics]}
        talk.send("offset_for_leader_epoch", body | ({"replica_id": replica} if talk.version >= 3 else {}), note=note)

    ask("nothing")
    ask("a topic without partitions", (name, []))
    ask("a topic twice", (name, [part()]), (name, [part(1)]))
    ask("a partition twice", (name, [part(), part(epoch=3)]))
    ask("a negative partition", (name, [part(-1)]))
    ask("a topic without a name", ("", [part()]))
    ask("an epoch below all", (name, [part(epoch=-5)]))
    ask("the largest epoch", (name, [part(epoch=LARGEST_32)]))
    ask("a current epoch below all", (name, [part(current=-5)]))
    if talk.version >= 3:
        ask("as a debugger", (name, [part()]), replica=-2)
        ask("as a follower", (name, [part()]), replica=1)
        ask("as nobody", (name, [part()]), replica=-7)


@scenario("delete_records")
def delete_odd_records(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name, 2)
    talk.append(name, batch(*values("a", "b", "c")))

    def delete(note: str, *topics: tuple[str, list[tuple[int, int]]], **more: Json) -> None:
        found = [
            {
                "name": topic,
                "partitions": [{"partition_index": index, "offset": offset} for index, offset in partitions],
            }
            for topic, partitions in topics
        ]
        talk.send("delete_records", {"topics": found, "timeout": 10_000, **more}, note=note)

    absent = talk.name("absent")
    delete("nothing")
    delete("a topic without partitions", (name, []))
    delete("an unknown topic without partitions", (absent, []))
    delete("a topic twice", (name, [(0, 1)]), (name, [(1, 0)]))
    delete("a partition twice", (name, [(0, 1), (0, 2)]))
    delete("a negative partition", (name, [(-1, 0)]))
    delete("the largest partition", (name, [(LARGEST_32, 0)]))
    delete("a topic without a name", ("", [(0, 0)]))
    delete("the largest offset", (name, [(0, LARGEST_64)]))
    delete("the smallest offset", (name, [(0, -LARGEST_64 - 1)]))
    delete("no patience", (name, [(0, 2)]), timeout=0)
    delete("negative patience", (name, [(0, 2)]), timeout=-1)
    delete("a right and a wrong one", (name, [(0, 3), (0, 99), (7, 0)]), (absent, [(0, 0)]))


@scenario("describe_producers")
def describe_odd_producers(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name)
    absent = talk.name("absent")

    def ask(note: str, *topics: tuple[str, list[int]]) -> None:
        found = [{"name": topic, "partition_indexes": partitions} for topic, partitions in topics]
        talk.send("describe_producers", {"topics": found}, note=note)

    ask("nothing")
    ask("a topic without partitions", (name, []))
    ask("an unknown topic without partitions", (absent, []))
    ask("a topic twice", (name, [0]), (name, [1]))
    ask("a partition twice", (name, [0, 0]))
    ask("a negative partition", (name, [-1]))
    ask("a topic without a name", ("", [0]))
    ask("a topic with a wrong name", ("a/b", [0]))
    ask("a topic with a long name", ("n" * 300, [0]))


@scenario("describe_log_dirs")
def describe_odd_log_dirs(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name, 2)

    def ask(note: str, *topics: tuple[str, list[int]]) -> None:
        found = [{"topic": topic, "partitions": partitions} for topic, partitions in topics]
        talk.send("describe_log_dirs", {"topics": found}, note=note)

    ask("a topic without partitions", (name, []))
    ask("a topic twice", (name, [0]), (name, [1]))
    ask("a partition twice", (name, [0, 0]))
    ask("a negative partition", (name, [-1]))
    ask("a topic without a name", ("", [0]))
