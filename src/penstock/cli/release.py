"""`penstock release`: give a folder back to Apache Kafka."""

from __future__ import annotations

import time
from pathlib import Path

import click

from penstock.cli.failures import Failure, sentence
from penstock.cli.options import CONTEXT_SETTINGS, Command


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
def release(folder: Path) -> None:
    """Make a folder that was taken over with `penstock adopt` one that Apache Kafka starts on again.

    The broker has to be stopped. Whatever has happened since is kept: records, topics, offsets, groups, queues, users
    and rules. Start Kafka with the server.properties that it had, and log.dirs with this folder alone.

    \b
      penstock release /var/lib/kafka
      kafka-server-start server.properties
    """
    from penstock.adoption.kafka_folder import AdoptionError
    from penstock.adoption.release import release as give_back
    from penstock.catalog.contract import CatalogError
    from penstock.log.errors import StorageError

    try:
        released = give_back(folder, int(time.time() * 1000))
    except (AdoptionError, CatalogError, StorageError, OSError) as error:
        raise Failure(sentence(str(error))) from error
    click.echo(f"Released {released.topics} topics with {released.partitions} partitions.")
    click.echo(f"Start Kafka with log.dirs={folder}.")
