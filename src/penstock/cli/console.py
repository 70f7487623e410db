"""`penstock console`: the web console of a cluster."""

from __future__ import annotations

import click

from penstock.cli.connecting import client_config_file, login_settings
from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, option

DEFAULT_LISTEN = "127.0.0.1:8080"
_PACKAGES = ("jinja2", "re2", "starlette", "uvicorn")


def missing_part() -> str | None:
    """The first package of the extra `console` that is not installed; looks without importing."""
    from importlib.util import find_spec

    return next((name for name in _PACKAGES if find_spec(name) is None), None)


def require_parts() -> None:
    """Fail with advice where the extra `console` is not installed."""
    name = missing_part()
    if name is not None:
        raise Failure(
            f"The console needs {name}, which is not installed.\n  Install it with:    pip install 'penstock[console]'"
        )


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="Address to serve the pages at; port 0 takes a free one. Beyond this machine it needs --login and TLS.",
)
@option(
    "--login",
    is_flag=True,
    help="Have each person log in as a user of the cluster, who sees and does what the brokers allow that user.",
)
@option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="PEM file of the console's own certificate.")
@option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="PEM file of its key, if it is another file.")
@option(
    "--name", "names", metavar="HOST", multiple=True, help="Another host name under which browsers reach this console."
)
@option(
    "--idle-minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Log a user out after this long without opening a page.",
)
@option(
    "--session-hours",
    type=click.FloatRange(min=0, min_open=True),
    default=12.0,
    show_default=True,
    help="Log everybody out this long after the login.",
)
@option(
    "--pipelines",
    metavar="DIR",
    default="penstock-pipelines",
    show_default=True,
    help="Folder in which pipelines and loads record their runs (their --folder).",
)
@option("--listen-fd", type=int, hidden=True, help="Listen on this socket, which another process has opened.")
@option("--until-stdin-closes", is_flag=True, hidden=True, help="Stop with the process that started this one.")
@bootstrap_option
def console(
    listen: str,
    login: bool,
    tls_cert: str | None,
    tls_key: str | None,
    names: tuple[str, ...],
    idle_minutes: float,
    session_hours: float,
    pipelines: str,
    listen_fd: int | None,
    until_stdin_closes: bool,
    bootstrap: str,
) -> None:
    """Serve the web console of a cluster, Penstock or Apache Kafka, until Ctrl-C.

    With --user everybody who opens it acts as that user; with --login each person as their own.

    \b
      penstock console
      penstock console --bootstrap broker.example:9092 --user alice --listen 127.0.0.1:8081
      penstock console --bootstrap broker.example:9092 --ca-file ca.pem --login \\
        --listen 0.0.0.0:8443 --name console.example --tls-cert console.pem --tls-key console.key
    """
    require_parts()
    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key is the key of a certificate: name it with --tls-cert.")
    settings = login_settings(bootstrap, required=login)
    from penstock.console.logins import Rules
    from penstock.console.run import ListenError, Place, run

    try:
        run(
            settings,
            Place(listen, names, tls_cert, tls_key, listen_fd),
            rules=Rules(idle_seconds=idle_minutes * 60, life_seconds=session_hours * 3600),
            pipelines=pipelines,
            client_config=client_config_file(),
            until_stdin_closes=until_stdin_closes,
        )
    except ListenError as error:
        raise Failure(str(error)) from None
