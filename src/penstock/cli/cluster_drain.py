"""`penstock cluster drain`: make a broker hand over its partitions and stop."""

from __future__ import annotations

import time

import click

from penstock.cli.cluster_options import cluster_option, drain_broker, session_of
from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Command
from penstock.cli.output import note

_PAUSE_SECONDS = 0.2


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("node", type=click.IntRange(0))
@cluster_option
@click.option("--force", is_flag=True, help="Stop it even if no other broker can take over.")
@click.option("--timeout", default=60.0, show_default=True, metavar="SECONDS", help="How long to wait.")
def drain(node: int, cluster: str, force: bool, timeout: float) -> None:
    """Make the broker NODE hand over its partitions to the others, and stop.

    It does what Ctrl-C or SIGTERM on its own machine would do. The command ends when it has stopped. The last broker
    is stopped only with --force.

    \b
      penstock cluster drain 2 --cluster postgresql://penstock@db.example/penstock
    """
    with session_of(cluster) as session:
        from penstock.operation.status import read_status

        drain_broker(cluster, node, even_the_last=force)
        deadline = time.monotonic() + timeout
        while True:
            broker = next(each for each in read_status(session, "").brokers if each.node_id == node)
            if broker.state == "stopped":
                break
            if time.monotonic() >= deadline:
                raise Failure(
                    f"Broker {node} is still there after {timeout:g} seconds, and leads {broker.leads} partitions.\n"
                    "  It continues to hand over as long as another broker is running.\n"
                    "  Look at it:    penstock cluster status"
                )
            time.sleep(_PAUSE_SECONDS)
    if broker.leads:
        note(f"Broker {node} has stopped. Until a broker takes over, {broker.leads} partitions have no leader.")
    else:
        note(f"Broker {node} has handed over and stopped.")
