"""Rules, found by the resource that they are about or by the principal whom they name, without a look at all others.

The rules of one pattern (a literal name or a prefix) are kept together, by principal. The patterns about a name are the
name itself, its prefixes and `*`; prefixes are looked up by cutting the name to each length that some prefix has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from penstock.security.acls import WILDCARD, AclBinding, AclFilter
from penstock.wire.acls import AclResource, PatternType

RulesByPrincipal: TypeAlias = Mapping[str, "set[AclBinding]"]
"""The rules of one pattern."""
K = TypeVar("K")


class AclIndex:
    def __init__(self) -> None:
        self._rules: set[AclBinding] = set()
        self._literals: dict[tuple[AclResource, str], dict[str, set[AclBinding]]] = {}
        self._prefixes: dict[tuple[AclResource, str], dict[str, set[AclBinding]]] = {}
        self._prefix_lengths: dict[AclResource, tuple[int, ...]] = {}
        self._of_principal: dict[tuple[AclResource, str], set[AclBinding]] = {}

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, rule: AclBinding) -> bool:
        return rule in self._rules

    def rules(self) -> frozenset[AclBinding]:
        return frozenset(self._rules)

    def add(self, rules: Iterable[AclBinding]) -> None:
        for rule in rules:
            if rule not in self._rules:
                self._rules.add(rule)
                by_principal = self._patterns_like(rule).setdefault((rule.resource_type, rule.resource_name), {})
                by_principal.setdefault(rule.principal, set()).add(rule)
                self._of_principal.setdefault((rule.resource_type, rule.principal), set()).add(rule)
        self._note_prefix_lengths()

    def remove(self, rules: Iterable[AclBinding]) -> None:
        for rule in rules:
            if rule in self._rules:
                self._rules.remove(rule)
                patterns, pattern = self._patterns_like(rule), (rule.resource_type, rule.resource_name)
                _discard(patterns[pattern], rule.principal, rule)
                if not patterns[pattern]:
                    del patterns[pattern]
                _discard(self._of_principal, (rule.resource_type, rule.principal), rule)
        self._note_prefix_lengths()

    def about(self, resource_type: AclResource, name: str) -> Iterator[RulesByPrincipal]:
        """The rules about a resource: of its name, of its prefixes from the longest to the shortest, of every name."""
        if found := self._literals.get((resource_type, name)):
            yield found
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name) and (found := self._prefixes.get((resource_type, name[:length]))):
                yield found
        if name != WILDCARD and (found := self._literals.get((resource_type, WILDCARD))):
            yield found

    def naming(self, resource_type: AclResource, principal: str) -> Iterable[AclBinding]:
        """The rules about resources of a type that name this principal."""
        return self._of_principal.get((resource_type, principal), ())

    def matching(self, acl_filter: AclFilter) -> list[AclBinding]:
        """The rules that a filter matches, sorted."""
        return sorted(rule for rule in self._candidates(acl_filter) if acl_filter.matches(rule))

    def _candidates(self, acl_filter: AclFilter) -> Iterable[AclBinding]:
        """At least the rules that a filter matches, at best not many more."""
        types = list(AclResource) if acl_filter.resource_type is AclResource.ANY else [acl_filter.resource_type]
        if acl_filter.resource_name is not None:
            return [
                rule
                for resource_type in types
                for by_principal in self.about(resource_type, acl_filter.resource_name)
                for rules in by_principal.values()
                for rule in rules
            ]
        if acl_filter.principal is not None:
            return [rule for resource_type in types for rule in self.naming(resource_type, acl_filter.principal)]
        return self._rules

    def _patterns_like(self, rule: AclBinding) -> dict[tuple[AclResource, str], dict[str, set[AclBinding]]]:
        return self._prefixes if rule.pattern_type is PatternType.PREFIXED else self._literals

    def _note_prefix_lengths(self) -> None:
        lengths: dict[AclResource, set[int]] = {}
        for resource_type, prefix in self._prefixes:
            lengths.setdefault(resource_type, set()).add(len(prefix))
        self._prefix_lengths = {
            resource_type: tuple(sorted(of_type, reverse=True)) for resource_type, of_type in lengths.items()
        }


def _discard(sets: dict[K, set[AclBinding]], key: K, rule: AclBinding) -> None:
    """Take a rule out of one of the sets, and the set away with its last rule."""
    rules = sets[key]
    rules.remove(rule)
    if not rules:
        del sets[key]
