"""`penstock acl`: who may do what, on a running broker or in the data folder of a stopped one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.acl_rules import (
    COLUMNS,
    command_of,
    json_of,
    operation_of,
    principal_of,
    resource_of,
    row_of,
    rule_options,
    rules_of,
)
from penstock.cli.data_folder import DataFolder, data_option
from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option, option
from penstock.cli.output import note, print_json, print_table
from penstock.cli.running import with_admin
from penstock.security.acl_words import sentence_of
from penstock.security.acls import CLUSTER_NAME, WILDCARD, AclBinding, AclFilter
from penstock.security.principals import parse_principal
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType

if TYPE_CHECKING:
    from penstock.client.admin import Admin, ConfigEntry
    from penstock.security.authorizer import Explanation

_NOTHING_NAMED = "Say what the rule is about, for example --read TOPIC, --group GROUP or --cluster OPERATION."


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def acl() -> None:
    """Control who may do what, and find out why.

    Only a super user may do what no rule allows. A rule that denies wins over all that allow.
    """


@acl.command("add")
@click.argument("user")
@rule_options
@data_option
@bootstrap_option
@json_option
def add(user: str, data: Path | None, bootstrap: str, as_json: bool, **options: object) -> None:
    """Add rules for a user; * is everybody.

    \b
      penstock acl add billing --read orders --group workers     a consumer, or a worker of a share group
      penstock acl add shop --write orders                       a producer
      penstock acl add shop --write orders --transactional-id shop-1
      penstock acl add reports --read team. --prefix             every topic whose name begins with team.
      penstock acl add ops --admin                               everything
      penstock acl add mallory --all '*' --deny                  nothing with any topic
    """
    rules = rules_of(principal_of(user), options)
    if not rules:
        raise click.UsageError(_NOTHING_NAMED)
    found = set(_rules(AclFilter(principal=rules[0].principal), data, bootstrap))
    new = [rule for rule in rules if rule not in found]
    if new and data is not None:
        DataFolder(data).change_acls(new, [])
    elif new:
        with_admin(bootstrap, lambda admin: admin.create_acls(new))
    if as_json:
        print_json([json_of(rule) for rule in new])
        return
    for rule in rules:
        click.echo(f"{'added:' if rule in new else 'was there already:'} {sentence_of(rule)}")


@acl.command("remove")
@click.argument("user")
@rule_options
@option("--every-rule", is_flag=True, help="Remove every rule that names the user.")
@data_option
@bootstrap_option
@json_option
def remove(user: str, every_rule: bool, data: Path | None, bootstrap: str, as_json: bool, **options: object) -> None:
    """Remove rules of a user: those that penstock acl add with the same options would add."""
    principal = principal_of(user)
    rules = rules_of(principal, options)
    if every_rule == bool(rules):
        raise click.UsageError("Name the rules as for penstock acl add, or say --every-rule.")
    found = _rules(AclFilter(principal=principal), data, bootstrap)
    gone = found if every_rule else [rule for rule in rules if rule in found]
    absent = [rule for rule in rules if rule not in found]
    if absent:
        there = "\n".join(f"    {sentence_of(rule)}" for rule in found) or "    none"
        raise Failure(
            f"There is no such rule: {sentence_of(absent[0])}. Nothing was removed.\n  Rules of {principal}:\n{there}"
        )
    if gone and data is not None:
        DataFolder(data).change_acls([], gone)
    elif gone:
        with_admin(bootstrap, lambda admin: admin.delete_acls([_filter_of(rule) for rule in gone]))
    if as_json:
        print_json([json_of(rule) for rule in gone])
        return
    for rule in gone:
        click.echo(f"removed: {sentence_of(rule)}")
    if not gone:
        note(f"No rule names {principal}.")


@acl.command("list")
@click.argument("user", required=False)
@option("--topic", metavar="TOPIC", help="Only rules that apply to this topic, including prefixes and wildcards.")
@option("--group", metavar="GROUP", help="Only rules for this group.")
@option("--transactional-id", metavar="ID", help="Only rules for this transactional id.")
@option("--cluster", is_flag=True, help="Only rules for the cluster.")
@data_option
@bootstrap_option
@json_option
def list_(
    user: str | None,
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    data: Path | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """List rules: all, those of a user, or those for a resource."""
    chosen = [
        (kind, name)
        for kind, name in (
            (AclResource.TOPIC, topic),
            (AclResource.GROUP, group),
            (AclResource.TRANSACTIONAL_ID, transactional_id),
            (AclResource.CLUSTER, CLUSTER_NAME if cluster else None),
        )
        if name is not None
    ]
    if len(chosen) > 1:
        raise click.UsageError("Name one resource only.")
    principal = None if user is None else principal_of(user)
    acl_filter = AclFilter(principal=principal)
    if chosen:
        acl_filter = AclFilter(chosen[0][0], chosen[0][1], principal, pattern_type=PatternType.MATCH)
    found = _rules(acl_filter, data, bootstrap)
    if as_json:
        print_json([json_of(rule) for rule in found])
    elif found:
        print_table(COLUMNS, [row_of(rule) for rule in found])
    else:
        note("There are no such rules." if user or chosen else "There are no rules: only super users may do anything.")


@acl.command("explain")
@click.argument("user")
@click.argument("operation")
@click.argument("resource", metavar="TYPE")
@click.argument("name", required=False)
@option("--host", metavar="ADDRESS", default=WILDCARD, help="The IP address that the user connects from.")
@data_option
@bootstrap_option
@json_option
def explain(
    user: str,
    operation: str,
    resource: str,
    name: str | None,
    host: str,
    data: Path | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Show whether a user may do something, which rule decides, and what would allow it.

    \b
      penstock acl explain billing read topic orders
      penstock acl explain billing create cluster
    """
    from penstock.security.authorizer import Authorizer

    kind = resource_of(resource)
    requested = operation_of(operation, kind)
    if kind is AclResource.CLUSTER:
        name = CLUSTER_NAME
    elif not name:
        raise click.UsageError(f"Name the {resource}: penstock acl explain {user} {operation} {resource} NAME")
    principal = principal_of(user)
    rules = _rules(AclFilter(kind, name, pattern_type=PatternType.MATCH), data, bootstrap)
    super_users, allow_everyone, unknown = _broker_settings(data, bootstrap)
    authorizer = Authorizer(rules, super_users, allow_everyone)
    answer = authorizer.explain(parse_principal(principal), host, requested, kind, name)
    elsewhere = [rule for rule in rules if host == WILDCARD and rule.host != WILDCARD and rule.principal == principal]
    if as_json:
        print_json(_explanation_json(answer))
    else:
        _print_explanation(AclBinding(kind, name, principal, requested, host=host), answer, len(elsewhere))
    if unknown:
        note(unknown)


def _print_explanation(requested: AclBinding, answer: Explanation, host_rules: int) -> None:
    decision = answer.decision
    permission = AclPermission.ALLOW if decision.allowed else AclPermission.DENY
    click.echo(f"{sentence_of(requested._replace(permission=permission))}: {decision.reason.value}.")
    if decision.rule is not None:
        click.echo(f"  The rule that decides:  {sentence_of(decision.rule)}")
    for rule in answer.to_remove:
        click.echo(f"  To allow it, remove:    {command_of('remove', rule)}")
    if answer.to_add is not None:
        word = "and add:   " if answer.to_remove else "To allow it:"
        click.echo(f"  {word:<22}  {command_of('add', answer.to_add)}")
    if host_rules:
        note(f"{host_rules} more rules are for certain hosts; name the user's with --host ADDRESS to count them.")


def _explanation_json(answer: Explanation) -> dict[str, object]:
    decision = answer.decision
    return {
        "allowed": decision.allowed,
        "reason": decision.reason.value,
        "rule": None if decision.rule is None else json_of(decision.rule),
        "matching": [json_of(rule) for rule in answer.matching],
        "remove": [command_of("remove", rule) for rule in answer.to_remove],
        "add": None if answer.to_add is None else command_of("add", answer.to_add),
    }


def _rules(acl_filter: AclFilter, data: Path | None, bootstrap: str) -> list[AclBinding]:
    if data is not None:
        return DataFolder(data).acls(acl_filter)
    from penstock.wire.errors import SecurityDisabled

    try:
        return with_admin(bootstrap, lambda admin: admin.describe_acls(acl_filter))
    except SecurityDisabled:
        raise Failure(
            f"The broker at {bootstrap} has no authorizer, so everybody may do everything.\n"
            "  Start it with:      penstock serve --secure\n"
            "  Or set:             authorizer.class.name and super.users (docs/how-to/security.md)"
        ) from None


def _broker_settings(data: Path | None, bootstrap: str) -> tuple[list[str], bool, str]:
    """Super users, and whether everybody is allowed where there is no rule; and what could not be found out."""
    if data is not None:
        return [], False, "Super users are known to a running broker only: this answer is for a user who is none."
    from penstock.wire.errors import ClusterAuthorizationFailed

    try:
        configs = with_admin(bootstrap, _describe_settings)
    except ClusterAuthorizationFailed:
        return [], False, "You may not see the broker's super.users: this answer is for a user who is none."
    entry = configs.get("super.users")
    if entry is not None and entry.value is None and not entry.is_default:
        # As with Apache Kafka, whose authorizers have configs that the broker itself does not know.
        return (
            [],
            _is_true(configs),
            "The broker has super users and does not show them: a super user may do everything.",
        )
    super_users = [each.strip() for each in (entry.value or "").split(";") if each.strip()] if entry else []
    return super_users, _is_true(configs), ""


def _is_true(configs: dict[str, ConfigEntry]) -> bool:
    entry = configs.get("allow.everyone.if.no.acl.found")
    return entry is not None and entry.value == "true"


async def _describe_settings(admin: Admin) -> dict[str, ConfigEntry]:
    from penstock.client.admin import ResourceType

    node = (await admin.describe_cluster()).nodes[0]
    names = ["super.users", "allow.everyone.if.no.acl.found"]
    return await admin.describe_configs(ResourceType.BROKER, str(node.node_id), names)


def _filter_of(rule: AclBinding) -> AclFilter:
    return AclFilter(
        rule.resource_type,
        rule.resource_name,
        rule.principal,
        AclOperation(rule.operation),
        rule.permission,
        rule.host,
        rule.pattern_type,
    )
