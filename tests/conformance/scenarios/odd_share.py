"""Share groups asked in odd ways: no group, nothing named, named twice, numbers out of range."""

from __future__ import annotations

from ..batches import batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario
from .share import short

UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"
NO_ID = "0" * 32
LARGEST_32, LARGEST_64 = (1 << 31) - 1, (1 << 63) - 1


def wait_for_states(talk: Conversation) -> None:
    """Until every partition of the state topic has been loaded, whichever of them an odd name belongs to."""
    loading = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
    for word in "abcdefgh":
        requested = {"topic_id": UNKNOWN_ID, "partitions": [{"partition": 0, "leader_epoch": 0}]}
        talk.until(
            lambda answer: answer["results"][0]["partitions"][0]["error_code"] not in loading,
            "read_share_group_state",
            {"group_id": talk.name(word), "topics": [requested]},
            0,
        )


def ask_oddly_for_state(talk: Conversation, api: str, **fields: Json) -> None:
    topic, group = talk.name("t"), talk.name("g")
    topic_id = talk.create_topic(topic, 2)
    talk.wait_for_coordinator(f"{group}:{short(topic_id)}:0", 2)
    wait_for_states(talk)

    def part(index: int = 0, **more: Json) -> Json:
        return {"partition": index, **fields, **more}

    def of(*partitions: Json, identifier: str = topic_id) -> Json:
        return {"topic_id": identifier, "partitions": list(partitions)}

    def ask(note: str, *topics: Json, group_id: str = group) -> None:
        talk.send(api, {"group_id": group_id, "topics": list(topics)}, note=note)

    ask("no group", of(part()), group_id="")
    ask("no group, two topics", of(part()), of(part(1), identifier=UNKNOWN_ID), group_id="")
    ask("no group, no topics", group_id="")
    ask("no group, a topic without partitions", of(), group_id="")
    ask("no topics")
    ask("a topic without partitions", of())
    ask("a topic without partitions and one with", of(identifier=UNKNOWN_ID), of(part()))
    ask("no topic id", of(part(), identifier=NO_ID))
    ask("an unknown topic id", of(part(), identifier=UNKNOWN_ID))
    ask("an unknown partition", of(part(7)))
    ask("a negative partition", of(part(-1)))
    ask("the largest partition", of(part(LARGEST_32)))
    ask("a known and an unknown partition", of(part(), part(7)))
    ask("a partition twice", of(part(), part()))
    ask("a topic twice", of(part()), of(part(1)))
    ask("a group with colons", of(part()), group_id="a:b:c")


@scenario("read_share_group_state")
def read_odd_share_states(talk: Conversation) -> None:
    ask_oddly_for_state(talk, "read_share_group_state", leader_epoch=0)


@scenario("read_share_group_state_summary")
def read_odd_share_state_summaries(talk: Conversation) -> None:
    ask_oddly_for_state(talk, "read_share_group_state_summary", leader_epoch=0)


@scenario("write_share_group_state")
def write_odd_share_states(talk: Conversation) -> None:
    found = [{"first_offset": 1, "last_offset": 2, "delivery_state": 2, "delivery_count": 1}]
    ask_oddly_for_state(
        talk, "write_share_group_state", state_epoch=0, leader_epoch=0, start_offset=0, state_batches=found
    )


@scenario("delete_share_group_state")
def delete_odd_share_states(talk: Conversation) -> None:
    ask_oddly_for_state(talk, "delete_share_group_state")


@scenario("initialize_share_group_state")
def initialize_odd_share_states(talk: Conversation) -> None:
    ask_oddly_for_state(talk, "initialize_share_group_state", state_epoch=0, start_offset=0)


@scenario("write_share_group_state")
def odd_share_state_values(talk: Conversation) -> None:
    topic, group = talk.name("t"), talk.name("g")
    topic_id = talk.create_topic(topic)
    talk.wait_for_coordinator(f"{group}:{short(topic_id)}:0", 2)
    wait_for_states(talk)

    def of(**fields: Json) -> dict[str, Json]:
        return {"group_id": group, "topics": [{"topic_id": topic_id, "partitions": [{"partition": 0, **fields}]}]}

    def write(note: str, *batches: tuple[int, int, int, int], **fields: Json) -> None:
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        found: list[Json] = [dict(zip(names, each, strict=True)) for each in batches]
        whole = {"state_epoch": 1, "leader_epoch": 0, "start_offset": 0, "state_batches": found, **fields}
        talk.send("write_share_group_state", of(**whole), note=note)
        read(f"after {note}")

    def read(note: str, leader: int = 0) -> None:
        talk.send("read_share_group_state", of(leader_epoch=leader), version=0, note=note)

    def initialize(note: str, epoch: int, start: int) -> None:
        body = of(state_epoch=epoch, start_offset=start)
        talk.send("initialize_share_group_state", body, version=0, note=note)

    def begin() -> None:
        talk.quietly("delete_share_group_state", of(), 0)
        talk.quietly("initialize_share_group_state", of(state_epoch=1, start_offset=0), 0)

    initialize("begins below all", 1, -5)
    read("begun below all")
    initialize("an epoch below all", -5, 0)
    begin()
    read("no leader", -1)
    read("a leader below all", -5)
    write("a start below all", start_offset=-5)
    begin()
    write("no start", start_offset=-1)
    write("a leader below all", leader_epoch=-5)
    write("no leader", leader_epoch=-1)
    write("a state epoch below all", state_epoch=-5)
    write("no state epoch", state_epoch=-1)
    write("a state epoch ahead", state_epoch=5)
    write("a batch backwards", (9, 5, 2, 1))
    begin()
    write("an unknown state", (5, 5, 9, 1))
    write("a negative state", (5, 5, -1, 1))
    write("a negative count", (6, 6, 0, -1))
    write("a negative offset", (-3, -2, 0, 1))
    write("a batch before the start", (0, 1, 2, 1), start_offset=20)
    write("batches that overlap", (20, 30, 0, 1), (25, 27, 2, 1), start_offset=20)
    write("batches out of order", (50, 51, 0, 1), (40, 41, 0, 1), start_offset=20)
    write("the largest offsets", (LARGEST_64 - 1, LARGEST_64, 0, 1), start_offset=20)
    if talk.version >= 1:
        write("a complete count below all", start_offset=20, delivery_complete_count=-5)
        write("the largest complete count", start_offset=20, delivery_complete_count=LARGEST_32)
    talk.send("read_share_group_state_summary", of(leader_epoch=-5), note="a leader below all")
    write("a start further back", start_offset=10)


@scenario("describe_share_group_offsets")
def odd_share_group_offsets(talk: Conversation) -> None:
    topic, group = talk.name("t"), talk.name("g")
    topic_id = talk.create_topic(topic, 2)
    talk.append(topic, batch(*values("a", "b", "c", "d")))
    talk.wait_for_coordinator(group)
    talk.wait_for_coordinator("")
    talk.wait_for_coordinator(talk.name("none"))
    talk.wait_for_coordinator(f"{group}:{short(topic_id)}:0", 2)
    wait_for_states(talk)

    def describe(note: str, *groups: Json) -> None:
        talk.send("describe_share_group_offsets", {"groups": list(groups)}, note=note)

    def of(topics: Json, group_id: str = group) -> Json:
        return {"group_id": group_id, "topics": topics}

    def alter(note: str, *topics: tuple[str, list[tuple[int, int]]], group_id: str = group) -> None:
        found = [
            {
                "topic_name": name,
                "partitions": [{"partition_index": index, "start_offset": offset} for index, offset in offsets],
            }
            for name, offsets in topics
        ]
        talk.send("alter_share_group_offsets", {"group_id": group_id, "topics": found}, version=0, note=note)

    def delete(note: str, *names: str, group_id: str = group) -> None:
        body = {"group_id": group_id, "topics": [{"topic_name": name} for name in names]}
        talk.send("delete_share_group_offsets", body, version=0, note=note)

    one: list[Json] = [{"topic_name": topic, "partitions": [0]}]
    absent = talk.name("absent")
    for note, name in (("an unknown group", talk.name("none")), ("no group", "")):
        describe(f"{note}, all topics", of(None, name))
        describe(f"{note}, no topics", of([], name))
        describe(f"{note}, one topic", of(one, name))
        describe(f"{note}, an unknown topic", of([{"topic_name": absent, "partitions": [0]}], name))
        describe(f"{note}, a topic without partitions", of([{"topic_name": topic, "partitions": []}], name))
        delete(f"{note}, no topics", group_id=name)
        delete(f"{note}, an unknown topic", absent, group_id=name)
    alter("no group", (topic, [(0, 1)]), group_id="")
    alter("no group, no topics", group_id="")
    talk.send("list_groups", {"states_filter": [], "types_filter": []}, version=5, note="groups", mine="groups")
    describe("no groups")
    alter("makes the group", (topic, [(0, 1)]))
    describe("a group twice", of(one), of(one))
    describe("two groups", of(one), of(one, talk.name("none")))
    describe("a topic without partitions", of([{"topic_name": topic, "partitions": []}]))
    describe("an unknown topic without partitions", of([{"topic_name": absent, "partitions": []}]))
    describe("a topic twice", of([*one, {"topic_name": topic, "partitions": [1]}]))
    describe("a partition twice", of([{"topic_name": topic, "partitions": [0, 0]}]))
    describe("a negative partition", of([{"topic_name": topic, "partitions": [-1]}]))
    describe("a topic without a name", of([{"topic_name": "", "partitions": [0]}]))
    alter("no topics")
    alter("a topic without partitions", (topic, []))
    alter("an unknown topic without partitions", (absent, []))
    alter("a negative offset", (topic, [(0, -1)]))
    describe("after a negative offset", of(one))
    alter("past the end", (topic, [(0, LARGEST_64)]))
    describe("after past the end", of(one))
    alter("a negative partition", (topic, [(-1, 0)]))
    alter("a topic without a name", ("", [(0, 0)]))
    alter("a partition twice", (topic, [(0, 2), (0, 3)]))
    describe("after a partition twice", of(one))
    alter("a topic twice", (topic, [(0, 1)]), (topic, [(1, 0)]))
    describe("after a topic twice", of(one))
    delete("no topics")
    delete("a topic without a name", "")
    delete("a topic twice", topic, topic)
    delete("a known and an unknown topic", topic, absent)
