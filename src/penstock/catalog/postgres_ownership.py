"""One broker owns a cluster in PostgreSQL: it holds an advisory lock, and every change names the owner's epoch.

The lock keeps a second broker from starting. It is held by a connection that does nothing else, so PostgreSQL gives it
back when the broker dies. Safety does not rest on it, because a restart of PostgreSQL drops it under a broker that goes
on: taking the cluster over raises `cluster.owner_epoch`, and a change under an earlier epoch fails.

The records of the cluster are in the data folder of its broker, so the catalog remembers which folder that is.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import psycopg

from penstock.catalog.contract import CatalogError, CatalogLost
from penstock.catalog.postgres_incarnation import check_lineage, check_place, lineage
from penstock.catalog.postgres_session import Session, one_line

LOCK = "hashtextextended('penstock cluster ' || %s, 0)"


@dataclass(frozen=True, slots=True)
class Claim:
    """Who wants to own the cluster."""

    owner: str
    """Where the broker is, for people."""
    folder_id: str
    """What tells its data folder from every other."""
    cluster_id: str | None = None
    """The lineage of the cluster that the folder belongs to, if it belongs to one already."""


class Ownership:
    def __init__(self, session: Session, claim: Claim) -> None:
        self._session = session
        self._claim = claim
        self._locked: object = None
        self._checking = threading.Lock()
        self._is_closed = False
        self.epoch = -1
        self.cluster_id = self.lineage = ""
        self.last_change = ""

    def lock(self) -> None:
        """Keep other brokers out, or raise CatalogError. Waits a moment for one that has just died."""
        connection = self._session.connection()
        schema = self._session.schema
        try:
            connection.execute(f"SELECT pg_advisory_lock({LOCK})", (schema,))
        except psycopg.errors.LockNotAvailable:
            raise CatalogError(
                f"another broker uses the cluster in the schema {schema!r} at {self._session.shown}"
                f"{self._described()}: stop it, or give this broker a schema of its own (?schema=NAME). "
                "If its machine has vanished, PostgreSQL notices within half a minute"
            ) from None
        except psycopg.Error as error:
            raise CatalogError(f"cannot lock the cluster at {self._session.shown}: {one_line(error)}") from error
        self._locked = connection

    def take(self) -> None:
        """Become the owner of a cluster whose tables are there and whose lock is held. Raises CatalogError."""
        connection, claim = self._session.connection(), self._claim
        with connection.transaction():
            location = f"the schema {self._session.schema!r} at {self._session.shown}"
            check_place(connection, location)
            cluster_id, incarnation, folder_id, owner, store = connection.execute(
                "SELECT cluster_id, incarnation, folder_id, owner, store FROM cluster FOR UPDATE"
            ).fetchone()
            check_lineage(claim.cluster_id, cluster_id, incarnation, location)
            if store is not None:
                raise CatalogError(
                    f"the records of the cluster in {location} are in {store}: start the broker with --store {store}"
                )
            if folder_id not in (None, claim.folder_id):
                raise CatalogError(
                    f"the records of the cluster in {location} are in another data folder ({owner}): start the broker "
                    "with that folder, or begin a new cluster in a schema of its own (?schema=NAME)"
                )
            self.epoch, self.last_change = connection.execute(
                """
                UPDATE cluster SET owner_epoch = owner_epoch + 1, owner = %s, folder_id = %s
                RETURNING owner_epoch, last_change
                """,
                (claim.owner, claim.folder_id),
            ).fetchone()
        self.cluster_id = cluster_id
        self.lineage = lineage(cluster_id, incarnation)

    def check(self) -> None:
        """Make sure that the cluster is still ours, and lock it again after PostgreSQL was away.

        Raises CatalogLost when another broker has taken it over, and CatalogError when PostgreSQL cannot tell. May be
        called from any thread.
        """
        with self._checking:
            if not self._is_closed:
                self._check()

    def _check(self) -> None:
        try:
            connection = self._session.connection()
            if connection is not self._locked:
                locked = connection.execute(f"SELECT pg_try_advisory_lock({LOCK})", (self._session.schema,))
                if locked.fetchone()[0]:
                    self._locked = connection
            row = connection.execute("SELECT owner_epoch, owner FROM cluster").fetchone()
        except psycopg.Error as error:
            raise CatalogError(f"cannot check the cluster at {self._session.shown}: {one_line(error)}") from error
        if row is None or row[0] != self.epoch:
            raise self.lost(row[1] if row else "nobody")

    def lost(self, owner: str) -> CatalogLost:
        return CatalogLost(
            f"the cluster in the schema {self._session.schema!r} at {self._session.shown} was taken over ({owner})"
        )

    def close(self) -> None:
        with self._checking:
            self._is_closed = True
            self._session.close()

    def _described(self) -> str:
        try:
            row = self._session.connection().execute("SELECT owner FROM cluster").fetchone()
        except (psycopg.Error, CatalogError):
            return ""
        return f" ({row[0]})" if row else ""
