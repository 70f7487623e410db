"""What a client asks first: which APIs, which brokers, which topics."""

from __future__ import annotations

from ..conversation import Conversation
from . import scenario

NO_ID = "0" * 32
UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"


@scenario("api_versions")
def api_versions(talk: Conversation) -> None:
    talk.send("api_versions", {"client_software_name": "conformance", "client_software_version": "1.0"})
    if talk.version >= 3:
        talk.send(
            "api_versions", {"client_software_name": "", "client_software_version": "1"}, note="empty software name"
        )
        talk.send(
            "api_versions", {"client_software_name": "a b", "client_software_version": "1"}, note="space in the name"
        )
        talk.send("api_versions", {"client_software_name": "ok", "client_software_version": "-1"}, note="bad version")
    talk.send("api_versions", {"client_software_name": "again", "client_software_version": "2.0"}, note="asked twice")


@scenario("metadata")
def metadata_of_topics(talk: Conversation) -> None:
    one, two = talk.name("one"), talk.name("two")
    talk.create_topic(one, 1)
    talk.create_topic(two, 3)
    for operations in (False, True):
        talk.send(
            "metadata",
            {
                "topics": [{"name": one, "topic_id": NO_ID}, {"name": two, "topic_id": NO_ID}],
                "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": operations,
                **({"include_cluster_authorized_operations": operations} if 8 <= talk.version <= 10 else {}),
            },
            note="with authorized operations" if operations else "two topics",
        )


@scenario("metadata")
def metadata_of_no_and_of_all_topics(talk: Conversation) -> None:
    talk.create_topic(talk.name("here"))
    if talk.version >= 1:
        talk.send("metadata", {"topics": []}, note="no topics")
        talk.send("metadata", {"topics": None}, note="all topics", mine="topics")
    else:
        talk.send("metadata", {"topics": []}, note="all topics", mine="topics")


@scenario("metadata", least=4)
def metadata_of_unknown_topics(talk: Conversation) -> None:
    wrong = [talk.name("absent"), "", "a/b", ".", "..", "x" * 250]
    for name in wrong:
        body = {"topics": [{"name": name, "topic_id": NO_ID}], "allow_auto_topic_creation": False}
        talk.send("metadata", body, note=f"unknown {name[:20]!r}")
    same = {"name": talk.name("absent"), "topic_id": NO_ID}
    talk.send("metadata", {"topics": [same, same], "allow_auto_topic_creation": False}, note="twice the same")


@scenario("metadata")
def metadata_creates_topics(talk: Conversation) -> None:
    body = {"topics": [{"name": talk.name("auto"), "topic_id": NO_ID}], "allow_auto_topic_creation": True}
    talk.send("metadata", body, note="first time")
    talk.wait_for_topic(talk.name("auto"))
    talk.send("metadata", body, note="once it is there")
    talk.send(
        "metadata",
        {"topics": [{"name": "bad name!", "topic_id": NO_ID}], "allow_auto_topic_creation": True},
        note="bad name",
    )


@scenario("metadata", least=10)
def metadata_by_topic_id(talk: Conversation) -> None:
    topic_id = talk.create_topic(talk.name("by-id"), 2)
    talk.send("metadata", {"topics": [{"name": None, "topic_id": topic_id}]}, note="by id")
    talk.send("metadata", {"topics": [{"name": None, "topic_id": UNKNOWN_ID}]}, note="unknown id")
    if talk.version >= 12:
        talk.send("metadata", {"topics": [{"name": None, "topic_id": NO_ID}]}, note="neither name nor id")
        both = [{"name": None, "topic_id": topic_id}, {"name": talk.name("by-id"), "topic_id": NO_ID}]
        talk.send("metadata", {"topics": both}, note="one by id and one by name")


@scenario("describe_cluster")
def describe_cluster(talk: Conversation) -> None:
    talk.send("describe_cluster", {"include_cluster_authorized_operations": False, "endpoint_type": 1})
    talk.send(
        "describe_cluster", {"include_cluster_authorized_operations": True, "endpoint_type": 1}, note="operations"
    )
    if talk.version >= 1:
        talk.send("describe_cluster", {"endpoint_type": 2}, note="asks the broker for controllers")
        talk.send("describe_cluster", {"endpoint_type": 7}, note="unknown endpoint type")
    if talk.version >= 2:
        talk.send("describe_cluster", {"endpoint_type": 1, "include_fenced_brokers": True}, note="fenced ones too")


@scenario("describe_topic_partitions")
def describe_topic_partitions(talk: Conversation) -> None:
    first, second = talk.name("a"), talk.name("b")
    talk.create_topic(first, 3)
    talk.create_topic(second, 2)
    names = [{"name": second}, {"name": first}]
    talk.send("describe_topic_partitions", {"topics": names, "response_partition_limit": 2000})
    talk.send(
        "describe_topic_partitions", {"topics": names, "response_partition_limit": 2}, note="limit inside a topic"
    )
    talk.send(
        "describe_topic_partitions", {"topics": names, "response_partition_limit": 3}, note="limit at a topic's end"
    )
    cursor = {"topic_name": first, "partition_index": 1}
    talk.send(
        "describe_topic_partitions",
        {"topics": names, "response_partition_limit": 2, "cursor": cursor},
        note="from a cursor",
    )
    beyond = {"topic_name": first, "partition_index": 9}
    talk.send(
        "describe_topic_partitions",
        {"topics": names, "response_partition_limit": 2, "cursor": beyond},
        note="cursor past the end",
    )
    negative = {"topic_name": first, "partition_index": -1}
    talk.send(
        "describe_topic_partitions",
        {"topics": names, "response_partition_limit": 2, "cursor": negative},
        note="negative cursor",
    )
    for name in (talk.name("absent"), "a/b", ""):
        note = f"unknown {name.removeprefix(talk.name(''))!r}"
        body = {"topics": [{"name": name}], "response_partition_limit": 10}
        talk.send("describe_topic_partitions", body, note=note)
    talk.send("describe_topic_partitions", {"topics": names, "response_partition_limit": 0}, note="limit zero")
    gone = {"topic_name": talk.name("aa"), "partition_index": 0}
    talk.send(
        "describe_topic_partitions",
        {"topics": names, "response_partition_limit": 5, "cursor": gone},
        note="cursor on no topic",
    )
