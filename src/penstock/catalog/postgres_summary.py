"""What commands that are no broker read from a cluster's schema, without owning or changing it."""

from __future__ import annotations

from typing import NamedTuple

import psycopg

from penstock.catalog.contract import CatalogError
from penstock.catalog.postgres_schema import check_usable
from penstock.catalog.postgres_session import Session, describe


class ClusterSummary(NamedTuple):
    cluster_id: str
    claim: str | None
    """What a broker that is alone has named as the place of the records."""
    store: str | None
    """The object store of several brokers."""
    topics: dict[bytes, str]
    incarnation: str
    owned_incarnations: list[str]


def open_usable(conninfo: str, schema: str, shown: str) -> Session:
    """Raises CatalogError with what to do, also for a schema that has become too new for this Penstock."""
    session = Session(conninfo, schema, shown)
    try:
        check_usable(session.connection(), schema, shown)
    except psycopg.Error as error:
        session.close()
        raise describe("read the version of the cluster", session, error) from error
    except CatalogError:
        session.close()
        raise
    return session


def read_summary(session: Session) -> ClusterSummary:
    """Closes the session. Raises CatalogError with what to do."""
    try:
        connection = session.connection()
        row = connection.execute(
            "SELECT cluster_id, folder_id, store, incarnation, owned_incarnations FROM cluster"
        ).fetchone()
        topics = dict(connection.execute("SELECT topic_id, name FROM topic").fetchall())
    except psycopg.Error as error:
        raise describe("read the cluster", session, error) from error
    finally:
        session.close()
    if row is None:
        raise CatalogError(f"the schema {session.schema!r} at {session.shown} is empty: start a broker once")
    cluster_id, claim, store, incarnation, owned = row
    return ClusterSummary(cluster_id, claim, store, topics, incarnation, owned)
