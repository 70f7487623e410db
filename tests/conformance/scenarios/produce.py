"""Appending: acknowledgements, idempotence, and every way a batch can be wrong."""

from __future__ import annotations

import struct

from ..batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"


class Writer:
    """Sends Produce requests of the conversation's version to one topic, by name or by id as the version wants."""

    def __init__(self, talk: Conversation, word: str = "t", partitions: int = 1, **configs: str) -> None:
        self.talk = talk
        self.topic = talk.name(word)
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        self.topic_id = talk.create_topic(self.topic, partitions, settings)

    def body(self, records: bytes | None, *, partition: int = 0, acks: int = 1, **more: Json) -> dict[str, Json]:
        part = {"index": partition, "records": records}
        topic = {"name": self.topic, "topic_id": self.topic_id, "partition_data": [part]}
        return {"acks": acks, "timeout": 10_000, "topic_data": [topic], **more}

    def send(self, note: str, records: bytes | None, **options: Json) -> Json:
        return self.talk.send("produce", self.body(records, **options), note=note)


@scenario("produce")
def produce(talk: Conversation) -> None:
    writer = Writer(talk, partitions=2)
    writer.send("one record", batch((b"k", b"v")))
    writer.send("three records", batch(*values("a", "b", "c")))
    writer.send("acks all", batch((None, None)), acks=-1)
    writer.send("other partition", batch((b"", b"")), partition=1)
    writer.send("acks two", batch((b"k", b"v")), acks=2)
    writer.send("unknown partition", batch((b"k", b"v")), partition=9)
    writer.send("negative partition", batch((b"k", b"v")), partition=-1)
    unknown = {
        "name": talk.name("absent"),
        "topic_id": UNKNOWN_ID,
        "partition_data": [{"index": 0, "records": batch((b"k", b"v"))}],
    }
    talk.send("produce", {"acks": 1, "timeout": 1000, "topic_data": [unknown]}, note="unknown topic")
    good = {
        "name": writer.topic,
        "topic_id": writer.topic_id,
        "partition_data": [{"index": 0, "records": batch((b"k", b"v"))}],
    }
    talk.send("produce", {"acks": 1, "timeout": 1000, "topic_data": [good, unknown]}, note="known and unknown topic")
    talk.send("produce", {"acks": 1, "timeout": 1000, "topic_data": []}, note="nothing")


@scenario("produce")
def produce_without_acknowledgement(talk: Conversation) -> None:
    writer = Writer(talk)
    posted = talk.post("produce", writer.body(batch((b"k", b"v")), acks=0))
    talk.no_answer(posted, "acks 0")
    writer.send("the next one on the same connection", batch((b"k", b"v")))
    posted = talk.post("produce", writer.body(batch((b"k", b"v")), acks=0, partition=5))
    talk.collect(posted, timeout_s=5)


@scenario("produce")
def produce_broken_batches(talk: Conversation) -> None:
    writer = Writer(talk, max_message_bytes="2000")
    good = batch((b"k", b"v"))
    cases: list[tuple[str, bytes | None]] = [
        ("empty records", b""),
        ("no records", None),
        ("two batches", good + good),
        ("wrong crc", batch((b"k", b"v"), corrupt=True)),
        ("base offset not zero", batch((b"k", b"v"), base_offset=7)),
        ("magic 3", batch((b"k", b"v"), magic=3)),
        ("magic 1", batch((b"k", b"v"), magic=1)),
        ("count above the records", batch((b"k", b"v"), count=2)),
        ("count below the records", batch((b"k", b"v"), (b"k", b"v"), count=1)),
        ("count zero", batch((b"k", b"v"), count=0)),
        ("last offset delta wrong", batch((b"k", b"v"), last_offset_delta=3)),
        ("last offset delta negative", batch((b"k", b"v"), last_offset_delta=-1)),
        ("control batch", batch((struct.pack(">hh", 0, 0), b"v"), attributes=CONTROL)),
        ("log append time", batch((b"k", b"v"), attributes=LOG_APPEND_TIME)),
        (
            "transactional without an id",
            batch((b"k", b"v"), attributes=TRANSACTIONAL, producer_id=5, producer_epoch=0, base_sequence=0),
        ),
        ("unknown codec", batch((b"k", b"v"), attributes=5)),
        ("producer id without sequence", batch((b"k", b"v"), producer_id=5, producer_epoch=0)),
        ("cut off", good[:-3]),
        ("only a header", good[:61]),
        ("garbage after the batch", good + b"\0\0\0"),
        ("too large", batch((b"k", b"v" * 3000))),
        ("length too small", good[:8] + struct.pack(">i", 10) + good[12:]),
        ("length negative", good[:8] + struct.pack(">i", -5) + good[12:]),
        ("good again", good),
    ]
    for note, records in cases:
        writer.send(note, records)


@scenario("produce")
def produce_broken_compression(talk: Conversation) -> None:
    Writer(talk).send("not compressed although it says gzip", batch((b"k", b"v"), attributes=1))


@scenario("produce")
def produce_to_special_topics(talk: Conversation) -> None:
    compacted = Writer(talk, "compacted", cleanup_policy="compact")
    compacted.send("no key", batch((None, b"v")))
    compacted.send("one key of three missing", batch((b"a", b"v"), (None, b"v"), (b"c", b"v")))
    compacted.send("with a key", batch((b"k", b"v")))
    stamped = Writer(talk, "stamped", message_timestamp_type="LogAppendTime")
    stamped.send("log append time", batch((b"k", b"v")))
    strict = Writer(talk, "strict", message_timestamp_before_max_ms="1000")
    strict.send("too old", batch((b"k", b"v")))
    future = Writer(talk, "future")
    future.send("too new", batch((b"k", b"v"), timestamp_ms=4_000_000_000_000))
    internal = {
        "name": "__consumer_offsets",
        "topic_id": UNKNOWN_ID,
        "partition_data": [{"index": 0, "records": batch((b"k", b"v"))}],
    }
    if talk.version < 13:
        talk.quietly("find_coordinator", {"key": "any", "key_type": 0}, 2)
        talk.wait_for_topic("__consumer_offsets")
        talk.send("produce", {"acks": 1, "timeout": 1000, "topic_data": [internal]}, note="the offsets topic")


@scenario("produce")
def produce_idempotently(talk: Conversation) -> None:
    writer = Writer(talk)
    producer = talk.producer_id()

    def write(note: str, sequence: int, count: int = 1, epoch: int = 0, producer: int = producer) -> None:
        pairs = [(b"k", str(sequence + n).encode()) for n in range(count)]
        records = batch(*pairs, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        writer.send(note, records)

    write("first", 0)
    write("first again", 0)
    write("gap", 5)
    for sequence in range(1, 7):
        write(f"sequence {sequence}", sequence)
    write("the fifth last again", 2)
    write("one before the window", 1)
    write("three at once", 7, 3)
    write("half of them again", 7, 2)
    write("older epoch", 10, epoch=-1)
    write("newer epoch, sequence not zero", 10, epoch=1)
    write("newer epoch", 0, epoch=1)
    write("the epoch before", 10)
    write("another producer starts at 3", 3, producer=producer + 1000)


@scenario("init_producer_id")
def init_producer_id(talk: Conversation) -> None:
    talk.producer_id()

    def init(note: str, **fields: Json) -> Json:
        body = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        return talk.send("init_producer_id", {**body, **fields}, note=note)

    first = init("first")
    init("second")
    init("empty transactional id", transactional_id="")
    if talk.version >= 3:
        init("with the granted id", producer_id=first["producer_id"], producer_epoch=first["producer_epoch"])
        init("id without epoch", producer_id=first["producer_id"])
        init("epoch without id", producer_epoch=0)


@scenario("describe_producers")
def describe_producers(talk: Conversation) -> None:
    writer = Writer(talk, partitions=2)

    def describe(note: str, topic: str, *partitions: int) -> None:
        talk.send("describe_producers", {"topics": [{"name": topic, "partition_indexes": list(partitions)}]}, note=note)

    producer = talk.producer_id()
    describe("nobody", writer.topic, 0, 1)
    talk.append(writer.topic, batch((b"k", b"v"), producer_id=producer, producer_epoch=0, base_sequence=0))
    describe("one in the first", writer.topic, 0, 1)
    describe("unknown partition", writer.topic, 7)
    describe("unknown topic", talk.name("absent"), 0)
    describe("no partitions", writer.topic)
    talk.send("describe_producers", {"topics": []}, note="nothing")


@scenario("produce")
def produce_with_fewer_replicas_than_must_be_in_sync(talk: Conversation) -> None:
    """Kafka never asks for more in-sync replicas than a partition has."""
    writer = Writer(talk, min_insync_replicas="2")
    writer.send("acks all", batch((b"k", b"v")), acks=-1)
    writer.send("acks one", batch((b"k", b"v")), acks=1)
