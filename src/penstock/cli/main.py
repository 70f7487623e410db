"""The `penstock` command."""

from __future__ import annotations

from pathlib import Path

import click


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Streams and work queues that speak Kafka's protocol. Alone, it serves on 127.0.0.1:9092."""
    if context.invoked_subcommand is None:
        context.invoke(serve)


@main.command()
@click.option("--data", type=click.Path(path_type=Path), default=Path("penstock-data"), show_default=True)
@click.option("--listen", multiple=True, default=["127.0.0.1:9092"], show_default=True)
@click.option("--advertise", multiple=True)
@click.option("-c", "--set", "configs", multiple=True, metavar="NAME=VALUE")
def serve(data: Path, listen: tuple[str, ...], advertise: tuple[str, ...], configs: tuple[str, ...]) -> None:
    """Run a broker."""
    from penstock.broker.run import run
    from penstock.broker.server import Settings

    pairs = dict(pair.split("=", 1) for pair in configs)
    run(Settings(data=data, listen=list(listen), advertise=list(advertise), configs=pairs))
