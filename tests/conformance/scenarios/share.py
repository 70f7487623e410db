"""Share groups (KIP-932): whole conversations about sessions, acquiring, acknowledging, closing, state and offsets."""

from __future__ import annotations

import base64
import uuid

from ..batches import batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
FINAL = -1


class Worker:
    """A member of a share group with a session of its own, on a connection of its own."""

    def __init__(self, talk: Conversation, word: str, group: str, topic_id: str) -> None:
        self.talk, self.word, self.group, self.topic_id = talk, word, group, topic_id
        self.member_id = f"{word}-{talk.version}"
        self.epoch = 0

    def fetch_body(self, acks: list[Json] | None = None, **more: Json) -> dict[str, Json]:
        topics: list[Json] = []
        if self.epoch == 0 or acks:
            partition = {"partition_index": 0, "acknowledgement_batches": acks or []}
            topics = [{"topic_id": self.topic_id, "partitions": [partition]}]
        body: dict[str, Json] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": topics,
            "forgotten_topics_data": [],
        }
        if self.talk.version >= 2:
            body |= {"share_acquire_mode": 0, "is_renew_ack": False}
        return body | more

    def fetch(self, note: str, acks: list[Json] | None = None, **more: Json) -> Json:
        answer = self.talk.send("share_fetch", self.fetch_body(acks, **more), on=self.word, note=f"{self.word}: {note}")
        if answer.get("error_code") == "NONE":
            self.epoch += 1
        return answer

    def take(self, note: str, acks: list[Json] | None = None, **more: Json) -> Json:
        """Fetch and wait for records: the broker may need a moment to see what was appended or released."""
        return self.fetch(note, acks, **{"max_wait": 5_000, **more})

    def acknowledge(self, note: str, *acks: Json, **more: Json) -> Json:
        partition = {"partition_index": 0, "acknowledgement_batches": list(acks)}
        body: dict[str, Json] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "topics": [{"topic_id": self.topic_id, "partitions": [partition]}] if acks else [],
        }
        if self.talk.version >= 2:
            body["is_renew_ack"] = False
        answer = self.talk.send("share_acknowledge", body | more, on=self.word, note=f"{self.word}: {note}")
        if answer.get("error_code") == "NONE":
            self.epoch += 1
        return answer


def ack(first: int, last: int, *types: int) -> Json:
    return {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}


def queue(talk: Conversation, *, records: int = 0, configs: dict[str, str] | None = None) -> Worker:
    """A topic, a group that reads it from the beginning and has its window, and the group's first worker."""
    topic, group = talk.name("t"), talk.name("g")
    topic_id = talk.create_topic(topic)
    talk.wait_for_coordinator(group)
    talk.wait_for_coordinator(f"{group}:{short(topic_id)}:0", 2)
    settings = {"share.auto.offset.reset": "earliest", **(configs or {})}
    talk.configure_group(group, settings)
    join(talk, group, topic)
    worker = Worker(talk, "worker", group, topic_id)

    def is_open(answer: Json) -> bool:
        found = [p for t in answer["responses"] for p in t["partitions"]]
        return answer["error_code"] == "NONE" and bool(found) and found[0]["error_code"] == "NONE"

    talk.until(is_open, "share_fetch", worker.fetch_body(max_wait=100), talk.version)
    close = worker.fetch_body(max_records=0) | {"share_session_epoch": FINAL, "topics": []}
    talk.quietly("share_fetch", close, talk.version)
    if records:
        talk.append(topic, batch(*values(*(f"job {n}" for n in range(records)))))
    return worker


def join(talk: Conversation, group: str, topic: str) -> None:
    """A quiet member, so that the group coordinator has the partition's state begun."""
    body: dict[str, Json] = {"group_id": group, "member_id": "stage", "member_epoch": 0, "rack_id": None}

    def is_assigned(answer: Json) -> bool:
        if answer["error_code"] != "NONE":
            return False
        body["member_epoch"] = answer["member_epoch"]
        body["subscribed_topic_names"] = [topic]
        return bool(answer["assignment"] and answer["assignment"]["topic_partitions"])

    body["subscribed_topic_names"] = [topic]
    talk.until(is_assigned, "share_group_heartbeat", body, 1)


def short(topic_id: str) -> str:
    """A topic id as Kafka prints it."""
    return base64.urlsafe_b64encode(uuid.UUID(topic_id).bytes).rstrip(b"=").decode()


@scenario("share_fetch")
def share_sessions(talk: Conversation) -> None:
    worker = queue(talk)
    worker.fetch("no session yet", share_session_epoch=5)
    worker.fetch("closes what is not open", share_session_epoch=FINAL)
    worker.acknowledge("cannot open", share_session_epoch=0)
    worker.fetch("acknowledges while opening", [ack(0, 0, ACCEPT)])
    worker.fetch("no group", group_id=None)
    worker.fetch("no member", member_id=None)
    worker.fetch("empty member", member_id="")
    worker.fetch("long member", member_id="m" * 37)
    worker.fetch("opens")
    worker.fetch("nothing new")
    worker.fetch("too far ahead", share_session_epoch=9)
    worker.fetch("too far back", share_session_epoch=1)
    worker.acknowledge("too far ahead", share_session_epoch=9)
    worker.fetch("goes on")
    partition = {"partition_index": 9, "acknowledgement_batches": []}
    worker.fetch("adds an unknown partition", topics=[{"topic_id": worker.topic_id, "partitions": [partition]}])
    forgotten = [{"topic_id": worker.topic_id, "partitions": [9]}]
    worker.fetch("forgets it", forgotten_topics_data=forgotten)
    worker.acknowledge("closes", share_session_epoch=FINAL)
    worker.fetch("after closing")


@scenario("share_fetch")
def share_acquire_and_acknowledge(talk: Conversation) -> None:
    worker = queue(talk, records=10)
    worker.take("takes all")
    worker.acknowledge("answers for each", ack(0, 6, ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, GAP))
    worker.take("gets the released ones")
    worker.fetch("answers for the rest", [ack(7, 9, ACCEPT)])
    worker.acknowledge("what is long done", ack(0, 2, ACCEPT))
    worker.acknowledge("what is done behind an open one", ack(5, 5, ACCEPT))
    worker.acknowledge("what nobody has acquired", ack(20, 30, ACCEPT))
    worker.acknowledge("reaches too far", ack(3, 30, ACCEPT))
    worker.acknowledge("the rest", ack(3, 4, ACCEPT))
    worker.fetch("nothing is left")


@scenario("share_acknowledge")
def share_acknowledge_malformed(talk: Conversation) -> None:
    worker = queue(talk, records=10)
    worker.take("takes all")
    worker.acknowledge("backwards", ack(3, 2, ACCEPT))
    worker.acknowledge("out of order", ack(5, 6, ACCEPT), ack(1, 2, ACCEPT))
    worker.acknowledge("overlapping", ack(0, 4, ACCEPT), ack(4, 6, ACCEPT))
    worker.acknowledge("without types", ack(0, 1))
    worker.acknowledge("too few types", ack(0, 3, ACCEPT, ACCEPT))
    worker.acknowledge("unknown type", ack(0, 0, 7))
    worker.acknowledge("negative type", ack(0, 0, -1))
    worker.acknowledge("renewal unannounced", ack(0, 0, RENEW))
    worker.acknowledge("good again", ack(0, 9, ACCEPT))


@scenario("share_fetch")
def share_two_workers(talk: Conversation) -> None:
    first = queue(talk, records=6)
    second = Worker(talk, "second", first.group, first.topic_id)
    first.take("takes all")
    second.fetch("finds nothing")
    second.acknowledge("answers for the other's", ack(0, 1, ACCEPT))
    first.acknowledge("releases some", ack(0, 3, RELEASE))
    second.take("takes them")
    first.acknowledge("answers for what it gave away", ack(0, 1, ACCEPT))
    second.acknowledge("accepts", ack(0, 3, ACCEPT))
    first.acknowledge("closes with the rest in hand", share_session_epoch=FINAL)
    second.take("takes the rest")
    second.fetch("final, with answers", [ack(4, 5, ACCEPT)], share_session_epoch=FINAL)


@scenario("share_fetch")
def share_lost_connection(talk: Conversation) -> None:
    first = queue(talk, records=3)
    second = Worker(talk, "second", first.group, first.topic_id)
    first.take("takes all")
    talk.disconnect(first.word)
    second.take("takes what the lost one held")
    second.acknowledge("accepts", ack(0, 2, ACCEPT))


@scenario("share_fetch")
def share_delivery_limit(talk: Conversation) -> None:
    worker = queue(talk, records=1)
    for delivery in range(1, 6):
        worker.take(f"delivery {delivery}")
        worker.acknowledge(f"releases {delivery}", ack(0, 0, RELEASE))
    worker.fetch("given up")


@scenario("share_fetch")
def share_suspects(talk: Conversation) -> None:
    """From half the limit on, a batch comes in halves, at its last attempt record by record."""
    worker = queue(talk, records=8)
    for delivery in range(1, 4):
        worker.take(f"delivery {delivery}")
        worker.acknowledge(f"releases {delivery}", ack(0, 7, RELEASE))
    worker.take("delivery 4, the first half")
    worker.acknowledge("releases the half", ack(0, 3, RELEASE))
    worker.take("delivery 5, the first one")
    worker.acknowledge("accepts it", ack(0, 0, ACCEPT))
    worker.take("delivery 5, the second one")


@scenario("share_fetch", only=(2,))
def share_renewal(talk: Conversation) -> None:
    worker = queue(talk, records=3)
    worker.take("takes all")
    worker.acknowledge("renews", ack(0, 2, RENEW), is_renew_ack=True)
    nothing: dict[str, Json] = {"max_wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    worker.fetch("renews by fetch", [ack(0, 2, RENEW)], is_renew_ack=True, **nothing)
    worker.fetch("renews and asks for records", [ack(0, 2, RENEW)], is_renew_ack=True)
    worker.acknowledge("renews and accepts", ack(0, 2, RENEW, ACCEPT, RENEW), is_renew_ack=True)
    worker.acknowledge("the rest", ack(0, 0, ACCEPT), ack(2, 2, REJECT))


@scenario("share_fetch", only=(2,))
def share_record_limit(talk: Conversation) -> None:
    worker = queue(talk, records=10)
    worker.take("three", max_records=3, share_acquire_mode=1)
    worker.take("three more", max_records=3, share_acquire_mode=1)
    worker.acknowledge("releases one", ack(1, 1, RELEASE))
    worker.take("four more, one of them again", max_records=4, share_acquire_mode=1)
    worker.acknowledge("accepts", ack(0, 8, ACCEPT))


@scenario("share_fetch")
def share_batch_limit(talk: Conversation) -> None:
    """The acquire mode of old: the limit is a wish."""
    worker = queue(talk, records=5)
    worker.take("asks for two", max_records=2)
    worker.acknowledge("accepts the first", ack(0, 1, ACCEPT))
    worker.fetch("asks for two more", max_records=2)


@scenario("share_fetch")
def share_locks_expire(talk: Conversation) -> None:
    first = queue(talk, records=3, configs={"share.record.lock.duration.ms": "1000"})
    second = Worker(talk, "second", first.group, first.topic_id)
    first.take("takes all")
    second.take("takes them when the locks have expired")
    first.acknowledge("comes too late", ack(0, 2, ACCEPT))
    second.acknowledge("accepts", ack(0, 2, ACCEPT))
    second.fetch("nothing is left")


@scenario("share_fetch")
def share_log_start_moves(talk: Conversation) -> None:
    worker = queue(talk, records=10)
    worker.take("takes all")
    partitions = [{"partition_index": 0, "offset": 6}]
    body = {"topics": [{"name": talk.name("t"), "partitions": partitions}], "timeout": 10_000}
    talk.quietly("delete_records", body, 2)
    worker.acknowledge("answers for all, old ones too", ack(0, 8, ACCEPT), ack(9, 9, REJECT))
    worker.fetch("nothing is left")


@scenario("describe_share_group_offsets")
def share_group_offsets(talk: Conversation) -> None:
    topic, group = talk.name("t"), talk.name("g")
    topic_id = talk.create_topic(topic, 2)
    talk.append(topic, batch(*values("a", "b", "c", "d")))
    talk.wait_for_coordinator(group)
    for partition in range(2):
        talk.wait_for_coordinator(f"{group}:{short(topic_id)}:{partition}", 2)

    def describe(note: str, topics: Json) -> None:
        body = {"groups": [{"group_id": group, "topics": topics}]}
        talk.send("describe_share_group_offsets", body, note=note)

    def alter(note: str, name: str, *offsets: tuple[int, int]) -> None:
        parts = [{"partition_index": index, "start_offset": offset} for index, offset in offsets]
        body = {"group_id": group, "topics": [{"topic_name": name, "partitions": parts}]}
        talk.send("alter_share_group_offsets", body, version=0, note=note)

    def delete(note: str, *names: str) -> None:
        body = {"group_id": group, "topics": [{"topic_name": name} for name in names]}
        talk.send("delete_share_group_offsets", body, version=0, note=note)

    describe("no such group", [{"topic_name": topic, "partitions": [0, 1]}])
    delete("no such group", topic)
    alter("makes the group", topic, (0, 3), (1, 0))
    describe("set", [{"topic_name": topic, "partitions": [0]}])
    describe("all", None)
    describe("none", [])
    describe("unknown topic", [{"topic_name": talk.name("nowhere"), "partitions": [0]}])
    alter("unknown partition", topic, (0, 1), (7, 0))
    alter("unknown topic", talk.name("nowhere"), (0, 1))
    describe("after that", [{"topic_name": topic, "partitions": [0]}])
    talk.send("share_group_describe", {"group_ids": [group], "include_authorized_operations": False}, version=1)
    delete("unknown topic", talk.name("nowhere"))
    delete("forgets", topic)
    delete("again", topic)
    describe("forgotten", None)
    talk.send("delete_groups", {"groups_names": [group]}, version=2, note="deletes the group")


@scenario("share_group_heartbeat")
def share_group_heartbeat_faults(talk: Conversation) -> None:
    topic, group = talk.name("t"), talk.name("g")
    talk.create_topic(topic)
    talk.wait_for_coordinator(group)

    def beat(note: str, **more: Json) -> Json:
        body = {"group_id": group, "member_id": "m", "member_epoch": 0, "rack_id": None}
        return talk.send("share_group_heartbeat", body | {"subscribed_topic_names": [topic]} | more, note=note)

    beat("no such group", member_epoch=3)
    beat("no member id", member_id="")
    beat("long member id", member_id="m" * 37)
    beat("no group id", group_id="")
    beat("empty rack", rack_id="")
    beat("no topics", subscribed_topic_names=None)
    beat("empty topics", subscribed_topic_names=[])
    beat("wrong epoch", member_epoch=-2)
    beat("leaves before joining", member_epoch=-1)
    join(talk, group, topic)
    beat("unknown member", member_epoch=3)
    beat("ahead of its time", member_id="stage", member_epoch=99)
    beat("leaves", member_id="stage", member_epoch=-1)
    talk.send("share_group_describe", {"group_ids": [talk.name("none")], "include_authorized_operations": False})


class Sharing:
    """A member of a share group that heartbeats."""

    def __init__(self, talk: Conversation, word: str, group: str) -> None:
        self.talk, self.word, self.group, self.epoch = talk, word, group, 0

    def beat(self, note: str, **more: Json) -> Json:
        body = {"group_id": self.group, "member_id": self.word, "member_epoch": self.epoch, "rack_id": None}
        answer = self.talk.send("share_group_heartbeat", body | more, note=f"{self.word}: {note}")
        self.epoch = answer["member_epoch"] if answer.get("error_code") == "NONE" else self.epoch
        return answer


@scenario("share_group_heartbeat")
def share_group_heartbeats(talk: Conversation) -> None:
    group, topic = talk.name("g"), talk.name("t")
    topic_id = talk.create_topic(topic)  # who gets which of several partitions depends on the topic's id
    talk.wait_for_coordinator(group)
    talk.wait_for_coordinator(f"{group}:{short(topic_id)}:0", 2)

    def describe(note: str) -> None:
        body = {"group_ids": [group], "include_authorized_operations": False}
        talk.send("share_group_describe", body, version=1, note=note)

    def settle() -> None:
        """Until the partition's state has been begun, which the group waits for before it hands it out."""
        body = {"groups": [{"group_id": group, "topics": None}]}
        talk.until(
            lambda a: len([p for t in a["groups"][0]["topics"] for p in t["partitions"]]) == 1,
            "describe_share_group_offsets",
            body,
            1,
        )

    first, second = Sharing(talk, "first", group), Sharing(talk, "second", group)
    first.beat("joins", subscribed_topic_names=[topic])
    settle()
    first.beat("again")
    first.beat("nothing new")
    describe("one member")
    second.beat("joins", subscribed_topic_names=[topic])
    first.beat("while there are two")
    second.beat("nothing new")
    describe("two members")
    first.beat("wants nothing", subscribed_topic_names=[])
    second.beat("is alone with it")
    second.beat("leaves", member_epoch=-1)
    describe("one is left")
    first.beat("leaves", member_epoch=-1)
    describe("nobody is left")


@scenario("describe_share_group_offsets")
def share_start_is_kept(talk: Conversation) -> None:
    """What "latest" meant when the group first read the partition."""
    group, topic = talk.name("g"), talk.name("t")
    topic_id = talk.create_topic(topic)
    talk.append(topic, batch(*values("a", "b", "c")))
    talk.wait_for_coordinator(group)
    talk.wait_for_coordinator(f"{group}:{short(topic_id)}:0", 2)
    join(talk, group, topic)
    worker = Worker(talk, "worker", group, topic_id)
    worker.epoch = 0
    body = worker.fetch_body(max_wait=100)

    def is_open(answer: Json) -> bool:
        found = [p for t in answer["responses"] for p in t["partitions"]]
        return answer["error_code"] == "NONE" and bool(found) and found[0]["error_code"] == "NONE"

    talk.until(is_open, "share_fetch", body, 1)
    requested = {"groups": [{"group_id": group, "topics": [{"topic_name": topic, "partitions": [0]}]}]}
    talk.send("describe_share_group_offsets", requested, note="after the first fetch")


@scenario("write_share_group_state")
def share_group_state(talk: Conversation) -> None:
    topic, group = talk.name("t"), talk.name("g")
    topic_id = talk.create_topic(topic)
    talk.wait_for_coordinator(f"{group}:{short(topic_id)}:0", 2)

    def of(**fields: Json) -> dict[str, Json]:
        return {"group_id": group, "topics": [{"topic_id": topic_id, "partitions": [{"partition": 0, **fields}]}]}

    def write(note: str, start: int, *batches: tuple[int, int, int, int], state: int = 3, leader: int = 0) -> None:
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        found: list[Json] = [dict(zip(names, each, strict=True)) for each in batches]
        fields: dict[str, Json] = {"state_epoch": state, "leader_epoch": leader, "start_offset": start}
        if talk.version >= 1:
            fields["delivery_complete_count"] = len(batches)
        talk.send("write_share_group_state", of(**fields, state_batches=found), note=note)

    def read(note: str, leader: int = 0) -> None:
        talk.send("read_share_group_state", of(leader_epoch=leader), version=0, note=note)

    def initialize(note: str, epoch: int, start: int) -> None:
        body = of(state_epoch=epoch, start_offset=start)
        talk.send("initialize_share_group_state", body, version=0, note=note)

    read("not there")
    write("not there", 0)
    talk.send("read_share_group_state_summary", of(leader_epoch=0), note="not there")
    initialize("begins", 3, -1)
    read("begun")
    write("some", 10, (12, 14, 2, 1), (15, 15, 0, 1))
    read("some")
    write("more", 11, (15, 16, 4, 2), (18, 20, 2, 1))
    read("merged")
    write("an old state epoch", 12, state=2)
    read("a new leader", 5)
    write("an old leader", 12, leader=4)
    read("an old leader", 4)
    write("the new leader", 13, leader=5)
    talk.send("read_share_group_state_summary", of(leader_epoch=5), note="summary")
    initialize("too old", 2, 0)
    initialize("begins again", 4, 7)
    read("wiped", 5)
    talk.send("delete_share_group_state", of(), version=0, note="deletes")
    talk.send("delete_share_group_state", of(), version=0, note="deletes again")
    read("gone", 5)
