"""Rules from a person's words, and commands from rules."""

from __future__ import annotations

import shlex

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.acl_rules import command_of, operation_of, principal_of, rule_options, rules_of
from penstock.security.acl_words import sentence_of
from penstock.security.acls import AclBinding
from penstock.security.operations import SUPPORTED_OPERATIONS
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType

ALICE = "User:alice"


def parse(*arguments: str) -> list[AclBinding]:
    found: list[AclBinding] = []

    @click.command()
    @click.argument("user")
    @rule_options
    def read(user: str, **options: object) -> None:
        found.extend(rules_of(principal_of(user), options))

    read.main(list(arguments), standalone_mode=False)
    return found


def test_a_consumer_needs_a_topic_and_a_group() -> None:
    assert parse("alice", "--consume", "orders", "--group", "workers") == [
        AclBinding(AclResource.TOPIC, "orders", ALICE, AclOperation.READ),
        AclBinding(AclResource.GROUP, "workers", ALICE, AclOperation.READ),
    ]


def test_a_producer_may_have_a_transactional_id() -> None:
    assert parse("alice", "--produce", "orders", "--transactional-id", "t") == [
        AclBinding(AclResource.TOPIC, "orders", ALICE, AclOperation.WRITE),
        AclBinding(AclResource.TRANSACTIONAL_ID, "t", ALICE, AclOperation.WRITE),
    ]


def test_prefix_deny_and_host_hold_for_all_that_is_named() -> None:
    (rule,) = parse("alice", "--all", "team.", "--prefix", "--deny", "--host", "10.0.0.1")
    assert rule == AclBinding(
        AclResource.TOPIC, "team.", ALICE, AclOperation.ALL, AclPermission.DENY, "10.0.0.1", PatternType.PREFIXED
    )


def test_an_administrator_may_do_everything_with_everything() -> None:
    assert {(rule.resource_type, rule.operation) for rule in parse("alice", "--admin")} == {
        (kind, AclOperation.ALL)
        for kind in (AclResource.TOPIC, AclResource.GROUP, AclResource.TRANSACTIONAL_ID, AclResource.CLUSTER)
    }


def test_everybody_and_whole_principals_can_be_named() -> None:
    assert parse("*", "--read", "t")[0].principal == "User:*"
    assert parse("User:CN=a,O=b", "--read", "t")[0].principal == "User:CN=a,O=b"


@pytest.mark.parametrize(
    "wrong",
    [
        ("alice", "--cluster", "read"),
        ("alice", "--rule", "write", "group", "g"),
        ("alice", "--rule", "read", "queue", "q"),
        ("alice", "--read", "*", "--prefix"),
        ("alice", "--read", ""),
        ("", "--read", "t"),
    ],
)
def test_what_means_nothing_is_refused(wrong: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        parse(*wrong)


def test_a_misspelt_operation_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(click.UsageError, match="did you mean describe"):
        operation_of("descirbe", AclResource.TOPIC)


NAMES = st.text(st.characters(categories=("L", "N", "P", "Zs")), min_size=1).filter(lambda name: name[0] not in "-*")
RULES = st.sampled_from([kind for kind in SUPPORTED_OPERATIONS if kind is not AclResource.CLUSTER]).flatmap(
    lambda kind: st.builds(
        AclBinding,
        st.just(kind),
        NAMES,
        NAMES.map(lambda name: f"User:{name}"),
        st.sampled_from((AclOperation.ALL, *SUPPORTED_OPERATIONS[kind])),
        st.sampled_from((AclPermission.ALLOW, AclPermission.DENY)),
        st.sampled_from(("*", "10.0.0.1", "::1")),
        st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    )
)


@given(RULES)
def test_the_command_of_a_rule_makes_that_rule(rule: AclBinding) -> None:
    words = shlex.split(command_of("add", rule))
    assert words[:3] == ["penstock", "acl", "add"]
    assert parse(*words[3:]) == [rule]
    assert rule.principal in sentence_of(rule)
