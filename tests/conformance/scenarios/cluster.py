"""Administration of what a single open broker has little of: leaders to elect, replicas to move, access to control."""

from __future__ import annotations

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

ANY = 1
SAFE_DOWNGRADE = 2


@scenario("elect_leaders")
def elect_leaders(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic, 2)

    def elect(note: str, parts: list[Json] | None, kind: int = 0) -> None:
        body: dict[str, Json] = {"topic_partitions": parts, "timeout": 10_000}
        talk.send("elect_leaders", {**body, "election_type": kind} if talk.version >= 1 else body, note=note)

    elect("preferred", [{"topic": topic, "partitions": [0, 1]}])
    elect("unknown partition", [{"topic": topic, "partitions": [9]}])
    elect("unknown topic", [{"topic": talk.name("absent"), "partitions": [0]}])
    elect("nothing", [])
    if talk.version >= 1:
        elect("unclean", [{"topic": topic, "partitions": [0]}], 1)
        elect("unknown kind", [{"topic": topic, "partitions": [0]}], 7)


@scenario("alter_partition_reassignments")
def partition_reassignments(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic)

    def move(note: str, replicas: list[int] | None, name: str = topic, partition: int = 0) -> None:
        entry = {"name": name, "partitions": [{"partition_index": partition, "replicas": replicas}]}
        talk.send("alter_partition_reassignments", {"timeout": 10_000, "topics": [entry]}, note=note)

    move("to where it is", [1])
    move("to an unknown broker", [7])
    move("twice to one broker", [1, 1])
    move("to nowhere", [])
    move("cancels what is not under way", None)
    move("unknown topic", [1], talk.name("absent"))
    move("unknown partition", [1], partition=9)
    requested = {"name": topic, "partition_indexes": [0]}
    talk.send("list_partition_reassignments", {"timeout": 1000, "topics": [requested]}, version=0, note="of the topic")
    talk.send("list_partition_reassignments", {"timeout": 1000, "topics": None}, version=0, note="all")


@scenario("alter_replica_log_dirs")
def alter_replica_log_dirs(talk: Conversation) -> None:
    topic = talk.name("t")
    talk.create_topic(topic)

    def move(note: str, path: str, name: str = topic) -> None:
        body = {"dirs": [{"path": path, "topics": [{"name": name, "partitions": [0]}]}]}
        talk.send("alter_replica_log_dirs", body, note=note)

    move("to a folder that is not configured", "/nowhere")
    move("to a relative path", "here")
    talk.send("alter_replica_log_dirs", {"dirs": []}, note="nothing")


@scenario("describe_quorum")
def describe_quorum(talk: Conversation) -> None:
    def describe(note: str, topic: str, partition: int = 0) -> None:
        body = {"topics": [{"topic_name": topic, "partitions": [{"partition_index": partition}]}]}
        talk.send("describe_quorum", body, note=note)

    describe("another topic", talk.name("absent"))
    describe("another partition", "__cluster_metadata", 3)


@scenario("update_features")
def update_features(talk: Conversation) -> None:
    def update(note: str, feature: str, level: int, **more: Json) -> None:
        one: dict[str, Json] = {"feature": feature, "max_version_level": level}
        one |= {"upgrade_type": more.pop("upgrade_type", 1)} if talk.version >= 1 else {}
        body = {"timeout": 10_000, "feature_updates": [one], **more}
        talk.send("update_features", body, note=note)

    update("unknown feature", "no.such.feature", 1)
    update("the level it has", "group.version", 1)
    update("above what is supported", "group.version", 99)
    if talk.version >= 1:
        update("validates only", "group.version", 1, validate_only=True)
        update("unknown upgrade type", "group.version", 1, upgrade_type=9)
        lowers: dict[str, Json] = {"validate_only": True, "upgrade_type": SAFE_DOWNGRADE}
        for feature in ("group.version", "share.version", "transaction.version"):
            update(f"would lower {feature}", feature, 0, **lowers)
        update("would lower what cannot be", "metadata.version", 29, **lowers)
        update("would lower the quorum", "kraft.version", 0, **lowers)
        update("below zero", "group.version", -1, **lowers)
        update("unknown feature at zero", "no.such.feature", 0, **lowers)
    update("lowers in an upgrade", "group.version", 0)


@scenario("unregister_broker")
def unregister_broker(talk: Conversation) -> None:
    talk.send("unregister_broker", {"broker_id": 77}, note="unknown broker")


@scenario("describe_acls")
def describe_acls(talk: Conversation) -> None:
    body = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    nobody = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    talk.send("describe_acls", {**body, **nobody}, note="without an authorizer")


@scenario("create_acls")
def create_acls(talk: Conversation) -> None:
    one = {"resource_type": 2, "resource_name": talk.name("t"), "resource_pattern_type": 3, "principal": "User:a"}
    talk.send("create_acls", {"creations": [{**one, "host": "*", "operation": 3, "permission_type": 3}]}, note="one")
    talk.send("create_acls", {"creations": []}, note="nothing")


@scenario("delete_acls")
def delete_acls(talk: Conversation) -> None:
    nobody = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    one = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": ANY, "permission_type": ANY, **nobody}
    talk.send("delete_acls", {"filters": [one]}, note="one")
    talk.send("delete_acls", {"filters": []}, note="nothing")


@scenario("create_delegation_token")
def create_delegation_token(talk: Conversation) -> None:
    talk.send("create_delegation_token", {"renewers": [], "max_lifetime": 1000}, note="without a secret key")


@scenario("renew_delegation_token")
def renew_delegation_token(talk: Conversation) -> None:
    talk.send("renew_delegation_token", {"hmac": b"abc", "renew_period": 1000}, note="unknown token")


@scenario("expire_delegation_token")
def expire_delegation_token(talk: Conversation) -> None:
    talk.send("expire_delegation_token", {"hmac": b"abc", "expiry_time_period": 1000}, note="unknown token")


@scenario("describe_delegation_token")
def describe_delegation_token(talk: Conversation) -> None:
    talk.send("describe_delegation_token", {"owners": None}, note="all")


@scenario("sasl_handshake")
def sasl_handshake(talk: Conversation) -> None:
    talk.send("sasl_handshake", {"mechanism": "PLAIN"}, note="on a plaintext listener")


@scenario("sasl_authenticate")
def sasl_authenticate(talk: Conversation) -> None:
    talk.send("sasl_authenticate", {"auth_bytes": b"\0a\0b"}, note="on a plaintext listener")


@scenario("describe_client_quotas")
def describe_client_quotas(talk: Conversation) -> None:
    def describe(note: str, kind: str, match: int, value: str | None = None) -> None:
        one = {"entity_type": kind, "match_type": match, "match": value}
        talk.send("describe_client_quotas", {"components": [one], "strict": False}, note=note)

    describe("of a user", "user", 0, talk.name("nobody"))
    describe("defaults", "client-id", 1)
    describe("unknown entity type", "planet", 0, "earth")
    describe("unknown match type", "user", 9, "x")
    describe("exact without a name", "user", 0)


@scenario("describe_user_scram_credentials")
def describe_user_scram_credentials(talk: Conversation) -> None:
    talk.send("describe_user_scram_credentials", {"users": [{"name": talk.name("nobody")}]}, note="unknown user")
    twice = [{"name": talk.name("nobody")}] * 2
    talk.send("describe_user_scram_credentials", {"users": twice}, note="twice the same")
