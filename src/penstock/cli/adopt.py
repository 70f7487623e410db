"""`penstock adopt`: take over the data folders of a stopped Apache Kafka in place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from penstock.cli.failures import Failure, sentence
from penstock.cli.options import CONTEXT_SETTINGS, Command, json_option
from penstock.cli.output import count, note, print_json


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument(
    "folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--metadata",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The metadata.log.dir, if it is not one of the folders; stop the controller too.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be taken over and what stands in the way.")
@json_option
def adopt(folders: tuple[Path, ...], metadata: Path | None, dry_run: bool, as_json: bool) -> None:
    """Take over the data folders of a stopped Apache Kafka broker.

    DIR is what log.dirs names, of a single KRaft broker of Kafka 3.9 to 4.3. Topics keep their ids, configs, records
    and offsets; groups, queues, transactions, users, ACLs and quotas go on as they are. The first folder becomes the
    data folder of Penstock, and the partitions of the others are moved into it. A dry run changes nothing and lists
    everything that has to be done first. If the command is interrupted or killed, run it again.

    \b
      penstock adopt --dry-run /var/lib/kafka
      penstock adopt /var/lib/kafka
      penstock serve --data /var/lib/kafka -c node.id=1
    """
    from penstock.adoption.adopt import adopt as take_over
    from penstock.adoption.kafka_folder import AdoptionError
    from penstock.adoption.plan import make_plan
    from penstock.catalog.contract import CatalogError
    from penstock.log.errors import StorageError

    try:
        plan = make_plan(list(folders), metadata)
        if plan.obstacles:
            raise AdoptionError(*plan.obstacles)
        size = plan.bytes
        if not dry_run:
            take_over(plan, note)
    except AdoptionError as error:
        if as_json:
            print_json({"adopted": False, "obstacles": list(error.obstacles)})
            raise click.exceptions.Exit(1) from error
        raise Failure(_listed(error.obstacles)) from error
    except (CatalogError, StorageError, OSError) as error:
        raise Failure(f"{sentence(str(error))}. Run the command again once that is resolved.") from error
    image = plan.image
    users = len({user for user, _ in image.credentials})
    if as_json:
        found = {
            "cluster": plan.folders[0].cluster_id,
            "node": plan.folders[0].node_id,
            "topics": len(image.topics),
            "partitions": len(plan.partitions),
            "bytes": size,
            "acls": len(image.acls),
            "users": users,
            "quotas": len(image.quotas),
            "notes": plan.notes,
        }
        print_json({**found, "adopted": not dry_run, "obstacles": []})
        return
    verb = "Would take over" if dry_run else "Took over"
    counted = ", ".join(
        [
            count(len(image.topics), "topic"),
            f"{count(len(plan.partitions), 'partition')} with {size:,} bytes",
            count(len(image.acls), "ACL"),
            count(users, "user"),
            count(len(image.quotas), "quota"),
        ]
    )
    click.echo(f"{verb} the cluster {plan.folders[0].cluster_id}: {counted}.")
    for text in plan.notes:
        click.echo(f"note: {text}")
    if not dry_run:
        click.echo(f"Serve it:  penstock serve --data {plan.target} -c node.id={plan.folders[0].node_id}")


def _listed(obstacles: Sequence[str]) -> str:
    if len(obstacles) == 1:
        return f"Nothing was changed. {sentence(obstacles[0])}."
    return "\n".join(["Nothing was changed. What has to be done first:", *(f"  - {each}" for each in obstacles)])
