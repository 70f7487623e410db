"""`penstock man`: the manual page, made from the commands' own help."""

from __future__ import annotations

import click

from penstock import __version__
from penstock.cli.options import CONTEXT_SETTINGS, Command


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
def man() -> None:
    """Print the manual page.

    \b
      penstock man | man -l -
      penstock man > /usr/local/share/man/man1/penstock.1
    """
    click.echo(page(), nl=False)


def page() -> str:
    """The manual page as roff."""
    from penstock.cli.docs import walk
    from penstock.cli.main import COMMANDS, cli

    lines = [
        f'.TH PENSTOCK 1 "" "penstock {__version__}" "User Commands"',
        ".SH NAME",
        r"penstock \- streams and work queues that speak Apache Kafka's protocol",
        ".SH SYNOPSIS",
        ".B penstock",
        r"[\fIOPTIONS\fR] [\fICOMMAND\fR [\fIARGUMENTS\fR]]",
        ".SH DESCRIPTION",
        "Without a command it runs a broker on 127.0.0.1:9092 that keeps its data in ./penstock-data.",
        "Every option is also an environment variable (PENSTOCK_BOOTSTRAP for \\-\\-bootstrap) and a key of the config",
        "file penstock.toml.",
        ".SH COMMANDS",
    ]
    for name, (_, summary) in COMMANDS.items():
        lines += [".TP", f".B {_escaped(name)}", _escaped(summary)]
    for path, command, context in walk(cli, "penstock", None):
        if path == "penstock":
            continue
        lines += [f'.SH "{_escaped(path.upper())}"', ".nf", _escaped(command.get_help(context).strip()), ".fi"]
    lines += [
        ".SH EXIT STATUS",
        "0 for success, 1 for failure, 2 for a wrong command line, 130 for an interrupt from the keyboard.",
        ".SH FILES",
        ".TP",
        ".B penstock.toml",
        "Options, in the working folder or where PENSTOCK_CONFIG says.",
        ".TP",
        ".B penstock-data",
        "What a broker keeps, unless \\-\\-data names another folder.",
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Text that roff shows as it is."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in plain.split("\n"))
