"""`penstock console`: the web console of a cluster."""

from __future__ import annotations

import click

from penstock.cli.connecting import connection_settings
from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, option

DEFAULT_LISTEN = "127.0.0.1:8080"
_PACKAGES = ("jinja2", "starlette", "uvicorn")


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
    help="Address of this machine to serve the pages at; port 0 takes a free one.",
)
@option("--until-stdin-closes", is_flag=True, hidden=True, help="Stop with the process that started this one.")
@bootstrap_option
def console(listen: str, until_stdin_closes: bool, bootstrap: str) -> None:
    """Serve the web console of a cluster, Penstock or Apache Kafka, until Ctrl-C.

    \b
      penstock console
      penstock console --bootstrap broker.example:9092 --user alice --listen 127.0.0.1:8081
    """
    require_parts()
    settings = connection_settings(bootstrap)
    from penstock.console.run import ListenError, run

    try:
        run(settings, listen, until_stdin_closes=until_stdin_closes)
    except ListenError as error:
        raise Failure(str(error)) from None
