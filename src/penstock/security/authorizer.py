"""What a principal may do, decided by the rules of Kafka's StandardAuthorizer.

A question is about one operation of one principal, from one host, on the resource of one type and name. The rules that
are *about* that resource are those of its own name, those of its prefixes, and those of the literal name `*`. In order:

1. A super user may do everything.
2. A rule about the resource *matches* if its principal is the asking one or `User:*`, if its host is the same text or
   `*`, and if its operation is the same or ALL. If one of them denies, the answer is no, whatever else there is.
3. If one of them allows, the answer is yes. Here, and here only, READ, WRITE, DELETE and ALTER imply DESCRIBE, and
   ALTER_CONFIGS implies DESCRIBE_CONFIGS: denying READ does not deny DESCRIBE.
4. Otherwise, if any rule is about the resource, of whichever principal, host or operation, the answer is no.
5. Otherwise `allow.everyone.if.no.acl.found` decides, which is off unless somebody sets it.

The outcome for all operations at once fits in a number with one bit for each operation: the *rights* of a principal
from a host on a resource. Rights are what is computed, kept for the next question, and dropped when a rule changes.
Rules are found by pattern and then by principal, so a question costs as many lookups as prefixes have different
lengths, not as many as there are rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple, TypeAlias, TypeVar

from penstock.security.acl_index import AclIndex, RulesByPrincipal
from penstock.security.acls import WILDCARD, AclBinding, AclFilter
from penstock.security.operations import SUPPORTED_OPERATIONS, as_bits
from penstock.security.principals import USER, Principal
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType

K = TypeVar("K")
V = TypeVar("V")

EVERYBODY = f"{USER}:{WILDCARD}"
"""The principal of rules that are about all principals."""

_ALL = as_bits(AclOperation)
_SUPPORTED = {resource_type: as_bits(operations) for resource_type, operations in SUPPORTED_OPERATIONS.items()}
_IMPLIED = {
    AclOperation.READ: as_bits((AclOperation.DESCRIBE,)),
    AclOperation.WRITE: as_bits((AclOperation.DESCRIBE,)),
    AclOperation.DELETE: as_bits((AclOperation.DESCRIBE,)),
    AclOperation.ALTER: as_bits((AclOperation.DESCRIBE,)),
    AclOperation.ALTER_CONFIGS: as_bits((AclOperation.DESCRIBE_CONFIGS,)),
}
_DENIED = {operation: _ALL if operation is AclOperation.ALL else 1 << operation for operation in AclOperation}
_ALLOWED = {operation: bits | _IMPLIED.get(operation, 0) for operation, bits in _DENIED.items()}

_MOST_KEPT = 20_000
_LONGEST_NAME_KEPT = 249
"""Answers about longer names are not kept, so that what is kept has a bound in bytes. No topic's name is longer."""

_ANY_NAME = "hardcode"
"""The name that Kafka asks for first when any resource of a type will do. It decides for super users, for rules about
every name, and for `allow.everyone.if.no.acl.found`, so it must be the same name."""


class Reason(Enum):
    """Why a question is answered as it is."""

    SUPER_USER = "super user"
    DENIED_BY_RULE = "a rule denies it"
    ALLOWED_BY_RULE = "a rule allows it"
    NO_RULE_ALLOWS = "there are rules about the resource, and none of them allows it"
    DEFAULT_ALLOW = "no rule is about the resource, and allow.everyone.if.no.acl.found is on"
    DEFAULT_DENY = "no rule is about the resource"


class Decision(NamedTuple):
    allowed: bool
    reason: Reason
    rule: AclBinding | None = None
    """The rule that decides, if one does: of several, the one about the fewest names."""


class Explanation(NamedTuple):
    """A decision, and what would change it if it is a refusal."""

    decision: Decision
    matching: list[AclBinding]
    """Every rule that matches the question, those that deny first."""
    to_remove: list[AclBinding]
    """The rules that must go, because they deny it."""
    to_add: AclBinding | None
    """A rule that is needed besides, because none allows it."""


class Authorizer:
    """Rules, super users and a default, and the answers that follow from them."""

    def __init__(
        self, rules: Iterable[AclBinding] = (), super_users: Iterable[str] = (), allow_everyone: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        # By type, so that no question hashes an enum, which takes as long as the rest of it.
        self._rights: list[dict[tuple[Principal, str, str], int]] = [{} for _ in range(max(AclResource) + 1)]
        self._allowed_anywhere: dict[tuple[Principal, str, AclOperation, AclResource], bool] = {}
        self.replace(rules)

    def __len__(self) -> int:
        """How many rules there are."""
        return len(self._index)

    def __contains__(self, rule: AclBinding) -> bool:
        return rule in self._index

    def rules(self) -> frozenset[AclBinding]:
        return self._index.rules()

    # Changes

    def replace(self, rules: Iterable[AclBinding]) -> None:
        self._index = AclIndex()
        self.add(rules)

    def add(self, rules: Iterable[AclBinding]) -> None:
        self._index.add(rules)
        self._forget_answers()

    def remove(self, rules: Iterable[AclBinding]) -> None:
        self._index.remove(rules)
        self._forget_answers()

    # Questions

    def allows(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: AclResource, name: str
    ) -> bool:
        rights = self._rights[resource_type].get((principal, host, name))
        if rights is None:
            rights = self._find_rights(principal, host, resource_type, name)
        return bool(rights >> operation & 1)

    def operations(self, principal: Principal, host: str, resource_type: AclResource, name: str) -> int:
        """The operations that mean something on the resource and are allowed, one bit for each."""
        rights = self._rights[resource_type].get((principal, host, name))
        if rights is None:
            rights = self._find_rights(principal, host, resource_type, name)
        return rights & _SUPPORTED[resource_type]

    def allows_any(self, principal: Principal, host: str, operation: AclOperation, resource_type: AclResource) -> bool:
        """Whether the operation can be allowed on some resource of that type, whether or not there is one.

        This is Kafka's `authorizeByResourceType`: a rule that allows counts unless a rule that denies is about every
        name that it is about, and operations are implied only where a resource of any name is allowed.
        """
        key = (principal, host, operation, resource_type)
        answer = self._allowed_anywhere.get(key)
        if answer is None:
            answer = self._is_allowed_anywhere(principal, host, operation, resource_type)
            _make_room(self._allowed_anywhere)
            self._allowed_anywhere[key] = answer
        return answer

    def decide(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: AclResource, name: str
    ) -> Decision:
        """The answer of `allows`, and why."""
        if str(principal) in self._super_users:
            return Decision(True, Reason.SUPER_USER)
        allowing = None
        for rule in self._matching_question(principal, host, operation, resource_type, name):
            if rule.permission is AclPermission.DENY:
                return Decision(False, Reason.DENIED_BY_RULE, rule)
            allowing = allowing or rule
        if allowing is not None:
            return Decision(True, Reason.ALLOWED_BY_RULE, allowing)
        if any(self._index.about(resource_type, name)):
            return Decision(False, Reason.NO_RULE_ALLOWS)
        if self._allow_everyone:
            return Decision(True, Reason.DEFAULT_ALLOW)
        return Decision(False, Reason.DEFAULT_DENY)

    def explain(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: AclResource, name: str
    ) -> Explanation:
        """The answer of `decide`, every rule that matches, and what would have to change for a yes."""
        decision = self.decide(principal, host, operation, resource_type, name)
        matching = list(self._matching_question(principal, host, operation, resource_type, name))
        denying = [rule for rule in matching if rule.permission is AclPermission.DENY]
        allowing = [rule for rule in matching if rule.permission is AclPermission.ALLOW]
        if decision.allowed:
            return Explanation(decision, denying + allowing, [], None)
        missing = AclBinding(resource_type, name, str(principal), operation)
        return Explanation(decision, denying + allowing, denying, None if allowing else missing)

    def matching(self, acl_filter: AclFilter) -> list[AclBinding]:
        """The rules that a filter matches, sorted."""
        return self._index.matching(acl_filter)

    # Inside

    def _find_rights(self, principal: Principal, host: str, resource_type: AclResource, name: str) -> int:
        rights = self._compute_rights(str(principal), host, resource_type, name)
        if len(name) <= _LONGEST_NAME_KEPT:
            kept = self._rights[resource_type]
            _make_room(kept)
            kept[principal, host, name] = rights
        return rights

    def _compute_rights(self, principal: str, host: str, resource_type: AclResource, name: str) -> int:
        if principal in self._super_users:
            return _ALL
        denied = allowed = 0
        has_rules = False
        for by_principal in self._index.about(resource_type, name):
            has_rules = True
            for rule in _for(principal, by_principal):
                if rule.host in (WILDCARD, host):
                    if rule.permission is AclPermission.DENY:
                        denied |= _DENIED[rule.operation]
                    else:
                        allowed |= _ALLOWED[rule.operation]
        if not has_rules:
            return _ALL if self._allow_everyone else 0
        return allowed & ~denied

    def _is_allowed_anywhere(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: AclResource
    ) -> bool:
        if self.allows(principal, host, operation, resource_type, _ANY_NAME):
            return True
        denied: set[_Pattern] = set()
        allowed: set[_Pattern] = set()
        for who in {str(principal), EVERYBODY}:
            for rule in self._index.naming(resource_type, who):
                if rule.host in (WILDCARD, host) and rule.operation in (AclOperation.ALL, operation):
                    patterns = denied if rule.permission is AclPermission.DENY else allowed
                    patterns.add((rule.pattern_type, rule.resource_name))
        if _EVERY_NAME in denied:
            return False
        return _EVERY_NAME in allowed or any(not _is_dominated(pattern, denied) for pattern in allowed)

    def _matching_question(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: AclResource, name: str
    ) -> Iterator[AclBinding]:
        """The rules that match, those about the fewest names first."""
        text = str(principal)
        for by_principal in self._index.about(resource_type, name):
            for rule in sorted(_for(text, by_principal)):
                meant = _DENIED if rule.permission is AclPermission.DENY else _ALLOWED
                if rule.host in (WILDCARD, host) and meant[rule.operation] >> operation & 1:
                    yield rule

    def _forget_answers(self) -> None:
        for kept in self._rights:
            kept.clear()
        self._allowed_anywhere.clear()


_Pattern: TypeAlias = tuple[PatternType, str]
_EVERY_NAME: _Pattern = (PatternType.LITERAL, WILDCARD)


def _for(principal: str, by_principal: RulesByPrincipal) -> Iterator[AclBinding]:
    """The rules that name the principal, and those that name everybody."""
    yield from by_principal.get(principal, ())
    if principal != EVERYBODY:
        yield from by_principal.get(EVERYBODY, ())


def _is_dominated(pattern: _Pattern, denied: set[_Pattern]) -> bool:
    """Whether everything that the pattern is about is denied by one other pattern, which is not that of every name."""
    if pattern in denied:
        return True
    name = pattern[1]
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(len(name) + 1))


def _make_room(answers: dict[K, V]) -> None:
    if len(answers) >= _MOST_KEPT:
        answers.clear()
