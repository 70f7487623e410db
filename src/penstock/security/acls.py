"""Access control lists: rules about who may do what to what, and filters that choose among them.

A rule is about the resources whose name is `resource_name` (LITERAL; `*` is every name) or begins with it (PREFIXED).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType

WILDCARD = "*"
"""As a literal resource name, every name; as a host, every host; as the name of a principal, everybody."""
CLUSTER_NAME = "kafka-cluster"
"""The one name that a resource of type CLUSTER has."""


class AclBinding(NamedTuple):
    """One rule: `principal` from `host` may (or may not) do `operation` on the resource."""

    resource_type: AclResource
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = WILDCARD
    pattern_type: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        """Whether the rule is about the resource of that name."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which rules are meant; the defaults match every rule.

    The pattern type MATCH means the rules that are about the resource of that name: its own, those of its prefixes and
    those of every name.
    """

    resource_type: AclResource = AclResource.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def matches(self, rule: AclBinding) -> bool:
        return (
            self.resource_type in (AclResource.ANY, rule.resource_type)
            and self._matches_pattern(rule)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (AclOperation.ANY, rule.operation)
            and self.permission in (AclPermission.ANY, rule.permission)
        )

    def _matches_pattern(self, rule: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return rule.covers(self.resource_name)
        return self.resource_name == rule.resource_name
