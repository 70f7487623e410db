"""`penstock config`: configs of topics, groups, brokers and client metrics subscriptions, and levels of loggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.config_changes import alter_configs, kind_text, known_configs, unknown_config
from penstock.cli.failures import Failure
from penstock.cli.lookups import find_topic
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option, option, pairs
from penstock.cli.output import Cell, fits, note, print_json, print_table
from penstock.cli.running import with_admin

if TYPE_CHECKING:
    from penstock.client.admin import Admin, ConfigEntry, ResourceType

_KINDS = ["topic", "group", "broker", "client-metrics", "broker-logger"]
_ALL_BROKERS = "all"
_HIDDEN = "(hidden)"

kind_argument = click.argument("kind", type=click.Choice(_KINDS))
name_argument = click.argument("name", metavar="NAME")


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def config() -> None:
    """Show and change configs of topics, groups, brokers and client metrics, and levels of a broker's loggers.

    NAME is the name of a topic, a group or a client metrics subscription, the id of a broker, or "all" for all brokers
    together. Configs have Kafka's names.
    """


@config.command("get")
@kind_argument
@name_argument
@click.argument("configs", nargs=-1, metavar="[CONFIG]...")
@option("--all", "all_", is_flag=True, help="Show configs that have their default value too.")
@bootstrap_option
@json_option
def get(kind: str, name: str, configs: tuple[str, ...], all_: bool, bootstrap: str, as_json: bool) -> None:
    """Show configs: their values, where these come from, and the defaults behind them.

    Without CONFIG, shows what differs from the defaults.

    \b
      penstock config get topic orders
      penstock config get topic orders retention.ms
      penstock config get group workers --all
      penstock config get broker 1
      penstock config get broker-logger 1
    """
    resource, own_name = _resource(kind, name)

    async def work(admin: Admin) -> list[ConfigEntry]:
        await _check_exists(admin, resource, own_name)
        found = await admin.describe_configs(resource, own_name)
        if not configs:
            return sorted(entry for entry in found.values() if all_ or not entry.is_default)
        known = found if all(each in found for each in configs) else await known_configs(admin, resource, own_name)
        for each in configs:
            if each not in known:
                raise unknown_config(resource, name, each, known)
        return [known[each] for each in configs]

    entries = with_admin(bootstrap, work)
    if as_json:
        print_json([_as_json(entry) for entry in entries])
    elif entries:
        _print(entries)
    elif all_ or (resource.name == "BROKER" and not own_name):
        note(f"Nothing is set for {_title(resource, own_name)}.")
    else:
        note(f"Nothing is set for {_title(resource, own_name)}: all configs have their defaults. See them with --all.")


def _print(entries: list[ConfigEntry]) -> None:
    columns, rows = ["CONFIG", "VALUE", "SOURCE", "DEFAULT"], [_row(entry) for entry in entries]
    if fits(columns, rows):
        print_table(columns, rows)
        return
    for name, value, source, default in rows:
        click.echo(f"{name} = {value or ''} ({source}{f'; default {default}' if default else ''})")


def _row(entry: ConfigEntry) -> list[Cell]:
    default = None if entry.is_default else _beneath(entry, entry.source)
    return [entry.name, _shown(entry), _source_text(entry.source), default]


@config.command("set")
@kind_argument
@name_argument
@click.argument("configs", nargs=-1, required=True, metavar="CONFIG=VALUE...")
@bootstrap_option
@json_option
def set_(kind: str, name: str, configs: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Set configs. All of them are set, or none if one is refused.

    A group need not exist yet, so its configs can be set before its first consumer joins. A secret, such as
    ssl.key.password, comes from a file: CONFIG=@FILE.

    \b
      penstock config set topic orders retention.ms=86400000
      penstock config set group workers share.auto.offset.reset=earliest share.delivery.count.limit=10
      penstock config set broker all log.retention.ms=604800000
      penstock config set client-metrics latencies interval.ms=10000 metrics=org.apache.kafka.producer.
      penstock config set broker-logger 1 penstock.requests=DEBUG
    """
    _change(kind, name, dict(pairs(configs, "The change")), bootstrap, as_json)


@config.command("unset")
@kind_argument
@name_argument
@click.argument("configs", nargs=-1, required=True, metavar="CONFIG...")
@bootstrap_option
@json_option
def unset(kind: str, name: str, configs: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Reset configs to their defaults.

    \b
      penstock config unset topic orders retention.ms
    """
    _change(kind, name, dict.fromkeys(configs), bootstrap, as_json)


def _change(kind: str, name: str, changes: dict[str, str | None], bootstrap: str, as_json: bool) -> None:
    resource, own_name = _resource(kind, name)
    own = _own_source(resource, own_name)

    async def work(admin: Admin) -> dict[str, ConfigEntry]:
        await _check_exists(admin, resource, own_name)
        return await alter_configs(admin, resource, own_name, changes)

    before = with_admin(bootstrap, work)
    if as_json:
        print_json([_change_json(each, value, before.get(each), own) for each, value in changes.items()])
        return
    title = _title(resource, own_name)
    for each, value in changes.items():
        old = before.get(each)
        if value is not None:
            note(f"{each} of {title} is now {_HIDDEN if old and old.sensitive else value or 'empty'}{_was(old, own)}.")
        elif old is not None and old.source == own:
            note(f"{each} of {title} is back to {_beneath(old, own) or 'its default'}{_was(old, own)}.")
        else:
            note(f"{each} was not set for {title}.")


def _was(old: ConfigEntry | None, own: int) -> str:
    """What a config was before; nothing for a value that still counts beside the new one."""
    from penstock.client.admin import ConfigSource

    if old is None or old.sensitive or not old.value or old.source not in (own, ConfigSource.DEFAULT):
        return ""
    return f" (was {old.value})"


def _change_json(name: str, value: str | None, old: ConfigEntry | None, own: int) -> dict[str, object]:
    if old is None or old.sensitive:
        return {"name": name, "old": None, "new": None if old else value}
    new = value if value is not None else _beneath(old, own) if old.source == own else old.value
    return {"name": name, "old": old.value, "new": new}


def _resource(kind: str, name: str) -> tuple[ResourceType, str]:
    from penstock.client.admin import ResourceType

    resource = ResourceType[kind.upper().replace("-", "_")]
    if resource is ResourceType.BROKER_LOGGER and not name.isdigit():
        raise click.UsageError(f"Loggers are those of one broker, which is named by its id, not {name!r}.")
    if resource is not ResourceType.BROKER:
        return resource, name
    if name != _ALL_BROKERS and not name.isdigit():
        raise click.UsageError(f"A broker is named by its id, or all of them by {_ALL_BROKERS!r}, not {name!r}.")
    return resource, "" if name == _ALL_BROKERS else name


async def _check_exists(admin: Admin, resource: ResourceType, name: str) -> None:
    """Groups and subscriptions begin with their configs; topics and brokers must be there."""
    from penstock.client.admin import ResourceType

    if resource is ResourceType.TOPIC:
        await find_topic(admin, name)
    elif resource in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name:
        ids = sorted(node.node_id for node in (await admin.describe_cluster()).nodes)
        if int(name) not in ids:
            raise Failure(f"There is no broker {name}. The cluster's brokers: {', '.join(map(str, ids))}")


def _own_source(resource: ResourceType, name: str) -> int:
    """The source of values that are set for this resource itself."""
    from penstock.client.admin import ConfigSource

    if resource.name == "BROKER":
        return ConfigSource.DYNAMIC_BROKER if name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    if resource.name == "BROKER_LOGGER":
        return ConfigSource.DYNAMIC_BROKER_LOGGER
    return ConfigSource[resource.name]


def _beneath(entry: ConfigEntry, source: int) -> str | None:
    """The value that counts when none is set at `source`; None where the broker does not say."""
    return next((synonym.value for synonym in entry.synonyms if synonym.source != source), None)


def _shown(entry: ConfigEntry) -> str | None:
    return _HIDDEN if entry.sensitive else entry.value


def _source_name(source: int) -> str:
    from penstock.client.admin import ConfigSource

    return ConfigSource(source).name.lower() if source in ConfigSource.__members__.values() else "unknown"


def _source_text(source: int) -> str:
    """As short as it can be: values need the room."""
    name = _source_name(source)
    short = {
        "dynamic_broker": "broker",
        "dynamic_default_broker": "all brokers",
        "dynamic_broker_logger": "logger",
        "static_broker": "static",
    }
    return short.get(name, name.replace("_", " "))


def _title(resource: ResourceType, name: str) -> str:
    if resource.name == "BROKER_LOGGER":
        return f"broker {name}"
    return "all brokers" if resource.name == "BROKER" and not name else f"{kind_text(resource)} {name}"


def _as_json(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": None if entry.sensitive else entry.value,
        "source": _source_name(entry.source),
        "default": entry.value if entry.is_default else _beneath(entry, entry.source),
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
    }
