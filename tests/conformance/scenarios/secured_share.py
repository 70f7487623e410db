"""Share groups as users who may read or describe some of them, or some of the topics in them."""

from __future__ import annotations

from ..batches import batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from ..rights import DESCRIBE, GROUP, READ, TOPIC, grant, id_of, revoke, rights_by_name, rule, topics_by_right
from . import secured_scenario
from .secured_groups import groups_by_right
from .share import short

TOPICS = ("none", "describe", "read", "write")
EVERYBODY = ("alice", "nobody", "owner", "admin")


def join(talk: Conversation, group: str, *topics: str) -> None:
    """A member of the administrator's, so that the group and its windows on the topics are there."""
    body: dict[str, Json] = {"group_id": group, "member_id": "stage", "member_epoch": 0, "rack_id": None}
    body["subscribed_topic_names"] = list(topics)

    def is_assigned(answer: Json) -> bool:
        if answer["error_code"] != "NONE":
            return False
        body["member_epoch"] = answer["member_epoch"]
        return bool(answer["assignment"]) and len(answer["assignment"]["topic_partitions"]) == len(topics)

    talk.until(is_assigned, "share_group_heartbeat", body, 1)


@secured_scenario("share_group_heartbeat")
def secured_share_group_heartbeat(talk: Conversation) -> None:
    topics_by_right(talk, *TOPICS, absent=("absent.none", "absent.read"))
    groups = groups_by_right(talk, "g.none", "g.describe", "g.read")

    def beat(user: str, group: str, note: str, topics: list[str] | None, epoch: int = 0) -> Json:
        names = None if topics is None else [talk.name(word) for word in topics]
        body = {"group_id": group, "member_id": f"{user}-1", "member_epoch": epoch, "rack_id": None}
        body["subscribed_topic_names"] = names
        return talk.send("share_group_heartbeat", body, on=user, note=note, hidden=("heartbeat_interval", "assignment"))

    for group in groups:
        word = group.removeprefix(talk.name(""))
        beat("nobody", group, f"{word}, nobody", ["read"])
        beat("alice", group, f"{word}, some topics are not hers", [*TOPICS])
        beat("alice", group, f"{word}, one is not there", ["describe", "absent.none"])
    beat("alice", groups[2], "joins", ["describe", "read", "absent.read"])
    for user in (*EVERYBODY, "bob"):
        body = {"group_ids": [*groups, talk.name("missing")], "include_authorized_operations": True}
        talk.send("share_group_describe", body, on=user, note="the groups", hidden=("assignment", "group_state"))
    beat("alice", groups[2], "leaves", None, -1)


@secured_scenario("share_group_describe")
def secured_share_group_describe(talk: Conversation) -> None:
    topics_by_right(talk, *TOPICS)
    groups = groups_by_right(talk, "g.describe", "g.none", "g.read", "g.all")
    for group, word in zip(groups, ("describe", "read", "none", "write"), strict=True):
        join(talk, group, talk.name(word))
    for operations in (False, True):
        for user in EVERYBODY:
            requested = {"group_ids": groups, "include_authorized_operations": operations}
            note = "with authorized operations" if operations else "all"
            hidden = ("member_epoch", "group_epoch", "assignment_epoch")
            talk.send("share_group_describe", requested, on=user, note=note, hidden=hidden)


class Worker:
    def __init__(self, talk: Conversation, user: str, group: str, ids: dict[str, str]) -> None:
        self.talk, self.user, self.group, self.ids = talk, user, group, ids
        self.epoch = 0

    def topics(self, words: tuple[str, ...], *acks: Json) -> list[Json]:
        parts = [{"partition_index": 0, "acknowledgement_batches": list(acks)}]
        return [{"topic_id": id_of(self.talk, self.ids, word), "partitions": parts} for word in words]

    def body(self, words: tuple[str, ...], *acks: Json, **more: Json) -> dict[str, Json]:
        body: dict[str, Json] = {"group_id": self.group, "member_id": f"{self.user}-1", "max_wait": 0, "min_bytes": 1}
        body |= {"share_session_epoch": self.epoch, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        body |= {"topics": self.topics(words, *acks), "forgotten_topics_data": []}
        if self.talk.version >= 2:
            body |= {"share_acquire_mode": 0, "is_renew_ack": False}
        return body | more

    def fetch(self, note: str, words: tuple[str, ...], *acks: Json, **more: Json) -> Json:
        answer = self.talk.send("share_fetch", self.body(words, *acks, **more), on=self.user, note=note)
        self.epoch += answer.get("error_code") == "NONE"
        return answer

    def acknowledge(self, note: str, words: tuple[str, ...], *acks: Json, **more: Json) -> Json:
        body: dict[str, Json] = {"group_id": self.group, "member_id": f"{self.user}-1"}
        body |= {"share_session_epoch": self.epoch, "topics": self.topics(words, *acks)}
        if self.talk.version >= 2:
            body["is_renew_ack"] = False
        answer = self.talk.send("share_acknowledge", body | more, on=self.user, note=note)
        self.epoch += answer.get("error_code") == "NONE"
        return answer


def queues(talk: Conversation, *words: str) -> tuple[str, dict[str, str]]:
    """Topics with three records each, and a group that reads them from the beginning."""
    ids = topics_by_right(talk, *words)
    group = groups_by_right(talk, "g.read")[0]
    for topic_id in ids.values():
        talk.wait_for_coordinator(f"{group}:{short(topic_id)}:0", 2)
    talk.configure_group(group, {"share.auto.offset.reset": "earliest"})
    join(talk, group, *(talk.name(word) for word in words))
    opener = Worker(talk, "admin", group, ids)

    def is_open(answer: Json) -> bool:
        found = [p for t in answer["responses"] for p in t["partitions"]]
        codes = [part["error_code"] for part in found]
        return answer["error_code"] == "NONE" and len(codes) == len(words) and set(codes) == {"NONE"}

    talk.until(is_open, "share_fetch", opener.body(words, max_wait=100), talk.version)
    talk.quietly("share_fetch", opener.body((), share_session_epoch=-1, max_records=0), talk.version)
    for word in words:
        talk.append(talk.name(word), batch(*values("a", "b", "c")))
    return group, ids


ACCEPT = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}


@secured_scenario("share_fetch")
def secured_share_fetch(talk: Conversation) -> None:
    group, ids = queues(talk, *TOPICS)
    for user, of in (("alice", talk.name("g.none")), ("nobody", group), ("bob", group)):
        stranger = Worker(talk, user, of, ids)
        stranger.fetch("a group that is not theirs", TOPICS)
        stranger.acknowledge("a group that is not theirs", ("read",), ACCEPT, share_session_epoch=1)
        stranger.fetch("closes in a group that is not theirs", (), share_session_epoch=-1)
    worker = Worker(talk, "alice", group, ids)
    worker.fetch("opens, some topics are not hers", TOPICS, max_wait=1000)
    worker.acknowledge("answers for hers and others", TOPICS, ACCEPT)
    second = {"first_offset": 1, "last_offset": 1, "acknowledge_types": [1]}
    worker.fetch("answers while fetching", TOPICS, second)
    revoke(talk, rule("alice", READ, TOPIC, talk.name("read")))
    talk.append(talk.name("read"), batch(*values("d")))
    third = {"first_offset": 2, "last_offset": 2, "acknowledge_types": [1]}
    worker.fetch("after the right on the topic was taken away", ())
    worker.acknowledge("answers for what she may no longer read", ("read",), third)
    worker.fetch("after that", ())
    revoke(talk, rule("alice", READ, GROUP, group))
    worker.fetch("after the right on the group was taken away", ())
    worker.acknowledge("closes", (), share_session_epoch=-1)
    grant(talk, rule("bob", READ, GROUP, group))
    Worker(talk, "bob", group, ids).fetch("opens with a topic that is not there", ("absent",))


@secured_scenario("describe_share_group_offsets")
def secured_share_group_offsets(talk: Conversation) -> None:
    ids = topics_by_right(talk, *TOPICS, "delete", "alter", absent=("absent.none", "absent.read"))
    words = ("g.none", "g.describe", "g.read", "g.delete", "g.all")
    groups = groups_by_right(talk, *words)
    for group in groups:
        for topic_id in ids.values():
            talk.wait_for_coordinator(f"{group}:{short(topic_id)}:0", 2)
        join(talk, group, *(talk.name(word) for word in ids))
        leave = {"group_id": group, "member_id": "stage", "member_epoch": -1, "subscribed_topic_names": None}
        talk.quietly("share_group_heartbeat", {**leave, "rack_id": None}, 1)
    everywhere = [talk.name(word) for word in (*ids, "absent.none", "absent.read")]

    def describe(user: str, note: str, topics: Json) -> None:
        body = {"groups": [{"group_id": group, "topics": topics} for group in groups]}
        talk.send("describe_share_group_offsets", body, on=user, note=note)

    for user in EVERYBODY:
        describe(user, "named topics", [{"topic_name": name, "partitions": [0]} for name in everywhere])
        describe(user, "all topics", None)
    for group, word in zip(groups, words, strict=True):
        part = [{"partition_index": 0, "start_offset": 0}]
        alter = {"group_id": group, "topics": [{"topic_name": name, "partitions": part} for name in everywhere]}
        delete = {"group_id": group, "topics": [{"topic_name": name} for name in everywhere]}
        for user in ("alice", "nobody"):
            talk.send("alter_share_group_offsets", alter, version=0, on=user, note=word)
            talk.send("delete_share_group_offsets", delete, version=0, on=user, note=word)
    talk.send("alter_share_group_offsets", {"group_id": groups[2], "topics": []}, version=0, on="alice", note="nothing")
    talk.send(
        "delete_share_group_offsets", {"group_id": groups[3], "topics": []}, version=0, on="alice", note="nothing"
    )
    for api in ("alter_share_group_offsets", "delete_share_group_offsets"):
        body = alter if api.startswith("alter") else delete
        grant(talk, *rights_by_name(talk, GROUP, ["missing.all"]))
        talk.send(api, {**body, "group_id": talk.name("missing.all")}, version=0, on="alice", note="no such group")
        talk.send(api, {**body, "group_id": talk.name("missing")}, version=0, on="alice", note="no such group, denied")


STATE: dict[str, Json] = {"state_epoch": 1, "start_offset": 0}


@secured_scenario("write_share_group_state")
def secured_share_group_state(talk: Conversation) -> None:
    """The share coordinator serves brokers alone."""
    ids = topics_by_right(talk, "all")
    group = groups_by_right(talk, "g.all")[0]
    talk.wait_for_coordinator(f"{group}:{short(ids['all'])}:0", 2)
    calls: tuple[tuple[str, dict[str, Json]], ...] = (
        ("initialize_share_group_state", STATE),
        ("read_share_group_state", {"leader_epoch": 0}),
        ("write_share_group_state", {**STATE, "leader_epoch": 0, "delivery_complete_count": 0, "state_batches": []}),
        ("read_share_group_state_summary", {"leader_epoch": 0}),
        ("delete_share_group_state", {}),
    )
    for user in ("alice", "nobody", "describer", "alterer", "outcast", "actor", "owner", "admin"):
        for api, fields in calls:
            topics = [{"topic_id": ids["all"], "partitions": [{"partition": 0, **fields}]}]
            version = talk.version if api in ("write_share_group_state", "read_share_group_state_summary") else 0
            talk.send(api, {"group_id": group, "topics": topics}, version=version, on=user, note="of a topic")
            if user in ("nobody", "actor"):
                talk.send(api, {"group_id": group, "topics": []}, version=version, on=user, note="of nothing")


@secured_scenario("streams_group_heartbeat")
def secured_streams_groups(talk: Conversation) -> None:
    group, _ = talk.name("g.none"), topics_by_right(talk, "read")
    talk.wait_for_coordinator(group)
    grant(talk, rule("alice", DESCRIBE, GROUP, group))
    body = {"group_id": group, "member_id": "member-1", "member_epoch": 0, "rebalance_timeout": 10_000}
    source = {"subtopology_id": "0", "source_topics": [talk.name("read")]}
    body |= {"topology": {"epoch": 0, "subtopologies": [source]}, "process_id": "p", "client_tags": []}
    body |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    body |= {"task_offsets": None, "task_end_offsets": None}
    for user in ("alice", "nobody"):
        talk.send("streams_group_heartbeat", body, on=user, note="denied")
    requested = {"group_ids": [group], "include_authorized_operations": True}
    talk.send("streams_group_describe", requested, on="nobody", note="denied")
