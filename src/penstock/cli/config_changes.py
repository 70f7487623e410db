"""Changes configs of topics, groups, brokers and client metrics, and reports misspelled names.

Brokers refuse unknown names for topics and groups, but ignore the removal of one, and accept any name for a broker,
because plugins may read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.failures import Failure, nearest
from penstock.cli.output import note

if TYPE_CHECKING:
    from penstock.client.admin import Admin, ConfigEntry, ResourceType


async def known_configs(admin: Admin, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    """Every config that a broker lists for a resource, by name."""
    from penstock.client.admin import ResourceType

    if kind is ResourceType.BROKER and not name:
        # For all brokers together only what is set is listed; a single one lists everything.
        some = (await admin.describe_cluster()).nodes[0].node_id
        return await admin.describe_configs(kind, str(some)) | await admin.describe_configs(kind, "")
    return await admin.describe_configs(kind, name)


async def alter_configs(
    admin: Admin, kind: ResourceType, name: str, changes: Mapping[str, str | None]
) -> dict[str, ConfigEntry]:
    """Set configs (None: take one back to its default); returns what the broker listed before."""
    from penstock.client.admin import ConfigSource, ResourceType
    from penstock.wire.errors import InvalidConfig, InvalidRequest

    set_at_run_time = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)

    known = await known_configs(admin, kind, name)
    changes = {config: _revealed(config, value, known) for config, value in changes.items()}
    for config, value in changes.items():
        entry = known.get(config)
        if kind is ResourceType.BROKER and entry and entry.read_only and entry.source not in set_at_run_time:
            raise Failure(
                f"{config} cannot be changed while a broker runs.\n"
                f"  Set it at start:    penstock serve -c {config}={'VALUE' if value is None else value}"
            )
        if entry is None and (value is None or kind is ResourceType.BROKER_LOGGER):
            raise unknown_config(kind, name or "all", config, known)
    try:
        await admin.alter_configs(kind, name, changes)
    except (InvalidConfig, InvalidRequest) as error:
        unknown = next((config for config in changes if config not in known), None)
        if unknown is not None and "unknown" in str(error).lower():
            raise unknown_config(kind, name or "all", unknown, known) from None
        raise
    for config in changes:
        # Listeners have configs of their own, and so may plugins: what is not listed may be right.
        if config not in known and kind is ResourceType.BROKER and not config.startswith("listener.name."):
            guess = nearest(config, known)
            hint = f" Did you mean {guess}? Then: penstock config unset broker {name or 'all'} {config}"
            note(f"Accepted, but the broker lists no config {config!r}.{hint if guess else ''}")
    return known


def unknown_config(kind: ResourceType, name: str, config: str, known: Iterable[str]) -> Failure:
    """There is no such config, or none that is shown as long as it is not set."""
    guess = nearest(config, known)
    words = kind_text(kind)
    lines = [f"There is no {words}{'' if kind.name == 'BROKER_LOGGER' else ' config'} {config!r}."]
    if guess:
        lines.append(f"  Did you mean:       {guess}")
    lines.append(f"  See all of them:    penstock config get {words.replace(' ', '-')} {name} --all")
    return Failure("\n".join(lines))


def kind_text(kind: ResourceType) -> str:
    return kind.name.lower().replace("_", " ")


def _revealed(config: str, value: str | None, known: Mapping[str, ConfigEntry]) -> str | None:
    """The value of a config; that of a secret is read from the file that is named in its place."""
    bare = next((name for name in known if config == name or config.endswith(f".{name}")), None)  # of a listener, too
    if value is None or bare is None or not known[bare].sensitive:
        return value
    if not value.startswith("@"):
        raise Failure(
            f"{config} is a secret, and others can read the command line.\n  Take it from a file: {config}=@FILE"
        )
    try:
        return Path(value[1:]).read_text().rstrip("\n")
    except OSError as error:
        raise Failure(f"{value[1:]} cannot be read: {error.strerror}.") from error
