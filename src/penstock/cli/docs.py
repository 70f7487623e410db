"""`python -m penstock.cli.docs`: writes docs/reference/cli.md from the commands' own help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from penstock.cli.main import cli

_WIDTH = 100
_INTRODUCTION = """# The `penstock` command

This page is made from `penstock --help` and its commands' help by `python -m penstock.cli.docs`.

Every option can be given in four places; the first that has it wins: the command line, an environment variable
(`PENSTOCK_BOOTSTRAP`, or `PENSTOCK_CONSUME_BOOTSTRAP` for one command only), the config file (`penstock.toml` in the
working folder, or `--config FILE`), the default.

```toml
bootstrap = "127.0.0.1:9092"    # for every command that has --bootstrap

[serve]
data = "/var/lib/penstock"
[serve.set]                     # broker configs by their names in Kafka
"log.retention.hours" = 24

[topic.create]
partitions = 6
```

Exit status: 0 for success, 1 for failure, 2 for a wrong command line.

## Connection

Every command that reaches a cluster has these options. A password is never an option's value, which `ps` and the
shell's history would show: it is in a file, in `PENSTOCK_PASSWORD`, or asked for.

```text
CONNECTION```

```sh
penstock topic list --bootstrap broker.example:9093 --user admin --ca-file ca.pem
penstock topic list --client-config client.properties
```

In the config file they are keys as well, at the top for every command:

```toml
bootstrap = "broker.example:9093"
user = "admin"
password-file = "/run/secrets/admin"
ca-file = "/etc/penstock/ca.pem"
```
"""
_CONNECTION = "\n\nConnection:\n"


def pages() -> str:
    """The text of docs/reference/cli.md."""
    parts: list[str] = []
    connection = ""
    for path, command, context in walk(cli, "penstock", None):
        text, heading, options = command.get_help(context).strip().partition(_CONNECTION)
        connection = options or connection
        more = "\n\nConnection: as for every command that reaches a cluster" if heading else ""
        parts.append(f"## {path}\n\n```text\n{text}{more}\n```\n")
    return "\n".join([_INTRODUCTION.replace("CONNECTION", f"{connection}\n"), *parts])


def walk(
    command: click.Command, path: str, parent: click.Context | None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command below and including this one, with its path and a context to show its help in."""
    context = command.context_class(
        command,
        parent=parent,
        info_name=path.rpartition(" ")[2],
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        help_option_names=["-h", "--help"],
    )
    yield path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from walk(child, f"{path} {name}", context)


if __name__ == "__main__":
    target = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
    target.write_text(pages())
    click.echo(f"wrote {target}")
