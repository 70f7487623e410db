"""The catalog's tables, and how a file of any earlier version becomes one of this version.

SQLite's `user_version` says how many migrations a file has been through. Opening it runs the ones that are missing, all
in one transaction, so a crash leaves either the old version or the new one. A migration that has been released is never
edited: a change of the tables is one more entry at the end of the list. A file from a newer Penstock is refused,
because an older program cannot know what it would break.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

# "Pens" in ASCII: tells our files from any other SQLite database.
APPLICATION_ID = 0x50656E73

Migration = Sequence[str]

_FIRST: Migration = (
    """
    CREATE TABLE cluster (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        cluster_id TEXT NOT NULL,
        next_producer_id INTEGER NOT NULL
    )
    """,
    # A broker's epoch counts its starts, so that a request of an earlier incarnation can be told apart.
    """
    CREATE TABLE broker (
        node_id INTEGER PRIMARY KEY,
        epoch INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE topic (
        topic_id BLOB PRIMARY KEY CHECK (length(topic_id) = 16),
        name TEXT NOT NULL,
        partitions INTEGER NOT NULL CHECK (partitions > 0),
        leader_epoch INTEGER NOT NULL DEFAULT 0,
        deleting INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID
    """,
    # The name of a topic whose folders are still being removed can be taken by a new one.
    "CREATE UNIQUE INDEX topic_name ON topic (name) WHERE deleting = 0",
    """
    CREATE TABLE topic_config (
        topic_id BLOB NOT NULL REFERENCES topic ON DELETE CASCADE,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (topic_id, name)
    ) WITHOUT ROWID
    """,
    # Dynamic configs of brokers (the cluster-wide default has an empty name), groups and client metrics.
    """
    CREATE TABLE config (
        resource_type INTEGER NOT NULL,
        resource_name TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (resource_type, resource_name, name)
    ) WITHOUT ROWID
    """,
)

# Finalized levels of features that were changed; the epoch counts the changes.
_FEATURES: Migration = (
    "CREATE TABLE feature (name TEXT PRIMARY KEY, level INTEGER NOT NULL) WITHOUT ROWID",
    "ALTER TABLE cluster ADD COLUMN features_epoch INTEGER NOT NULL DEFAULT 1",
)

MIGRATIONS: tuple[Migration, ...] = (_FIRST, _FEATURES)


class CatalogError(Exception):
    """The catalog cannot be used: stop rather than guess."""


def migrate(connection: sqlite3.Connection, path: str, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring an open database up to the latest version. Refuses files that are not ours or are newer than we are."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    is_new = version == 0 and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not is_new and application_id != APPLICATION_ID:
        raise CatalogError(f"{path} is a SQLite database, but not a catalog of Penstock's")
    if version > len(migrations):
        raise CatalogError(
            f"{path} was written by a newer Penstock (catalog version {version}, this one knows up to "
            f"{len(migrations)}): use that version or a later one"
        )
    if version == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in migrations[version:]:
            for statement in migration:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
