"""`penstock adopt`: serve what a stopped Apache Kafka has left, in place."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.failures import Failure, sentence
from penstock.cli.options import CONTEXT_SETTINGS, Command, json_option
from penstock.cli.output import note, print_json


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument(
    "folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--metadata",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The metadata.log.dir of a controller, if it is none of the folders.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be taken over and what cannot, and change nothing.")
@json_option
def adopt(folders: tuple[Path, ...], metadata: Path | None, dry_run: bool, as_json: bool) -> None:
    """Take over the data folders of a stopped Apache Kafka broker.

    DIR is what log.dirs names, of a single KRaft broker of Kafka 3.9 to 4.3. Topics keep their ids, configs, records
    and offsets; groups, queues, transactions, users, ACLs and quotas go on as they are. The first folder becomes the
    data folder of Penstock, and partitions of the others are moved into it. Killed at any moment, the command can be
    given again.

    \b
      penstock adopt --dry-run /var/lib/kafka
      penstock adopt /var/lib/kafka
      penstock serve --data /var/lib/kafka -c node.id=1
    """
    from penstock.adoption.adopt import adopt as take_over
    from penstock.adoption.adopt import partition_bytes
    from penstock.adoption.kafka_folder import AdoptionError, locked
    from penstock.adoption.plan import make_plan
    from penstock.catalog.contract import CatalogError
    from penstock.log.errors import StorageError

    try:
        plan = make_plan(list(folders), metadata)
        size = partition_bytes(plan)
        if dry_run:
            with locked(plan.folders):
                pass
        else:
            take_over(plan, note)
    except (AdoptionError, CatalogError, StorageError, OSError) as error:
        raise Failure(sentence(str(error))) from error
    image = plan.image
    found = {
        "cluster": plan.folders[0].cluster_id,
        "node": plan.folders[0].node_id,
        "topics": len(image.topics),
        "partitions": len(plan.partitions),
        "bytes": size,
        "acls": len(image.acls),
        "users": len({user for user, _ in image.credentials}),
        "quotas": len(image.quotas),
        "notes": plan.notes,
    }
    if as_json:
        print_json({**found, "adopted": not dry_run})
        return
    verb = "Would take over" if dry_run else "Took over"
    click.echo(
        f"{verb} the cluster {found['cluster']}: {found['topics']} topics, {found['partitions']} partitions with "
        f"{size:,} bytes, "
        f"{found['acls']} ACLs, {found['users']} users, {found['quotas']} quotas."
    )
    for text in plan.notes:
        click.echo(f"note: {text}")
    if not dry_run:
        click.echo(f"Serve it:  penstock serve --data {plan.target} -c node.id={plan.folders[0].node_id}")
