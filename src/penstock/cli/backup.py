"""`penstock backup`: copies of a broker's data folder, made while it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.cluster_options import explained, progress_bar
from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Command, Group, json_option, option
from penstock.cli.output import count, note, print_json

if TYPE_CHECKING:
    from penstock.operation.backup_folder import Manifest

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def backup() -> None:
    """Back up a broker while it runs, check a backup, and restore one."""


@backup.command("create", cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("folder", metavar="DIR", type=_FOLDER)
@option(
    "--data",
    type=_FOLDER,
    default=Path("penstock-data"),
    show_default=True,
    help="Data folder of the broker on this machine.",
)
@click.option(
    "--since",
    metavar="DIR",
    type=_FOLDER,
    help="An earlier backup on the same disk. What has not changed since is not copied but shared with it.",
)
@json_option
def create(folder: Path, data: Path, since: Path | None, as_json: bool) -> None:
    """Copy one moment of everything in a data folder to DIR, while its broker runs.

    The copy is what a killed broker would have left: all topics, committed offsets, transactions, queues, users and
    configs, of the same moment. Run it on the broker's machine, as the user who runs the broker. Of a broker that is
    stopped it copies the folder as it is.

    DIR must not exist yet, or be empty. It becomes a backup when its last file is written: one that was not finished is
    refused by `restore`, and made again by the same command. It holds password hashes and keys, so only its owner may
    read it.

    Examples:

    \b
      penstock backup create /backups/monday --data /var/lib/penstock
      penstock backup create /backups/tuesday --data /var/lib/penstock --since /backups/monday
    """
    with explained():
        from penstock.operation.make_backup import make_backup

        with progress_bar("Copying") as on_progress:
            made = make_backup(data, folder, since, on_progress)
    manifest = made.manifest
    if as_json:
        print_json({**_summary(manifest), "copied_bytes": made.copied_bytes, "shared_bytes": made.shared_bytes})
        return
    shared = f", of which {made.shared_bytes:,} are shared with {since}" if since is not None else ""
    click.echo(
        f"Backed up {count(manifest.partitions, 'partition')} as of {_moment(manifest)}: "
        f"{manifest.bytes:,} bytes{shared}."
    )


@backup.command("check", cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("folder", metavar="DIR", type=_FOLDER)
@json_option
def check(folder: Path, as_json: bool) -> None:
    """Read a backup to the end, and compare every file with its checksum.

    Exits with 1 if anything is missing or damaged.
    """
    with explained():
        from penstock.operation.backup_folder import verify

        with progress_bar("Checking") as on_progress:
            manifest, damage = verify(folder, on_progress)
    if as_json:
        print_json({**_summary(manifest), "damage": damage})
    else:
        for each in damage:
            click.echo(each)
        if not damage:
            click.echo(
                f"All {count(len(manifest.files), 'file')} are whole: {count(manifest.partitions, 'partition')} as of "
                f"{_moment(manifest)}, {manifest.bytes:,} bytes."
            )
    if damage:
        raise Failure(f"The backup {folder} is damaged: make a new one, and restore an earlier one if you have to.")


@backup.command("restore", cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("folder", metavar="DIR", type=_FOLDER)
@option("--data", type=_FOLDER, required=True, help="The data folder to make. It must not exist yet, or be empty.")
@click.option(
    "--new-cluster", is_flag=True, help="Give the copy a cluster id of its own, to serve it beside the original."
)
@json_option
def restore(folder: Path, data: Path, new_cluster: bool, as_json: bool) -> None:
    """Make a data folder from the backup in DIR, which 'penstock serve --data' then serves.

    Every file is compared with its checksum on the way. If the command is killed, run it again; no broker starts on a
    folder that is not whole. The backup stays as it is.

    To clients the broker comes back as after a power cut: what was written after the backup is gone, consumers that had
    read further notice, open transactions are aborted. Stop the original for good first, unless --new-cluster is given.

    Examples:

    \b
      penstock backup restore /backups/tuesday --data /var/lib/penstock
      penstock serve --data /var/lib/penstock
    """
    with explained():
        from penstock.operation.restore_backup import restore_backup

        with progress_bar("Restoring") as on_progress:
            restored = restore_backup(folder, data, on_progress, new_cluster=new_cluster)
    if as_json:
        print_json({**_summary(restored.manifest), "cluster": restored.cluster_id})
        return
    if restored.was_there:
        click.echo(f"{data} is whole already: an earlier restore had finished.")
    else:
        click.echo(f"Restored {count(restored.manifest.partitions, 'partition')} as of {_moment(restored.manifest)}.")
    several = [each for each in restored.manifest.brokers if each.node_id is not None]
    with_brokers = f" --brokers {len(several)}" if several else ""
    note(f"Serve it:  penstock serve --data {data}{with_brokers}")
    if not new_cluster:
        note(f"Never serve {restored.manifest.data} on {restored.manifest.host} again: clients take the two for one.")


def _moment(manifest: Manifest) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.time_ms / 1000))


def _summary(manifest: Manifest) -> dict[str, object]:
    return {
        "cluster": manifest.cluster_id,
        "time_ms": manifest.time_ms,
        "version": manifest.version,
        "host": manifest.host,
        "data": manifest.data,
        "partitions": manifest.partitions,
        "bytes": manifest.bytes,
    }
