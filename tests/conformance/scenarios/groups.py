"""Classic groups: joins, rebalances, leaving, offsets, and everything that is refused on the way."""

from __future__ import annotations

import struct

from ..conversation import Conversation, Posted
from ..kio_codec import Json
from . import scenario

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT = 9, 5, 4, 5, 8


def subscription(topic: str) -> bytes:
    """What a consumer says about itself: version 0, one topic, no user data. Kafka 4.3.1 never ends the rebalance of a
    group whose members call themselves consumers and send anything else."""
    return struct.pack(">hih", 0, 1, len(topic)) + topic.encode() + struct.pack(">i", -1)


class Member:
    """One classic member on a connection of its own."""

    def __init__(
        self, talk: Conversation, word: str, group: str, join_version: int = JOIN, instance: str | None = None
    ) -> None:
        self.talk, self.word, self.group = talk, word, group
        self.join_version, self.instance = join_version, instance
        self.member_id = ""
        self.generation = -1
        talk.connection(word)

    def join_body(self, **more: Json) -> dict[str, Json]:
        return {
            "group_id": self.group,
            "session_timeout": 30_000,
            "rebalance_timeout": 30_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(self.word)}],
            **more,
        }

    def post_join(self, note: str = "", **more: Json) -> Posted:
        body = self.join_body(**more)
        return self.talk.post(
            "join_group", body, version=self.join_version, on=self.word, note=note or f"{self.word} joins"
        )

    def joined(self, posted: Posted) -> Json:
        answer = self.talk.collect(posted)
        if answer.get("member_id"):
            self.member_id = answer["member_id"]
        self.generation = answer.get("generation_id", -1)
        return answer

    def join(self, note: str = "", **more: Json) -> Json:
        answer = self.joined(self.post_join(note, **more))
        if answer.get("error_code") == "MEMBER_ID_REQUIRED":
            answer = self.joined(self.post_join(note, **more))
        return answer

    def sync_body(self, assignments: dict[str, bytes] | None = None, **more: Json) -> dict[str, Json]:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": m, "assignment": a} for m, a in (assignments or {}).items()],
            **more,
        }

    def sync(
        self, assignments: dict[str, bytes] | None = None, version: int = SYNC, note: str = "", **more: Json
    ) -> Json:
        body = self.sync_body(assignments, **more)
        return self.talk.send("sync_group", body, version=version, on=self.word, note=note or f"{self.word} syncs")

    def heartbeat(self, note: str, version: int = HEARTBEAT, **more: Json) -> Json:
        body = {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}
        body |= {"group_instance_id": self.instance, **more}
        return self.talk.send("heartbeat", body, version=version, on=self.word, note=note)

    def leave(self, note: str, version: int = LEAVE) -> Json:
        if version < 3:
            body: dict[str, Json] = {"group_id": self.group, "member_id": self.member_id}
        else:
            one = {"member_id": self.member_id, "group_instance_id": self.instance, "reason": None}
            body = {"group_id": self.group, "members": [one]}
        return self.talk.send("leave_group", body, version=version, on=self.word, note=note)


def ready_group(talk: Conversation, word: str = "g") -> str:
    group = talk.name(word)
    talk.wait_for_coordinator(group)
    return group


@scenario("find_coordinator")
def find_coordinator(talk: Conversation) -> None:
    ready_group(talk)
    talk.wait_for_coordinator(talk.name("txn"), 1)

    def find(note: str, key: str, kind: int = 0) -> None:
        body: dict[str, Json] = {"key": key} if talk.version < 4 else {"coordinator_keys": [key]}
        if talk.version >= 1:
            body["key_type"] = kind
        talk.send("find_coordinator", body, note=note)

    find("a group", talk.name("g"))
    find("empty group id", "")
    if talk.version >= 1:
        find("a transactional id", talk.name("txn"), 1)
        find("an unknown kind", talk.name("g"), 9)
        find("a share-partition key, malformed", "not a key", 2)
    if talk.version >= 4:
        talk.send("find_coordinator", {"key_type": 0, "coordinator_keys": [talk.name("x"), talk.name("y")]}, note="two")
        talk.send("find_coordinator", {"key_type": 0, "coordinator_keys": []}, note="none")


@scenario("join_group")
def join_group(talk: Conversation) -> None:
    group = ready_group(talk)
    first = Member(talk, "first", group, talk.version)
    first.join()
    first.sync({first.member_id: b"everything"})
    first.heartbeat("in a stable group")
    second = Member(talk, "second", group, talk.version)
    if talk.version >= 4:
        second.joined(second.post_join())
    waiting = second.post_join()
    talk.until(
        lambda a: a["groups"][0]["group_state"] == "PreparingRebalance", "describe_groups", {"groups": [group]}, 5
    )
    first.heartbeat("a second member waits")
    first.joined(first.post_join())
    second.joined(waiting)
    ours = talk.post(
        "sync_group", second.sync_body(), version=SYNC, on="second", note="second syncs, before the leader"
    )
    first.sync({first.member_id: b"half", second.member_id: b"other half"})
    talk.collect(ours)
    first.heartbeat("stable again")
    second.heartbeat("stable again")
    talk.send("describe_groups", {"groups": [group]}, version=5, note="two members")
    second.leave("second leaves")
    first.heartbeat("after the other left")
    first.joined(first.post_join())
    first.sync({first.member_id: b"everything"})
    first.leave("first leaves")
    talk.send("describe_groups", {"groups": [group]}, version=5, note="empty")
    first.heartbeat("has left")


@scenario("join_group")
def join_group_wrongly(talk: Conversation) -> None:
    group = ready_group(talk)

    def join(note: str, **more: Json) -> None:
        member = Member(talk, f"wrong-{note}", more.pop("group_id", group), talk.version)
        member.join(note, **more)
        talk.disconnect(f"wrong-{note}")

    join("empty group id", group_id="")
    join("unknown member", member_id="who-is-this")
    join("no protocols", protocols=[])
    join("empty protocol type", protocol_type="")
    join("session timeout too short", session_timeout=10)
    join("session timeout too long", session_timeout=100_000_000)
    member = Member(talk, "member", group, talk.version)
    member.join()
    member.sync({member.member_id: b"all"})
    join("another protocol type", protocol_type="connect")
    join("no protocol in common", protocols=[{"name": "other", "metadata": subscription("x")}])
    join("unknown member of a group with members", member_id="who-is-this")
    member.joined(member.post_join("the leader joins again"))
    member.sync({member.member_id: b"all"})
    member.leave("leaves")


@scenario("join_group", least=5)
def join_group_with_instances(talk: Conversation) -> None:
    group = ready_group(talk)
    first = Member(talk, "first", group, talk.version, "instance-1")
    first.join()
    first.sync({first.member_id: b"all"})
    again = Member(talk, "again", group, talk.version, "instance-1")
    again.join("the same instance returns")
    again.sync()
    first.heartbeat("the old member id")
    again.heartbeat("the new member id")
    talk.send(
        "offset_commit",
        commit_body(group, first.generation, first.member_id, [], "instance-1"),
        version=8,
        note="by the old",
    )
    stranger = Member(talk, "stranger", group, talk.version, "instance-2")
    stranger.heartbeat("an unknown instance", member_id="some-id")
    again.heartbeat("instance of another", group_instance_id="instance-2")
    one = {"member_id": "", "group_instance_id": "instance-1", "reason": None}
    nobody = {"member_id": "", "group_instance_id": "instance-9", "reason": None}
    talk.send(
        "leave_group", {"group_id": group, "members": [one, nobody]}, version=5, note="an administrator removes it"
    )
    again.heartbeat("removed")


@scenario("sync_group")
def sync_group(talk: Conversation) -> None:
    group = ready_group(talk)
    member = Member(talk, "m", group)
    talk.send("sync_group", member.sync_body(group_id=talk.name("absent")), note="unknown group")
    member.join()
    member.sync(version=talk.version, note="unknown member", member_id="nobody")
    member.sync(version=talk.version, note="wrong generation", generation_id=7)
    member.sync(version=talk.version, note="empty group id", group_id="")
    if talk.version >= 5:
        member.sync(version=talk.version, note="wrong protocol", protocol_name="other")
        member.sync(version=talk.version, note="wrong protocol type", protocol_type="connect")
    member.sync({member.member_id: b"mine"}, version=talk.version, note="leader")
    member.sync(version=talk.version, note="again, without an assignment")
    member.sync({member.member_id: b"other"}, version=talk.version, note="again, with another assignment")
    member.leave("leaves")
    member.sync(version=talk.version, note="after leaving")


@scenario("heartbeat")
def heartbeat(talk: Conversation) -> None:
    group = ready_group(talk)
    member = Member(talk, "m", group)
    member.heartbeat("unknown group", talk.version, group_id=talk.name("absent"), member_id="x")
    member.join()
    member.heartbeat("before the sync", talk.version)
    member.sync({member.member_id: b"mine"})
    member.heartbeat("stable", talk.version)
    member.heartbeat("old generation", talk.version, generation_id=0)
    member.heartbeat("negative generation", talk.version, generation_id=-1)
    member.heartbeat("unknown member", talk.version, member_id="x")
    member.heartbeat("empty member", talk.version, member_id="")
    member.heartbeat("empty group id", talk.version, group_id="")
    member.leave("leaves")
    member.heartbeat("left", talk.version)


@scenario("leave_group")
def leave_group(talk: Conversation) -> None:
    group = ready_group(talk)
    member = Member(talk, "m", group)
    member.member_id = "nobody"
    member.leave("unknown group", talk.version)
    member.member_id = ""
    member.join()
    member.sync({member.member_id: b"mine"})
    known, member.member_id = member.member_id, "nobody"
    member.leave("unknown member", talk.version)
    member.member_id = known
    member.leave("leaves", talk.version)
    member.leave("leaves again", talk.version)
    if talk.version >= 3:
        talk.send("leave_group", {"group_id": group, "members": []}, note="nobody")
        talk.send("leave_group", {"group_id": "", "members": []}, note="empty group id")


def commit_body(
    group: str, generation: int, member: str, topics: list[Json], instance: str | None = None
) -> dict[str, Json]:
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "group_instance_id": instance,
        "topics": topics,
    }


@scenario("offset_commit")
def offset_commit(talk: Conversation) -> None:
    group, topic = ready_group(talk), talk.name("t")
    topic_id = talk.create_topic(topic, 3)

    def offsets(
        *pairs: tuple[int, int], metadata: str | None = "", name: str = topic, by_id: str = topic_id
    ) -> list[Json]:
        parts = [
            {"partition_index": p, "committed_offset": o, "committed_leader_epoch": -1, "committed_metadata": metadata}
            for p, o in pairs
        ]
        return [{"name": name, "topic_id": by_id, "partitions": parts}]

    def commit(note: str, topics: list[Json], generation: int = -1, member: str = "") -> None:
        talk.send("offset_commit", commit_body(group, generation, member, topics), note=note)

    commit("nobody's group", offsets((0, 5), (1, 0)))
    commit("again, lower", offsets((0, 3)))
    commit("metadata", offsets((1, 7), metadata="a note"))
    commit("null metadata", offsets((2, 1), metadata=None))
    commit("metadata too long", offsets((0, 9), metadata="x" * 5000))
    commit("negative offset", offsets((0, -5)))
    commit("unknown partition", offsets((9, 1)))
    commit("unknown topic", offsets((0, 1), name=talk.name("absent"), by_id="11111111-2222-3333-4444-555555555555"))
    commit("a generation without members", offsets((0, 1)), generation=3, member="x")
    commit("nothing", [])
    member = Member(talk, "m", group)
    member.join()
    commit("before the sync", offsets((0, 10)), member.generation, member.member_id)
    member.sync({member.member_id: b"mine"})
    commit("as a member", offsets((0, 11)), member.generation, member.member_id)
    commit("old generation", offsets((0, 12)), member.generation - 1, member.member_id)
    commit("unknown member", offsets((0, 13)), member.generation, "x")
    commit("without membership", offsets((0, 14)))
    fetch = {
        "groups": [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}],
        "require_stable": True,
    }
    talk.send("offset_fetch", fetch, version=8, note="what is committed")
    member.leave("leaves")


@scenario("offset_fetch")
def offset_fetch(talk: Conversation) -> None:
    group, topic = ready_group(talk), talk.name("t")
    topic_id = talk.create_topic(topic, 3)
    part = {"committed_offset": 42, "committed_leader_epoch": 0, "committed_metadata": "note"}
    body = commit_body(group, -1, "", [{"name": topic, "partitions": [{"partition_index": 1, **part}]}])
    talk.quietly("offset_commit", body, 8)

    def fetch(note: str, topics: list[Json] | None, group: str = group, **more: Json) -> None:
        if talk.version >= 8:
            one = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
            talk.send("offset_fetch", {"groups": [one], **more}, note=note)
        else:
            talk.send("offset_fetch", {"group_id": group, "topics": topics, **more}, note=note)

    def asks(*partitions: int, name: str = topic, by_id: str = topic_id) -> Json:
        return {"name": name, "topic_id": by_id, "partition_indexes": list(partitions)}

    fetch("committed and not", [asks(0, 1)])
    fetch("unknown partition", [asks(9)])
    fetch("unknown topic", [asks(0, name=talk.name("absent"), by_id="11111111-2222-3333-4444-555555555555")])
    fetch("unknown group", [asks(0, 1)], group=talk.name("absent"))
    fetch("no partitions", [asks()])
    fetch("no topics", [])
    fetch("empty group id", [asks(1)], group="")
    if talk.version >= 2:
        fetch("all topics", None)
        fetch("all topics of an unknown group", None, group=talk.name("absent"))
    if talk.version >= 7:
        fetch("stable ones", [asks(1)], require_stable=True)
    if talk.version >= 8:
        groups = [{"group_id": g, "member_epoch": -1, "topics": [asks(1)]} for g in (group, talk.name("absent"))]
        talk.send("offset_fetch", {"groups": groups}, note="two groups")
        talk.send("offset_fetch", {"groups": []}, note="no groups")
    if talk.version >= 9:
        claim = {"group_id": group, "member_id": "nobody", "member_epoch": 3, "topics": [asks(1)]}
        talk.send("offset_fetch", {"groups": [claim]}, note="as a member that is not there")


@scenario("offset_delete")
def offset_delete(talk: Conversation) -> None:
    group, topic = ready_group(talk), talk.name("t")
    talk.create_topic(topic, 2)
    parts = [{"partition_index": p, "committed_offset": 4} for p in (0, 1)]
    talk.quietly("offset_commit", commit_body(group, -1, "", [{"name": topic, "partitions": parts}]), 8)

    def delete(note: str, *partitions: int, group: str = group, name: str = topic) -> None:
        entry = {"name": name, "partitions": [{"partition_index": p} for p in partitions]}
        talk.send("offset_delete", {"group_id": group, "topics": [entry]}, note=note)

    delete("one", 0)
    delete("again", 0)
    delete("unknown partition", 9)
    delete("unknown topic", 0, name=talk.name("absent"))
    delete("unknown group", 0, group=talk.name("absent"))
    delete("empty group id", 0, group="")
    member = Member(talk, "m", group)
    member.join(protocol_type="other")
    delete("group with members of another kind", 1)
    member.leave("leaves")
    delete("empty again", 1)


@scenario("delete_groups")
def delete_groups(talk: Conversation) -> None:
    group = ready_group(talk)
    member = Member(talk, "m", group)
    member.join()
    talk.send("delete_groups", {"groups_names": [group]}, note="with a member")
    member.leave("leaves")
    talk.send("delete_groups", {"groups_names": [group, talk.name("absent")]}, note="empty, and one unknown")
    talk.send("delete_groups", {"groups_names": [group]}, note="again")
    talk.send("delete_groups", {"groups_names": []}, note="nothing")


@scenario("describe_groups")
def describe_groups(talk: Conversation) -> None:
    group = ready_group(talk)
    member = Member(talk, "m", group)
    member.join()
    talk.send("describe_groups", {"groups": [group]}, note="completing the rebalance")
    member.sync({member.member_id: b"mine"})
    talk.send("describe_groups", {"groups": [group, talk.name("absent")]}, note="stable, and one unknown")
    if talk.version >= 3:
        talk.send("describe_groups", {"groups": [group], "include_authorized_operations": True}, note="operations")
    talk.send("describe_groups", {"groups": [""]}, note="empty group id")
    talk.send("describe_groups", {"groups": []}, note="nothing")
    member.leave("leaves")
    talk.send("describe_groups", {"groups": [group]}, note="empty")


@scenario("list_groups")
def list_groups(talk: Conversation) -> None:
    group = ready_group(talk)
    member = Member(talk, "m", group)
    member.join()
    member.sync({member.member_id: b"mine"})
    talk.send("list_groups", {}, note="all", mine="groups")
    if talk.version >= 4:
        talk.send("list_groups", {"states_filter": ["Stable"]}, note="stable ones", mine="groups")
        talk.send("list_groups", {"states_filter": ["stable", "Empty"]}, note="in lower case", mine="groups")
        talk.send("list_groups", {"states_filter": ["Nonsense"]}, note="unknown state", mine="groups")
    if talk.version >= 5:
        talk.send("list_groups", {"types_filter": ["classic"]}, note="classic ones", mine="groups")
        talk.send("list_groups", {"types_filter": ["share"]}, note="share ones", mine="groups")
        talk.send("list_groups", {"types_filter": ["nonsense"]}, note="unknown type", mine="groups")
    member.leave("leaves")
    talk.send("list_groups", {}, note="empty", mine="groups")
