"""Rules as a line of words."""

from __future__ import annotations

import pytest

from penstock.security.acl_words import parse_rule, rule_of
from penstock.security.acls import CLUSTER_NAME, AclBinding
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("alice read topic orders", AclBinding(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)),
        ("alice all group *", AclBinding(AclResource.GROUP, "*", "User:alice", AclOperation.ALL)),
        ("User:CN=a create cluster", AclBinding(AclResource.CLUSTER, CLUSTER_NAME, "User:CN=a", AclOperation.CREATE)),
        (
            "alice idempotent-write cluster",
            AclBinding(AclResource.CLUSTER, CLUSTER_NAME, "User:alice", AclOperation.IDEMPOTENT_WRITE),
        ),
        (
            "deny * WRITE transactional-id team.*",
            AclBinding(
                AclResource.TRANSACTIONAL_ID,
                "team.",
                "User:*",
                AclOperation.WRITE,
                AclPermission.DENY,
                "*",
                PatternType.PREFIXED,
            ),
        ),
    ],
)
def test_words_become_a_rule(text: str, rule: AclBinding) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize("text", ["", "alice", "alice read orders", "alice read topic a b", "alice write group g"])
def test_what_is_no_rule_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"write USER OPERATION TYPE NAME|use one of"):
        parse_rule(text)


def test_a_rule_is_made_of_the_words_of_a_form() -> None:
    assert rule_of("User:a", "read", "topic", "orders") == parse_rule("a read topic orders")
    assert rule_of("User:a", "write", "topic", "team.", is_prefix=True, is_denial=True) == parse_rule(
        "deny a write topic team.*"
    )
    assert rule_of("User:a", "create", "cluster", "", is_prefix=True) == parse_rule("a create cluster")


@pytest.mark.parametrize("words", [("fly", "topic", "x"), ("read", "moon", "x"), ("read", "topic", "")])
def test_words_that_mean_nothing_are_refused(words: tuple[str, str, str]) -> None:
    with pytest.raises(ValueError, match=r"use one of|is empty"):
        rule_of("User:a", *words)
