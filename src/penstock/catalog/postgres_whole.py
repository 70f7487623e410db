"""Writes and reads the catalog of a cluster as a whole, while no broker uses it.

A cluster that is made from a data folder appears in one transaction: until it is committed there is no cluster, and
afterwards everything is there. The methods that change a catalog are those of `postgres`; here they are parts of that
transaction. The locks that brokers take when they open a cluster are held meanwhile, so none can open it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import psycopg

from penstock.catalog.contract import CatalogError, replaced_by
from penstock.catalog.postgres import PostgresCatalog, nothing
from penstock.catalog.postgres_incarnation import check_place, is_copy
from penstock.catalog.postgres_ownership import LOCK
from penstock.catalog.postgres_schema import migrate
from penstock.catalog.postgres_session import Session, one_line
from penstock.catalog.postgres_shared import MIGRATING
from penstock.catalog.shared import Kind

T = TypeVar("T")


class NewCluster(NamedTuple):
    cluster_id: str
    incarnation: str
    secret: bytes
    next_producer_id: int
    features: dict[str, int]
    features_epoch: int
    store: str


class WholeCatalog(PostgresCatalog):
    """A catalog whose changes are part of a transaction that somebody else commits."""

    def __init__(self, session: Session, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self._session = session
        self._shown = session.shown
        self._unsettled = self._lost = None

    @property
    def connection(self) -> Any:
        return self._session.connection()

    def next_producer_id(self) -> int:
        return int(self._all("SELECT next_producer_id FROM cluster")[0][0])

    def _change(self, apply: Callable[[Any], None], result: Callable[[Any], T] = nothing, *kinds: Kind) -> T:
        apply(self.connection)
        return result(self.connection)


@contextmanager
def new_cluster(session: Session, made: NewCluster) -> Iterator[WholeCatalog]:
    """Create a cluster. It is there when the block has ended, and is not if the block raises.

    Raises CatalogError with what to do, also when the schema is not empty.
    """
    with _explained(session):
        connection = session.connection()
        with connection.transaction():
            _lock(connection, session)
            # The block may be busy with where the contents come from.
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            found = _cluster(connection, session)
            if found is not None:
                raise CatalogError(
                    f"the schema {session.schema!r} at {session.shown} holds the cluster {found[0]}: name an empty "
                    "schema (?schema=NAME), or remove that cluster first with DROP SCHEMA … CASCADE"
                )
            migrate(connection, session.schema, session.shown)
            connection.execute(
                """
                INSERT INTO cluster (cluster_id, incarnation, secret, next_producer_id, store)
                VALUES (%s, %s, %s, %s, %s)
                """,
                (made.cluster_id, made.incarnation, made.secret, made.next_producer_id, made.store),
            )
            check_place(connection, f"the schema {session.schema!r} at {session.shown}")
            catalog = WholeCatalog(session, made.cluster_id)
            catalog.change_features(replaced_by(made.features))
            connection.execute("UPDATE cluster SET features_epoch = %s", (made.features_epoch,))
            yield catalog
            connection.execute("SET LOCAL statement_timeout = 0")


def find_cluster(session: Session) -> tuple[str, str] | None:
    """The id and the incarnation of the cluster in a schema, if there is one."""
    with _explained(session):
        return _cluster(session.connection(), session)


@contextmanager
def stopped_cluster(session: Session) -> Iterator[WholeCatalog]:
    """The catalog of a cluster while no broker runs, and none can start. Raises CatalogError with what to do."""
    with _explained(session):
        connection = session.connection()
        found = _cluster(connection, session)
        if found is None:
            raise CatalogError(f"there is no cluster in the schema {session.schema!r} at {session.shown}")
        _lock_for_long(connection, session)
        live = connection.execute(
            "SELECT node_id FROM broker WHERE is_live AND lease_until > now() ORDER BY node_id"
        ).fetchall()
        if live and not is_copy(connection):  # of the original, in a dump that is young
            names = ", ".join(str(node_id) for (node_id,) in live)
            raise CatalogError(
                f"brokers of the cluster in the schema {session.schema!r} at {session.shown} are running (node {names})"
                ": stop them first, or wait until the leases of those that were killed have ended"
            )
        yield WholeCatalog(session, found[0])


def _lock(connection: Any, session: Session) -> None:
    try:
        for lock in (LOCK, MIGRATING):
            connection.execute(f"SELECT pg_advisory_xact_lock({lock})", (session.schema,))
    except psycopg.errors.LockNotAvailable:
        raise _in_use(session) from None


def _lock_for_long(connection: Any, session: Session) -> None:
    """Until the session is closed."""
    for lock in (LOCK, MIGRATING):
        if not connection.execute(f"SELECT pg_try_advisory_lock({lock})", (session.schema,)).fetchone()[0]:
            raise _in_use(session)


def _in_use(session: Session) -> CatalogError:
    return CatalogError(f"a broker uses the cluster in the schema {session.schema!r} at {session.shown}: stop it first")


def _cluster(connection: Any, session: Session) -> tuple[str, str] | None:
    table = psycopg.sql.Identifier(session.schema, "cluster").as_string(connection)
    if connection.execute("SELECT to_regclass(%s)::text", (table,)).fetchone()[0] is None:
        return None
    columns = {
        row[0] for row in connection.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass", (table,))
    }
    if "incarnation" not in columns:
        raise CatalogError(
            f"the cluster in the schema {session.schema!r} at {session.shown} is one of an earlier Penstock: start a "
            "broker of this version once"
        )
    row = connection.execute("SELECT cluster_id, incarnation FROM cluster").fetchone()
    return None if row is None else (str(row[0]), str(row[1]))


@contextmanager
def _explained(session: Session) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise CatalogError(f"cannot use the schema {session.schema!r} at {session.shown}: {one_line(error)}") from error
