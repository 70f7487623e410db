"""Groups of the consumer protocol (KIP-848): heartbeats through a reassignment, and what is refused."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario
from .groups import Member, commit_body, ready_group


class Beating:
    """A member of a consumer group; it owns what it was last assigned unless told otherwise."""

    def __init__(self, talk: Conversation, word: str, group: str) -> None:
        self.talk, self.word, self.group = talk, word, group
        self.member_id = f"{talk.name(word)}-id" if talk.version >= 1 else ""
        self.epoch = 0
        self.owned: list[Json] = []

    def beat(self, note: str, **more: Json) -> Json:
        body = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "rebalance_timeout": -1,
        }
        body |= {"instance_id": None, "rack_id": None, "server_assignor": None}
        body |= {"subscribed_topic_names": None, "topic_partitions": None, **more}
        answer = self.talk.send("consumer_group_heartbeat", body, note=f"{self.word}: {note}")
        if answer.get("error_code") == "NONE":
            self.member_id, self.epoch = answer["member_id"], answer["member_epoch"]
            if answer["assignment"] is not None:
                self.owned = answer["assignment"]["topic_partitions"]
        return answer

    def join(self, topics: list[str], **more: Json) -> Json:
        return self.beat("joins", subscribed_topic_names=topics, rebalance_timeout=60_000, topic_partitions=[], **more)

    def owns(self, note: str) -> Json:
        return self.beat(note, topic_partitions=self.owned)

    def leave(self, epoch: int = -1) -> Json:
        self.epoch = epoch
        return self.beat("leaves")


@scenario("consumer_group_heartbeat")
def consumer_group_heartbeat(talk: Conversation) -> None:
    group, topic = ready_group(talk), talk.name("t")
    talk.create_topic(topic, 4)
    first = Beating(talk, "first", group)
    first.join([topic])
    first.owns("has taken it all")
    talk.send("consumer_group_describe", {"group_ids": [group]}, note="one member")
    second = Beating(talk, "second", group)
    second.join([topic])
    first.beat("is to give two up")
    second.beat("waits")
    first.owns("has given two up")
    second.beat("gets them")
    second.owns("has taken them")
    first.beat("nothing new")
    talk.send("consumer_group_describe", {"group_ids": [group]}, note="two members")
    second.leave()
    first.beat("gets them back")
    first.owns("has taken them")
    talk.send("list_groups", {"types_filter": ["consumer"]}, version=5, note="listed", mine="groups")
    first.leave()
    talk.send("consumer_group_describe", {"group_ids": [group]}, note="empty")


@scenario("consumer_group_heartbeat")
def consumer_group_heartbeat_wrongly(talk: Conversation) -> None:
    group, topic = ready_group(talk), talk.name("t")
    talk.create_topic(topic, 2)

    def beat(note: str, **more: Json) -> None:
        stranger = Beating(talk, "stranger", group)
        full = {"subscribed_topic_names": [topic], "rebalance_timeout": 60_000, "topic_partitions": [], **more}
        stranger.beat(note, **full)

    beat("empty group id", group_id="")
    beat("no topics", subscribed_topic_names=None)
    beat("no rebalance timeout", rebalance_timeout=-1)
    beat(
        "owns something already",
        topic_partitions=[{"topic_id": "11111111-2222-3333-4444-555555555555", "partitions": [0]}],
    )
    beat("unknown assignor", server_assignor="clever")
    beat("empty assignor", server_assignor="")
    beat("empty instance id", instance_id="")
    beat("empty rack", rack_id="")
    beat("unknown group, epoch 5", member_epoch=5, member_id="nobody")
    beat("leaves an unknown group", member_epoch=-1, member_id="nobody")
    beat("epoch below minus two", member_epoch=-3, member_id="nobody")
    member = Beating(talk, "member", group)
    member.join([topic])
    beat("unknown member", member_epoch=1, member_id="nobody")
    member.beat("epoch too new", member_epoch=9)
    member.beat("epoch one less", member_epoch=member.epoch - 1)
    member.beat("still there")
    classic = Member(talk, "classic", group)
    classic.join("a classic member joins")
    talk.send(
        "offset_commit", commit_body(group, 99, member.member_id, []), version=9, note="wrong epoch, nothing to commit"
    )
    part = {"partition_index": 0, "committed_offset": 4}
    offsets = [{"name": topic, "partitions": [part]}]
    talk.send("offset_commit", commit_body(group, 99, member.member_id, offsets), version=9, note="wrong epoch")
    talk.send("offset_commit", commit_body(group, member.epoch, "nobody", offsets), version=9, note="unknown member")
    talk.send(
        "offset_commit", commit_body(group, member.epoch, member.member_id, offsets), version=9, note="as the member"
    )
    talk.send(
        "offset_commit", commit_body(group, member.epoch, member.member_id, offsets), version=8, note="old version"
    )
    talk.send("delete_groups", {"groups_names": [group]}, version=2, note="with a member")
    member.leave()
    talk.send("delete_groups", {"groups_names": [group]}, version=2, note="empty")


@scenario("consumer_group_heartbeat", least=1)
def consumer_group_static_members(talk: Conversation) -> None:
    group, topic = ready_group(talk), talk.name("t")
    talk.create_topic(topic, 2)
    first = Beating(talk, "first", group)
    first.join([topic], instance_id="i1")
    first.owns("has taken them")
    rival = Beating(talk, "rival", group)
    rival.join([topic], instance_id="i1")
    first.epoch = -2
    first.beat("goes away for a while", instance_id="i1")
    again = Beating(talk, "again", group)
    again.join([topic], instance_id="i1")
    again.owns("has taken them again")
    first.epoch = 1
    first.beat("the old member", instance_id="i1")
    again.epoch = -1
    again.beat("leaves for good", instance_id="i1")


@scenario("consumer_group_heartbeat", least=1)
def consumer_group_patterns(talk: Conversation) -> None:
    group = ready_group(talk)
    talk.create_topic(talk.name("pattern-a"), 1)
    member = Beating(talk, "m", group)
    member.beat("broken pattern", subscribed_topic_regex="(", rebalance_timeout=60_000, topic_partitions=[])
    member.beat(
        "pattern", subscribed_topic_regex=f"{talk.name('pattern-')}.*", rebalance_timeout=60_000, topic_partitions=[]
    )
    member.leave()


@scenario("consumer_group_describe")
def consumer_group_describe(talk: Conversation) -> None:
    group = ready_group(talk)
    talk.send("consumer_group_describe", {"group_ids": [talk.name("absent")]}, note="unknown")
    talk.send("consumer_group_describe", {"group_ids": [""]}, note="empty group id")
    talk.send("consumer_group_describe", {"group_ids": []}, note="nothing")
    member = Member(talk, "m", group)
    member.join()
    talk.send("consumer_group_describe", {"group_ids": [group]}, note="a classic group")
    member.leave("leaves")
