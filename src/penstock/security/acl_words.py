"""Rules in words: as a line (`alice read topic orders`, `deny * write topic team.*`), as a sentence, and as the
arguments of `penstock acl`."""

from __future__ import annotations

from typing import TypeVar

from penstock.security.acls import CLUSTER_NAME, WILDCARD, AclBinding
from penstock.security.operations import SUPPORTED_OPERATIONS
from penstock.security.principals import USER
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType

E = TypeVar("E", AclOperation, AclResource)

_DENY = "deny"

RESOURCES = {
    "topic": AclResource.TOPIC,
    "group": AclResource.GROUP,
    "cluster": AclResource.CLUSTER,
    "transactional-id": AclResource.TRANSACTIONAL_ID,
    "user": AclResource.USER,
    "delegation-token": AclResource.DELEGATION_TOKEN,
}

# option of `penstock acl` -> what it allows on the topics that it names
ON_TOPICS = {
    "read": AclOperation.READ,
    "write": AclOperation.WRITE,
    "create": AclOperation.CREATE,
    "delete": AclOperation.DELETE,
    "alter": AclOperation.ALTER,
    "describe": AclOperation.DESCRIBE,
    "all": AclOperation.ALL,
}
_OPTION_OF = {operation: name for name, operation in ON_TOPICS.items()}


def word_of(name: AclOperation | AclResource) -> str:
    """An operation or a type of resource as people write it."""
    return name.name.lower().replace("_", "-")


OPERATION_WORDS = [
    word_of(each)
    for each in AclOperation
    if each is AclOperation.ALL or any(each in known for known in SUPPORTED_OPERATIONS.values())
]


def rule_of(
    principal: str,
    operation: str,
    resource: str,
    name: str,
    *,
    is_denial: bool = False,
    is_prefix: bool = False,
    host: str = WILDCARD,
) -> AclBinding:
    """A rule from words. Raises ValueError with what can be written for one that means nothing."""
    kind = RESOURCES.get(resource.lower())
    if kind is None:
        raise ValueError(f"{resource!r} is not a type of resource; use one of {', '.join(RESOURCES)}")
    known = [AclOperation.ALL, *SUPPORTED_OPERATIONS[kind]]
    wanted = next((each for each in known if word_of(each) == operation.lower()), None)
    if wanted is None:
        raise ValueError(
            f"{operation!r} is not an operation on a {resource}; use one of {', '.join(map(word_of, known))}"
        )
    if kind is AclResource.CLUSTER:
        name, is_prefix = CLUSTER_NAME, False
    if not name:
        raise ValueError(f"the name of the {resource} is empty; * means every name")
    permission = AclPermission.DENY if is_denial else AclPermission.ALLOW
    pattern = PatternType.PREFIXED if is_prefix and name != WILDCARD else PatternType.LITERAL
    return AclBinding(kind, name, principal, wanted, permission, host, pattern)


def arguments_of(verb: str, rule: AclBinding) -> list[str]:
    """What follows `penstock acl` to add or remove a rule."""
    words = [verb, rule.principal.removeprefix(f"{USER}:")]
    kind, operation, name = rule.resource_type, rule.operation, rule.resource_name
    if kind is AclResource.TOPIC and operation in _OPTION_OF:
        words += [f"--{_OPTION_OF[operation]}", name]
    elif kind is AclResource.GROUP and operation is AclOperation.READ:
        words += ["--group", name]
    elif kind is AclResource.TRANSACTIONAL_ID and operation is AclOperation.WRITE:
        words += ["--transactional-id", name]
    elif kind is AclResource.CLUSTER:
        words += ["--cluster", word_of(operation)]
    else:
        words += ["--rule", word_of(operation), word_of(kind), name]
    if rule.pattern_type is PatternType.PREFIXED:
        words.append("--prefix")
    if rule.permission is AclPermission.DENY:
        words.append("--deny")
    if rule.host != WILDCARD:
        words += ["--host", rule.host]
    return words


def sentence_of(rule: AclBinding) -> str:
    """A rule as a sentence."""
    may = "may not" if rule.permission is AclPermission.DENY else "may"
    verb = "do everything with" if rule.operation is AclOperation.ALL else word_of(rule.operation)
    kind = word_of(rule.resource_type).replace("-", " ")
    if rule.resource_type is AclResource.CLUSTER:
        thing = "the cluster"
    elif rule.pattern_type is PatternType.PREFIXED:
        thing = f"every {kind} whose name begins with {rule.resource_name!r}"
    elif rule.resource_name == WILDCARD:
        thing = f"every {kind}"
    else:
        thing = f"{kind} {rule.resource_name!r}"
    origin = "" if rule.host == WILDCARD else f" from {rule.host}"
    return f"{rule.principal} {may} {verb} {thing}{origin}"


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
        raise ValueError(f"{word!r} in the rule {text!r} is unknown; use one of {names}")
    return found
