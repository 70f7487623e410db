"""Groups' offsets asked for in odd ways: topics without partitions, partitions twice, numbers out of range."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario
from .topics import NO_ID, UNKNOWN_ID

LARGEST_32, LARGEST_64 = (1 << 31) - 1, (1 << 63) - 1
BY_ID = 10


class Topics:
    """Parts of requests that name topics by name or, from version 10 on, by id."""

    def __init__(self, talk: Conversation) -> None:
        self.name = talk.name("t")
        self.identifier = talk.create_topic(self.name, 2)
        self.absent = talk.name("absent")

    def here(self, field: str, *partitions: Json) -> Json:
        return {"name": self.name, "topic_id": self.identifier, field: list(partitions)}

    def away(self, field: str, *partitions: Json, name: str | None = None, identifier: str = UNKNOWN_ID) -> Json:
        return {"name": self.absent if name is None else name, "topic_id": identifier, field: list(partitions)}


def wait_for_coordinators(talk: Conversation, *groups: str) -> None:
    for group in (*groups, ""):
        talk.wait_for_coordinator(group)


@scenario("offset_commit")
def commit_odd_offsets(talk: Conversation) -> None:
    topics, group = Topics(talk), talk.name("g")
    wait_for_coordinators(talk, group)

    def part(index: int = 0, offset: int = 5, metadata: str | None = "m", **more: Json) -> Json:
        return {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata, **more}

    def commit(note: str, *found: Json, **fields: Json) -> None:
        body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": list(found)}
        talk.send("offset_commit", {**body, **fields}, note=note)

    def here(*partitions: Json) -> Json:
        return topics.here("partitions", *partitions)

    def away(*partitions: Json, **fields: str) -> Json:
        return topics.away("partitions", *partitions, **fields)

    commit("no topics")
    commit("a topic without partitions", here())
    commit("an unknown topic without partitions", away())
    commit("a topic without partitions and one with", away(), here(part()))
    commit("a known topic without partitions and one with", here(), here(part()))
    commit("a topic twice", here(part(0)), here(part(1)))
    commit("a partition twice", here(part(0, 6), part(0, 7)))
    commit("an unknown topic twice", away(part(0)), away(part(1)))
    commit("known and unknown partitions", here(part(0), part(9)))
    commit("a negative partition", here(part(-1)))
    commit("the largest partition", here(part(LARGEST_32)))
    commit("neither name nor id", away(part(), name="", identifier=NO_ID))
    commit("a wrong name", away(part(), name="a/b"))
    commit("no metadata", here(part(0, 8, None)))
    commit("too much metadata", here(part(0, 9, "m" * 5000), part(1, 9)))
    commit("no offset", here(part(0, -1)))
    commit("an offset below all", here(part(0, -7)))
    commit("the largest offset", here(part(1, LARGEST_64)))
    if talk.version >= 6:
        commit("a leader epoch below all", here(part(0, 10, committed_leader_epoch=-7)))
        commit("the largest leader epoch", here(part(0, 11, committed_leader_epoch=LARGEST_32)))
    commit("a generation below all", here(part()), generation_id_or_member_epoch=-7)
    commit("a generation without a member", here(part()), generation_id_or_member_epoch=3)
    commit("a member without a generation", here(part()), member_id="m")
    # (Offsets of the group without a name would be kept, for the other conversations to find.)
    commit("no group, an unknown topic", away(part()), group_id="")
    commit("no group, no topics", group_id="")
    commit("a new group that has generations", here(part()), group_id=talk.name("h"), generation_id_or_member_epoch=0)
    if talk.version >= 7:
        commit("an instance without a member", here(part()), group_instance_id="i")
    requested = {"group_id": group, "topics": [{"name": topics.name, "partition_indexes": [0, 1]}]}
    talk.send("offset_fetch", {"groups": [requested]}, version=8, note="afterwards")


@scenario("offset_fetch")
def fetch_odd_offsets(talk: Conversation) -> None:
    topics, group = Topics(talk), talk.name("g")
    wait_for_coordinators(talk, group, talk.name("none"))
    part = {"partition_index": 0, "committed_offset": 42, "committed_metadata": "note"}
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [topics.here("partitions", part)]}
    talk.quietly("offset_commit", body, 9)

    def fetch(note: str, found: list[Json] | None, name: str = group, **more: Json) -> None:
        if talk.version >= 8:
            talk.send("offset_fetch", {"groups": [{"group_id": name, "topics": found}], **more}, note=note)
        else:
            talk.send("offset_fetch", {"group_id": name, "topics": found, **more}, note=note)

    def here(*partitions: Json) -> Json:
        return topics.here("partition_indexes", *partitions)

    def away(*partitions: Json, **fields: str) -> Json:
        return topics.away("partition_indexes", *partitions, **fields)

    for word, name in (("group", group), ("unknown group", talk.name("none")), ("no group", "")):
        fetch(f"{word}, no topics", [], name)
        fetch(f"{word}, a topic without partitions", [here()], name)
        fetch(f"{word}, an unknown topic without partitions", [away()], name)
        fetch(f"{word}, a topic twice", [here(0), here(1)], name)
        fetch(f"{word}, a partition twice", [here(0, 0)], name)
        fetch(f"{word}, an unknown topic twice", [away(0), away(1)], name)
        fetch(f"{word}, known and unknown partitions", [here(0, 9, -1, LARGEST_32)], name)
        fetch(f"{word}, neither name nor id", [away(0, name="", identifier=NO_ID)], name)
        fetch(f"{word}, a wrong name", [away(0, name="a/b")], name)
        if talk.version >= 2:
            fetch(f"{word}, everything", None, name)
    if talk.version >= 8:
        twice = {"group_id": group, "topics": [here(0)]}
        talk.send("offset_fetch", {"groups": [twice, twice]}, note="a group twice")
        talk.send("offset_fetch", {"groups": [twice, {**twice, "group_id": ""}]}, note="a group and none")
    if talk.version >= 9:
        for note, fields in (
            ("an epoch without a member", {"member_epoch": 3}),
            ("a member without an epoch", {"member_id": "m"}),
            ("an empty member", {"member_id": ""}),
            ("an empty member with an epoch", {"member_id": "", "member_epoch": 3}),
            ("an epoch below all", {"member_id": "m", "member_epoch": -7}),
        ):
            claim = {"group_id": group, "topics": [here(0)], **fields}
            talk.send("offset_fetch", {"groups": [claim]}, note=note)


@scenario("offset_delete")
def delete_odd_offsets(talk: Conversation) -> None:
    topics, group = Topics(talk), talk.name("g")
    wait_for_coordinators(talk, group, talk.name("none"))
    part = {"partition_index": 0, "committed_offset": 42, "committed_metadata": "note"}
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [topics.here("partitions", part)]}
    talk.quietly("offset_commit", body, 9)

    def delete(note: str, *found: tuple[str, list[int]], name: str = group) -> None:
        entries = [
            {"name": topic, "partitions": [{"partition_index": index} for index in partitions]}
            for topic, partitions in found
        ]
        talk.send("offset_delete", {"group_id": name, "topics": entries}, note=note)

    for word, name in (("group", group), ("unknown group", talk.name("none")), ("no group", "")):
        delete(f"{word}, no topics", name=name)
        delete(f"{word}, a topic without partitions", (topics.name, []), name=name)
        delete(f"{word}, an unknown topic without partitions", (topics.absent, []), name=name)
        delete(f"{word}, a partition that has no offset", (topics.name, [1]), name=name)
        delete(f"{word}, unknown partitions", (topics.name, [9, -1]), (topics.absent, [0]), name=name)
        delete(f"{word}, an unknown topic twice", (topics.absent, [0]), (topics.absent, [1]), name=name)
        delete(f"{word}, a topic twice", (topics.name, [1]), (topics.name, [9]), name=name)
        delete(f"{word}, a partition twice", (topics.name, [0, 0]), name=name)


@scenario("describe_groups")
def describe_odd_groups(talk: Conversation) -> None:
    group = talk.name("g")
    wait_for_coordinators(talk, group)
    talk.send("describe_groups", {"groups": [group, group]}, note="twice")
    talk.send("describe_groups", {"groups": ["", "", group]}, note="without a name, twice, and one with")
    talk.send("describe_groups", {"groups": ["g" * 1000]}, note="a long name")


@scenario("delete_groups")
def delete_odd_groups(talk: Conversation) -> None:
    topics, group = Topics(talk), talk.name("g")
    wait_for_coordinators(talk, group)
    part = {"partition_index": 0, "committed_offset": 42, "committed_metadata": "note"}
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [topics.here("partitions", part)]}
    talk.quietly("offset_commit", body, 9)
    absent = talk.name("absent")
    talk.wait_for_coordinator(absent)
    talk.send("delete_groups", {"groups_names": [absent, absent]}, note="an unknown one twice")
    talk.send("delete_groups", {"groups_names": ["", ""]}, note="without a name, twice")
    talk.send("delete_groups", {"groups_names": ["", group]}, note="without a name, and one with")
    talk.quietly("offset_commit", body, 9)
    talk.send("delete_groups", {"groups_names": [group, group]}, note="twice")


@scenario("list_groups", least=4)
def list_odd_groups(talk: Conversation) -> None:
    def listed(note: str, **filters: Json) -> None:
        talk.send("list_groups", filters, note=note, mine="groups")

    listed("an empty state", states_filter=[""])
    listed("a state twice", states_filter=["Stable", "Stable"])
    if talk.version >= 5:
        listed("an empty type", types_filter=[""])
        listed("a type in capitals", types_filter=["CLASSIC"])
        listed("a type and an unknown one", types_filter=["classic", "nonsense"])


@scenario("describe_cluster", least=1)
def describe_odd_clusters(talk: Conversation) -> None:
    for kind in (0, 3, -1):
        talk.send("describe_cluster", {"endpoint_type": kind}, note=f"kind {kind}")
    if talk.version >= 2:
        talk.send("describe_cluster", {"endpoint_type": 2, "include_fenced_brokers": True}, note="fenced controllers")
