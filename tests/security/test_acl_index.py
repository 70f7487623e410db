"""Rules are found by the resource that they are about and by principal, and by filters of every kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.security.acl_index import AclIndex
from penstock.security.acls import AclBinding, AclFilter
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from tests.security.rules import NAMES, PRINCIPALS, TYPES, rules

TOPIC, GROUP = AclResource.TOPIC, AclResource.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def read(name: str, principal: str = "User:a", pattern: PatternType = LITERAL) -> AclBinding:
    return AclBinding(TOPIC, name, principal, AclOperation.READ, pattern_type=pattern)


def about(index: AclIndex, name: str) -> list[str]:
    return [rule.resource_name for found in index.about(TOPIC, name) for rules in found.values() for rule in rules]


def test_rules_about_a_name_come_from_the_narrowest_to_the_widest() -> None:
    index = AclIndex()
    index.add([read("*"), read("o", pattern=PREFIXED), read("orders"), read("ord", pattern=PREFIXED), read("other")])
    assert about(index, "orders") == ["orders", "ord", "o", "*"]


def test_a_name_that_is_a_star_is_found_once() -> None:
    index = AclIndex()
    index.add([read("*")])
    assert about(index, "*") == ["*"]


def test_a_rule_that_is_added_twice_is_removed_once() -> None:
    index = AclIndex()
    index.add([read("orders"), read("orders")])
    assert len(index) == 1
    index.remove([read("orders"), read("orders")])
    assert len(index) == 0
    assert about(index, "orders") == []
    assert list(index.naming(TOPIC, "User:a")) == []


def test_removed_prefixes_are_not_looked_up_any_more() -> None:
    index = AclIndex()
    index.add([read("ord", pattern=PREFIXED), read("or", "User:b", PREFIXED)])
    index.remove([read("ord", pattern=PREFIXED)])
    assert about(index, "orders") == ["or"]


filters = st.builds(
    AclFilter,
    st.sampled_from([AclResource.ANY, *TYPES]),
    st.sampled_from([None, *NAMES]),
    st.sampled_from([None, *PRINCIPALS]),
    st.sampled_from([AclOperation.ANY, AclOperation.ALL, AclOperation.READ, AclOperation.DESCRIBE]),
    st.sampled_from([AclPermission.ANY, AclPermission.ALLOW, AclPermission.DENY]),
    st.sampled_from([None, "*", "h1"]),
    st.sampled_from(list(PatternType)),
)


@given(st.lists(rules), st.lists(rules), filters)
def test_a_filter_finds_what_a_look_at_all_rules_finds(
    added: list[AclBinding], removed: list[AclBinding], wanted: AclFilter
) -> None:
    index = AclIndex()
    index.add(added)
    index.remove(removed)
    left = set(added) - set(removed)
    assert index.matching(wanted) == sorted(rule for rule in left if wanted.matches(rule))
    assert all((rule in index) == (rule in left) for rule in added)
