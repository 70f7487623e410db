"""Users, ACLs and quotas: who there is, what the rules say, and what a user may do and why."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.client.admin import (
    DEFAULT,
    Admin,
    ClientQuotaEntity,
    ResourceType,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from penstock.client.admin.base import raise_first
from penstock.client.admin.quotas import Name
from penstock.console.commands import command
from penstock.console.questions import Change, Form
from penstock.console.session import Session
from penstock.console.web import Page, change, explain, field_of, name_in, page, session_of
from penstock.security.acl_words import OPERATION_WORDS, RESOURCES, arguments_of, rule_of, sentence_of
from penstock.security.acls import WILDCARD, AclBinding, AclFilter
from penstock.security.authorizer import Authorizer
from penstock.security.operations import SUPPORTED_OPERATIONS
from penstock.security.principals import USER, parse_principal
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.errors import ErrorCode, KafkaError

NAVIGATION = [("/access", "Access", "a")]
_MOST_RULES = 1_000
_LONGEST = 1_000
_ADDRESS = "/access"
_SUPER_USERS, _EVERYONE = "super.users", "allow.everyone.if.no.acl.found"
QUOTAS = {
    "producer_byte_rate": ("--produce", "bytes/s produced", ""),
    "consumer_byte_rate": ("--fetch", "bytes/s fetched", ""),
    "request_percentage": ("--requests", "% of the broker's time", "%"),
    "controller_mutation_rate": ("--mutations", "partitions/s created and deleted", "/s"),
    "connection_creation_rate": ("--connections", "connections/s of an address", "/s"),
}


async def access(request: Request) -> Page:
    admin = await session_of(request).admin()
    reasons: dict[str, str] = {}
    users: dict[str, list[str]] = {}
    rules: list[AclBinding] = []
    quotas: dict[ClientQuotaEntity, dict[str, float]] = {}
    try:
        described = await admin.describe_user_scram_credentials()
        users = {name: [info.mechanism.sasl_name for info in infos] for name, infos in sorted(described.items())}
    except KafkaError as error:
        reasons["users"] = explain(error)
    has_authorizer = True
    try:
        rules = await admin.describe_acls()
    except KafkaError as error:
        reasons["rules"] = explain(error)
        has_authorizer = error.code != ErrorCode.SECURITY_DISABLED
    try:
        quotas = await admin.describe_client_quotas()
    except KafkaError as error:
        reasons["quotas"] = explain(error)
    named = {rule.principal.removeprefix(f"{USER}:") for rule in rules} - {WILDCARD}
    data = {
        "has_authorizer": has_authorizer,
        "users": [
            {
                "user": name,
                "mechanisms": users.get(name, []),
                "rules": sum(rule.principal == f"{USER}:{name}" for rule in rules),
            }
            for name in sorted({*users, *named})
        ],
        "rules": [_rule(rule) for rule in rules[:_MOST_RULES]],
        "rule_count": len(rules),
        "quotas": [_quota(entity, values) for entity, values in sorted(quotas.items(), key=lambda item: _who(item[0]))],
        "reasons": reasons,
    }
    return Page("access.html", data, extra=_choices())


async def user(request: Request) -> Page:
    """What one user may do: its rules, and for every topic and group that the rules are about the operations."""
    session, name = session_of(request), name_in(request)
    admin = await session.admin()
    rules = await admin.describe_acls()
    authorizer, unknown = await _authorizer(admin, rules)
    principal = parse_principal(f"{USER}:{name}")
    own = [rule for rule in rules if rule.principal in (f"{USER}:{name}", f"{USER}:{WILDCARD}")]
    things = sorted({(rule.resource_type, rule.pattern_type, rule.resource_name) for rule in own})
    rights = []
    for kind, pattern, thing in things:
        requested = thing if pattern is PatternType.LITERAL and thing != WILDCARD else f"{thing.rstrip(WILDCARD)}…"
        allowed = [
            operation.name
            for operation in SUPPORTED_OPERATIONS[kind]
            if authorizer.allows(principal, WILDCARD, operation, kind, requested)
        ]
        shown = f"{thing}*" if pattern is PatternType.PREFIXED else thing
        rights.append({"type": _word(kind), "name": shown, "operations": allowed})
    answer = None
    question = {key: request.query_params.get(key, "")[:_LONGEST] for key in ("operation", "type", "name")}
    if question["operation"]:
        answer = _answer(session, authorizer, name, question)
    data = {
        "user": name,
        "rules": [_rule(rule) for rule in own],
        "rights": rights,
        "question": question,
        "answer": answer,
        "unknown": unknown,
    }
    return Page("user.html", data, extra=_choices())


def _answer(session: Session, authorizer: Authorizer, name: str, question: Mapping[str, str]) -> dict[str, object]:
    """Whether the user may, why, and what would change it, as `penstock acl explain` says it."""
    requested = _binding(f"{USER}:{name}", question["operation"], question["type"], question["name"])
    explanation = authorizer.explain(
        parse_principal(requested.principal),
        WILDCARD,
        requested.operation,
        requested.resource_type,
        requested.resource_name,
    )
    permission = AclPermission.ALLOW if explanation.decision.allowed else AclPermission.DENY
    return {
        "allowed": explanation.decision.allowed,
        "sentence": sentence_of(requested._replace(permission=permission)),
        "reason": explanation.decision.reason.value,
        "rule": None if explanation.decision.rule is None else sentence_of(explanation.decision.rule),
        "remove": [command(session, "acl", *arguments_of("remove", rule)) for rule in explanation.to_remove],
        "add": None
        if explanation.to_add is None
        else command(session, "acl", *arguments_of("add", explanation.to_add)),
    }


async def add_rule(request: Request, form: Form) -> Change:
    session = session_of(request)
    who = field_of(form, "user", limit=_LONGEST)
    rule = _binding(
        who if who.startswith(f"{USER}:") else f"{USER}:{who}",
        field_of(form, "operation"),
        field_of(form, "type"),
        form.get("name", "").strip()[:_LONGEST],
        is_denial=form.get("permission") == "deny",
        is_prefix=form.get("pattern") == "prefix",
        host=form.get("host", "").strip()[:_LONGEST] or WILDCARD,
    )
    admin = await session.admin()
    await admin.describe_acls(AclFilter(principal=rule.principal))  # who may not see the rules is told now

    async def perform(_: Form) -> str:
        await admin.create_acls([rule])
        return f"From now on {sentence_of(rule)}."

    line = command(session, "acl", *arguments_of("add", rule))
    return Change(f"{sentence_of(rule)}: add this rule?", line, _ADDRESS, perform, "Add it")


async def remove_rule(request: Request, form: Form) -> Change:
    session = session_of(request)
    rule = _parse(field_of(form, "rule", limit=5_000))
    admin = await session.admin()
    if rule not in await admin.describe_acls(AclFilter(principal=rule.principal)):
        raise HTTPException(404, f"There is no such rule: {sentence_of(rule)}.")
    exactly = AclFilter(
        rule.resource_type,
        rule.resource_name,
        rule.principal,
        rule.operation,
        rule.permission,
        rule.host,
        rule.pattern_type,
    )

    async def perform(_: Form) -> str:
        await admin.delete_acls([exactly])
        return f"The rule is gone: {sentence_of(rule)}."

    line = command(session, "acl", *arguments_of("remove", rule))
    return Change(f"{sentence_of(rule)}: remove this rule?", line, _ADDRESS, perform, "Remove it", danger=True)


async def set_password(request: Request, form: Form) -> Change:
    """Add a user, or change a password. The question does not carry the password: it is asked for with the consent."""
    session = session_of(request)
    name = field_of(form, "user", limit=_LONGEST)
    if not name.isprintable():
        raise HTTPException(400, "A user's name cannot hold control characters.")
    admin = await session.admin()
    is_known = name in await admin.describe_user_scram_credentials()

    async def perform(consent: Form) -> str:
        password = consent.get("password", "")
        if not 1 <= len(password) <= _LONGEST:
            raise HTTPException(400, "The password is empty or too long.")
        for mechanism in ScramMechanism:  # one by one: Kafka takes a user once in a request
            raise_first(await admin.alter_user_scram_credentials([ScramUpsertion(name, password, mechanism)]))
        return f"The password of {name} is changed." if is_known else f"User {name} is added, and may do nothing yet."

    line = command(session, "user", "password" if is_known else "add", name)
    question = f"Change the password of {name}?" if is_known else f"Add user {name}?"
    return Change(question, line, _ADDRESS, perform, "Change it" if is_known else "Add", secret="password")


async def remove_user(request: Request, form: Form) -> Change:
    session = session_of(request)
    name = field_of(form, "user", limit=_LONGEST)
    admin = await session.admin()
    known = (await admin.describe_user_scram_credentials()).get(name)
    if not known:
        raise HTTPException(404, f"There is no user {name} with a password.")

    async def perform(_: Form) -> str:
        for info in known:
            deletion = ScramDeletion(name, info.mechanism)
            raise_first(await admin.alter_user_scram_credentials(deletions=[deletion]))
        return f"User {name} is removed. Rules that name the user stay."

    return Change(
        f"Remove user {name}, and end the user's sessions?",
        command(session, "user", "remove", name),
        _ADDRESS,
        perform,
        "Remove it",
        danger=True,
    )


async def set_quota(request: Request, form: Form) -> Change:
    session = session_of(request)
    entity = _entity(form)
    key = field_of(form, "quota")
    if key not in QUOTAS:
        raise HTTPException(400, f"{key[:50]!r} is no quota; it is one of {', '.join(QUOTAS)}.")
    is_removal = form.get("act") == "remove"
    value = None if is_removal else _rate(field_of(form, "value", limit=30))
    admin = await session.admin()

    async def alter(*, only_check: bool) -> None:
        outcome = await admin.alter_client_quotas({entity: {key: value}}, validate_only=only_check)
        for error in outcome.values():
            if error is not None:
                raise error

    await alter(only_check=True)

    async def perform(_: Form) -> str:
        await alter(only_check=False)
        return f"{_who(entity)}: {QUOTAS[key][1]} {'without a limit of its own' if value is None else f'{value:g}'}."

    flag, words, unit = QUOTAS[key]
    option = [flag] if value is None else [flag, f"{value:g}{unit}"]
    line = command(session, "quota", "remove" if is_removal else "set", *_entity_arguments(entity), *option)
    question = f"Remove the limit of {words} for {_who(entity)}?" if is_removal else None
    question = question or f"Limit {_who(entity)} to {value:g} {words}?"
    return Change(question, line, _ADDRESS, perform, "Remove it" if is_removal else "Set it")


async def _authorizer(admin: Admin, rules: list[AclBinding]) -> tuple[Authorizer, str]:
    """The brokers' decisions, worked out here from their rules; and what could not be found out."""
    super_users: list[str] = []
    everyone, unknown = False, ""
    try:
        node = (await admin.describe_cluster()).nodes[0]
        configs = await admin.describe_configs(ResourceType.BROKER, str(node.node_id), [_SUPER_USERS, _EVERYONE])
    except KafkaError:
        return Authorizer(rules), "You may not see the brokers' super.users: this is for a user who is none."
    entry = configs.get(_SUPER_USERS)
    if entry is not None and entry.value is None and not entry.is_default:
        unknown = "The brokers have super users and do not show them: a super user may do everything."
    elif entry is not None:
        super_users = [each.strip() for each in (entry.value or "").split(";") if each.strip()]
    if _EVERYONE in configs:
        everyone = configs[_EVERYONE].value == "true"
    return Authorizer(rules, super_users, everyone), unknown


def _binding(
    principal: str,
    operation: str,
    kind: str,
    name: str,
    *,
    is_denial: bool = False,
    is_prefix: bool = False,
    host: str = WILDCARD,
) -> AclBinding:
    try:
        return rule_of(principal, operation, kind, name, is_denial=is_denial, is_prefix=is_prefix, host=host)
    except ValueError as error:
        raise HTTPException(400, f"{error}.") from None


def _parse(text: str) -> AclBinding:
    """A rule as `_rule` writes it into a form."""
    parts = text.split("\n")
    try:
        kind, name, principal, operation, permission, host, pattern = parts
        return AclBinding(
            AclResource(int(kind)),
            name,
            principal,
            AclOperation(int(operation)),
            AclPermission(int(permission)),
            host,
            PatternType(int(pattern)),
        )
    except ValueError:
        raise HTTPException(400, "This is no rule; reload the page and try again.") from None


def _rule(rule: AclBinding) -> dict[str, object]:
    return {
        "principal": rule.principal,
        "permission": rule.permission.name,
        "operation": rule.operation.name,
        "resourceType": rule.resource_type.name,
        "resourceName": rule.resource_name,
        "patternType": rule.pattern_type.name,
        "host": rule.host,
        "sentence": sentence_of(rule),
        "id": "\n".join(
            str(int(part)) if not isinstance(part, str) else part
            for part in (
                rule.resource_type,
                rule.resource_name,
                rule.principal,
                rule.operation,
                rule.permission,
                rule.host,
                rule.pattern_type,
            )
        ),
    }


def _entity(form: Form) -> ClientQuotaEntity:
    """Whom a quota is for, from a form: `*` is everybody who has none of their own."""
    given = {key: form.get(key, "").strip()[:_LONGEST] for key in ("user", "client_id", "ip")}
    if not any(given.values()):
        raise HTTPException(400, "Say whose quota it is: a user, a client id or an address; * is everybody else.")
    names: list[Name] = [DEFAULT if value == WILDCARD else value or None for value in given.values()]
    user, client_id, ip = names
    if ip is not None and (user is not None or client_id is not None):
        raise HTTPException(400, "The quota of an address is for everybody who comes from there: leave out the others.")
    return ClientQuotaEntity(user, client_id, ip)


def _entity_arguments(entity: ClientQuotaEntity) -> list[str]:
    words: list[str] = []
    if entity.user is not None:
        words += [entity.user] if isinstance(entity.user, str) else ["--default-user"]
    for name, option in ((entity.client_id, "client-id"), (entity.ip, "ip")):
        if name is not None:
            words += [f"--{option}", name] if isinstance(name, str) else [f"--default-{option}"]
    return words


def _who(entity: ClientQuotaEntity) -> str:
    parts = (("user", entity.user), ("client id", entity.client_id), ("address", entity.ip))
    shown = [f"{kind} {name}" if isinstance(name, str) else f"every {kind}" for kind, name in parts if name is not None]
    return ", ".join(shown)


def _quota(entity: ClientQuotaEntity, values: Mapping[str, float]) -> dict[str, object]:
    parts = {"user": entity.user, "client_id": entity.client_id, "ip": entity.ip}
    given = {key: name if isinstance(name, str) else WILDCARD for key, name in parts.items() if name is not None}
    return {"who": _who(entity), "entity": given, "quotas": dict(values)}


def _rate(text: str) -> float:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) is None or not 0 < float(text) < 1e15:
        raise HTTPException(400, f"{text!r} is no rate; it must be a number above 0.")
    return float(text)


def _choices() -> dict[str, object]:
    return {"operations": OPERATION_WORDS, "types": list(RESOURCES), "all_quotas": QUOTAS}


def _word(kind: AclResource) -> str:
    return kind.name.lower().replace("_", " ")


ROUTES = [
    *page("/access/users/{name}", user),
    *page(_ADDRESS, access),
    *change("/access/rules/add", add_rule),
    *change("/access/rules/remove", remove_rule),
    *change("/access/users/password", set_password),
    *change("/access/users/remove", remove_user),
    *change("/access/quotas", set_quota),
]
