"""`penstock cluster adopt-backup`: turn a restored backup into a cluster of its own."""

from __future__ import annotations

import click

from penstock.cli.cluster_options import cluster_option, session_of, store_at
from penstock.cli.options import CONTEXT_SETTINGS, Command, json_option, option
from penstock.cli.output import note, print_json


@click.command("adopt-backup", cls=Command, context_settings=CONTEXT_SETTINGS)
@cluster_option
@option("--store", metavar="URL", help="Where the objects were copied to, if that is not the store of the original.")
@click.option(
    "--owns-objects",
    is_flag=True,
    help="The original is gone for good: its objects may be removed when they are no longer referenced.",
)
@click.option(
    "--in-place", is_flag=True, help="PostgreSQL's own files were restored, so that the copy looks like the original."
)
@json_option
def adopt_backup(cluster: str, store: str | None, owns_objects: bool, in_place: bool, as_json: bool) -> None:
    """Make a restored backup a cluster of its own, before brokers serve it.

    It gets a new incarnation: it writes objects under other keys than the cluster it was taken from, removes none of
    that cluster's objects, and brokers of that cluster do not join it. Leader epochs, epochs of brokers and producer
    ids jump ahead of what the original may have used since. With --store the objects are a copy, which belongs to this
    cluster.

    Examples:

    \b
      penstock cluster adopt-backup --cluster postgresql://penstock@db.example/restored --store s3://copy/prefix
      penstock cluster check --cluster postgresql://penstock@db.example/restored
    """
    with session_of(cluster) as session:
        from penstock.operation.backups import adopt_backup as adopt

        if store is not None:
            store_at(store)
        found = adopt(session, store, owns_objects=owns_objects, in_place=in_place)
    if as_json:
        print_json(found._asdict())
        return
    click.echo(f"The cluster {found.cluster_id} is a cluster of its own now, with the incarnation {found.incarnation}.")
    kept = "belong to it" if found.owns_objects else "of the original are read and never removed"
    note(f"Its objects in {found.store} {kept}. Check it with 'penstock cluster check', then start brokers.")
