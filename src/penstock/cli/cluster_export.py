"""`penstock cluster export`: turn a stopped cluster into the data folder of a single broker."""

from __future__ import annotations

import time
from pathlib import Path

import click

from penstock.cli.cluster_options import cluster_option, progress_bar, records_of, session_of, store_option
from penstock.cli.options import CONTEXT_SETTINGS, Command, json_option
from penstock.cli.output import note, print_json


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@cluster_option
@store_option
@click.option(
    "--dry-run", is_flag=True, help="Check that the cluster is stopped and show what would be done, without doing it."
)
@json_option
def export(folder: Path, cluster: str, store: str | None, dry_run: bool, as_json: bool) -> None:
    """Export a stopped cluster into DIR, which 'penstock serve --data DIR' then serves.

    Topics keep their ids, configs, records and offsets; groups, transactions, queues, users, ACLs and quotas go on as
    they are. DIR must not exist yet, or be empty. If the command is killed, run it again; no broker starts on a
    folder that is not whole. The cluster stays as it is.

    Examples:

    \b
      penstock cluster export /var/lib/penstock --cluster postgresql://penstock@db.example/penstock
      penstock serve --data /var/lib/penstock
    """
    now_ms = int(time.time() * 1000)
    with records_of(cluster, store) as records, session_of(cluster) as session:
        from penstock.operation.export import export_cluster

        with progress_bar("Exporting") as on_progress:
            found = export_cluster(
                folder, session, records.commits, records.store, now_ms, on_progress, dry_run=dry_run
            )
    if as_json:
        print_json(
            {
                "cluster": found.cluster_id,
                "topics": found.topics,
                "partitions": found.partitions,
                "segments": found.segments,
                "bytes": found.bytes,
                "exported": not dry_run,
            }
        )
        return
    if found.was_there:
        click.echo(f"{folder} is whole already: an earlier export had finished.")
        return
    verb = "Would export" if dry_run else "Exported"
    click.echo(
        f"{verb} the cluster {found.cluster_id}: {found.topics} topics, {found.partitions} partitions with "
        f"{found.bytes:,} bytes."
    )
    if not dry_run:
        note(f"Serve it:  penstock serve --data {folder}. Do not start the brokers of the cluster any longer.")
