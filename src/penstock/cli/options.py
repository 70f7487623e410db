"""Options that can come from four places: the command line, the environment, the config file, a default; in this order.

The config file is TOML. A key at the top applies to every command that has an option of that name; a section is named
after a command, and applies to it alone:

    bootstrap = "127.0.0.1:9092"

    [serve]
    data = "/var/lib/penstock"
    [serve.set]
    "log.retention.hours" = 24

    [topic.create]
    partitions = 6
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli.failures import advice, nearest

F = TypeVar("F", bound=Callable[..., object])

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
DEFAULT_FILE = "penstock.toml"


Config = dict[str, object]


def load_config(path: str | None) -> Config:
    """The config file's contents; an empty mapping when there is none."""
    if path is None:
        if not Path(DEFAULT_FILE).is_file():
            return {}
        path = DEFAULT_FILE
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{path} is not a TOML file: {error}") from None
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}") from None


def defaults_for(command: click.Command, ctx: click.Context, config: Config) -> dict[str, object]:
    """What the config file says about the options of a command, by the names of its parameters."""
    parameters = {
        name.lstrip("-").replace("-", "_"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
        if name.startswith("--")
    }
    found: dict[str, object] = {}
    section: object = config
    names = ctx.command_path.split()[1:]
    for depth in range(len(names) + 1):
        if not isinstance(section, dict):
            break
        own = depth == len(names)
        for key, value in section.items():
            parameter = parameters.get(str(key).replace("-", "_"))
            if parameter is not None and (own or not isinstance(value, dict)):
                found[parameter.name or ""] = _default(parameter, value)
            elif own and names and not isinstance(command, click.Group):
                guess = nearest(str(key), parameters)
                hint = f"; did you mean {guess!r}?" if guess else f"; it may hold {', '.join(sorted(parameters))}"
                raise click.UsageError(f"the config file has a key {key!r} in [{'.'.join(names)}]{hint}", ctx)
        section = section.get(names[depth]) if not own else None
    return found


def _default(option: click.Option, value: object) -> object:
    if isinstance(value, dict):
        return [f"{k}={_text(v)}" for k, v in value.items()]
    return [value] if option.multiple and isinstance(value, str) else value


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Option(click.Option):
    """An option that also answers to PENSTOCK_NAME, not only to PENSTOCK_COMMAND_NAME."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        found = super().resolve_envvar_value(ctx)
        if found is None and self.name:
            found = os.environ.get(f"PENSTOCK_{self.name.rstrip('_').upper()}") or None
        return found


def option(*names: str, **attributes: object) -> Callable[[F], F]:
    """`click.option` with `Option`."""
    return click.option(*names, cls=Option, **attributes)


class _Context(click.Context):
    """A context whose defaults come from the config file, which the root context keeps as its `obj`."""

    def __init__(self, command: click.Command, *arguments: object, **extra: object) -> None:
        super().__init__(command, *arguments, **extra)  # type: ignore[arg-type]
        if self.parent is not None:
            config = self.find_root().obj
            self.default_map = defaults_for(command, self, config if isinstance(config, dict) else {})


class Command(click.Command):
    """A command whose failures are explained."""

    context_class = _Context

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Connection": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections["Connection" if isinstance(parameter, ConnectionOption) else "Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> object:
        try:
            with advice(ctx):
                return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever read us (head, less) has seen enough. Python would complain once more while closing stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None


class Group(click.Group):
    """A group of commands; a command that it does not have is answered with the nearest one that it has."""

    command_class = Command
    context_class = _Context

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None:
            guess = nearest(name, self.list_commands(ctx))
            hint = f" Did you mean: {ctx.command_path} {guess}" if guess else f" See: {ctx.command_path} --help"
            raise click.UsageError(f"There is no command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


class TableGroup(Group):
    """A group whose commands are listed in a table and imported only when one is called."""

    def __init__(self, *args: Any, table: dict[str, tuple[str, str]], **settings: Any) -> None:
        """`table`: name -> ("module:attribute" of the command, one line of help)."""
        super().__init__(*args, **settings)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._table.items()])


class ConnectionOption(Option):
    """An option about reaching a cluster, shown in a section of its own. Commands get it by `connection_settings`."""


def bootstrap_option(function: F) -> F:
    """The options by which a command reaches a cluster. Only `bootstrap` is an argument of the command.

    The others are read by `penstock.cli.connecting`.
    """
    for add in reversed(_CONNECTION_OPTIONS):
        function = add(function)
    return function


def login_options(function: F) -> F:
    """The same without an address, for a command that knows where it goes."""
    for add in reversed(_CONNECTION_OPTIONS[1:]):
        function = add(function)
    return function


def connection_choices(ctx: click.Context) -> dict[str, object]:
    """The values of the connection options that are given, by name."""
    found = ctx.meta.get(_CHOICES)
    return found if isinstance(found, dict) else {}


def _keep(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    if value is not None:
        ctx.meta.setdefault(_CHOICES, {})[parameter.name] = value


def _connection_option(*names: str, **attributes: object) -> Callable[[F], F]:
    return click.option(*names, cls=ConnectionOption, expose_value=False, callback=_keep, **attributes)


_CHOICES = "penstock.connection"
_CONNECTION_OPTIONS: tuple[Callable[[F], F], ...] = (
    click.option(
        "--bootstrap",
        cls=ConnectionOption,
        metavar="HOST:PORT",
        default="127.0.0.1:9092",
        show_default=True,
        help="One or more brokers to connect to first, separated by commas.",
    ),
    _connection_option(
        "--user",
        "login_user",  # some commands have an argument `user`
        envvar="PENSTOCK_USER",
        metavar="NAME",
        help="Log in as this user; by default over TLS with SCRAM-SHA-512.",
    ),
    _connection_option(
        "--password-file",
        type=click.Path(exists=True, dir_okay=False),
        help="File whose first line is the user's password; by default PENSTOCK_PASSWORD, or you are prompted.",
    ),
    _connection_option(
        "--security-protocol",
        type=click.Choice(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"], case_sensitive=False),
        metavar="NAME",
        help="PLAINTEXT, SSL (TLS), SASL_SSL (TLS and a user) or SASL_PLAINTEXT (a user, without encryption).",
    ),
    _connection_option(
        "--sasl-mechanism",
        type=click.Choice(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"], case_sensitive=False),
        metavar="NAME",
        help="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    ),
    _connection_option(
        "--ca-file",
        type=click.Path(exists=True, dir_okay=False),
        help="PEM file of the authority that signed the brokers' certificates; turns TLS on.",
    ),
    _connection_option(
        "--client-config",
        type=click.Path(exists=True, dir_okay=False),
        help="Properties file with Kafka's client settings, as for --command-config of Kafka's tools.",
    ),
)
json_option = option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def pairs(values: tuple[str, ...], what: str) -> dict[str, str]:
    """`name=value` arguments as a mapping."""
    made: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{what} is {text!r}; it must look like name=value")
        made[name.strip()] = value
    return made
