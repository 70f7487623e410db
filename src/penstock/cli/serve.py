"""`penstock serve`: run a broker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from penstock import portable
from penstock.cli.failures import Failure, sentence
from penstock.cli.options import CONTEXT_SETTINGS, Command, defaults_for, load_config, option, pairs

if TYPE_CHECKING:
    import socket

    from penstock.broker.foundation import Settings
    from penstock.broker.logs import LogFormat
    from penstock.broker.run import Companion, StartCompanion

MAX_BROKERS = 64


class _Brokers(click.ParamType[int | Literal["auto"]]):
    """A number of brokers, or `auto`."""

    name = "brokers"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | Literal["auto"]:
        text = str(value).strip().lower()
        if text == "auto":
            return "auto"
        if not text.isdigit() or not 1 <= int(text) <= MAX_BROKERS:
            self.fail(f"{value!r} is not a number of brokers: write 1 to {MAX_BROKERS}, or auto", param, ctx)
        return int(text)


def _read_file(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """`penstock serve --config FILE` is the same as `penstock --config FILE serve`."""
    if value is not None:
        ctx.default_map = defaults_for(ctx.command, ctx, load_config(value))
    return value


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_read_file,
    help="TOML file with these options under [serve].",
)
@option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("penstock-data"),
    show_default=True,
    help="Folder for everything that the broker keeps.",
)
@option(
    "--listen",
    metavar="HOST:PORT",
    multiple=True,
    default=["127.0.0.1:9092"],
    show_default=True,
    help="Address to listen on; port 0 takes a free one.",
)
@option(
    "--advertise",
    metavar="HOST:PORT",
    multiple=True,
    help="Address under which clients reach this broker, if it differs from the one it listens on.",
)
@option(
    "--brokers",
    type=_Brokers(),
    metavar="N|auto",
    help="Run N brokers on this machine, each in a process with the next port, or one for each core (auto). They share "
    "the data folder, each keeps a part of the partitions, and one Ctrl-C ends all.",
)
@option(
    "--cluster",
    metavar="URL",
    help="PostgreSQL database for the catalog (topics, configs, users, rules), as postgresql://USER@HOST/NAME?schema=S;"
    " without --store records stay in --data. Passwords come from libpq's files or PGPASSWORD.",
)
@option(
    "--store",
    metavar="URL",
    help="Object store for the records, as s3://BUCKET/PREFIX, gs://, az:// or file:///PATH; needs --cluster. "
    "Credentials come from the environment; --data is then a cache that may be lost.",
)
@option("-c", "--set", "configs", metavar="NAME=VALUE", multiple=True, help="A broker config by its name in Kafka.")
@option(
    "--properties",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Java properties file with broker configs, such as Kafka's server.properties; the place for passwords.",
)
@option(
    "--secure",
    is_flag=True,
    help="Set up a certificate, a user admin, SASL over TLS and access control on first use, and serve with them.",
)
@option(
    "--insecure",
    is_flag=True,
    help="Serve addresses without a protocol to everybody, with neither login nor encryption.",
)
@option(
    "--console",
    metavar="HOST:PORT",
    help="Serve the web console at this address too, in a process of its own (extra penstock[console]).",
)
@option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Write the log as text or as one JSON object per line; PENSTOCK_LOG sets its level.",
)
def serve(
    data: Path,
    listen: tuple[str, ...],
    advertise: tuple[str, ...],
    brokers: int | Literal["auto"] | None,
    cluster: str | None,
    store: str | None,
    configs: tuple[str, ...],
    properties: Path | None,
    secure: bool,
    insecure: bool,
    console: str | None,
    log_format: str,
) -> None:
    """Run a broker until Ctrl-C.

    Configs come from -c, from environment variables as in Kafka's container images (KAFKA_NUM_PARTITIONS=3), from
    [serve.set] in the config file and from --properties; the first that has one wins. Passwords are not taken from -c,
    which other users of the machine can read.

    Examples:

    \b
      penstock serve
      penstock serve --secure --listen 0.0.0.0:9092 --advertise broker.example:9092
      penstock serve --data /var/lib/penstock --properties /etc/penstock/server.properties
      penstock serve -c log.retention.hours=24 -c auto.create.topics.enable=false
      penstock serve --brokers auto
      penstock serve --cluster 'postgresql://penstock@db.example/penstock?sslmode=verify-full'
      penstock serve --cluster postgresql://penstock@db.example/penstock --store s3://bucket/penstock
    """
    from penstock.broker.config import ConfigError
    from penstock.broker.foundation import Settings
    from penstock.broker.listeners import ListenError
    from penstock.broker.logs import LogFormat
    from penstock.catalog.contract import CatalogError
    from penstock.log.errors import FolderInUse, StorageError

    if console is not None:
        _require_console()
    if secure and insecure:
        raise click.UsageError("--secure and --insecure exclude each other")
    if brokers is not None and (cluster is not None or store is not None):
        raise click.UsageError(
            "--brokers shares a data folder among processes of this machine, and --cluster a database among machines: "
            "with --cluster start 'penstock serve' once for each broker"
        )
    if brokers is not None and not hasattr(os, "fork"):
        raise click.UsageError("--brokers needs fork, which this operating system does not have: run one broker")
    if cluster is not None and secure:
        raise click.UsageError(
            "--secure sets up users in a data folder, and with --cluster they are in PostgreSQL: start the broker on "
            "127.0.0.1, add users with 'penstock user add', then start it with the listeners and configs of your choice"
        )
    try:
        set_configs = _configs(configs, properties)
        settings = Settings(
            data=_data(data, set_configs),
            listen=_listen(list(listen), set_configs),
            advertise=list(advertise),
            configs=set_configs,
            cluster=_cluster(cluster),
            store=store,
            insecure=insecure,
        )
        if secure:
            _secure(settings)
        bound = _console_socket(console, settings)
        start_console = None if bound is None else lambda bootstrap: _start_console(bound, bootstrap, settings)
        _run(settings, brokers, LogFormat(log_format), start_console)
    except (ConfigError, ListenError, CatalogError, StorageError, FolderInUse) as error:
        raise Failure(sentence(str(error))) from error


def _run(
    settings: Settings,
    brokers: int | Literal["auto"] | None,
    log_format: LogFormat,
    start_console: StartCompanion | None,
) -> None:
    """One broker in this process, or several in their own."""
    if brokers is not None:
        from penstock.broker.processes.folder import is_of_several, owners_of

        if brokers == "auto":
            brokers = max(portable.cores(), len(owners_of(settings.data)))
        if brokers > 1 or is_of_several(settings.data):
            from penstock.broker.processes.run import run_several
            from penstock.broker.processes.supervisor import ProcessesFailed

            try:
                run_several(settings, brokers, log_format, start_console)
            except ProcessesFailed as error:
                raise Failure(str(error)) from error
            return
    from penstock.broker.run import run

    run(settings, log_format, start_console)


def _require_console() -> None:
    from penstock.cli.console import require_parts

    require_parts()


def _console_socket(listen: str | None, settings: Settings) -> socket.socket | None:
    """Where the console is to listen: at --console, or for `penstock` alone at the usual place if it can be had there.

    The broker then shows what the console wants to know, to this machine, unless users and their rights would have to
    be regarded.
    """
    if listen is None and not _is_alone(settings):
        return None
    from penstock.cli.console import DEFAULT_LISTEN, missing_part
    from penstock.cli.console_process import bind_console

    if listen is None and missing_part() is not None:
        return None
    try:
        bound = bind_console(DEFAULT_LISTEN if listen is None else listen)
    except OSError as error:
        if listen is None:
            return None  # somebody else is there
        raise Failure(f"--console {listen} cannot be opened: {error.strerror}; choose another address.") from None
    if not _needs_users(settings):
        settings.configs.setdefault("penstock.metrics.listen", "127.0.0.1:0")
    return bound


def _is_alone(settings: Settings) -> bool:
    """Whether this is `penstock` without a word, on an operating system where a process can be handed a socket."""
    parent = click.get_current_context().parent
    return parent is not None and parent.invoked_subcommand is None and os.name == "posix" and not settings.configs


def _needs_users(settings: Settings) -> bool:
    from penstock.security.protocols import SecurityProtocol

    return settings.unnamed is SecurityProtocol.SASL_SSL or "authorizer.class.name" in settings.configs


def _start_console(bound: socket.socket, bootstrap: str, settings: Settings) -> Companion:
    """The console. People log in where the broker wants a user, and it trusts the authority that --secure has made."""
    from penstock.cli.console_process import ConsoleProcess
    from penstock.cli.secure import authority_of

    login = _needs_users(settings)
    console = ConsoleProcess(bound, bootstrap, login=login, authority=authority_of(settings.data) if login else None)
    click.echo(f"Console: {console.address} (starts when it is opened)")
    return console


def _secure(settings: Settings) -> None:
    from penstock.cli.secure import set_up
    from penstock.security.protocols import SecurityProtocol

    advertised = settings.configs.get("advertised.listeners", "").split(",")
    addresses = [*settings.listen, *settings.advertise, *(each for each in advertised if each)]
    setup = set_up(settings.data, addresses, settings.configs)
    settings.configs = setup.configs | settings.configs
    settings.unnamed = SecurityProtocol.SASL_SSL
    for line in setup.lines:
        click.echo(line)


def _configs(values: tuple[str, ...], properties: Path | None) -> dict[str, str]:
    """What was configured, from the command line, the environment, the config file and the properties file."""
    from penstock.broker.config import from_environment, read_properties
    from penstock.broker.config.providers import resolve

    found = {} if properties is None else read_properties(_text_of(properties))
    from_file = (click.get_current_context().default_map or {}).get("configs", [])
    found |= pairs(tuple(from_file), "[serve.set]")
    found |= from_environment(os.environ)
    given = pairs(values, "-c")
    if click.get_current_context().get_parameter_source("configs") is ParameterSource.COMMANDLINE:
        _refuse_secrets(given)
    return resolve(found | given, os.environ)


def _cluster(url: str | None) -> str | None:
    if url is None:
        return None
    from penstock.broker.cluster_address import ClusterAddress

    source = click.get_current_context().get_parameter_source("cluster")
    if ClusterAddress.parse(url).has_password and source is ParameterSource.COMMANDLINE:
        raise Failure(
            "--cluster holds a password, and shows it to everybody on this machine (ps) and to the shell's history.\n"
            "  In a file:            ~/.pgpass, or the file that PGPASSFILE names\n"
            "  In a service file:    ~/.pg_service.conf, and --cluster 'postgresql:///?service=NAME'\n"
            "  In the environment:   PGPASSWORD"
        )
    return url


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read: {error}") from None


def _refuse_secrets(given: dict[str, str]) -> None:
    """A password on a command line is in the shell's history, and `ps` shows it to everybody on the machine."""
    from penstock.broker.config.definitions import ConfigType
    from penstock.broker.config.listeners import definition_of
    from penstock.broker.config.providers import is_variable

    for name, value in given.items():
        definition = definition_of(name)
        if definition is not None and definition.type is ConfigType.PASSWORD and not is_variable(value):
            variable = "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
            raise Failure(
                f"{name} is a secret, and -c shows it to everybody on this machine (ps) and to the shell's history.\n"
                "  In a file:            --properties FILE, or [serve.set] in the config file\n"
                f"  In the environment:   {variable}\n"
                "  Or elsewhere:         config.providers, for example -c "
                f"'{name}=${{file:/run/secrets/broker.properties:KEY}}'"
            )


def _listen(addresses: list[str], configs: dict[str, str]) -> list[str]:
    """Kafka's `listeners` stand in for --listen where that is not given."""
    listeners = [address.strip() for address in configs.get("listeners", "").split(",") if address.strip()]
    return listeners if listeners and _is_default("listen") else addresses


def _data(folder: Path, configs: dict[str, str]) -> Path:
    """Kafka's `log.dirs`, or `log.dir`, stand in for --data where that is not given; the broker refuses several."""
    named = (configs.get("log.dirs") or configs.get("log.dir") or "").strip()
    return Path(named) if named and _is_default("data") else folder


def _is_default(parameter: str) -> bool:
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.DEFAULT
