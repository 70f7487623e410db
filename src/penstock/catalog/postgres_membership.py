"""Leases of brokers in PostgreSQL: renewing one's own, and ending those of brokers that are gone.

Calls block, on a connection of their own, and are made by a thread. A renewal is one statement that touches one row
and raises no version. Ending a lease is one transaction, which any broker may run: it fences first, by raising the
epochs of all partitions that the broker led, and gives them to others. Whoever decides who gets them is handed in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import psycopg

from penstock.catalog.contract import CatalogError
from penstock.catalog.leases import Decide, Renewal, Standing
from penstock.catalog.postgres_session import Session, describe
from penstock.catalog.postgres_shared import (
    channel,
    note_changes,
    read_brokers,
    read_partitions,
    write_moves,
)
from penstock.catalog.shared import Kind, Move

_EXPIRING = "hashtextextended('penstock expires ' || %s, 0)"

_TAKES_OVER = """
SELECT 1 FROM broker
WHERE node_id <> %s AND is_live AND lease_until > now() AND NOT is_draining AND endpoints <> '{}' LIMIT 1
"""


class PostgresMembership:
    """See `leases.Leases`."""

    def __init__(self, conninfo: str, schema: str, shown: str, lease_seconds: float) -> None:
        self._session = Session(conninfo, schema, shown)
        self._lease_seconds = lease_seconds
        self._listening: object = None

    def close(self) -> None:
        self._session.close()

    @property
    def session(self) -> Session:
        """The connection, for other uses in the same thread."""
        return self._session

    def wait(self, seconds: float) -> bool:
        connection = self._connection()
        try:
            return any(connection.notifies(timeout=seconds, stop_after=1))
        except psycopg.Error as error:
            raise self._away("wait for changes", error) from error

    def renew(self, node_id: int, epoch: int) -> Renewal | None:
        connection = self._connection()
        try:
            row = connection.execute(
                """
                UPDATE broker SET lease_until = now() + make_interval(secs => %s), session_pid = pg_backend_pid(),
                    session_start = (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())
                WHERE node_id = %s AND epoch = %s AND is_live RETURNING is_draining
                """,
                (self._lease_seconds, node_id, epoch),
            ).fetchone()
            notified = any(connection.notifies(timeout=0))
        except psycopg.Error as error:
            raise self._away("renew the lease", error) from error
        return None if row is None else Renewal(row[0], notified)

    def standings(self) -> list[Standing]:
        connection = self._connection()
        try:
            rows = connection.execute(
                """
                SELECT node_id, epoch, is_live, is_draining, extract(epoch FROM lease_until - now())::float8,
                    session_pid IS NULL OR EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = session_pid
                        AND backend_start = session_start)
                FROM broker ORDER BY node_id
                """
            ).fetchall()
        except psycopg.Error as error:
            raise self._away("read the leases", error) from error
        return [Standing(*row) for row in rows]

    def settle(self, refusing: Collection[tuple[int, int]], decide: Decide, *, ends_late: bool = True) -> list[int]:
        """Nothing is ended for one lease after a start of PostgreSQL: brokers could not renew while it was away.
        Nothing happens while another broker does the same.
        """
        connection = self._connection()
        try:
            with connection.transaction():
                if not connection.execute(
                    f"SELECT pg_try_advisory_xact_lock({_EXPIRING})", (self._session.schema,)
                ).fetchone()[0]:
                    return []
                connection.execute("SELECT 1 FROM cluster FOR UPDATE")
                ended = self._end_leases(connection, refusing, ends_late)
                moves = self._decide(connection, decide)
                if moves:
                    write_moves(connection, moves)
                kinds = ([Kind.BROKERS] if ended else []) + ([Kind.PARTITIONS] if moves else [])
                note_changes(connection, self._session.schema, kinds)
                return ended
        except psycopg.Error as error:
            raise self._away("end leases", error) from error

    def drain(self, node_id: int, *, even_the_last: bool = True) -> None:
        connection = self._connection()
        try:
            with connection.transaction():
                connection.execute("SELECT 1 FROM cluster FOR UPDATE")
                done = connection.execute(
                    "UPDATE broker SET is_draining = true WHERE node_id = %s AND is_live", (node_id,)
                ).rowcount
                if not done:
                    raise CatalogError(f"no broker with node id {node_id} is running: see 'penstock cluster status'")
                if not even_the_last and not connection.execute(_TAKES_OVER, (node_id,)).fetchone():
                    raise CatalogError(
                        f"broker {node_id} cannot hand over, because no other broker is running that is not draining "
                        "too: start one, or stop this one all the same with --force, and nobody serves its partitions"
                    )
                note_changes(connection, self._session.schema, [Kind.BROKERS])
        except psycopg.Error as error:
            raise self._away("drain a broker", error) from error

    # -- inside ----------------------------------------------------------------------------------------------------

    def _connection(self) -> Any:
        connection = self._session.connection()
        if connection is not self._listening:
            try:
                name = psycopg.sql.Identifier(channel(self._session.schema))
                connection.execute(psycopg.sql.SQL("LISTEN {}").format(name))
            except psycopg.Error as error:
                raise self._away("listen for changes", error) from error
            self._listening = connection
        return connection

    def _end_leases(self, connection: Any, refusing: Collection[tuple[int, int]], ends_late: bool) -> list[int]:
        ended = connection.execute(
            """
            UPDATE broker SET is_live = false, session_pid = NULL WHERE is_live AND (
                (%s AND lease_until < now() AND now() > pg_postmaster_start_time() + make_interval(secs => %s))
                OR ((node_id, epoch) IN (SELECT * FROM unnest(%s::integer[], %s::bigint[]))
                    AND session_pid IS NOT NULL
                    AND NOT EXISTS (SELECT 1 FROM pg_stat_activity
                        WHERE pid = session_pid AND backend_start = session_start))
            ) RETURNING node_id
            """,
            (ends_late, self._lease_seconds, [node_id for node_id, _ in refusing], [epoch for _, epoch in refusing]),
        ).fetchall()
        return sorted(node_id for (node_id,) in ended)

    def _decide(self, connection: Any, decide: Decide) -> Sequence[Move]:
        def read(query: str) -> list[Any]:
            found: list[Any] = connection.execute(query).fetchall()
            return found

        draining = frozenset(node_id for (node_id,) in read("SELECT node_id FROM broker WHERE is_draining"))
        return decide(read_brokers(read), read_partitions(read), draining)

    def _away(self, what: str, error: psycopg.Error) -> CatalogError:
        return describe(what, self._session, error)
