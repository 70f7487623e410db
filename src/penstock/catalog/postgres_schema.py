"""The catalog's tables in PostgreSQL, and which versions of Penstock may use them.

A cluster has a schema of its own in a database. `schema_version` says how many migrations it has been through, and the
oldest version of this list that can still use it. A migration that only adds (expand) leaves that as it is, so that a
Penstock that does not know it goes on working; one that takes away (contract) raises it. Opening a schema runs the
migrations that are missing, in one transaction. A migration that has been released is never edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from penstock.catalog.contract import CatalogError


class Migration(NamedTuple):
    usable_from: int
    """The number of migrations that a Penstock must know in order to use the schema after this one."""
    statements: Sequence[str]


# Text is compared by its bytes, as Python does, whatever the collation of the database.
_FIRST = Migration(
    1,
    (
        """
        CREATE TABLE schema_version (
            only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
            version integer NOT NULL,
            usable_from integer NOT NULL
        )
        """,
        # `owner_epoch` counts the brokers that have taken the cluster over, `last_change` names the latest change.
        """
        CREATE TABLE cluster (
            only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
            cluster_id text NOT NULL,
            secret bytea NOT NULL,
            next_producer_id bigint NOT NULL DEFAULT 0,
            features_epoch integer NOT NULL DEFAULT 1,
            owner_epoch bigint NOT NULL DEFAULT 0,
            owner text NOT NULL DEFAULT '',
            folder_id text,
            last_change text NOT NULL DEFAULT ''
        )
        """,
        'CREATE TABLE feature (name text COLLATE "C" PRIMARY KEY, level integer NOT NULL)',
        """
        CREATE TABLE topic (
            topic_id bytea PRIMARY KEY CHECK (length(topic_id) = 16),
            name text COLLATE "C" NOT NULL UNIQUE,
            partitions integer NOT NULL CHECK (partitions > 0)
        )
        """,
        """
        CREATE TABLE topic_config (
            topic_id bytea NOT NULL REFERENCES topic ON DELETE CASCADE,
            name text COLLATE "C" NOT NULL,
            value text NOT NULL,
            PRIMARY KEY (topic_id, name)
        )
        """,
        """
        CREATE TABLE config (
            resource_type integer NOT NULL,
            resource_name text COLLATE "C" NOT NULL,
            name text COLLATE "C" NOT NULL,
            value text NOT NULL,
            PRIMARY KEY (resource_type, resource_name, name)
        )
        """,
        """
        CREATE TABLE acl (
            resource_type integer NOT NULL,
            resource_name text COLLATE "C" NOT NULL,
            principal text COLLATE "C" NOT NULL,
            operation integer NOT NULL,
            permission integer NOT NULL,
            host text COLLATE "C" NOT NULL,
            pattern_type integer NOT NULL,
            PRIMARY KEY (resource_type, resource_name, principal, operation, permission, host, pattern_type)
        )
        """,
        """
        CREATE TABLE credential (
            user_name text COLLATE "C" NOT NULL,
            mechanism integer NOT NULL,
            iterations integer NOT NULL,
            salt bytea NOT NULL,
            stored_key bytea NOT NULL,
            server_key bytea NOT NULL,
            PRIMARY KEY (user_name, mechanism)
        )
        """,
        """
        CREATE TABLE quota (
            entity text COLLATE "C" NOT NULL,
            name text COLLATE "C" NOT NULL,
            value double precision NOT NULL,
            PRIMARY KEY (entity, name)
        )
        """,
    ),
)

# Who leads each partition, where its log starts and ends, and where the committed bytes are. Extents, segments and
# objects refer to topics by id and not by key: what a deleted topic leaves behind has to be found, not forgotten.
_OBJECTS = Migration(
    1,
    (
        """
        CREATE TABLE IF NOT EXISTS partition (
            topic_id bytea NOT NULL REFERENCES topic ON DELETE CASCADE,
            partition_index integer NOT NULL,
            leader integer NOT NULL DEFAULT -1,
            leader_epoch integer NOT NULL DEFAULT -1,
            replicas integer[] NOT NULL DEFAULT '{}',
            log_start_offset bigint NOT NULL DEFAULT 0,
            end_offset bigint NOT NULL DEFAULT 0,
            PRIMARY KEY (topic_id, partition_index)
        ) WITH (fillfactor = 70)
        """,
        """
        CREATE TABLE stored_object (
            object_key text COLLATE "C" PRIMARY KEY,
            size bigint NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            marked_at timestamptz
        )
        """,
        """
        CREATE TABLE extent (
            topic_id bytea NOT NULL,
            partition_index integer NOT NULL,
            base_offset bigint NOT NULL,
            end_offset bigint NOT NULL,
            object_key text COLLATE "C" REFERENCES stored_object,
            position bigint NOT NULL,
            size bigint NOT NULL,
            data bytea,
            PRIMARY KEY (topic_id, partition_index, base_offset),
            CHECK ((object_key IS NULL) <> (data IS NULL)),
            CHECK (base_offset < end_offset)
        ) WITH (autovacuum_vacuum_scale_factor = 0.05)
        """,
        "CREATE INDEX extent_object ON extent (object_key) WHERE object_key IS NOT NULL",
        """
        CREATE TABLE segment (
            topic_id bytea NOT NULL,
            partition_index integer NOT NULL,
            base_offset bigint NOT NULL,
            end_offset bigint NOT NULL,
            object_key text COLLATE "C" NOT NULL REFERENCES stored_object,
            log_size bigint NOT NULL,
            index_size bigint NOT NULL,
            time_index_size bigint NOT NULL,
            txn_index_size bigint NOT NULL,
            snapshot_size bigint NOT NULL,
            first_timestamp bigint NOT NULL,
            max_timestamp bigint NOT NULL,
            max_timestamp_offset bigint NOT NULL,
            PRIMARY KEY (topic_id, partition_index, base_offset),
            CHECK (base_offset < end_offset)
        )
        """,
        "CREATE INDEX segment_object ON segment (object_key)",
        """
        CREATE TABLE epoch_start (
            topic_id bytea NOT NULL,
            partition_index integer NOT NULL,
            leader_epoch integer NOT NULL,
            start_offset bigint NOT NULL,
            PRIMARY KEY (topic_id, partition_index, leader_epoch)
        )
        """,
    ),
)

# Several brokers: who there is and for how long, by PostgreSQL's clock. `change` has the version at which each kind of
# thing changed last. `recent_change` names changes, so that one whose outcome is unknown can be looked up.
_SHARED = Migration(
    1,
    (
        """
        CREATE TABLE broker (
            node_id integer PRIMARY KEY,
            epoch bigint NOT NULL,
            instance_id text NOT NULL,
            rack text,
            endpoints jsonb NOT NULL,
            is_live boolean NOT NULL,
            is_draining boolean NOT NULL DEFAULT false,
            lease_until timestamptz NOT NULL,
            session_pid integer,
            session_start timestamptz
        ) WITH (fillfactor = 70)
        """,
        "CREATE TABLE change (kind integer PRIMARY KEY, version bigint NOT NULL)",
        "CREATE TABLE recent_change (change text PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT now())",
        "CREATE INDEX recent_change_made_at ON recent_change (made_at)",
        "ALTER TABLE cluster ADD COLUMN version bigint NOT NULL DEFAULT 0",
        "ALTER TABLE cluster ADD COLUMN next_broker_epoch bigint NOT NULL DEFAULT 1",
        # The records of a cluster of one broker may be in its folder; those of a shared one are in this object store.
        "ALTER TABLE cluster ADD COLUMN store text",
    ),
)

# What tells a cluster from its backups: `place` is where its tables are, as PostgreSQL numbers them, and a copy that is
# adopted gets an incarnation of its own, below which it keeps its objects.
_INCARNATIONS = Migration(
    1,
    (
        "ALTER TABLE cluster ADD COLUMN incarnation text NOT NULL DEFAULT ''",
        "ALTER TABLE cluster ADD COLUMN owned_incarnations text[] NOT NULL DEFAULT '{}'",
        "ALTER TABLE cluster ADD COLUMN place text",
    ),
)

# How many migrations a broker knows, so that none takes away what it needs.
_KNOWLEDGE = Migration(1, ("ALTER TABLE broker ADD COLUMN knows integer",))

# Whose turn it is at what one broker does for all, and those whose uploads may have been left behind.
_SWEEP = Migration(
    1,
    (
        'CREATE TABLE turn (task text COLLATE "C" PRIMARY KEY, until timestamptz NOT NULL)',
        """
        CREATE TABLE fenced_writer (
            folder text COLLATE "C" PRIMARY KEY,
            noted_at timestamptz NOT NULL DEFAULT now(),
            listed_at timestamptz,
            is_done boolean NOT NULL DEFAULT false
        )
        """,
        "CREATE INDEX stored_object_marked ON stored_object (marked_at) WHERE marked_at IS NOT NULL",
    ),
)

# What administrators want of partitions and leaders have not carried out yet.
_DIRECTIONS = Migration(
    1,
    (
        "ALTER TABLE partition ADD COLUMN elected integer NOT NULL DEFAULT -1",
        "ALTER TABLE partition ADD COLUMN replaced integer[] NOT NULL DEFAULT '{}'",
    ),
)

MIGRATIONS: tuple[Migration, ...] = (_FIRST, _OBJECTS, _SHARED, _INCARNATIONS, _KNOWLEDGE, _SWEEP, _DIRECTIONS)
_WITH_BROKERS = MIGRATIONS.index(_SHARED) + 1
_WITH_KNOWLEDGE = MIGRATIONS.index(_KNOWLEDGE) + 1


def migrate(connection: Any, schema: str, shown: str, migrations: Sequence[Migration] | None = None) -> None:
    """Create the schema or bring it up to the latest version. The caller holds the lock of the cluster."""
    migrations = MIGRATIONS if migrations is None else migrations
    known = len(migrations)
    _create(connection, schema, shown)
    version = check_usable(connection, schema, shown, migrations)
    if version >= known:
        return
    _check_running(connection, version, migrations, f"the schema {schema!r} at {shown}")
    with connection.transaction():
        for migration in migrations[version:]:
            for statement in migration.statements:
                connection.execute(statement)
        connection.execute(
            """
            INSERT INTO schema_version (version, usable_from) VALUES (%s, %s)
            ON CONFLICT (only_row) DO UPDATE SET version = excluded.version, usable_from = excluded.usable_from
            """,
            (known, migrations[-1].usable_from),
        )


def check_usable(connection: Any, schema: str, shown: str, migrations: Sequence[Migration] | None = None) -> int:
    """The version of the schema, 0 if it is empty. Raises CatalogError if it has become too new for this Penstock."""
    known = len(MIGRATIONS if migrations is None else migrations)
    version, usable_from = _version(connection, schema, shown)
    if usable_from > known:
        raise CatalogError(
            f"the schema {schema!r} at {shown} was changed by a newer Penstock (catalog version {version}, usable from "
            f"{usable_from}, this one knows {known}): use that version or a later one"
        )
    return version


def _check_running(connection: Any, version: int, migrations: Sequence[Migration], location: str) -> None:
    """A migration that takes away waits until no broker runs that needs what it takes."""
    needed = max(each.usable_from for each in migrations[version:])
    if version < _WITH_BROKERS:
        return
    knows = "coalesce(knows, 0)" if version >= _WITH_KNOWLEDGE else "0"
    running = connection.execute(
        f"SELECT node_id FROM broker WHERE is_live AND lease_until > now() AND greatest({knows}, 1) < %s ORDER BY 1",
        (needed,),
    ).fetchall()
    if running:
        nodes = ", ".join(str(node_id) for (node_id,) in running)
        raise CatalogError(
            f"{location} has to be changed so that the running brokers (node {nodes}), which are of an earlier "
            "Penstock, cannot use it any more: upgrade them to the version in between first, or stop all of them"
        )


def _create(connection: Any, schema: str, shown: str) -> None:
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone():
        return
    name = psycopg.sql.Identifier(schema)
    try:
        connection.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(name))
    except psycopg.errors.InsufficientPrivilege as error:
        user = psycopg.sql.Identifier(connection.info.user).as_string(connection)
        raise CatalogError(
            f"there is no schema {schema!r} at {shown}, and this user may not create it. Have an administrator run: "
            f"CREATE SCHEMA {name.as_string(connection)} AUTHORIZATION {user}"
        ) from error


def _version(connection: Any, schema: str, shown: str) -> tuple[int, int]:
    tables = connection.execute(
        """
        SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s
        AND relkind IN ('r', 'p', 'v', 'm', 'f')
        """,
        (schema,),
    ).fetchall()
    if not tables:
        return 0, 0
    if ("schema_version",) not in tables or ("cluster",) not in tables:
        raise CatalogError(
            f"the schema {schema!r} at {shown} holds tables that are not Penstock's: name another one, "
            "for example ?schema=penstock"
        )
    version, usable_from = connection.execute("SELECT version, usable_from FROM schema_version").fetchone()
    return int(version), int(usable_from)
