"""`penstock cluster check`: compare PostgreSQL with the object store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from penstock.cli.cluster_options import cluster_option, progress_bar, records_of, store_option
from penstock.cli.options import CONTEXT_SETTINGS, Command, json_option, option
from penstock.cli.output import Cell, note, print_json, print_table

if TYPE_CHECKING:
    from penstock.storage.objects.inspection import Finding, Inspection

_SHOWN = 20
_FOUND = 1


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@cluster_option
@store_option
@option("--quick", is_flag=True, help="Look for objects and compare sizes and offsets, but do not read the records.")
@json_option
def check(cluster: str, store: str | None, quick: bool, as_json: bool) -> None:
    """Find committed records that are missing or damaged, and objects too many.

    Every extent and segment that PostgreSQL names is read and its checksums are compared; the offsets of each partition
    must have no holes; and nothing may be in the store that nothing names. Brokers may run meanwhile. Objects younger
    than ten minutes may belong to a commit under way and are counted only. The exit status is 1 if something is wrong.

    Examples:

    \b
      penstock cluster check --cluster postgresql://penstock@db.example/penstock
      penstock cluster check --cluster postgresql://penstock@db.example/penstock --quick --json
    """
    from penstock.storage.objects.inspection import inspect

    with records_of(cluster, store) as records:
        with progress_bar("Checking") as on_progress:
            found = inspect(records.commits, records.store, records.keys, on_progress, reads=not quick)
        names = records.topics
    rows = [_row(finding, names) for finding in found.findings]
    if as_json:
        print_json(_as_dict(found, rows))
    else:
        if rows:
            print_table(["TROUBLE", "PARTITION", "OBJECT", "WHAT"], rows[:_SHOWN])
        note(_summary(found, quick))
    sys.stdout.flush()
    if found.findings:
        raise click.exceptions.Exit(_FOUND)


def _row(finding: Finding, names: dict[bytes, str]) -> list[Cell]:
    partition = ""
    if finding.partition is not None:
        topic_id, index = finding.partition
        partition = f"{names.get(topic_id, topic_id.hex())}-{index}"
    return [finding.trouble.value, partition, finding.object_key or "", finding.text]


def _as_dict(found: Inspection, rows: list[list[Cell]]) -> dict[str, object]:
    return {
        "partitions": found.partitions,
        "segments": found.segments,
        "extents": found.extents,
        "objects": found.objects,
        "bytes": found.bytes,
        "young": found.young,
        "marked": found.marked,
        "findings": [dict(zip(("trouble", "partition", "object", "text"), row, strict=True)) for row in rows],
    }


def _summary(found: Inspection, quick: bool) -> str:
    what = (
        f"{found.partitions} partitions, {found.segments} segments, {found.extents} extents, {found.objects} objects, "
        f"{found.bytes:,} bytes"
    )
    if not found.findings:
        return f"{what}: everything is there{'' if quick else ' and readable'}, and nothing else is."
    more = f", of which the first {_SHOWN} are shown" if len(found.findings) > _SHOWN else ""
    return f"{what}: {len(found.findings)} things are wrong{more}."
