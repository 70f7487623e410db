"""Rules of access control for the conversations, and topics and groups whose names say what a user may do to them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from .conversation import Conversation
from .kio_codec import Json

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 2, 3, 4, 5, 6, 7
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = 10, 11, 12, 13, 14
DENY, ALLOW = 2, 3

WORDS = {
    "all": ALL,
    "read": READ,
    "write": WRITE,
    "create": CREATE,
    "delete": DELETE,
    "alter": ALTER,
    "describe": DESCRIBE,
    "describe-configs": DESCRIBE_CONFIGS,
    "alter-configs": ALTER_CONFIGS,
}


def rule(
    user: str,
    operation: int,
    kind: int,
    name: str,
    pattern: int = LITERAL,
    *,
    permission: int = ALLOW,
    host: str = "*",
) -> dict[str, Json]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": f"User:{user}",
        "host": host,
        "operation": operation,
        "permission_type": permission,
    }


def about(rule: Mapping[str, Json]) -> dict[str, Json]:
    """The filter that matches this rule and no other."""
    return {
        "resource_type_filter": rule["resource_type"],
        "resource_name_filter": rule["resource_name"],
        "pattern_type_filter": rule["resource_pattern_type"],
        "principal_filter": rule["principal"],
        "host_filter": rule["host"],
        "operation": rule["operation"],
        "permission_type": rule["permission_type"],
    }


def grant(talk: Conversation, *rules: dict[str, Json]) -> None:
    """Creates rules, unrecorded, and returns when the broker obeys the last of them."""
    results = talk.quietly("create_acls", {"creations": list(rules)}, 3)["results"]
    if any(result["error_code"] != "NONE" for result in results):
        raise ValueError(f"rules are refused: {results}")
    talk.until(lambda answer: bool(answer["resources"]), "describe_acls", about(rules[-1]), 3)


def revoke(talk: Conversation, *rules: dict[str, Json]) -> None:
    """Deletes rules, unrecorded, and returns when the broker has forgotten the last of them."""
    talk.quietly("delete_acls", {"filters": [about(one) for one in rules]}, 3)
    talk.until(lambda answer: not answer["resources"], "describe_acls", about(rules[-1]), 3)


def rights_by_name(talk: Conversation, kind: int, words: Iterable[str], user: str = "alice") -> list[dict[str, Json]]:
    """For each word a rule on the name that ends in it.

    `read` allows reading; `none` allows nothing; `no-read` allows everything and denies reading; what stands before a
    dot (`absent.read`) only makes the name another one.
    """
    rules = []
    for word in words:
        right, name = word.rsplit(".", 1)[-1], talk.name(word)
        if right.startswith("no-"):
            rules += [rule(user, ALL, kind, name), rule(user, WORDS[right[3:]], kind, name, permission=DENY)]
        elif right != "none":
            rules.append(rule(user, WORDS[right], kind, name))
    return rules


def id_of(talk: Conversation, ids: Mapping[str, str], word: str) -> str:
    """A topic's id, or one that no topic has."""
    if word in ids:
        return ids[word]
    made_up = str(uuid.uuid5(uuid.NAMESPACE_OID, word))
    talk.name_topic_id(made_up, f"{word}, made up")
    return made_up


def topics_by_right(talk: Conversation, *words: str, absent: Iterable[str] = (), partitions: int = 1) -> dict[str, str]:
    """Creates a topic for each word, with the right that the word says for alice; their ids by word.

    For the words of `absent` there are rights and no topics.
    """
    entries = [{"name": talk.name(word), "num_partitions": partitions, "replication_factor": 1} for word in words]
    created = talk.quietly("create_topics", {"topics": entries, "timeout": 10_000}, 7)["topics"]
    if any(topic["error_code"] != "NONE" for topic in created):
        raise ValueError(f"topics are refused: {created}")
    rules = rights_by_name(talk, TOPIC, [*words, *absent])
    if rules:
        grant(talk, *rules)
    return {word: talk.wait_for_topic(talk.name(word), partitions) for word in words}
