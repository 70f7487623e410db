"""Streams groups (KIP-1071), which Apache Kafka serves and Penstock says that it does not."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario


@scenario("streams_group_heartbeat")
def streams_group_heartbeat(talk: Conversation) -> None:
    group, topic = talk.name("g"), talk.name("t")
    talk.create_topic(topic, 2)
    talk.wait_for_coordinator(group)
    topology = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": [topic]}]}

    def beat(note: str, **fields: Json) -> None:
        body = {"group_id": group, "member_id": "member-1", "member_epoch": 0, "rebalance_timeout": 10_000}
        tasks: dict[str, Json] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        process: dict[str, Json] = {"process_id": "process-1", "client_tags": [], "topology": topology}
        process |= {"task_offsets": None, "task_end_offsets": None}
        talk.send("streams_group_heartbeat", {**body, **tasks, **process, **fields}, note=note)

    beat("empty group id", group_id="")
    beat("without a topology", topology=None)
    beat("joins")
    beat("leaves", member_epoch=-1, topology=None, process_id=None, client_tags=None)


@scenario("streams_group_describe")
def streams_group_describe(talk: Conversation) -> None:
    talk.wait_for_coordinator(talk.name("absent"))
    talk.send("streams_group_describe", {"group_ids": [talk.name("absent")]}, note="unknown group")
    talk.send("streams_group_describe", {"group_ids": []}, note="nothing")
