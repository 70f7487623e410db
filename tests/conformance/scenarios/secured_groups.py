"""Groups and their offsets as users who may read or describe some of them, or some of the topics in them."""

from __future__ import annotations

from collections.abc import Iterable

from ..conversation import Conversation
from ..kio_codec import Json
from ..rights import DESCRIBE, GROUP, READ, TOPIC, grant, id_of, revoke, rights_by_name, rule, topics_by_right
from . import secured_scenario
from .groups import subscription

EVERYBODY = ("alice", "nobody", "owner", "admin")
GROUPS = ("g.none", "g.describe", "g.read", "g.delete", "g.all", "g.no-read", "g.no-describe")
TOPICS = ("none", "describe", "read", "write", "no-read")
ABSENT = ("absent.none", "absent.read")


def groups_by_right(talk: Conversation, *words: str) -> list[str]:
    for word in words:
        talk.wait_for_coordinator(talk.name(word))
    grant(talk, *rights_by_name(talk, GROUP, words))
    return [talk.name(word) for word in words]


def begin(talk: Conversation, groups: Iterable[str], topic: str = "") -> None:
    """Offsets that the administrator commits, so that the groups are there."""
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1}
    for group in groups:
        body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        body["topics"] = [{"name": topic, "partitions": [part]}]
        talk.quietly("offset_commit", body, 8)


@secured_scenario("find_coordinator")
def secured_find_coordinator(talk: Conversation) -> None:
    groups = groups_by_right(talk, *GROUPS)
    talk.wait_for_coordinator(talk.name("x.describe"), 1)
    names = ("x.none", "x.describe", "x.write")
    grant(talk, *rights_by_name(talk, 5, names))

    def find(user: str, kind: int, keys: list[str], note: str) -> None:
        if talk.version >= 4:
            talk.send("find_coordinator", {"key_type": kind, "coordinator_keys": keys}, on=user, note=note)
            return
        for key in keys:
            body: dict[str, Json] = {"key": key, "key_type": kind}
            talk.send("find_coordinator", body, on=user, note=f"{note} {key.removeprefix(talk.name(''))}")

    for user in EVERYBODY:
        find(user, 0, groups, "groups")
        if talk.version >= 1:
            find(user, 1, [talk.name(word) for word in names], "transactional ids")
    if talk.version >= 6:
        for user in (*EVERYBODY, "actor", "describer"):
            find(user, 2, ["not a key"], "share-partitions")


@secured_scenario("join_group")
def secured_join_group(talk: Conversation) -> None:
    groups = groups_by_right(talk, "g.none", "g.describe", "g.read", "g.no-read")
    for user in ("alice", "nobody"):
        for group in groups:
            body = {
                "group_id": group,
                "session_timeout": 30_000,
                "rebalance_timeout": 30_000,
                "member_id": "",
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": subscription("t")}],
            }
            word = group.removeprefix(talk.name(""))
            talk.send("join_group", body, on=user, note=word)
            talk.send("join_group", {**body, "session_timeout": 1}, on=user, note=f"{word}, a session too short")


@secured_scenario("sync_group")
def secured_sync_group(talk: Conversation) -> None:
    for group in groups_by_right(talk, "g.none", "g.describe", "g.read"):
        body = {"group_id": group, "generation_id": 1, "member_id": "m", "assignments": []}
        body |= {"protocol_type": "consumer", "protocol_name": "range"}
        for user in ("alice", "nobody"):
            talk.send("sync_group", body, on=user, note=group.removeprefix(talk.name("")))
    body["protocol_type"] = None
    talk.send("sync_group", body, on="nobody", note="without a protocol")


@secured_scenario("heartbeat")
def secured_heartbeat(talk: Conversation) -> None:
    for group in groups_by_right(talk, "g.none", "g.describe", "g.read"):
        body = {"group_id": group, "generation_id": 1, "member_id": "m"}
        for user in ("alice", "nobody"):
            talk.send("heartbeat", body, on=user, note=group.removeprefix(talk.name("")))


@secured_scenario("leave_group")
def secured_leave_group(talk: Conversation) -> None:
    for group in groups_by_right(talk, "g.none", "g.describe", "g.read"):
        body: dict[str, Json] = {"group_id": group}
        if talk.version < 3:
            body["member_id"] = "m"
        else:
            body["members"] = [{"member_id": "m", "group_instance_id": None, "reason": None}] * 2
        for user in ("alice", "nobody"):
            talk.send("leave_group", body, on=user, note=group.removeprefix(talk.name("")))


@secured_scenario("describe_groups")
def secured_describe_groups(talk: Conversation) -> None:
    topics_by_right(talk, "none")
    groups = groups_by_right(talk, *GROUPS)
    begin(talk, groups, talk.name("none"))
    missing = [talk.name("missing"), talk.name("missing.describe")]
    grant(talk, rule("alice", DESCRIBE, GROUP, missing[1]))
    for user in EVERYBODY:
        body = {"groups": [*groups, *missing], "include_authorized_operations": True}
        talk.send("describe_groups", body, on=user, note="with authorized operations")
    body = {"groups": [groups[2], groups[0]], "include_authorized_operations": False}
    talk.send("describe_groups", body, on="alice", note="without them")


@secured_scenario("list_groups")
def secured_list_groups(talk: Conversation) -> None:
    topics_by_right(talk, "none")
    groups = groups_by_right(talk, *GROUPS)
    begin(talk, groups, talk.name("none"))
    for user in (*EVERYBODY, "describer", "outcast"):
        talk.send("list_groups", {}, on=user, note="all", mine="groups")


@secured_scenario("delete_groups")
def secured_delete_groups(talk: Conversation) -> None:
    topics_by_right(talk, "none")
    words = (*GROUPS, "g.no-delete")
    groups = groups_by_right(talk, *words)
    begin(talk, groups, talk.name("none"))
    missing = [talk.name("missing"), talk.name("missing.delete")]
    grant(talk, *rights_by_name(talk, GROUP, ["missing.delete"]))
    for user in ("nobody", "alice", "alice", "admin"):
        talk.send("delete_groups", {"groups_names": [*groups, *missing]}, on=user, note="all")


def committing(talk: Conversation, group: str, ids: dict[str, str]) -> dict[str, Json]:
    part = {"committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1}
    parts = [{"partition_index": index, **part} for index in (0, 9)]
    topics = [
        {"name": talk.name(word), "topic_id": id_of(talk, ids, word), "partitions": parts}
        for word in (*TOPICS, *ABSENT)
    ]
    who = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    return {"group_id": group, **who, "topics": topics}


@secured_scenario("offset_commit")
def secured_offset_commit(talk: Conversation) -> None:
    ids = topics_by_right(talk, *TOPICS, absent=ABSENT)
    groups = groups_by_right(talk, "g.none", "g.describe", "g.read")
    for group in groups:
        word = group.removeprefix(talk.name(""))
        talk.send("offset_commit", committing(talk, group, ids), on="alice", note=word)
    talk.send("offset_commit", committing(talk, groups[0], ids), on="nobody", note="nobody")
    talk.send("offset_commit", committing(talk, groups[0], ids), on="admin", note="the administrator")
    talk.send("offset_commit", {**committing(talk, groups[2], ids), "topics": []}, on="alice", note="nothing")
    talk.send("offset_commit", {**committing(talk, groups[0], ids), "topics": []}, on="alice", note="nothing, denied")
    grant(talk, rule("bob", READ, GROUP, groups[2]))
    talk.send("offset_commit", committing(talk, groups[2], ids), on="bob", note="may read the group and no topic")


@secured_scenario("offset_fetch")
def secured_offset_fetch(talk: Conversation) -> None:
    ids = topics_by_right(talk, *TOPICS, absent=ABSENT)
    groups = groups_by_right(talk, "g.none", "g.describe", "g.read", "g.no-describe")
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1}
    for group in groups:
        body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        body["topics"] = [{"name": talk.name(word), "partitions": [part]} for word in TOPICS]
        talk.quietly("offset_commit", body, 8)

    def fetch(user: str, note: str, requested: list[str], topics: list[Json] | None) -> None:
        if talk.version >= 8:
            entries = [
                {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics} for group in requested
            ]
            talk.send("offset_fetch", {"groups": entries, "require_stable": False}, on=user, note=note)
            return
        for group in requested:
            word = group.removeprefix(talk.name(""))
            talk.send("offset_fetch", {"group_id": group, "topics": topics}, on=user, note=f"{note} {word}")

    some = [
        {"name": talk.name(word), "topic_id": id_of(talk, ids, word), "partition_indexes": [0, 9]}
        for word in (*TOPICS, *ABSENT)
    ]
    for user in EVERYBODY:
        fetch(user, "some topics", groups, some)
        if talk.version >= 2:
            fetch(user, "all topics", groups, None)
    fetch("alice", "no topics", groups, [])


@secured_scenario("offset_delete")
def secured_offset_delete(talk: Conversation) -> None:
    topics_by_right(talk, *TOPICS, absent=ABSENT)
    groups = groups_by_right(talk, "g.none", "g.read", "g.delete", "g.no-delete")
    for word in TOPICS:
        begin(talk, groups, talk.name(word))
    parts = [{"partition_index": index} for index in (0, 9)]
    topics = [{"name": talk.name(word), "partitions": parts} for word in (*TOPICS, *ABSENT)]
    grant(talk, *rights_by_name(talk, GROUP, ["missing.delete"]))
    for group in (*groups, talk.name("missing"), talk.name("missing.delete")):
        word = group.removeprefix(talk.name(""))
        talk.send("offset_delete", {"group_id": group, "topics": topics}, on="alice", note=word)
        talk.send("offset_delete", {"group_id": group, "topics": []}, on="alice", note=f"{word}, nothing")
    talk.send("offset_delete", {"group_id": groups[0], "topics": topics}, on="nobody", note="nobody")
    talk.send("offset_delete", {"group_id": groups[0], "topics": topics}, on="admin", note="the administrator")


class Beating:
    def __init__(self, talk: Conversation, user: str, group: str, word: str) -> None:
        self.talk, self.user, self.group = talk, user, group
        self.member_id = f"{talk.name(word)}-id" if talk.version >= 1 else ""
        self.epoch = 0

    def beat(self, note: str, **more: Json) -> Json:
        body = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        body |= {"rebalance_timeout": -1, "instance_id": None, "rack_id": None, "server_assignor": None}
        body |= {"subscribed_topic_names": None, "subscribed_topic_regex": None, "topic_partitions": None, **more}
        answer = self.talk.send(
            "consumer_group_heartbeat", body, on=self.user, note=note, hidden=("heartbeat_interval",)
        )
        if answer.get("error_code") == "NONE":
            self.member_id, self.epoch = answer["member_id"], answer["member_epoch"]
        return answer

    def join(self, note: str, **more: Json) -> Json:
        return self.beat(note, rebalance_timeout=60_000, topic_partitions=[], **more)


@secured_scenario("consumer_group_heartbeat")
def secured_consumer_group_heartbeat(talk: Conversation) -> None:
    topics_by_right(talk, *TOPICS, absent=ABSENT)
    groups = groups_by_right(talk, "g.none", "g.describe", "g.read")
    for group in groups:
        word = group.removeprefix(talk.name(""))
        Beating(talk, "alice", group, "m").join(f"{word}, topics she may not see", subscribed_topic_names=names(talk))
        Beating(talk, "nobody", group, "n").join(f"{word}, nobody", subscribed_topic_names=[])
    reader = Beating(talk, "alice", groups[2], "reader")
    seen = [talk.name(word) for word in ("describe", "read")]
    reader.join("topics she may see", subscribed_topic_names=seen)
    reader.beat("adds one that is not there, and is hers", subscribed_topic_names=[*seen, talk.name("absent.read")])
    reader.beat("adds one that is not there, and is not hers", subscribed_topic_names=[talk.name("absent.none")])
    reader.beat("adds one that is there, and is not hers", subscribed_topic_names=[talk.name("none")])
    reader.beat("nothing new")
    describe(talk, groups)
    reader.epoch = -1
    stranger = Beating(talk, "bob", groups[2], "reader")
    stranger.member_id, stranger.epoch = reader.member_id, -1
    stranger.beat("another user sends her away")
    reader.beat("leaves")


def names(talk: Conversation) -> list[str]:
    return [talk.name(word) for word in TOPICS]


def describe(talk: Conversation, groups: list[str]) -> None:
    for user in (*EVERYBODY, "bob"):
        body = {"group_ids": groups, "include_authorized_operations": True}
        talk.send("consumer_group_describe", body, on=user, note="the groups", hidden=("client_host",))


@secured_scenario("consumer_group_describe")
def secured_consumer_group_describe(talk: Conversation) -> None:
    """A group whose members read topics that the asker may not describe is not described to him."""
    topics_by_right(talk, *TOPICS)
    groups = groups_by_right(talk, "g.describe", "g.none", "g.read", "g.all")
    body: dict[str, Json] = {"member_epoch": 0, "instance_id": None, "rack_id": None, "rebalance_timeout": 60_000}
    body |= {"server_assignor": None, "topic_partitions": [], "subscribed_topic_regex": None}
    for group, word in zip(groups, ("describe", "read", "none", "write"), strict=True):
        one = {**body, "group_id": group, "member_id": f"{word}-id", "subscribed_topic_names": [talk.name(word)]}
        talk.quietly("consumer_group_heartbeat", one, 1)
    missing = [talk.name("missing"), talk.name("missing.describe")]
    grant(talk, *rights_by_name(talk, GROUP, ["missing.describe"]))
    for operations in (False, True):
        for user in EVERYBODY:
            requested = {"group_ids": [*groups, *missing], "include_authorized_operations": operations}
            note = "with authorized operations" if operations else "all"
            talk.send("consumer_group_describe", requested, on=user, note=note)


@secured_scenario("consumer_group_heartbeat", least=1)
def secured_consumer_group_patterns(talk: Conversation) -> None:
    """A pattern finds the topics that the member may describe, and no others."""
    topics_by_right(talk, *TOPICS)
    groups = {user: groups_by_right(talk, f"{user}.all")[0] for user in ("alice", "bob")}
    grant(talk, rule("bob", READ, GROUP, groups["bob"]), rule("bob", DESCRIBE, TOPIC, talk.name("none")))
    for user, group in groups.items():
        body: dict[str, Json] = {"group_id": group, "member_id": f"{user}-1", "member_epoch": 0, "instance_id": None}
        body |= {"rack_id": None, "rebalance_timeout": 60_000, "server_assignor": None, "topic_partitions": []}
        body |= {"subscribed_topic_names": None, "subscribed_topic_regex": f"{talk.name('')}.*"}

        def is_assigned(answer: Json, body: dict[str, Json] = body) -> bool:
            if answer["error_code"] != "NONE":
                return False
            body["member_epoch"] = answer["member_epoch"]
            return bool(answer["assignment"] and answer["assignment"]["topic_partitions"])

        talk.until(is_assigned, "consumer_group_heartbeat", body, 1, on=user)
        hidden = ("group_epoch", "assignment_epoch", "member_epoch", "group_state", "assignment")
        requested = {"group_ids": [group], "include_authorized_operations": False}
        for asker in ("alice", "bob", "admin"):
            note = f"what {user} was given"
            talk.send("consumer_group_describe", requested, version=1, on=asker, note=note, hidden=hidden)


@secured_scenario("consumer_group_heartbeat", least=1)
def secured_rights_that_members_lose(talk: Conversation) -> None:
    """A member whose rights are taken away stays one, and is refused what it then asks for."""
    topics_by_right(talk, "read")
    group = groups_by_right(talk, "g.read")[0]
    topic_right, group_right = rule("alice", READ, TOPIC, talk.name("read")), rule("alice", READ, GROUP, group)
    member = Beating(talk, "alice", group, "m")
    member.join("joins", subscribed_topic_names=[talk.name("read")])
    revoke(talk, topic_right)
    member.beat("after the right on the topic is gone")
    member.beat("names the topic again", subscribed_topic_names=[talk.name("read")])
    offsets = committing(talk, group, {})
    offsets |= {"generation_id_or_member_epoch": member.epoch, "member_id": member.member_id}
    talk.send("offset_commit", offsets, version=9, on="alice", note="commits")
    describe(talk, [group])
    revoke(talk, group_right)
    member.beat("after the right on the group is gone")
    member.epoch = -1
    member.beat("leaves")
    describe(talk, [group])
    grant(talk, group_right)
    member.beat("leaves when it may again")
