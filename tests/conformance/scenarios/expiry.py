"""What time takes away: members that fall silent or do not come back, transactions that stay open."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario
from .consumer_groups import Beating
from .groups import Member, commit_body, ready_group
from .share import Sharing
from .transactions import Id


@scenario("heartbeat", only=(4,))
def classic_member_expires(talk: Conversation) -> None:
    group = ready_group(talk)
    member = Member(talk, "m", group)
    member.join(session_timeout=1_000)
    member.sync({member.member_id: b"mine"})
    empty = {"groups": [group]}
    talk.until(lambda a: a["groups"][0]["group_state"] == "Empty", "describe_groups", empty, 5)
    member.heartbeat("too late")
    member.sync({member.member_id: b"mine"}, note="too late")
    talk.send("offset_commit", commit_body(group, 1, member.member_id, []), version=9, note="too late, nothing")
    member.join("joins under its old id", session_timeout=1_000)
    talk.send("describe_groups", {"groups": [group]}, version=5, note="nobody is left")


@scenario("join_group", only=(9,))
def classic_member_does_not_rejoin(talk: Conversation) -> None:
    group = ready_group(talk)
    first, second = Member(talk, "first", group), Member(talk, "second", group)
    first.join(rebalance_timeout=1_000)
    first.sync({first.member_id: b"all"})
    second.joined(second.post_join(rebalance_timeout=1_000))
    coming = second.post_join("second joins, first does not come", rebalance_timeout=1_000)
    talk.until(lambda a: a["groups"][0]["group_state"] != "Stable", "describe_groups", {"groups": [group]}, 5)
    first.heartbeat("is told to rejoin")
    second.joined(coming)
    first.heartbeat("is out")
    second.sync({second.member_id: b"all"})
    second.leave("leaves")


@scenario("consumer_group_heartbeat", only=(1,))
def consumer_member_expires(talk: Conversation) -> None:
    group, topic = ready_group(talk), talk.name("t")
    talk.create_topic(topic, 2)
    talk.configure_group(group, {"consumer.heartbeat.interval.ms": "500", "consumer.session.timeout.ms": "1000"})
    member = Beating(talk, "m", group)
    member.join([topic])
    requested = {"group_ids": [group]}
    talk.until(lambda a: a["groups"][0]["group_state"] == "Empty", "consumer_group_describe", requested, 1)
    member.beat("too late")
    part = {"partition_index": 0, "committed_offset": 4}
    body = commit_body(group, 1, member.member_id, [{"name": topic, "partitions": [part]}])
    talk.send("offset_commit", body, version=9, note="too late")
    talk.send("consumer_group_describe", requested, note="nobody is left")
    member.epoch = 0
    member.join([topic])


@scenario("share_group_heartbeat")
def share_member_expires(talk: Conversation) -> None:
    group, topic = ready_group(talk), talk.name("t")
    talk.create_topic(topic)
    talk.configure_group(group, {"share.heartbeat.interval.ms": "500", "share.session.timeout.ms": "1000"})
    member = Sharing(talk, "m", group)
    member.beat("joins a topic that is not there", subscribed_topic_names=[talk.name("absent")])
    requested = {"group_ids": [group], "include_authorized_operations": False}
    talk.until(lambda a: a["groups"][0]["group_state"] == "Empty", "share_group_describe", requested, 1)
    member.beat("too late")
    talk.send("share_group_describe", requested, note="nobody is left")


@scenario("init_producer_id", only=(4, 5))
def transaction_expires(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic)
    writer = Id(talk, talk.name("id"), topic, modern=talk.version >= 5)
    body: dict[str, Json] = {"transactional_id": writer.name, "transaction_timeout": 500}
    granted = talk.until(lambda answer: answer["error_code"] == "NONE", "init_producer_id", body, talk.version)
    writer.producer_id, writer.epoch = granted["producer_id"], granted["producer_epoch"]
    writer.begin()
    requested = {"transactional_id_pattern": writer.name, "state_filters": ["CompleteAbort"]}
    talk.until(lambda a: len(a["transaction_states"]) == 1, "list_transactions", requested, 2)
    writer.describe("aborted by the coordinator")
    talk.send("end_txn", writer.ending(commit=True), version=5 if writer.modern else 4, note="too late")
    talk.send("produce", writer.producing("late"), version=12 if writer.modern else 11, note="too late")
    again = {**body, "producer_id": writer.producer_id, "producer_epoch": writer.epoch}
    talk.send("init_producer_id", again, note="with the old epoch")
    talk.send("init_producer_id", {**again, "producer_id": -1, "producer_epoch": -1}, note="anew")
