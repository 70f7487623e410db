"""The rules themselves: creating, listing and deleting them, rightly, wrongly and without the right to."""

from __future__ import annotations

from typing import Any

from ..conversation import Conversation
from ..kio_codec import Json
from ..rights import (
    ALL,
    ANY,
    CLUSTER,
    CLUSTER_ACTION,
    CREATE_TOKENS,
    DENY,
    DESCRIBE,
    GROUP,
    LITERAL,
    MATCH,
    PREFIXED,
    READ,
    TOKEN,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    WRITE,
    about,
    grant,
    rule,
)
from . import secured_scenario

USERS = ("nobody", "alice", "describer", "alterer", "config-writer", "outcast", "owner", "admin")


def asking(**fields: Json) -> dict[str, Json]:
    """A filter that matches every rule, but for the fields given."""
    body = {"resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY}
    body |= {"principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY}
    return {**body, **fields}


def rules(talk: Conversation) -> list[dict[str, Json]]:
    name = talk.name
    return [
        rule("carol", READ, TOPIC, name("orders")),
        rule("carol", WRITE, TOPIC, name("orders"), permission=DENY, host="10.0.0.1"),
        rule("dave", ALL, TOPIC, name("ord"), PREFIXED),
        rule("carol", READ, GROUP, name("workers")),
        rule("carol", WRITE, TRANSACTIONAL_ID, name("txn")),
        rule("carol", DESCRIBE, TOKEN, name("token")),
        rule("*", DESCRIBE, TOPIC, name("public")),
    ]


@secured_scenario("create_acls")
def secured_create_acls(talk: Conversation) -> None:
    name = talk.name

    def create(note: str, *entries: dict[str, Json], user: str = "admin") -> None:
        talk.send("create_acls", {"creations": list(entries)}, on=user, note=note)

    good = rule("carol", READ, TOPIC, name("t"))
    for user in USERS:
        create("one", good, user=user)
        create("nothing", user=user)
    create("twice the same", good, good)
    create("a bad one between good ones", good, {**good, "resource_name": ""}, rule("dave", READ, TOPIC, name("u")))
    create("many kinds", *(each for each in rules(talk)))
    create("a rule about users", rule("carol", CREATE_TOKENS, USER, "User:dave"))
    create("a bad one, without the right", {**good, "resource_name": ""}, user="nobody")


ODD: dict[str, dict[str, Json]] = {
    "empty name": {"resource_name": ""},
    "a topic name with a slash": {"resource_name": "a/b"},
    "a topic name of 250 characters": {"resource_name": "x" * 250},
    "another cluster": {"resource_type": CLUSTER, "resource_name": "elsewhere"},
    "every cluster": {"resource_type": CLUSTER, "resource_name": "*"},
    "reading the cluster": {"resource_type": CLUSTER, "resource_name": "kafka-cluster", "operation": READ},
    "a prefix of the cluster": {"resource_type": CLUSTER, "resource_name": "kafka", "resource_pattern_type": PREFIXED},
    "writing a group": {"resource_type": GROUP, "operation": WRITE},
    "a cluster action on a topic": {"operation": CLUSTER_ACTION},
    "any operation": {"operation": ANY},
    "any permission": {"permission_type": ANY},
    "any type": {"resource_type": ANY},
    "any pattern": {"resource_pattern_type": ANY},
    "a matching pattern": {"resource_pattern_type": MATCH},
    "unknown operation 0": {"operation": 0},
    "unknown permission 0": {"permission_type": 0},
    "unknown type 0": {"resource_type": 0},
    "unknown pattern 0": {"resource_pattern_type": 0},
    "unknown operation 99": {"operation": 99},
    "unknown permission 99": {"permission_type": 99},
    "unknown type 99": {"resource_type": 99},
    "unknown pattern 99": {"resource_pattern_type": 99},
    "two-phase commit": {"resource_type": TRANSACTIONAL_ID, "operation": 15},
    "empty principal": {"principal": ""},
    "a principal without a type": {"principal": "carol"},
    "a principal without a name": {"principal": "User:"},
    "a principal of another type": {"principal": "Group:carol"},
    "a principal with a colon": {"principal": "User:a:b"},
    "a principal in small letters": {"principal": "user:carol"},
    "empty host": {"host": ""},
    "a host by its name": {"host": "example.com"},
    "a network": {"host": "10.0.0.0/8"},
    "a prefix of everything": {"resource_name": "*", "resource_pattern_type": PREFIXED},
}


@secured_scenario("create_acls")
def secured_create_odd_acls(talk: Conversation) -> None:
    for note, fields in ODD.items():
        if talk.version == 0 and "pattern" in note:
            continue
        one = {**rule("carol", READ, TOPIC, talk.name("t")), **fields}
        talk.send("create_acls", {"creations": [one]}, note=note)
        if fields.get("resource_name") in ("*", "a/b", "kafka", "elsewhere"):
            talk.quietly("delete_acls", {"filters": [about(one)]}, 3)


@secured_scenario("create_acls")
def secured_create_odd_acls_without_the_right(talk: Conversation) -> None:
    for note in ("empty name", "any operation", "unknown type 0", "unknown type 99", "empty principal"):
        one = {**rule("carol", READ, TOPIC, talk.name("t")), **ODD[note]}
        talk.send("create_acls", {"creations": [one]}, on="nobody", note=note)


@secured_scenario("describe_acls")
def secured_describe_acls(talk: Conversation) -> None:
    grant(talk, *rules(talk))
    name = talk.name

    def describe(note: str, user: str = "admin", **fields: Any) -> None:
        talk.send("describe_acls", asking(**fields), on=user, note=note, mine="resources")

    for user in USERS:
        describe("all", user)
        describe("of a topic", user, resource_type_filter=TOPIC, resource_name_filter=name("orders"))
    for kind in (TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER):
        if kind != USER or talk.version >= 2:
            describe(f"of type {kind}", resource_type_filter=kind)
    for pattern in (ANY, MATCH, LITERAL, PREFIXED) if talk.version >= 1 else ():
        for word in ("orders", "ord", "order", "or", "public"):
            fields: dict[str, Any] = {"resource_type_filter": TOPIC, "resource_name_filter": name(word)}
            describe(f"pattern {pattern} of {word}", pattern_type_filter=pattern, **fields)
        describe(f"pattern {pattern} without a name", pattern_type_filter=pattern)
    for principal in ("User:carol", "User:*", "User:", "carol", "", "Group:carol", "User:a:b"):
        describe(f"of {principal!r}", principal_filter=principal)
    for host in ("10.0.0.1", "*", "", "127.0.0.1"):
        describe(f"from {host!r}", host_filter=host)
    for operation in (ALL, READ, WRITE, DESCRIBE, 15):
        describe(f"operation {operation}", operation=operation)
    for permission in (2, 3):
        describe(f"permission {permission}", permission_type=permission)
    describe("empty name", resource_name_filter="")
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        for value in (0, 99):
            if talk.version >= 1 or field != "pattern_type_filter":
                describe(f"{field} {value}", "admin", **{field: value})
                describe(f"{field} {value}", "nobody", **{field: value})


@secured_scenario("delete_acls")
def secured_delete_acls(talk: Conversation) -> None:
    grant(talk, *rules(talk))
    name = talk.name

    def delete(note: str, *filters: dict[str, Json], user: str = "admin") -> None:
        talk.send("delete_acls", {"filters": list(filters)}, on=user, note=note)

    def named(word: str, pattern: int = LITERAL, **more: Json) -> dict[str, Json]:
        return asking(resource_name_filter=name(word), pattern_type_filter=pattern, **more)

    for user in ("nobody", "alice", "describer", "outcast"):
        delete("one", named("orders"), user=user)
        delete("two", named("orders"), named("workers"), user=user)
        delete("nothing", user=user)
    delete("nothing that is there", named("nowhere"))
    delete("by its host", named("orders", host_filter="10.0.0.1"))
    delete("the same twice", named("workers"), named("workers"))
    delete("one of another's", named("txn", principal_filter="User:dave"))
    delete("as an alterer", named("txn"), user="alterer")
    delete("as the owner of everything", named("token"), named("nowhere"), user="owner")
    if talk.version >= 1:
        delete("by prefix", named("ord", PREFIXED))
        grant(talk, *rules(talk))
        delete("whatever matches, kept to its users", named("orders", MATCH, principal_filter="User:carol"))
        delete("any pattern", named("ord", ANY))
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        for value in (0, 99):
            if talk.version >= 1 or field != "pattern_type_filter":
                delete(f"{field} {value}", {**named("public"), field: value})
                delete(f"{field} {value}, a good one beside it", {**named("public"), field: value}, named("nowhere"))
                delete(f"{field} {value}", {**named("public"), field: value}, user="nobody")
    delete("a principal without a type", named("public", principal_filter="carol"))
    delete("empty principal", named("public", principal_filter=""))
    delete("the rest", named("public"), named("orders"))
