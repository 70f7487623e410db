"""`penstock quota`: how much users, client ids and addresses may use per second."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option, option
from penstock.cli.output import note, print_json, print_table
from penstock.cli.running import with_admin

if TYPE_CHECKING:
    from penstock.client.admin import Admin, ClientQuotaEntity
    from penstock.client.admin.quotas import Name, Wanted

F = TypeVar("F", bound=Callable[..., object])

_PRODUCE, _FETCH, _REQUESTS = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
_MUTATIONS, _CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"
_OPTIONS = {
    "produce": _PRODUCE,
    "fetch": _FETCH,
    "requests": _REQUESTS,
    "mutations": _MUTATIONS,
    "connections": _CONNECTIONS,
}
_COLUMNS = {
    _PRODUCE: "PRODUCE",
    _FETCH: "FETCH",
    _REQUESTS: "REQUESTS",
    _MUTATIONS: "MUTATIONS",
    _CONNECTIONS: "CONNECTIONS",
}
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
_EXAMPLE = "penstock quota set alice --produce 10MB/s"


def _bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *((?:[kmg]i?)?)b?(?:/s)?", value.strip().lower())
    if found is None or not (number := round(float(found[1]) * _UNITS[found[2]])):
        message = f"{value!r} is not a rate in bytes. Write for example 10MB/s, 512KiB/s or 1000."
        raise click.BadParameter(message, ctx, param)
    return float(number)


def _percent(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    return None if value is None else _number(ctx, param, value, "%", "percentage. Write for example 50%.")


def _per_second(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    return None if value is None else _number(ctx, param, value, "/s", "rate. Write for example 0.5/s.")


def _whole_per_second(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    number = None if value is None else _number(ctx, param, value, "/s", "rate. Write for example 10/s.")
    if number is not None and number % 1:
        raise click.BadParameter(f"{value!r} is not a whole number. Write for example 10/s.", ctx, param)
    return number


def _number(ctx: click.Context, param: click.Parameter, value: str, unit: str, what: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *", value.strip().lower().removesuffix(unit))
    if found is None or not (number := float(found[1])):
        raise click.BadParameter(f"{value!r} is no {what}", ctx, param)
    return number


def _entity_options(function: F) -> F:
    for add in (
        option("--default-ip", is_flag=True, help="Every address without a quota of its own."),
        option("--ip", metavar="ADDRESS", help="An address that opens connections."),
        option("--default-client-id", is_flag=True, help="Every client id without a quota of its own."),
        option("--client-id", metavar="ID", help="A client id; with USER, that of one user."),
        option("--default-user", is_flag=True, help="Every user without a quota of its own."),
        click.argument("user", required=False),
    ):
        function = add(function)
    return function


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def quota() -> None:
    """Set and show how much users, client ids and addresses may use.

    A client that exceeds its quota is made to wait; nothing is lost, and nobody else is slowed down. Of several quotas
    the most specific one counts: that of a client id of a user, then that of the user, then the defaults for users,
    then that of the client id and the default for client ids.
    """


@quota.command("set")
@_entity_options
@option("--produce", callback=_bytes, metavar="RATE", help="Bytes produced per second: 10MB/s, 512KiB/s.")
@option("--fetch", callback=_bytes, metavar="RATE", help="Bytes fetched per second.")
@option("--requests", callback=_percent, metavar="PERCENT", help="Share of the broker's time: 50%.")
@option("--mutations", callback=_per_second, metavar="RATE", help="Partitions created and deleted: 5/s.")
@option("--connections", callback=_whole_per_second, metavar="RATE", help="Connections of an address: 10/s.")
@bootstrap_option
@json_option
def set_(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
    bootstrap: str,
    as_json: bool,
    **rates: float | None,
) -> None:
    """Set quotas. Those that are not named stay as they are.

    \b
      penstock quota set alice --produce 10MB/s --fetch 5MB/s --requests 50%
      penstock quota set --default-user --produce 1MB/s
      penstock quota set alice --client-id billing --fetch 20MB/s
      penstock quota set --ip 10.0.0.7 --connections 10/s
    """
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    values = {_OPTIONS[name]: value for name, value in rates.items() if value is not None}
    if not values:
        raise click.UsageError(f"Say what to limit: {_EXAMPLE}")
    if entity.ip is None and _CONNECTIONS in values:
        raise click.UsageError("Connections are limited by address: penstock quota set --ip ADDRESS --connections 10/s")
    if entity.ip is not None and set(values) != {_CONNECTIONS}:
        raise click.UsageError("Of an address only --connections can be limited.")
    _change(bootstrap, entity, values)
    if as_json:
        print_json(_as_json(entity, values))
    for key, value in values.items() if not as_json else ():
        note(f"{_title(entity)} may {_words(key)} {_shown(key, value)} from now on.")


@quota.command("list")
@_entity_options
@bootstrap_option
@json_option
def list_(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """List quotas: all of them, or those of a user, a client id or an address."""
    from penstock.client.admin import DEFAULT

    def wanted(name: str | None, is_default: bool) -> Wanted:
        return DEFAULT if is_default else name

    found = with_admin(
        bootstrap,
        lambda admin: admin.describe_client_quotas(
            user=wanted(user, default_user), client_id=wanted(client_id, default_client_id), ip=wanted(ip, default_ip)
        ),
    )
    ordered = sorted(found.items(), key=lambda each: _title(each[0]))
    if as_json:
        print_json([_as_json(entity, values) for entity, values in ordered])
    elif not ordered:
        note(f"No quotas are set. Set one:  {_EXAMPLE}")
    else:
        keys = [key for key in _COLUMNS if any(key in values for _, values in ordered)]
        print_table(
            ["WHO", *(_COLUMNS[key] for key in keys)],
            [
                [_title(entity), *(_shown(key, values[key]) if key in values else None for key in keys)]
                for entity, values in ordered
            ],
        )


@quota.command("remove")
@_entity_options
@option("--produce", is_flag=True, help="Only that of bytes produced.")
@option("--fetch", is_flag=True, help="Only that of bytes fetched.")
@option("--requests", is_flag=True, help="Only that of the broker's time.")
@option("--mutations", is_flag=True, help="Only that of partitions created and deleted.")
@option("--connections", is_flag=True, help="Only that of connections.")
@bootstrap_option
def remove(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
    bootstrap: str,
    **chosen: bool,
) -> None:
    """Remove quotas: all of a user, a client id or an address, or those that are named.

    \b
      penstock quota remove alice
      penstock quota remove --default-user --requests
    """
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    there = with_admin(
        bootstrap,
        lambda admin: admin.describe_client_quotas(
            user=entity.user, client_id=entity.client_id, ip=entity.ip, strict=True
        ),
    ).get(entity, {})
    named = {_OPTIONS[name] for name, is_chosen in chosen.items() if is_chosen}
    removed = [key for key in there if not named or key in named]
    if not removed:
        raise Failure(f"{_title(entity)} has no such quota.\n  See what is set: penstock quota list")
    _change(bootstrap, entity, dict.fromkeys(removed))
    for key in removed:
        note(f"{_title(entity)} may {_words(key)} without a limit of its own from now on.")


def _entity(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> ClientQuotaEntity:
    from penstock.client.admin import DEFAULT, ClientQuotaEntity

    def named(name: str | None, is_default: bool, what: str) -> Name:
        if name is not None and is_default:
            raise click.UsageError(f"Name {what} or its default, not both.")
        return DEFAULT if is_default else name

    entity = ClientQuotaEntity(
        named(user, default_user, "a user"),
        named(client_id, default_client_id, "a client id"),
        named(ip, default_ip, "an address"),
    )
    if entity == ClientQuotaEntity():
        raise click.UsageError(
            "Say whose quota it is: a user's name, --client-id, --ip, --default-user, --default-client-id or "
            f"--default-ip. For example: {_EXAMPLE}"
        )
    if entity.ip is not None and (entity.user is not None or entity.client_id is not None):
        raise click.UsageError("The quota of an address is for everybody who comes from there: leave out the others.")
    return entity


def _change(bootstrap: str, entity: ClientQuotaEntity, values: dict[str, float | None] | dict[str, float]) -> None:
    async def work(admin: Admin) -> None:
        for error in (await admin.alter_client_quotas({entity: values})).values():
            if error is not None:
                raise error

    with_admin(bootstrap, work)


def _title(entity: ClientQuotaEntity) -> str:
    from penstock.client.admin import DEFAULT

    parts = [("user", entity.user), ("client id", entity.client_id), ("address", entity.ip)]
    shown = [f"every {kind}" if name is DEFAULT else f"{kind} {name}" for kind, name in parts if name is not None]
    return ", ".join(shown)


def _words(key: str) -> str:
    return {
        _PRODUCE: "produce",
        _FETCH: "fetch",
        _REQUESTS: "use the broker's time:",
        _MUTATIONS: "create and delete partitions:",
        _CONNECTIONS: "open connections:",
    }.get(key, f"use {key}")


def _shown(key: str, value: float) -> str:
    if key == _REQUESTS:
        return f"{value:g}%"
    if key in (_MUTATIONS, _CONNECTIONS):
        return f"{value:g}/s"
    for unit, factor in (("GB", 1000**3), ("MB", 1000**2), ("KB", 1000)):
        if value >= factor and value * 1000 % factor == 0:
            return f"{value / factor:g}{unit}/s"
    return f"{value:.0f}B/s"


def _as_json(entity: ClientQuotaEntity, values: dict[str, float]) -> dict[str, object]:
    from penstock.client.admin import DEFAULT

    parts = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
    return {
        "entity": {kind: None if name is DEFAULT else name for kind, name in parts.items() if name is not None},
        "quotas": values,
    }
