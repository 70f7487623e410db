"""`penstock cluster import`: turn a stopped broker's data folder into a new cluster."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.cluster_options import cluster_option, progress_bar, session_of, store_at
from penstock.cli.options import CONTEXT_SETTINGS, Command, json_option, option
from penstock.cli.output import note, print_json


@click.command("import", cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@cluster_option
@option("--store", metavar="URL", required=True, help="Object store for the records, as s3://BUCKET/PREFIX.")
@click.option(
    "--dry-run", is_flag=True, help="Check the folder and the cluster and show what would be done, without doing it."
)
@json_option
def import_(folder: Path, cluster: str, store: str, dry_run: bool, as_json: bool) -> None:
    """Import the data folder of a stopped broker into a new cluster.

    The folder of several brokers (penstock serve --brokers) is brought in whole, with the logs of each of them.

    Topics keep their ids, configs, records and offsets; groups, transactions, queues, users, ACLs and quotas go on as
    they are. The cluster comes into being in one step at the end. If the command is killed, run it again: it stores
    only what is not stored yet. The folder stays as it is. Do not serve it any longer: what it takes would not be in
    the cluster.

    Examples:

    \b
      penstock cluster import /var/lib/penstock --dry-run --store s3://bucket/prefix \\
          --cluster postgresql://penstock@db.example/penstock
      penstock cluster import /var/lib/penstock --store s3://bucket/prefix \\
          --cluster postgresql://penstock@db.example/penstock
    """
    with session_of(cluster) as session:
        from penstock.operation.import_ import import_folder

        with progress_bar("Importing") as on_progress:
            found = import_folder(folder, session, store_at(store), on_progress, dry_run=dry_run)
    if as_json:
        print_json(
            {
                "cluster": found.cluster_id,
                "topics": len(found.topics),
                "partitions": len(found.partitions),
                "segments": found.segments,
                "bytes": found.bytes,
                "uploaded": found.uploaded,
                "acls": found.acls,
                "users": found.users,
                "quotas": found.quotas,
                "imported": not dry_run or found.was_there,
            }
        )
        return
    if found.was_there:
        click.echo(f"{folder} is in the cluster already: an earlier import had finished.")
        return
    verb = "Would import" if dry_run else "Imported"
    click.echo(
        f"{verb} the cluster {found.cluster_id}: {len(found.topics)} topics, {len(found.partitions)} partitions with "
        f"{found.bytes:,} bytes in {found.segments} segments, {found.acls} ACLs, {found.users} users, "
        f"{found.quotas} quotas."
    )
    if not dry_run:
        note(f"Serve it with --cluster and --store. Do not serve {folder} any longer, and keep it for a while.")
