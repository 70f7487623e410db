"""Makes a restored backup a cluster of its own.

It gets a new incarnation, under which its objects are kept. Everything that counts up jumps ahead of what the original
may have reached since the backup: leader epochs, so that clients of the original believe what they are told here and
brokers of the original commit nothing; epochs of brokers; producer ids.
"""

from __future__ import annotations

import os
import uuid
from typing import Any, NamedTuple

import psycopg

from penstock.catalog.contract import CatalogError
from penstock.catalog.postgres_incarnation import place_of
from penstock.catalog.postgres_session import Session, one_line
from penstock.catalog.postgres_whole import stopped_cluster

LEADER_EPOCHS_AHEAD = 1000
_AHEAD = 1_000_000
_CLAIM = "store "  # with which a broker that was alone with its store named it


class Adopted(NamedTuple):
    cluster_id: str
    incarnation: str
    store: str
    owns_objects: bool


def adopt_backup(session: Session, store: str | None, *, owns_objects: bool, in_place: bool) -> Adopted:
    """Make what was restored a cluster of its own, while no broker runs.

    With another store than before, its objects are a copy, and belong to this cluster. Raises CatalogError.
    """
    with stopped_cluster(session) as catalog:
        try:
            connection = catalog.connection
            with connection.transaction():
                return _adopt(connection, session, store, owns_objects=owns_objects, in_place=in_place)
        except psycopg.Error as error:
            raise CatalogError(f"cannot change the cluster at {session.shown}: {one_line(error)}") from error


def _adopt(connection: Any, session: Session, store: str | None, *, owns_objects: bool, in_place: bool) -> Adopted:
    cluster_id, before, owned, remembered, claim, place = connection.execute(
        "SELECT cluster_id, incarnation, owned_incarnations, store, folder_id, place FROM cluster FOR UPDATE"
    ).fetchone()
    if place == place_of(connection) and not in_place:
        raise CatalogError(
            f"the schema {session.schema!r} at {session.shown} holds the cluster {cluster_id} itself, not a copy: "
            "there is nothing to adopt. If PostgreSQL's own files were restored, say so with --in-place"
        )
    if remembered is None and (claim or "").startswith(_CLAIM):
        remembered = claim.removeprefix(_CLAIM)
    if remembered is None:
        raise CatalogError(
            f"the cluster at {session.shown} keeps its records in the data folder of a broker, not in an object store: "
            "restore that folder together with the schema, and start its broker"
        )
    used = (store or remembered).rstrip("/")
    owns = owns_objects or used != remembered
    incarnation = os.urandom(6).hex()
    connection.execute(
        """
        UPDATE cluster SET incarnation = %s, owned_incarnations = %s, place = %s, store = %s, folder_id = NULL,
            owner = '', owner_epoch = owner_epoch + %s, last_change = %s, version = version + %s,
            next_broker_epoch = next_broker_epoch + %s, next_producer_id = next_producer_id + %s
        """,
        (
            incarnation,
            [*owned, before] if owns else [],
            place_of(connection),
            used,
            _AHEAD,
            uuid.uuid4().hex,
            _AHEAD,
            _AHEAD,
            _AHEAD,
        ),
    )
    connection.execute("UPDATE broker SET is_live = false, is_draining = false, session_pid = NULL")
    connection.execute("UPDATE partition SET leader = -1, leader_epoch = leader_epoch + %s", (LEADER_EPOCHS_AHEAD,))
    return Adopted(cluster_id, incarnation, used, owns)
