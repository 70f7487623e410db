"""Rules in a person's words: from the options of `penstock acl` to Kafka's rules, and back to a command to copy."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import TypeVar

import click

from penstock.cli.failures import nearest
from penstock.cli.options import option
from penstock.security.acl_words import ON_TOPICS, RESOURCES, arguments_of, word_of
from penstock.security.acls import CLUSTER_NAME, WILDCARD, AclBinding
from penstock.security.operations import SUPPORTED_OPERATIONS
from penstock.security.principals import USER
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType

F = TypeVar("F", bound=Callable[..., object])

_EVERYTHING = (AclResource.TOPIC, AclResource.GROUP, AclResource.TRANSACTIONAL_ID)


def rule_options(function: F) -> F:
    """The options that say what a rule is about."""
    for decorate in reversed(
        (
            option("--read", "--consume", "read", metavar="TOPIC", multiple=True, help="Read a topic."),
            option("--write", "--produce", "write", metavar="TOPIC", multiple=True, help="Write to a topic."),
            option("--create", metavar="TOPIC", multiple=True, help="Create a topic of that name."),
            option("--delete", metavar="TOPIC", multiple=True, help="Delete a topic or its records."),
            option("--alter", metavar="TOPIC", multiple=True, help="Add partitions to a topic."),
            option("--describe", metavar="TOPIC", multiple=True, help="See a topic; reading and writing include it."),
            option("--all", metavar="TOPIC", multiple=True, help="Do everything with a topic."),
            option("--group", metavar="GROUP", multiple=True, help="Be a member of a group, a share group too."),
            option("--transactional-id", metavar="ID", multiple=True, help="Write transactions under an id."),
            option("--cluster", metavar="OPERATION", multiple=True, help="Do something to the cluster, e.g. create."),
            option(
                "--rule",
                "rule",
                type=(str, str, str),
                metavar="OPERATION TYPE NAME",
                multiple=True,
                help="Any other rule, in Kafka's terms, e.g. --rule delete group workers.",
            ),
            option("--admin", is_flag=True, help="Do everything with everything."),
            option("--prefix", is_flag=True, help="Treat the names as prefixes."),
            option("--deny", is_flag=True, help="The rule denies; it wins over every rule that allows."),
            option("--host", metavar="ADDRESS", default=WILDCARD, help="Only from this IP address."),
        )
    ):
        function = decorate(function)
    return function


def principal_of(text: str) -> str:
    """`billing` is the user of that name; `User:…` is taken as it is; `*` is everybody."""
    if not text:
        raise click.UsageError("A user's name cannot be empty.")
    return text if text.startswith(f"{USER}:") else f"{USER}:{text}"


def rules_of(principal: str, options: Mapping[str, object]) -> list[AclBinding]:
    """The rules that the options of a command stand for."""
    permission = AclPermission.DENY if options["deny"] else AclPermission.ALLOW
    pattern = PatternType.PREFIXED if options["prefix"] else PatternType.LITERAL
    needed: list[tuple[AclOperation, AclResource, str]] = []
    for name, operation in ON_TOPICS.items():
        needed += [(operation, AclResource.TOPIC, topic) for topic in _texts(options[name])]
    needed += [(AclOperation.READ, AclResource.GROUP, group) for group in _texts(options["group"])]
    ids = _texts(options["transactional_id"])
    needed += [(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, each) for each in ids]
    for text in _texts(options["cluster"]):
        needed.append((operation_of(text, AclResource.CLUSTER), AclResource.CLUSTER, CLUSTER_NAME))
    named = options["rule"]
    assert isinstance(named, tuple)
    for operation_text, type_text, name in named:
        kind = resource_of(type_text)
        needed.append((operation_of(operation_text, kind), kind, CLUSTER_NAME if kind is AclResource.CLUSTER else name))
    if options["admin"]:
        needed += [(AclOperation.ALL, kind, WILDCARD) for kind in _EVERYTHING]
        needed.append((AclOperation.ALL, AclResource.CLUSTER, CLUSTER_NAME))
    rules = []
    for operation, kind, name in needed:
        if not name:
            raise click.UsageError("A name is empty; * means every name.")
        is_fixed = kind is AclResource.CLUSTER or (options["admin"] and name == WILDCARD)
        if options["prefix"] and name == WILDCARD and not is_fixed:
            raise click.UsageError("* means every name already; leave --prefix out.")
        own = PatternType.LITERAL if is_fixed else pattern
        rules.append(AclBinding(kind, name, principal, operation, permission, str(options["host"]), own))
    return list(dict.fromkeys(rules))


def operation_of(text: str, kind: AclResource) -> AclOperation:
    """An operation by its name, if it means something on a resource of that type."""
    known = {word_of(each): each for each in (AclOperation.ALL, *SUPPORTED_OPERATIONS[kind])}
    found = known.get(text.lower().replace("_", "-"))
    if found is None:
        guess = nearest(text.lower(), known)
        hint = f"did you mean {guess}?" if guess else f"use one of {', '.join(known)}"
        raise click.UsageError(f"{text!r} is not an operation on a {word_of(kind)}; {hint}")
    return found


def resource_of(text: str) -> AclResource:
    found = RESOURCES.get(text.lower().replace("_", "-"))
    if found is None:
        raise click.UsageError(f"{text!r} is not a type of resource; use one of {', '.join(RESOURCES)}")
    return found


def command_of(verb: str, rule: AclBinding) -> str:
    """The command that adds or removes a rule."""
    return shlex.join(["penstock", "acl", *arguments_of(verb, rule)])


def row_of(rule: AclBinding) -> list[str]:
    return [
        rule.principal,
        rule.permission.name,
        rule.operation.name,
        rule.resource_type.name,
        rule.resource_name,
        rule.pattern_type.name,
        rule.host,
    ]


COLUMNS = ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST"]


def json_of(rule: AclBinding) -> dict[str, str]:
    names = ("principal", "permission", "operation", "resourceType", "resourceName", "patternType", "host")
    return dict(zip(names, row_of(rule), strict=True))


def _texts(value: object) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value
