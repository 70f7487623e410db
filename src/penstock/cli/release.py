"""`penstock release`: give a data folder to Apache Kafka."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import Failure, sentence
from penstock.cli.options import CONTEXT_SETTINGS, Command
from penstock.cli.output import count

if TYPE_CHECKING:
    from penstock.adoption.release import Released

_OF_ONE_BROKER = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--metadata",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The metadata.log.dir of the controller, if it has moved since the folder was taken over.",
)
@click.option(
    "--node-id", type=int, default=1, show_default=True, help="Kafka's node.id, for a folder that was never Kafka's."
)
def release(folder: Path, metadata: Path | None, node_id: int) -> None:
    """Turn a data folder into one that Apache Kafka 4.3 starts on.

    The broker has to be stopped. Everything is kept: records, topics, offsets, groups, queues, users and rules. Start a
    Kafka whose folder was taken over with `penstock adopt` with the server.properties that it had, and with this folder
    alone in log.dirs. For a folder that was never Kafka's, the settings that Kafka needs are shown.

    \b
      penstock release /var/lib/kafka
      kafka-server-start server.properties
    """
    from penstock.adoption.kafka_folder import AdoptionError
    from penstock.adoption.release import release as give_back
    from penstock.catalog.contract import CatalogError
    from penstock.log.errors import StorageError

    try:
        released = give_back(folder, int(time.time() * 1000), controller=metadata, node_id=node_id)
    except (AdoptionError, CatalogError, StorageError, OSError) as error:
        raise Failure(sentence(str(error))) from error
    click.echo(f"Released {count(released.topics, 'topic')} with {count(released.partitions, 'partition')}.")
    for text in released.notes:
        click.echo(f"note: {text}")
    for line in _next_steps(folder, released):
        click.echo(line)


def _next_steps(folder: Path, released: Released) -> list[str]:
    if not released.is_new:
        return [f"Start Kafka with log.dirs={folder}, and with metadata.log.dir={released.metadata} if that is set."]
    return [
        "Start Kafka 4.3 with these settings, and with your own addresses:",
        "  process.roles=broker,controller",
        f"  node.id={released.node_id}",
        f"  log.dirs={folder.resolve()}",
        "  listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "  controller.listener.names=CONTROLLER",
        f"  controller.quorum.voters={released.node_id}@localhost:9093",
        *(f"  {name}=1" for name in _OF_ONE_BROKER),
    ]
