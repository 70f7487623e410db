"""Requests that say nothing: every API and version with each field at zero, and lists whose one element is empty."""

from __future__ import annotations

from kio.schema.index import api_key_map

from ..conversation import Conversation
from ..kio_codec import Json, kio_versions
from . import scenario

# Nothing means everything to these, and what there is depends on the other conversations. Acks of 0 is what no produce
# request is answered for.
NOT_BARE = frozenset(
    {
        "describe_client_quotas",
        "describe_topic_partitions",
        "describe_user_scram_credentials",
        "list_config_resources",
        "list_groups",
        "list_transactions",
        "produce",
    }
)


def set_the_stage(talk: Conversation) -> None:
    """Every coordinator is there, whichever partition of its topic the empty name belongs to."""
    talk.producer_id()
    for word in "abcdefgh":
        talk.wait_for_coordinator(talk.name(word))
        talk.wait_for_coordinator(talk.name(word), 1)


@scenario("api_versions", only=(4,))
def bare_requests(talk: Conversation) -> None:
    set_the_stage(talk)
    served = talk.quietly("api_versions", {"client_software_name": "bare", "client_software_version": "1"})
    for entry in sorted(served["api_keys"], key=lambda entry: entry["api_key"]):
        api = api_key_map[entry["api_key"]]
        for version in range(entry["min_version"], entry["max_version"] + 1):
            if api in NOT_BARE or version not in kio_versions(api) or (api, version) == ("metadata", 0):
                continue
            talk.send(api, {}, version=version, on="bare", note="bare")
            talk.disconnect("bare")


@scenario("api_versions", only=(4,))
def bare_elements(talk: Conversation) -> None:
    set_the_stage(talk)

    def send(api: str, note: str, **fields: Json) -> None:
        version = kio_versions(api)[-1]
        talk.send(api, fields, version=version, on="bare", note=note)
        talk.disconnect("bare")

    nothing: dict[str, Json] = {}
    for api in ("list_offsets", "delete_records", "offset_for_leader_epoch"):
        send(api, "a topic without partitions", topics=[nothing])
        send(api, "a partition of no topic", topics=[{"partitions": [nothing]}])
    send("offset_commit", "no topic", topics=[nothing])
    send("offset_commit", "a partition of no topic", topics=[{"partitions": [nothing]}])
    send("alter_replica_log_dirs", "no topic", dirs=[{"topics": [nothing]}])
    send("alter_replica_log_dirs", "a partition of no topic", dirs=[{"topics": [{"partitions": [0]}]}])
    send("elect_leaders", "unknown kind, nothing to elect", election_type=-1, topic_partitions=[])
    send("describe_client_quotas", "a component without a type", components=[nothing])
    send("alter_client_quotas", "of nobody twice", entries=[nothing, nothing])
    send("remove_raft_voter", "without a folder", cluster_id=None, voter_id=1)
    send("add_raft_voter", "without a folder", cluster_id=None, voter_id=77)
    send("describe_acls", "unknown kinds")
    send("create_acls", "unknown kinds", creations=[nothing])
    send("delete_acls", "unknown kinds", filters=[nothing])
    send("incremental_alter_configs", "no resource", resources=[nothing])
    send("describe_configs", "no resource", resources=[nothing])
    send("create_partitions", "no topic", topics=[nothing], timeout=10_000)
    send("delete_topics", "no topic", topics=[nothing], timeout=10_000)
    send("create_topics", "no name", topics=[nothing], timeout=10_000)
    send("delete_groups", "no name", groups_names=[""])
    send("describe_groups", "no name", groups=[""])
    send("find_coordinator", "no key", coordinator_keys=[""])
    send("describe_transactions", "no id", transactional_ids=[""])
    send("describe_producers", "no topic", topics=[nothing])
    send("offset_fetch", "no group", groups=[nothing])
    send("alter_partition_reassignments", "no topic", topics=[nothing], timeout=10_000)
    send("update_features", "no feature", feature_updates=[nothing], timeout=10_000)
    send("alter_user_scram_credentials", "no names", deletions=[nothing], upsertions=[nothing])
    send("leave_group", "no member", members=[nothing])
    send("describe_log_dirs", "no topic", topics=[nothing])
