"""What principals may do: single rules in words, and random rules against a model that looks at all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.acls import AclBinding
from penstock.security.authorizer import Authorizer, Reason
from penstock.security.operations import SUPPORTED_OPERATIONS
from penstock.security.principals import Principal, parse_principal, user
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from tests.security.rules import HOSTS, NAMES, OPERATIONS, PRINCIPALS, TYPES, rules

ALICE, BOB = user("alice"), user("bob")
TOPIC = AclResource.TOPIC
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


def topic_rule(
    operation: AclOperation,
    name: str = "orders",
    *,
    permission: AclPermission = ALLOW,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
) -> AclBinding:
    return AclBinding(TOPIC, name, principal, operation, permission, host, pattern)


def may(authorizer: Authorizer, operation: AclOperation, name: str = "orders", host: str = "h") -> bool:
    return authorizer.allows(ALICE, host, operation, TOPIC, name)


class TestDecisions:
    def test_without_rules_nobody_may_do_anything(self) -> None:
        assert not may(Authorizer(), READ)
        assert Authorizer().decide(ALICE, "h", READ, TOPIC, "orders").reason is Reason.DEFAULT_DENY

    def test_a_super_user_may_do_what_a_rule_denies(self) -> None:
        denying = [topic_rule(ALL, permission=DENY)]
        assert may(Authorizer(denying, super_users=["User:alice"]), WRITE)

    def test_a_denial_counts_before_any_permission(self) -> None:
        authorizer = Authorizer([topic_rule(READ), topic_rule(READ, "*", permission=DENY, principal="User:*")])
        assert not may(authorizer, READ)
        decision = authorizer.decide(ALICE, "h", READ, TOPIC, "orders")
        assert (decision.reason, decision.rule) == (
            Reason.DENIED_BY_RULE,
            topic_rule(READ, "*", permission=DENY, principal="User:*"),
        )

    @pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER])
    def test_permissions_imply_describe_and_denials_do_not(self, operation: AclOperation) -> None:
        assert may(Authorizer([topic_rule(operation)]), DESCRIBE)
        both = Authorizer([topic_rule(operation, permission=DENY), topic_rule(DESCRIBE)])
        assert may(both, DESCRIBE)

    def test_altering_configs_implies_describing_them_and_nothing_else(self) -> None:
        authorizer = Authorizer([topic_rule(AclOperation.ALTER_CONFIGS)])
        assert may(authorizer, AclOperation.DESCRIBE_CONFIGS)
        assert not may(authorizer, DESCRIBE)

    def test_a_rule_about_a_resource_locks_out_everybody_else_even_if_everyone_is_allowed(self) -> None:
        authorizer = Authorizer([topic_rule(READ, principal="User:bob")], allow_everyone=True)
        assert not may(authorizer, READ)
        assert may(authorizer, READ, "others")
        assert authorizer.decide(ALICE, "h", READ, TOPIC, "orders").reason is Reason.NO_RULE_ALLOWS
        assert authorizer.decide(ALICE, "h", READ, TOPIC, "others").reason is Reason.DEFAULT_ALLOW

    def test_a_host_counts_as_text(self) -> None:
        authorizer = Authorizer([topic_rule(READ, host="10.0.0.1")])
        assert may(authorizer, READ, host="10.0.0.1")
        assert not may(authorizer, READ, host="10.0.0.10")

    def test_a_prefix_is_about_names_that_begin_with_it(self) -> None:
        authorizer = Authorizer([topic_rule(READ, "ord", pattern=PatternType.PREFIXED)])
        assert may(authorizer, READ, "orders")
        assert may(authorizer, READ, "ord")
        assert not may(authorizer, READ, "or")

    def test_changed_rules_count_at_once(self) -> None:
        authorizer = Authorizer()
        assert not may(authorizer, READ)
        authorizer.add([topic_rule(READ)])
        assert may(authorizer, READ)
        authorizer.remove([topic_rule(READ)])
        assert not may(authorizer, READ)

    def test_an_explanation_names_what_would_have_to_change(self) -> None:
        denial = topic_rule(READ, permission=DENY)
        explained = Authorizer([denial]).explain(ALICE, "h", READ, TOPIC, "orders")
        assert explained.to_remove == [denial]
        assert explained.to_add == topic_rule(READ)
        assert Authorizer([topic_rule(READ)]).explain(ALICE, "h", READ, TOPIC, "orders").to_add is None


# -- the model: Kafka's rules, one after the other, over a plain list --------------------------------------------------


@dataclass
class Model:
    rules: list[AclBinding]
    super_users: list[str] = field(default_factory=list)
    allow_everyone: bool = False

    def allows(self, who: str, host: str, operation: AclOperation, kind: AclResource, name: str) -> bool:
        if who in self.super_users:
            return True
        covering = [rule for rule in self.rules if rule.resource_type == kind and self.is_about(rule, name)]
        mine = [rule for rule in covering if rule.principal in (who, "User:*") and rule.host in (host, "*")]
        if any(rule.permission is DENY and rule.operation in (operation, ALL) for rule in mine):
            return False
        enough = {operation, ALL}
        if operation is DESCRIBE:
            enough |= {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER}
        if operation is AclOperation.DESCRIBE_CONFIGS:
            enough |= {AclOperation.ALTER_CONFIGS}
        if any(rule.permission is ALLOW and rule.operation in enough for rule in mine):
            return True
        return self.allow_everyone and not covering

    def allows_any(self, who: str, host: str, operation: AclOperation, kind: AclResource) -> bool:
        """Kafka's authorizeByResourceType: a permission that no single denial covers."""
        if self.allows(who, host, operation, kind, "hardcode"):
            return True
        mine = [
            rule
            for rule in self.rules
            if rule.resource_type == kind
            and rule.principal in (who, "User:*")
            and rule.host in (host, "*")
            and rule.operation in (operation, ALL)
        ]
        denying = [rule for rule in mine if rule.permission is DENY]
        if any(rule.pattern_type is PatternType.LITERAL and rule.resource_name == "*" for rule in denying):
            return False
        return any(rule.permission is ALLOW and not self.is_covered(rule, denying) for rule in mine)

    @staticmethod
    def is_about(rule: AclBinding, name: str) -> bool:
        if rule.pattern_type is PatternType.PREFIXED:
            return name[: len(rule.resource_name)] == rule.resource_name
        return rule.resource_name == name or rule.resource_name == "*"

    @staticmethod
    def is_covered(rule: AclBinding, denying: list[AclBinding]) -> bool:
        for other in denying:
            if (other.pattern_type, other.resource_name) == (rule.pattern_type, rule.resource_name):
                return True
            is_everything = rule.pattern_type is PatternType.LITERAL and rule.resource_name == "*"
            covers = other.pattern_type is PatternType.PREFIXED and rule.resource_name.startswith(other.resource_name)
            if covers and not is_everything:
                return True
        return False


@dataclass
class Question:
    principal: Principal
    host: str
    operation: AclOperation
    kind: AclResource
    name: str


questions = st.builds(
    Question,
    st.sampled_from([parse_principal(text) for text in PRINCIPALS]),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(TYPES),
    st.sampled_from([*NAMES, "abcd", "x"]),
)


@given(
    st.lists(rules, max_size=12),
    st.lists(rules, max_size=4),
    st.lists(st.sampled_from(PRINCIPALS), max_size=1),
    st.booleans(),
    st.lists(questions, min_size=1, max_size=8),
)
def test_the_authorizer_answers_as_a_look_at_all_rules_does(
    first: list[AclBinding],
    later: list[AclBinding],
    super_users: list[str],
    allow_everyone: bool,
    inquiries: list[Question],
) -> None:
    authorizer = Authorizer(first, super_users, allow_everyone)
    model = Model(sorted(set(first)), super_users, allow_everyone)
    for change in ((), later):
        authorizer.add(change)
        model.rules = sorted({*model.rules, *change})
        for each in inquiries:
            who = str(each.principal)
            expected = model.allows(who, each.host, each.operation, each.kind, each.name)
            assert authorizer.allows(each.principal, each.host, each.operation, each.kind, each.name) == expected
            decision = authorizer.decide(each.principal, each.host, each.operation, each.kind, each.name)
            assert decision.allowed == expected
            any_name = authorizer.allows_any(each.principal, each.host, each.operation, each.kind)
            assert any_name == model.allows_any(who, each.host, each.operation, each.kind)
            bits = authorizer.operations(each.principal, each.host, each.kind, each.name)
            assert bits == sum(
                1 << operation
                for operation in SUPPORTED_OPERATIONS[each.kind]
                if model.allows(who, each.host, operation, each.kind, each.name)
            )
