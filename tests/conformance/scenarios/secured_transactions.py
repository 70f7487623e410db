"""Transactions as users who may write under some transactional ids, to some topics, and commit for some groups."""

from __future__ import annotations

from ..batches import TRANSACTIONAL, batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from ..rights import (
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    grant,
    rights_by_name,
    rule,
    topics_by_right,
)
from . import secured_scenario
from .secured_groups import groups_by_right

IDS = ("x.none", "x.describe", "x.write", "x.all", "x.no-write")
TOPICS = ("none", "describe", "read", "write")
EVERYBODY = ("alice", "nobody", "owner", "admin")


def transactional_ids(talk: Conversation, *words: str) -> list[str]:
    talk.producer_id()
    for word in words:
        talk.wait_for_coordinator(talk.name(word), 1)
    grant(talk, *rights_by_name(talk, TRANSACTIONAL_ID, words))
    return [talk.name(word) for word in words]


def begun(talk: Conversation, name: str) -> dict[str, Json]:
    """A producer id and epoch that the administrator got under the transactional id."""
    body = {"transactional_id": name, "transaction_timeout": 60_000}
    granted = talk.until(lambda answer: answer["error_code"] == "NONE", "init_producer_id", body, 4)
    return {
        "transactional_id": name,
        "producer_id": granted["producer_id"],
        "producer_epoch": granted["producer_epoch"],
    }


@secured_scenario("init_producer_id")
def secured_init_producer_id(talk: Conversation) -> None:
    names = transactional_ids(talk, *IDS)
    body = {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    for user in EVERYBODY:
        for name in names:
            note = name.removeprefix(talk.name(""))
            talk.send("init_producer_id", {**body, "transactional_id": name}, on=user, note=note)
    for user in ("nobody", "idempotent", "creator", "actor", "owner", "outcast", "admin"):
        talk.send("init_producer_id", {**body, "transactional_id": None}, on=user, note="idempotent")
    talk.send("init_producer_id", {**body, "transactional_id": ""}, on="nobody", note="empty id")


@secured_scenario("init_producer_id", only=(4,), alone=True)
def secured_idempotent_writers(talk: Conversation) -> None:
    """Whoever may write to any topic may write idempotently."""
    topics_by_right(talk, "none")
    body = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}

    def init(note: str) -> None:
        talk.send("init_producer_id", body, on="bob", note=note)

    init("no right at all")
    grant(talk, rule("bob", READ, TOPIC, talk.name("none")))
    init("may read one topic")
    grant(talk, rule("bob", WRITE, TOPIC, talk.name("w"), 4))
    init("may write what begins like this")
    grant(talk, rule("bob", WRITE, TOPIC, talk.name(""), 4, permission=2))
    init("which is denied by a shorter prefix")
    grant(talk, rule("bob", WRITE, TOPIC, talk.name("none"), host="10.1.1.1"))
    init("may write one from elsewhere")
    grant(talk, rule("bob", WRITE, TOPIC, "elsewhere"))
    init("may write another, which is not there")
    grant(talk, rule("bob", WRITE, TOPIC, "elsewhere", permission=2))
    init("which is denied")
    grant(talk, rule("*", WRITE, TOPIC, "elsewhere-too"))
    init("everybody may write one")
    everywhere = rule("bob", WRITE, TOPIC, "*", permission=2)
    grant(talk, everywhere)
    init("everything is denied")
    filters = {"resource_type_filter": 2, "resource_name_filter": None, "pattern_type_filter": 1, "host_filter": None}
    filters |= {"operation": 1, "permission_type": 1}
    talk.quietly("delete_acls", {"filters": [{**filters, "principal_filter": "User:bob"}]}, 3)
    everybodys = {**filters, "resource_name_filter": "elsewhere-too", "principal_filter": None}
    talk.quietly("delete_acls", {"filters": [everybodys]}, 3)
    talk.until(lambda a: not a["resources"], "describe_acls", everybodys, 3)


@secured_scenario("produce", only=(3, 9, 11, 12, 13))
def secured_transactional_produce(talk: Conversation) -> None:
    ids = topics_by_right(talk, *TOPICS)
    names = transactional_ids(talk, *IDS)
    for name in names:
        who = begun(talk, name)
        adding = {f"v3_and_below_{key}": value for key, value in who.items()}
        adding["v3_and_below_topics"] = [{"name": talk.name(word), "partitions": [0]} for word in TOPICS]

        def is_added(answer: Json) -> bool:
            results = [p for t in answer["results_by_topic_v3_and_below"] for p in t["results_by_partition"]]
            return all(part["partition_error_code"] == "NONE" for part in results)

        talk.until(is_added, "add_partitions_to_txn", adding, 3)
        data = batch(
            *values("v"),
            producer_id=who["producer_id"],
            producer_epoch=who["producer_epoch"],
            base_sequence=0,
            attributes=TRANSACTIONAL,
        )
        topics = [
            {"name": talk.name(word), "topic_id": ids[word], "partition_data": [{"index": 0, "records": data}]}
            for word in TOPICS
        ]
        body = {"acks": -1, "timeout": 10_000, "topic_data": topics}
        note = name.removeprefix(talk.name(""))
        talk.send("produce", {**body, "transactional_id": name}, on="alice", note=note)
        talk.send("produce", {**body, "transactional_id": None}, on="alice", note=f"{note}, its id kept back")
        talk.send("produce", {**body, "transactional_id": name}, on="nobody", note=note)


@secured_scenario("add_partitions_to_txn")
def secured_add_partitions_to_txn(talk: Conversation) -> None:
    topics_by_right(talk, *TOPICS, absent=("absent.none", "absent.write"))
    names = transactional_ids(talk, *IDS)
    requested = [*TOPICS, "absent.none", "absent.write"]
    whos = [begun(talk, name) for name in names]

    def add(user: str, note: str, words: list[str]) -> None:
        topics = [{"name": talk.name(word), "partitions": [0]} for word in words]
        if talk.version >= 4:
            entries = [{**who, "verify_only": False, "topics": topics} for who in whos]
            talk.send("add_partitions_to_txn", {"transactions": entries}, on=user, note=note)
            return
        for who in whos:
            fields = {f"v3_and_below_{key}": value for key, value in who.items()}
            word = who["transactional_id"].removeprefix(talk.name(""))
            body = {**fields, "v3_and_below_topics": topics}
            talk.send("add_partitions_to_txn", body, on=user, note=f"{note}, {word}")

    for user in ("nobody", "alice", "describer", "actor"):
        add(user, "some topics", requested)
    add("alice", "one topic that is hers", ["write"])
    for user in ("owner", "admin"):
        add(user, "topics that are there", [*TOPICS])


@secured_scenario("add_offsets_to_txn")
def secured_add_offsets_to_txn(talk: Conversation) -> None:
    names = transactional_ids(talk, *IDS)
    groups = groups_by_right(talk, "g.none", "g.describe", "g.read")
    whos = [begun(talk, name) for name in names]
    for user in ("nobody", "alice"):
        for who in whos:
            for group in groups:
                note = f"{who['transactional_id'].removeprefix(talk.name(''))}, {group.removeprefix(talk.name(''))}"
                talk.send("add_offsets_to_txn", {**who, "group_id": group}, on=user, note=note)
    talk.send("add_offsets_to_txn", {**whos[0], "group_id": groups[0]}, on="owner", note="the owner of everything")


@secured_scenario("end_txn")
def secured_end_txn(talk: Conversation) -> None:
    names = transactional_ids(talk, *IDS)
    whos = [begun(talk, name) for name in names]
    for user in ("nobody", "alice", "admin"):
        for who in whos:
            note = who["transactional_id"].removeprefix(talk.name(""))
            talk.send("end_txn", {**who, "committed": True}, on=user, note=note)


@secured_scenario("txn_offset_commit")
def secured_txn_offset_commit(talk: Conversation) -> None:
    topics_by_right(talk, *TOPICS, absent=("absent.none", "absent.read"))
    names = transactional_ids(talk, "x.none", "x.describe", "x.write")
    groups = groups_by_right(talk, "g.none", "g.describe", "g.read")
    whos = [begun(talk, name) for name in names]
    part = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": talk.name(w), "partitions": [part]} for w in (*TOPICS, "absent.none", "absent.read")]
    member = {"generation_id": -1, "member_id": "", "group_instance_id": None}
    for user in ("nobody", "alice"):
        for who in whos:
            for group in groups:
                note = f"{who['transactional_id'].removeprefix(talk.name(''))}, {group.removeprefix(talk.name(''))}"
                body = {**who, "group_id": group, **member}
                talk.send("txn_offset_commit", {**body, "topics": topics}, on=user, note=note)
    body = {**whos[2], "group_id": groups[2], **member, "topics": []}
    talk.send("txn_offset_commit", body, on="alice", note="nothing")


@secured_scenario("write_txn_markers")
def secured_write_txn_markers(talk: Conversation) -> None:
    topics_by_right(talk, "none", "all")
    producer = talk.producer_id()
    marker: dict[str, Json] = {"producer_id": producer, "producer_epoch": 0, "transaction_result": True}
    marker["coordinator_epoch"] = 0
    words = ("none", "all", "absent")
    marker["topics"] = [{"name": talk.name(word), "partition_indexes": [0]} for word in words]
    for user in ("nobody", "alice", "describer", "outcast", "alterer", "actor", "owner", "admin"):
        talk.send("write_txn_markers", {"markers": [marker]}, on=user, note="a marker")
        if user in ("nobody", "actor"):
            talk.send("write_txn_markers", {"markers": []}, on=user, note="no marker")


@secured_scenario("describe_transactions")
def secured_describe_transactions(talk: Conversation) -> None:
    topics_by_right(talk, *TOPICS)
    names = transactional_ids(talk, *IDS, "x.no-describe")
    for name in names:
        who = begun(talk, name)
        adding = {f"v3_and_below_{key}": value for key, value in who.items()}
        adding["v3_and_below_topics"] = [{"name": talk.name(word), "partitions": [0]} for word in TOPICS]

        def is_added(answer: Json) -> bool:
            results = [p for t in answer["results_by_topic_v3_and_below"] for p in t["results_by_partition"]]
            return all(part["partition_error_code"] == "NONE" for part in results)

        talk.until(is_added, "add_partitions_to_txn", adding, 3)
    missing = [talk.name("missing"), talk.name("missing.describe")]
    grant(talk, rule("alice", DESCRIBE, TRANSACTIONAL_ID, missing[1]))
    for user in EVERYBODY:
        for name in (*names, *missing):
            note = name.removeprefix(talk.name(""))
            talk.send("describe_transactions", {"transactional_ids": [name]}, on=user, note=note)


@secured_scenario("list_transactions")
def secured_list_transactions(talk: Conversation) -> None:
    for name in transactional_ids(talk, *IDS, "x.no-describe"):
        begun(talk, name)
    for user in (*EVERYBODY, "describer", "outcast"):
        talk.send("list_transactions", {}, on=user, note="all", mine="transaction_states")
        talk.send("list_transactions", {"state_filters": ["Odd"]}, on=user, note="odd", mine="transaction_states")


@secured_scenario("txn_offset_commit", only=(5,))
def secured_offsets_of_another(talk: Conversation) -> None:
    """Whoever may write under a transactional id, but not read the group, commits nothing for it."""
    topics_by_right(talk, "read")
    names = transactional_ids(talk, "x.write")
    group = groups_by_right(talk, "g.read")[0]
    grant(talk, rule("bob", WRITE, TRANSACTIONAL_ID, names[0]), rule("bob", DESCRIBE, GROUP, group))
    who = begun(talk, names[0])
    part = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {**who, "group_id": group, "generation_id": -1, "member_id": "", "group_instance_id": None}
    body["topics"] = [{"name": talk.name("read"), "partitions": [part]}]
    for user in ("bob", "alice"):
        talk.send("txn_offset_commit", body, on=user, note="commits")
