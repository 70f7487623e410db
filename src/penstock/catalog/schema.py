"""The catalog's tables, and how a file of any earlier version becomes one of this version.

SQLite's `user_version` says how many migrations a file has been through. Opening it runs the ones that are missing, all
in one transaction, so a crash leaves either the old version or the new one. A migration that has been released is never
edited: a change of the tables is one more entry at the end of the list. A file from a newer Penstock is refused,
because an older program cannot know what it would break.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.catalog.contract import CatalogError

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

# What no broker ever used goes: the brokers' starts, the topics' leader epochs (each log keeps its own) and the mark of
# topics under deletion. The table is made anew because SQLite drops columns only since 3.35, and none that an index
# mentions.
_WITHOUT_THE_UNUSED: Migration = (
    "DROP TABLE broker",
    """
    CREATE TABLE new_topic (
        topic_id BLOB PRIMARY KEY CHECK (length(topic_id) = 16),
        name TEXT NOT NULL UNIQUE,
        partitions INTEGER NOT NULL CHECK (partitions > 0)
    ) WITHOUT ROWID
    """,
    "INSERT INTO new_topic SELECT topic_id, name, partitions FROM topic WHERE deleting = 0",
    "DELETE FROM topic_config WHERE topic_id NOT IN (SELECT topic_id FROM new_topic)",
    "DROP TABLE topic",
    "ALTER TABLE new_topic RENAME TO topic",
)

# Rules, SCRAM credentials and quotas. The name of a quota's entity is JSON: its parts in order, null for a default.
_SECURITY: Migration = (
    """
    CREATE TABLE acl (
        resource_type INTEGER NOT NULL,
        resource_name TEXT NOT NULL,
        principal TEXT NOT NULL,
        operation INTEGER NOT NULL,
        permission INTEGER NOT NULL,
        host TEXT NOT NULL,
        pattern_type INTEGER NOT NULL,
        PRIMARY KEY (resource_type, resource_name, principal, operation, permission, host, pattern_type)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE credential (
        user TEXT NOT NULL,
        mechanism INTEGER NOT NULL,
        iterations INTEGER NOT NULL,
        salt BLOB NOT NULL,
        stored_key BLOB NOT NULL,
        server_key BLOB NOT NULL,
        PRIMARY KEY (user, mechanism)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE quota (
        entity TEXT NOT NULL,
        name TEXT NOT NULL,
        value REAL NOT NULL,
        PRIMARY KEY (entity, name)
    ) WITHOUT ROWID
    """,
    "ALTER TABLE cluster ADD COLUMN secret BLOB NOT NULL DEFAULT x''",
)

# Several brokers that share the file. Addresses are JSON (host and port by listener), and so are replicas' node ids.
_SHARED: Migration = (
    """
    CREATE TABLE broker (
        node_id INTEGER PRIMARY KEY,
        epoch INTEGER NOT NULL,
        instance_id TEXT NOT NULL,
        rack TEXT,
        endpoints TEXT NOT NULL,
        is_live INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE partition (
        topic_id BLOB NOT NULL REFERENCES topic ON DELETE CASCADE,
        partition_index INTEGER NOT NULL,
        leader INTEGER NOT NULL,
        leader_epoch INTEGER NOT NULL,
        replicas TEXT NOT NULL,
        PRIMARY KEY (topic_id, partition_index)
    ) WITHOUT ROWID
    """,
    # The version at which each kind of thing changed last.
    "CREATE TABLE change (kind INTEGER PRIMARY KEY, version INTEGER NOT NULL)",
)

MIGRATIONS: tuple[Migration, ...] = (_FIRST, _FEATURES, _WITHOUT_THE_UNUSED, _SECURITY, _SHARED)


_HEADER_BYTES = 100
_USER_VERSION, _APPLICATION_ID = slice(60, 64), slice(68, 72)


def check_file(path: str) -> None:
    """Raise CatalogError if this version cannot open the file, as far as its header tells. Nothing is changed."""
    with open(path, "rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header:
        return  # a new one, before its first transaction
    if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
        raise CatalogError(f"{path} is damaged, or not a catalog of Penstock's: restore the folder from a backup")
    version = int.from_bytes(header[_USER_VERSION], "big")
    if version and int.from_bytes(header[_APPLICATION_ID], "big") != APPLICATION_ID:
        raise CatalogError(f"{path} is a SQLite database, but not a catalog of Penstock's")
    _check_version(path, version, len(MIGRATIONS))


def _check_version(path: str, version: int, known: int) -> None:
    if version > known:
        raise CatalogError(
            f"{path} was written by a newer Penstock (catalog version {version}, this one knows up to {known}): use "
            "that version or a later one"
        )


def migrate(connection: sqlite3.Connection, path: str, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring an open database up to the latest version. Refuses files that are not ours or are newer than we are."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    is_new = version == 0 and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not is_new and application_id != APPLICATION_ID:
        raise CatalogError(f"{path} is a SQLite database, but not a catalog of Penstock's")
    _check_version(path, version, len(migrations))
    if version == len(migrations):
        return
    # Replacing a table that others refer to would delete their rows. Inside a transaction this switch has no effect.
    connection.execute("PRAGMA foreign_keys = OFF")
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
