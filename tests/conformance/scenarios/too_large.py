"""What a coordinator would have to keep in a record that its topic does not take."""

from __future__ import annotations

from ..conversation import Conversation
from . import scenario
from .consumer_groups import Beating
from .groups import Member, ready_group

MEGABYTE = 1 << 20


@scenario("sync_group", only=(5,))
def assignment_too_large(talk: Conversation) -> None:
    member = Member(talk, "m", ready_group(talk))
    member.join()
    member.sync({member.member_id: bytes(MEGABYTE + 1000)}, note="an assignment of a megabyte")
    member.heartbeat("after it")
    member.join("joins again")
    member.sync({member.member_id: b"mine"}, note="a small one")
    member.heartbeat("in peace")


@scenario("consumer_group_heartbeat", only=(1,))
def subscription_too_large(talk: Conversation) -> None:
    member = Beating(talk, "m", ready_group(talk))

    def subscribe(note: str, topics: list[str]) -> None:
        member.beat(note, subscribed_topic_names=topics, rebalance_timeout=60_000, topic_partitions=[])

    subscribe("to a megabyte of names", [f"{n}" + "x" * 20_000 for n in range(60)])
    subscribe("to one topic", [talk.name("t")])
