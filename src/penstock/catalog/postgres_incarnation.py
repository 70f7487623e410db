"""Tells a cluster from its backups.

A cluster remembers its *place*: which PostgreSQL, database and table its row is in, by the numbers that PostgreSQL gave
them. What was restored from a dump has other numbers, so that no broker takes it for the cluster it was taken from:
whoever opens it is refused until it is adopted as a cluster of its own.

A copy of PostgreSQL's files keeps its numbers and cannot be told from the original. It has to be adopted all the same,
by someone who says so.

Adopting gives it an incarnation of its own. A data folder belongs to one incarnation, so that brokers of the original
do not join it.
"""

from __future__ import annotations

from typing import Any

from penstock.catalog.contract import CatalogError


def lineage(cluster_id: str, incarnation: str) -> str:
    """What a data folder belongs to."""
    return f"{cluster_id}/{incarnation}" if incarnation else cluster_id


def check_lineage(expected: str | None, cluster_id: str, incarnation: str, location: str) -> None:
    """Raises CatalogError if a data folder belongs to another cluster, or to the original of a restored one."""
    if expected in (None, lineage(cluster_id, incarnation)):
        return
    if expected is not None and expected.partition("/")[0] == cluster_id:
        raise CatalogError(
            f"{location} holds a backup of the cluster {cluster_id} that was made a cluster of its own, and the data "
            "folder belongs to another incarnation: correct --cluster, or name an empty folder in --data"
        )
    raise CatalogError(
        f"the data folder belongs to the cluster {expected}, and {location} holds the cluster {cluster_id}: correct "
        "--cluster or --data"
    )


def is_copy(connection: Any) -> bool:
    """Whether the cluster was restored from a dump and not adopted."""
    found = connection.execute("SELECT place FROM cluster").fetchone()
    return found is not None and found[0] is not None and found[0] != place_of(connection)


def check_place(connection: Any, location: str) -> None:
    """Raises CatalogError for a cluster that was restored from a dump and not adopted. Remembers the place of a new
    one."""
    connection.execute("UPDATE cluster SET place = %s WHERE place IS NULL", (place_of(connection),))
    if is_copy(connection):
        raise CatalogError(
            f"{location} holds a copy of a cluster, restored from a backup or moved from another database. Adopt it "
            "with 'penstock cluster adopt-backup', which makes it a cluster of its own, before brokers serve it"
        )


def place_of(connection: Any) -> str:
    database, table = connection.execute(
        "SELECT oid::text, 'cluster'::regclass::oid::text FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    may_ask = connection.execute("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')").fetchone()[0]
    system = "-"
    if may_ask:
        system = connection.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()[0]
    return f"{system}/{database}/{table}"
