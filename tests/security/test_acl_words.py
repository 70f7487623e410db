"""Rules as a line of words."""

from __future__ import annotations

import pytest

from penstock.security.acl_words import parse_rule
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
    with pytest.raises(ValueError, match=r"write USER OPERATION TYPE NAME|it can be"):
        parse_rule(text)
