"""From the subject of a certificate to a principal; test_names_java asks Kafka itself."""

from __future__ import annotations

import pytest

from penstock.security.principal_mapping import NoRuleApplies, PrincipalMapper

SERVICES = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,DEFAULT"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", "CN=alice,O=x", "CN=alice,O=x"),
        (SERVICES, "CN=Billing,OU=ServiceUsers,C=DE", "Billing"),
        (SERVICES, "CN=Admin,OU=Ops", "admin@ops"),
        (SERVICES, "CN=other", "CN=other"),
        ("RULE:CN=(.*)/$1/U", "CN=alice", "ALICE"),
        ("RULE:^CN=(.*)$/a$1b$2c/", "CN=alice", "aaliceb$2c"),
        ("RULE:^CN=(.*)$/$12/", "CN=alice", "alice2"),
        ("RULE:^CN=a\\/(.*)$/$1\\/x/", "CN=a/b", "b/x"),
    ],
)
def test_the_first_rule_that_matches_decides(rules: str, name: str, expected: str) -> None:
    assert PrincipalMapper(rules).name_of(name) == expected


def test_a_pattern_matches_the_whole_name_or_not_at_all() -> None:
    with pytest.raises(NoRuleApplies, match="'CN=alice,O=x'"):
        PrincipalMapper("RULE:CN=alice/alice/").name_of("CN=alice,O=x")


def test_without_rules_none_applies() -> None:
    with pytest.raises(NoRuleApplies):
        PrincipalMapper("").name_of("CN=alice")


@pytest.mark.parametrize("rules", ["default", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "DEFAULT RULE:a/b/"])
def test_a_malformed_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"is not a rule|cannot be used"):
        PrincipalMapper(rules)
