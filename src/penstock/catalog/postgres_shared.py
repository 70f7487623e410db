"""A schema of a PostgreSQL database that several brokers use at the same time: `shared.SharedCatalog`.

**Changes.** Each is one transaction, as in `postgres`, and begins by locking the row of the cluster: changes follow
each other, whoever makes them. Each raises `cluster.version`, notes it for the kinds of things that changed, and sends
a NOTIFY, so that brokers which listen hear of it before they look.

**Unknown outcomes.** A change has a name, which it leaves in `recent_change`. When the connection is lost during
COMMIT, the change is repeated: under the lock it finds its name, and was made, or does not, and is made now. If
PostgreSQL stays away for too long, the change is refused. Should it have been made after all, the broker hears of it as
it hears of the changes of others; nobody has to stop.

**Going back.** A version that is lower than one that was seen means that PostgreSQL has forgotten what it confirmed: a
backup was restored, or a replica was promoted that lagged behind. That raises CatalogLost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, Self

import psycopg

from penstock.catalog.contract import SECRET_BYTES, CatalogError, CatalogLost
from penstock.catalog.identity import new_cluster_id
from penstock.catalog.leases import NodeIdInUse, NotRegistered
from penstock.catalog.postgres import PostgresCatalog
from penstock.catalog.postgres_incarnation import check_lineage, check_place, lineage
from penstock.catalog.postgres_schema import MIGRATIONS, check_usable, migrate
from penstock.catalog.postgres_session import Session, one_line
from penstock.catalog.shared import BrokerRow, Changes, Direction, HostAndPort, Kind, LeaderEpoch, Move, PartitionRow

LEASE_SECONDS = 9.0

MIGRATING = "hashtextextended('penstock migrates ' || %s, 0)"


class SharedPostgresCatalog(PostgresCatalog):
    """See `shared.SharedCatalog`. `on_lost` is called with CatalogLost, which every call raises from then on."""

    def __init__(self, session: Session, on_lost: Callable[[CatalogLost], None], lease_seconds: float) -> None:
        self._session = session
        self._shown = session.shown
        self._on_lost = on_lost
        self._unsettled: str | None = None
        self._lost: CatalogLost | None = None
        self._last_change = ""
        self.lease_seconds = lease_seconds
        self.cluster_id, incarnation = self._read("SELECT cluster_id, incarnation FROM cluster")[0]
        self.lineage = lineage(self.cluster_id, incarnation)

    @classmethod
    def open_shared(
        cls,
        conninfo: str,
        schema: str,
        shown: str,
        *,
        store: str,
        cluster_id: str | None = None,
        on_lost: Callable[[CatalogLost], None],
        lease_seconds: float = LEASE_SECONDS,
    ) -> Self:
        """Open or create the cluster in a schema. Raises CatalogError with what to do.

        `store` is where the caller wants to keep records; a new cluster remembers it from `use_store` on, and is in no
        store until then. `cluster_id` is the lineage of the cluster that the data folder belongs to, if it belongs to
        one already.
        """
        session = Session(conninfo, schema, shown)
        try:
            connection = session.connection()
            with connection.transaction():
                connection.execute(f"SELECT pg_advisory_xact_lock({MIGRATING})", (schema,))
                migrate(connection, schema, shown)
                connection.execute(
                    "INSERT INTO cluster (cluster_id, secret) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                    (new_cluster_id(), os.urandom(SECRET_BYTES)),
                )
                _check_cluster(connection, _place(session), store, cluster_id)
            return cls(session, on_lost, lease_seconds)
        except psycopg.Error as error:
            session.close()
            raise CatalogError(f"cannot use the schema {schema!r} at {shown}: {one_line(error)}") from error
        except BaseException:
            session.close()
            raise

    def close(self) -> None:
        self._session.close()

    def use_store(self, store: str) -> None:
        """Remember where the records are, unless it is known. Call it for a store that was found to work.

        Raises CatalogError if another broker was faster, with another store.
        """
        [(found,)] = self._read(
            "UPDATE cluster SET store = coalesce(store, %s), folder_id = NULL RETURNING store", (store,)
        )
        _check_store(_place(self._session), found, store)

    def clock_seconds(self) -> float:
        """What time it is there, in seconds since 1970."""
        return float(self._all("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0])

    # -- versions --------------------------------------------------------------------------------------------------

    def version(self) -> int:
        return int(self._all("SELECT version FROM cluster")[0][0])

    def changes_since(self, version: int) -> Changes:
        """Raises CatalogLost if there never was such a version."""
        found, kinds = self._all(
            "SELECT version, ARRAY(SELECT kind FROM change WHERE change.version > %s) FROM cluster", (version,)
        )[0]
        if found < version:
            raise self._lose(
                CatalogLost(
                    f"the catalog at {self._shown} is at version {found}, and this broker has seen {version}: it was "
                    "restored from a backup, or PostgreSQL failed over to a replica that lagged behind"
                )
            )
        return Changes(found, frozenset(Kind(kind) for kind in kinds))

    # -- brokers ---------------------------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerRow]:
        return read_brokers(self._all)

    def register_broker(
        self, node_id: int, instance_id: str, rack: str | None, endpoints: Mapping[str, HostAndPort]
    ) -> int:
        """Begin a lease. Partitions that the broker led before are led by it again, under higher epochs.

        Raises NodeIdInUse if another instance holds a lease under this node id, and CatalogLost if a newer Penstock
        has changed the schema meanwhile, so that this broker cannot use it any more: one that had no lease, because it
        was stopped, kept nobody from that.
        """

        def apply(connection: Any) -> None:
            try:
                check_usable(connection, self._session.schema, self._shown)
            except CatalogError as error:
                raise CatalogLost(str(error)) from error
            row = connection.execute(
                "SELECT instance_id, endpoints FROM broker WHERE node_id = %s AND is_live AND lease_until > now()",
                (node_id,),
            ).fetchone()
            if row is not None and row[0] != instance_id:
                addresses = ", ".join(f"{host}:{port}" for host, port in row[1].values())
                raise NodeIdInUse(
                    f"node id {node_id} is in use by a broker at {addresses or 'unknown addresses'}: choose another "
                    f"(-c node.id=N), or stop that broker. If it has died with its data folder, its lease ends within "
                    f"{self.lease_seconds:g} seconds"
                )
            connection.execute("UPDATE cluster SET next_broker_epoch = next_broker_epoch + 1")
            connection.execute(
                """
                INSERT INTO broker (node_id, epoch, instance_id, rack, endpoints, is_live, lease_until, knows)
                SELECT %s, next_broker_epoch - 1, %s, %s, %s, true, now() + make_interval(secs => %s), %s FROM cluster
                ON CONFLICT (node_id) DO UPDATE SET epoch = excluded.epoch, instance_id = excluded.instance_id,
                    rack = excluded.rack, endpoints = excluded.endpoints, is_live = true, is_draining = false,
                    lease_until = excluded.lease_until, knows = excluded.knows, session_pid = NULL, session_start = NULL
                """,
                (node_id, instance_id, rack, json.dumps(endpoints), self.lease_seconds, len(MIGRATIONS)),
            )
            raise_epochs_of(connection, [node_id])

        return self._change(
            apply,
            lambda connection: int(
                connection.execute("SELECT epoch FROM broker WHERE node_id = %s", (node_id,)).fetchone()[0]
            ),
            Kind.BROKERS,
            Kind.PARTITIONS,
        )

    def announce_broker(self, node_id: int, epoch: int, endpoints: Mapping[str, HostAndPort]) -> None:
        """Say where a broker that has registered is reached. Raises CatalogError if it is not registered any more."""

        def apply(connection: Any) -> None:
            done = connection.execute(
                "UPDATE broker SET endpoints = %s WHERE node_id = %s AND epoch = %s AND is_live",
                (json.dumps(endpoints), node_id, epoch),
            ).rowcount
            if not done:
                raise _not_registered(node_id, epoch)

        self._change(apply, lambda connection: None, Kind.BROKERS)

    def unregister_broker(self, node_id: int, epoch: int) -> None:
        def apply(connection: Any) -> None:
            connection.execute(
                "UPDATE broker SET is_live = false, session_pid = NULL WHERE node_id = %s AND epoch = %s",
                (node_id, epoch),
            )

        self._change(apply, lambda connection: None, Kind.BROKERS)

    # -- partitions ------------------------------------------------------------------------------------------------

    def partitions(self) -> list[PartitionRow]:
        return read_partitions(self._all)

    def direct_partitions(self, directions: Collection[Direction]) -> None:
        """See `leases.MemberCatalog`."""

        def apply(connection: Any) -> None:
            ordered = sorted(directions, key=lambda each: each[:2])
            connection.execute(
                """
                WITH directed AS (
                    SELECT * FROM unnest(%s::bytea[], %s::integer[], %s::text[], %s::text[], %s::integer[])
                        AS directed (topic_id, partition_index, replicas, replaced, elected)
                ), locked AS (
                    SELECT topic_id, partition_index FROM partition JOIN directed USING (topic_id, partition_index)
                    ORDER BY topic_id, partition_index FOR UPDATE OF partition
                )
                UPDATE partition SET replicas = coalesce(directed.replicas::integer[], partition.replicas),
                    replaced = coalesce(directed.replaced::integer[], partition.replaced), elected = directed.elected
                FROM directed JOIN locked USING (topic_id, partition_index)
                WHERE partition.topic_id = directed.topic_id AND partition.partition_index = directed.partition_index
                """,
                (
                    [each.topic_id for each in ordered],
                    [each.partition_index for each in ordered],
                    [None if each.replicas is None else _array(each.replicas) for each in ordered],
                    [None if each.replaced is None else _array(each.replaced) for each in ordered],
                    [each.elected for each in ordered],
                ),
            )

        self._change(apply, lambda connection: None, Kind.PARTITIONS)

    def hand_over(self, node_id: int, epoch: int, moves: Collection[Move]) -> None:
        """See `leases.MemberReader`."""

        def apply(connection: Any) -> None:
            if not connection.execute(
                "SELECT 1 FROM broker WHERE node_id = %s AND epoch = %s AND is_live", (node_id, epoch)
            ).fetchone():
                raise _not_registered(node_id, epoch)
            write_moves(connection, moves, of_leader=node_id)

        self._change(apply, lambda connection: None, Kind.PARTITIONS)

    def raise_leader_epochs(self, node_id: int, epochs: Collection[LeaderEpoch]) -> None:
        def apply(connection: Any) -> None:
            for topic_id, index, epoch in sorted(epochs):
                connection.execute(
                    """
                    UPDATE partition SET leader_epoch = %s
                    WHERE topic_id = %s AND partition_index = %s AND leader = %s AND leader_epoch < %s
                    """,
                    (epoch, topic_id, index, node_id, epoch),
                )

        self._change(apply, lambda connection: None, Kind.PARTITIONS)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _advance(self, connection: Any, change: str) -> bool:
        """Lock the cluster; False if an attempt before this one has made the change."""
        connection.execute("SELECT 1 FROM cluster FOR UPDATE")
        made = connection.execute(
            "INSERT INTO recent_change (change) VALUES (%s) ON CONFLICT DO NOTHING", (change,)
        ).rowcount
        if made:
            connection.execute("DELETE FROM recent_change WHERE made_at < now() - interval '1 hour'")
        return bool(made)

    def _note(self, connection: Any, kinds: Collection[Kind]) -> None:
        note_changes(connection, self._session.schema, kinds)

    def _check_usable(self) -> None:
        if self._lost is not None:
            raise self._lost
        self._unsettled = None


def channel(schema: str) -> str:
    """What brokers LISTEN on. PostgreSQL cuts names after 63 bytes, so a schema's own name may be too long."""
    return f"penstock_{schema.encode().hex()[:50]}"


def note_changes(connection: Any, schema: str, kinds: Collection[Kind]) -> None:
    """Raise the version, say for what, and wake those who listen when the transaction commits."""
    if not kinds:
        return
    connection.execute(
        """
        WITH raised AS (UPDATE cluster SET version = version + 1 RETURNING version)
        INSERT INTO change (kind, version) SELECT kind, version FROM raised, unnest(%s::integer[]) AS kind
        ON CONFLICT (kind) DO UPDATE SET version = excluded.version
        """,
        ([int(kind) for kind in kinds],),
    )
    connection.execute("SELECT pg_notify(%s, '')", (channel(schema),))


def raise_epochs_of(connection: Any, node_ids: Collection[int]) -> None:
    """Whatever these brokers have under way is fenced."""
    connection.execute(
        """
        WITH led AS (
            SELECT topic_id, partition_index FROM partition WHERE leader = ANY(%s)
            ORDER BY topic_id, partition_index FOR UPDATE
        )
        UPDATE partition SET leader_epoch = leader_epoch + 1 FROM led
        WHERE partition.topic_id = led.topic_id AND partition.partition_index = led.partition_index
        """,
        (list(node_ids),),
    )


def write_moves(connection: Any, moves: Collection[Move], of_leader: int | None = None) -> None:
    """One statement, with the rows locked in the order in which commits lock them.

    An election is over with the next leader, a reassignment when one of the new replicas leads.
    """
    ordered = sorted(moves)
    connection.execute(
        """
        WITH moved AS (
            SELECT * FROM unnest(%s::bytea[], %s::integer[], %s::integer[], %s::text[])
                AS moved (topic_id, partition_index, leader, replicas)
        ), locked AS (
            SELECT topic_id, partition_index FROM partition JOIN moved USING (topic_id, partition_index)
            WHERE %s::integer IS NULL OR partition.leader = %s
            ORDER BY topic_id, partition_index FOR UPDATE OF partition
        )
        UPDATE partition SET leader = moved.leader, replicas = moved.replicas::integer[], elected = -1,
            replaced = CASE WHEN moved.leader = ANY(moved.replicas::integer[]) THEN '{}' ELSE partition.replaced END,
            leader_epoch = leader_epoch + CASE WHEN partition.leader = moved.leader THEN 0 ELSE 1 END
        FROM moved JOIN locked USING (topic_id, partition_index)
        WHERE partition.topic_id = moved.topic_id AND partition.partition_index = moved.partition_index
        """,
        (
            [move.topic_id for move in ordered],
            [move.partition_index for move in ordered],
            [move.placement.leader for move in ordered],
            [_array(move.placement.replicas) for move in ordered],
            of_leader,
            of_leader,
        ),
    )


def _array(numbers: Collection[int]) -> str:
    """An array of PostgreSQL as text: arrays of one parameter have to be equally long."""
    return "{" + ",".join(map(str, numbers)) + "}"


def read_brokers(read: Callable[[str], list[Any]]) -> list[BrokerRow]:
    return [
        BrokerRow(
            node_id,
            epoch,
            instance_id,
            rack,
            {name: HostAndPort(host, port) for name, (host, port) in endpoints.items()},
            is_live,
        )
        for node_id, epoch, instance_id, rack, endpoints, is_live in read(
            "SELECT node_id, epoch, instance_id, rack, endpoints, is_live FROM broker ORDER BY node_id"
        )
    ]


def read_partitions(read: Callable[[str], list[Any]]) -> list[PartitionRow]:
    return [
        PartitionRow(topic_id, index, leader, epoch, tuple(replicas), elected, tuple(replaced))
        for topic_id, index, leader, epoch, replicas, elected, replaced in read(
            """
            SELECT topic_id, partition_index, leader, leader_epoch, replicas, elected, replaced FROM partition
            ORDER BY topic_id, partition_index
            """
        )
    ]


def _check_cluster(connection: Any, location: str, store: str, cluster_id: str | None) -> None:
    check_place(connection, location)
    found, incarnation, found_store, folder_id, owner = connection.execute(
        "SELECT cluster_id, incarnation, store, folder_id, owner FROM cluster"
    ).fetchone()
    check_lineage(cluster_id, found, incarnation, location)
    if folder_id not in (None, "store " + store):  # the latter of a broker that was alone with its object store
        raise CatalogError(
            f"the cluster in {location} has one broker, which keeps the records in its data folder ({owner}): begin a "
            "new cluster in a schema of its own (?schema=NAME)"
        )
    if found_store is not None:
        _check_store(location, found_store, store)


def _check_store(location: str, found: str, store: str) -> None:
    if found != store:
        raise CatalogError(f"the records of the cluster in {location} are in {found}, not in {store}: correct --store")


def _place(session: Session) -> str:
    return f"the schema {session.schema!r} at {session.shown}"


def _not_registered(node_id: int, epoch: int) -> NotRegistered:
    return NotRegistered(f"broker {node_id} is not registered under epoch {epoch} any more")
