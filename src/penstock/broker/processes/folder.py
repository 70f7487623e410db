"""The data folder of several brokers: `catalog.sqlite`, which they share, and `brokers/<node id>` for the logs of each.

A partition stays with the broker that it was given to. So a folder can be started with more brokers than before, which
get their share of new partitions, and never with fewer than have partitions. The folder of a broker without others
becomes one of several by moving its logs to those of the first broker. Whatever is interrupted is finished by the next
start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from penstock.broker.foundation import BROKERS_FOLDER, CATALOG_FILE
from penstock.catalog.contract import CatalogError
from penstock.catalog.sqlite import SqliteCatalog
from penstock.storage.relocation import move_logs


def folder_of(data: Path, node_id: int) -> Path:
    """Where the logs of a broker are."""
    return data / BROKERS_FOLDER / str(node_id)


def is_of_several(data: Path) -> bool:
    return (data / BROKERS_FOLDER).is_dir()


def owners_of(data: Path) -> list[int]:
    """The node ids of the brokers that have partitions in a folder on which none runs."""
    if not (data / CATALOG_FILE).exists():
        return []
    catalog = SqliteCatalog.open(data / CATALOG_FILE)
    try:
        return sorted({row.leader for row in catalog.partitions()})
    finally:
        catalog.close()


def prepare(data: Path, node_ids: Sequence[int]) -> str:
    """Make the folder ready for these brokers. The caller holds its lock, and no broker runs.

    Returns what to tell the user, if anything. Raises CatalogError if brokers that have partitions are missing.
    """
    catalog = SqliteCatalog.open(data / CATALOG_FILE)
    try:
        _check_owners(data, catalog, node_ids)
        was_of_one = not is_of_several(data)
        (data / BROKERS_FOLDER).mkdir(exist_ok=True)
        first = node_ids[0]
        moved = move_logs(data, folder_of(data, first))
        catalog.give_unowned_partitions(first)
        for row in catalog.brokers():
            catalog.unregister_broker(row.node_id, row.epoch)
    finally:
        catalog.close()
    if was_of_one and moved:
        return (
            f"moved the {moved} partitions of {data} to {folder_of(data, first)}: broker {first} keeps them, and those "
            f"of new topics are spread over {len(node_ids)} brokers"
        )
    return ""


def _check_owners(data: Path, catalog: SqliteCatalog, node_ids: Sequence[int]) -> None:
    kept = Counter(row.leader for row in catalog.partitions())
    missing = sorted(kept.keys() - set(node_ids))
    if not missing:
        return
    needed = max(kept) - min(kept) + 1
    first = "" if min(kept) == node_ids[0] else f" -c node.id={min(kept)}"
    which = ", ".join(f"broker {node_id} ({kept[node_id]})" for node_id in missing)
    raise CatalogError(
        f"{data} has partitions of {which}, which would not be started: start it with --brokers {needed}{first} or more"
    )
