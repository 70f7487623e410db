"""The metadata quorum: who votes, and who may not come or go."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
ANOTHER_ID = "11111111-2222-3333-4444-555555555555"
# How far the log has come and which folder it is in: the broker's own. When it was read last stands beside them.
MOVING = (
    "leader_epoch",
    "high_watermark",
    "replica_directory_id",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
)


@scenario("describe_quorum")
def describe_quorum_of_the_metadata(talk: Conversation) -> None:
    requested = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    talk.send("describe_quorum", {"topics": [requested]}, note="the quorum", hidden=MOVING)
    talk.send("describe_quorum", {"topics": []}, note="nothing")
    talk.send("describe_quorum", {"topics": [{"topic_name": "__cluster_metadata", "partitions": []}]}, note="no parts")


@scenario("add_raft_voter")
def add_raft_voter(talk: Conversation) -> None:
    def add(note: str, **fields: Json) -> None:
        listeners = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}]
        body = {"cluster_id": None, "timeout": 1000, "voter_id": 77, "voter_directory_id": ANOTHER_ID}
        talk.send("add_raft_voter", {**body, "listeners": listeners, **fields}, note=note)

    add("of another cluster", cluster_id="another")
    add("negative id", voter_id=-1)
    add("the one there is", voter_id=1)
    add("without a listener", listeners=[])


@scenario("remove_raft_voter")
def remove_raft_voter(talk: Conversation) -> None:
    def remove(note: str, **fields: Json) -> None:
        body = {"cluster_id": None, "voter_id": 77, "voter_directory_id": ANOTHER_ID}
        talk.send("remove_raft_voter", {**body, **fields}, note=note)

    remove("of another cluster", cluster_id="another")
    remove("negative id", voter_id=-1)
    remove("unknown", voter_id=77)
    remove("the one there is, in another folder", voter_id=1)
