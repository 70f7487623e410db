"""Rules as a line of words: `alice read topic orders`, `deny * write topic team.*`."""

from __future__ import annotations

from typing import TypeVar

from penstock.security.acls import CLUSTER_NAME, WILDCARD, AclBinding
from penstock.security.operations import SUPPORTED_OPERATIONS
from penstock.security.principals import USER
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType

E = TypeVar("E", AclOperation, AclResource)

_DENY = "deny"


def parse_rule(text: str) -> AclBinding:
    """`[deny] USER OPERATION TYPE NAME`; a name that ends in `*` is a prefix. Raises ValueError with what to write."""
    words = text.split()
    permission = AclPermission.ALLOW
    if words and words[0] == _DENY:
        permission = AclPermission.DENY
        del words[0]
    if len(words) == 3 and words[2].lower() == "cluster":
        words.append(CLUSTER_NAME)
    if len(words) != 4:
        raise ValueError(f"{text!r} is no rule; write USER OPERATION TYPE NAME, for example 'alice read topic orders'")
    who, operation_word, type_word, name = words
    resource = _named(type_word, list(SUPPORTED_OPERATIONS), text)
    operation = _named(operation_word, [AclOperation.ALL, *SUPPORTED_OPERATIONS[resource]], text)
    pattern = PatternType.LITERAL
    if name.endswith(WILDCARD) and name != WILDCARD:
        name, pattern = name.removesuffix(WILDCARD), PatternType.PREFIXED
    principal = who if who.startswith(f"{USER}:") else f"{USER}:{who}"
    return AclBinding(resource, name, principal, operation, permission, WILDCARD, pattern)


def _named(word: str, known: list[E], text: str) -> E:
    found = {each.name.lower(): each for each in known}.get(word.lower().replace("-", "_"))
    if found is None:
        names = ", ".join(each.name.lower().replace("_", "-") for each in known)
        raise ValueError(f"{word!r} in the rule {text!r} is unknown; it can be {names}")
    return found
