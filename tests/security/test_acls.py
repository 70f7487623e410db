"""Which resources a rule is about, and which rules a filter chooses."""

from __future__ import annotations

import pytest

from penstock.security.acls import AclBinding, AclFilter
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType

ORDERS = AclBinding(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)
ALL_ORDERS = ORDERS._replace(resource_name="ord", pattern_type=PatternType.PREFIXED)
EVERY_TOPIC = ORDERS._replace(resource_name="*")
DENIED = ORDERS._replace(permission=AclPermission.DENY, host="10.0.0.1")
GROUP = ORDERS._replace(resource_type=AclResource.GROUP)
RULES = [ORDERS, ALL_ORDERS, EVERY_TOPIC, DENIED, GROUP]


@pytest.mark.parametrize(
    ("rule", "name", "covered"),
    [
        (ORDERS, "orders", True),
        (ORDERS, "orders2", False),
        (ALL_ORDERS, "orders", True),
        (ALL_ORDERS, "or", False),
        (EVERY_TOPIC, "anything", True),
        (EVERY_TOPIC._replace(pattern_type=PatternType.PREFIXED), "anything", False),
    ],
)
def test_a_rule_covers_its_name_its_prefix_or_everything(rule: AclBinding, name: str, covered: bool) -> None:
    assert rule.covers(name) is covered


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        (AclFilter(), RULES),
        (AclFilter(resource_type=AclResource.GROUP), [GROUP]),
        (AclFilter(resource_name="orders"), [ORDERS, DENIED, GROUP]),
        (AclFilter(resource_name="orders", pattern_type=PatternType.MATCH), RULES),
        (AclFilter(resource_name="ord", pattern_type=PatternType.PREFIXED), [ALL_ORDERS]),
        (AclFilter(resource_name="ord", pattern_type=PatternType.LITERAL), []),
        (AclFilter(pattern_type=PatternType.MATCH), RULES),
        (AclFilter(principal="User:bob"), []),
        (AclFilter(host="10.0.0.1"), [DENIED]),
        (AclFilter(operation=AclOperation.WRITE), []),
        (AclFilter(permission=AclPermission.DENY), [DENIED]),
    ],
)
def test_a_filter_chooses_what_it_names(chosen: AclFilter, found: list[AclBinding]) -> None:
    assert [rule for rule in RULES if chosen.matches(rule)] == found
