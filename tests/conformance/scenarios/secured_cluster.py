"""What is done to the cluster, as users who hold one right on it each, all of them or none."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from ..rights import DELETE, DESCRIBE, TOPIC, grant, rule, topics_by_right
from . import secured_scenario
from .quorum import MOVING
from .secured_sasl import VERSIONS

USERS = ("nobody", "alice", "describer", "alterer", "actor", "config-writer", "outcast", "owner", "admin")
ANOTHER_ID = "11111111-2222-3333-4444-555555555555"


@secured_scenario("describe_log_dirs")
def secured_describe_log_dirs(talk: Conversation) -> None:
    topics_by_right(talk, "none", "all")
    topics = [{"topic": talk.name(word), "partitions": [0]} for word in ("none", "all", "absent")]
    for user in USERS:
        talk.send("describe_log_dirs", {"topics": topics}, on=user, note="some topics")


@secured_scenario("alter_replica_log_dirs")
def secured_alter_replica_log_dirs(talk: Conversation) -> None:
    topics_by_right(talk, "all")
    topics = [{"name": talk.name(word), "partitions": [0]} for word in ("all", "absent")]
    for user in USERS:
        body = {"dirs": [{"path": "/nowhere", "topics": topics}]}
        talk.send("alter_replica_log_dirs", body, on=user, note="to a folder that is not configured")


@secured_scenario("elect_leaders")
def secured_elect_leaders(talk: Conversation) -> None:
    topics_by_right(talk, "all")
    parts = [{"topic": talk.name(word), "partitions": [0]} for word in ("all", "absent")]
    for user in USERS:
        body: dict[str, Json] = {"topic_partitions": parts, "timeout": 10_000, "election_type": 0}
        talk.send("elect_leaders", body, on=user, note="of two topics")
    for user in ("nobody", "alice"):
        body = {"topic_partitions": None, "timeout": 10_000, "election_type": 0}
        talk.send("elect_leaders", body, on=user, note="of all topics")


@secured_scenario("alter_partition_reassignments")
def secured_partition_reassignments(talk: Conversation) -> None:
    topics_by_right(talk, "all")
    parts = [{"partition_index": 0, "replicas": [1]}]
    topics = [{"name": talk.name(word), "partitions": parts} for word in ("all", "absent")]
    for user in USERS:
        talk.send("alter_partition_reassignments", {"timeout": 10_000, "topics": topics}, on=user, note="moves")
        requested = [{"name": talk.name("all"), "partition_indexes": [0]}]
        for note, named in (("lists some", requested), ("lists all", None)):
            body = {"timeout": 1000, "topics": named}
            talk.send("list_partition_reassignments", body, version=0, on=user, note=note)


@secured_scenario("describe_quorum")
def secured_describe_quorum(talk: Conversation) -> None:
    for user in USERS:
        requested = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
        hidden = (*MOVING, "nodes") if talk.version >= 2 else MOVING
        talk.send("describe_quorum", {"topics": [requested]}, on=user, note="the quorum", hidden=hidden)
    other = {"topic_name": talk.name("x"), "partitions": [{"partition_index": 0}]}
    talk.send("describe_quorum", {"topics": [other]}, on="nobody", note="another topic")


@secured_scenario("update_features")
def secured_update_features(talk: Conversation) -> None:
    for user in USERS:
        one: dict[str, Json] = {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}
        unknown = {**one, "feature": "no.such.feature"}
        body = {"timeout": 10_000, "feature_updates": [one, unknown], "validate_only": True}
        talk.send("update_features", body, on=user, note="two features")
        talk.send("update_features", {**body, "feature_updates": []}, on=user, note="none")


@secured_scenario("unregister_broker")
def secured_unregister_broker(talk: Conversation) -> None:
    for user in USERS:
        talk.send("unregister_broker", {"broker_id": 77}, on=user, note="unknown broker")


@secured_scenario("add_raft_voter")
def secured_raft_voters(talk: Conversation) -> None:
    for user in USERS:
        body = {"cluster_id": "another", "timeout": 1000, "voter_id": 77, "voter_directory_id": ANOTHER_ID}
        listeners = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}]
        talk.send("add_raft_voter", {**body, "listeners": listeners}, on=user, note="of another cluster")
        gone = {"cluster_id": "another", "voter_id": 77, "voter_directory_id": ANOTHER_ID}
        talk.send("remove_raft_voter", gone, version=0, on=user, note="of another cluster")


@secured_scenario("create_delegation_token")
def secured_delegation_tokens(talk: Conversation) -> None:
    """Delegation tokens are off: no secret key is configured."""
    for user in ("nobody", "owner", "admin"):
        mine = {"renewers": [], "max_lifetime": 1000, "owner_principal_type": None, "owner_principal_name": None}
        talk.send("create_delegation_token", mine, on=user, note="one's own")
        if talk.version >= 3:
            another = {**mine, "owner_principal_type": "User", "owner_principal_name": "alice"}
            talk.send("create_delegation_token", another, on=user, note="for another")
        renewers = [{"principal_type": "Robot", "principal_name": "r"}]
        talk.send("create_delegation_token", {**mine, "renewers": renewers}, on=user, note="an odd renewer")
        version = min(talk.version, 2)
        renewal = {"hmac": b"abc", "renew_period": 1000}
        talk.send("renew_delegation_token", renewal, version=version, on=user, note="unknown token")
        expiry = {"hmac": b"abc", "expiry_time_period": 1000}
        talk.send("expire_delegation_token", expiry, version=version, on=user, note="unknown token")
        for note, owners in (("all", None), ("none", []), ("one", [{"principal_type": "User", "principal_name": "a"}])):
            talk.send("describe_delegation_token", {"owners": owners}, on=user, note=note)


@secured_scenario("api_versions")
def secured_api_versions(talk: Conversation) -> None:
    """Which APIs there are depends neither on the user nor on the listener's protocol."""
    body = {"client_software_name": "conformance", "client_software_version": "1.0"}
    talk.send("api_versions", body, on="nobody", note="authenticated", hidden=VERSIONS)
    talk.send("api_versions", body, on="raw", note="before authentication", hidden=VERSIONS)


@secured_scenario("describe_cluster", only=(0,))
def secured_cluster_and_topics(talk: Conversation) -> None:
    """What one may do to a topic says nothing about another, nor about the cluster."""
    topics_by_right(talk, "none")
    grant(talk, rule("bob", DELETE, TOPIC, talk.name("none")), rule("bob", DESCRIBE, TOPIC, talk.name("other")))
    requested = [{"name": talk.name(word), "topic_id": "0" * 32} for word in ("none", "other", "third")]
    body = {"topics": requested, "allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
    talk.send("metadata", body, version=12, on="bob", note="three topics")
    talk.send("describe_cluster", {"include_cluster_authorized_operations": True}, on="bob", note="the cluster")


@secured_scenario("get_telemetry_subscriptions")
def secured_telemetry(talk: Conversation) -> None:
    """No receiver of clients' metrics is configured."""
    for user in ("nobody", "admin"):
        requested = {"client_instance_id": "0" * 32}
        talk.send(
            "get_telemetry_subscriptions",
            requested,
            on=user,
            note="asks",
            hidden=("client_instance_id", "subscription_id"),
        )
        pushed = {"client_instance_id": ANOTHER_ID, "subscription_id": 1, "terminating": False, "metrics": b"x"}
        talk.send("push_telemetry", {**pushed, "compression_type": 0}, version=0, on=user, note="pushes")
