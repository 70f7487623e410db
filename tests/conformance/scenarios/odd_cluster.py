"""The cluster administered in odd ways: unknown kinds, nothing named, named twice."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

LARGEST_32 = (1 << 31) - 1


@scenario("elect_leaders")
def elect_odd_leaders(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name, 2)

    def elect(note: str, *topics: tuple[str, list[int]], **more: Json) -> None:
        found = [{"topic": topic, "partitions": partitions} for topic, partitions in topics]
        talk.send("elect_leaders", {"topic_partitions": found, "timeout": 10_000, **more}, note=note)

    elect("a topic without partitions", (name, []))
    elect("an unknown topic without partitions", (talk.name("absent"), []))
    elect("a topic twice", (name, [0]), (name, [1]))
    elect("a partition twice", (name, [0, 0]))
    elect("a negative partition", (name, [-1]))
    elect("a topic without a name", ("", [0]))
    if talk.version >= 1:
        elect("a negative kind", (name, [0]), election_type=-1)


@scenario("alter_partition_reassignments")
def move_odd_partitions(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name, 2)

    def move(note: str, *topics: tuple[str, list[tuple[int, list[int] | None]]], **more: Json) -> None:
        found = [
            {"name": topic, "partitions": [{"partition_index": index, "replicas": to} for index, to in partitions]}
            for topic, partitions in topics
        ]
        talk.send("alter_partition_reassignments", {"topics": found, "timeout": 10_000, **more}, note=note)

    move("nothing")
    move("a topic without partitions", (name, []))
    move("an unknown topic without partitions", (talk.name("absent"), []))
    move("a topic twice", (name, [(0, [1])]), (name, [(1, [1])]))
    move("a partition twice", (name, [(0, [1]), (0, [1])]))
    move("a negative partition", (name, [(-1, [1])]))
    move("to a negative broker", (name, [(0, [-1])]))
    move("a topic without a name", ("", [(0, [1])]))

    def list_moves(note: str, topics: list[Json] | None) -> None:
        body = {"topics": topics, "timeout": 10_000}
        talk.send("list_partition_reassignments", body, version=0, note=note)

    list_moves("a topic twice", [{"name": name, "partition_indexes": [0]}] * 2)
    list_moves("an unknown partition", [{"name": name, "partition_indexes": [9, -1]}])
    list_moves("an unknown topic", [{"name": talk.name("absent"), "partition_indexes": [0]}])
    list_moves("a topic without partitions", [{"name": name, "partition_indexes": []}])
    list_moves("no topics", [])


@scenario("update_features")
def update_odd_features(talk: Conversation) -> None:
    def update(note: str, *features: Json, **more: Json) -> None:
        body = {"feature_updates": list(features), "timeout": 10_000, "validate_only": True, **more}
        talk.send("update_features", {k: v for k, v in body.items() if k != "validate_only" or talk.version}, note=note)

    def to(name: str, level: int, **more: Json) -> Json:
        return {"feature": name, "max_version_level": level, **more}

    update("nothing")
    if talk.version == 0:
        return  # it cannot only try
    update("an unknown one", to("no.such.feature", 1))
    update("without a name", to("", 1))
    update("a negative level", to("group.version", -1))
    update("the largest level", to("group.version", 32_767))
    update("one twice", to("group.version", 1), to("group.version", 1))
    update("down without leave", to("group.version", 0))
    update("an unknown kind of change", to("group.version", 0, upgrade_type=7))


@scenario("describe_quorum")
def describe_odd_quorums(talk: Conversation) -> None:
    def describe(note: str, *topics: tuple[str, list[int]]) -> None:
        found = [
            {"topic_name": topic, "partitions": [{"partition_index": index} for index in partitions]}
            for topic, partitions in topics
        ]
        talk.send("describe_quorum", {"topics": found}, note=note)

    describe("nothing")
    describe("a topic without partitions", ("__cluster_metadata", []))
    describe("an unknown partition", ("__cluster_metadata", [1]))
    describe("an unknown topic", (talk.name("absent"), [0]))
    describe("a partition twice", ("__cluster_metadata", [0, 0]))
    describe("two topics", ("__cluster_metadata", [0]), (talk.name("absent"), [0]))


@scenario("alter_replica_log_dirs")
def alter_odd_log_dirs(talk: Conversation) -> None:
    name = talk.name("t")
    talk.create_topic(name, 2)

    def alter(note: str, *dirs: tuple[str, list[tuple[str, list[int]]]]) -> None:
        found = [
            {"path": path, "topics": [{"name": topic, "partitions": parts} for topic, parts in topics]}
            for path, topics in dirs
        ]
        talk.send("alter_replica_log_dirs", {"dirs": found}, note=note)

    alter("nothing")
    alter("a relative folder", ("elsewhere", [(name, [0])]))
    alter("no folder", ("", [(name, [0])]))
    alter("an unknown folder", ("/nowhere", [(name, [0])]))
    alter("an unknown folder and topic", ("/nowhere", [(talk.name("absent"), [0])]))
    alter("a folder without topics", ("/nowhere", []))
    alter("a partition in two folders", ("/nowhere", [(name, [0])]), ("/elsewhere", [(name, [0])]))
    alter("two partitions in two folders", ("/nowhere", [(name, [0])]), ("/elsewhere", [(name, [1])]))
    alter("a negative partition", ("/nowhere", [(name, [-1])]))
