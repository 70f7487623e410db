"""A connection to PostgreSQL on which every wait is bounded, and which is made again after it was lost.

A server that is away, stopped or behind a network that swallows packets costs a caller seconds, never for ever: libpq
bounds the connecting, the server bounds statements and waits for locks, and `_BoundedConnection` bounds the wait for
any answer on this side too. After a failure to connect, callers are answered with that failure for twice as long as it
took, so that an unreachable server does not take all of the event loop's time.

A server whose settings let it forget what it has confirmed is refused, each time a connection is made.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg

from penstock.catalog.contract import CatalogError

CONNECT_SECONDS = 3
STATEMENT_SECONDS = 3
LOCK_MILLISECONDS = 2500
ANSWER_SECONDS = 4

# What is not said in the address. A peer that vanished is noticed within some ten seconds.
_PARAMETERS: dict[str, str | int] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "fallback_application_name": "penstock",
}

# The server, too, must notice that a broker's machine has vanished, or that the broker was stopped: it holds the lock of
# the cluster for it, which whoever takes over needs. Between the statements of a transaction a broker never waits.
_SETTINGS = {
    "statement_timeout": str(STATEMENT_SECONDS * 1000),
    "lock_timeout": str(LOCK_MILLISECONDS),
    "idle_in_transaction_session_timeout": "2000",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "client_min_messages": "warning",
}

_KEEPS_COMMITS = ("on", "remote_apply")


class NoAnswer(psycopg.OperationalError):  # type: ignore[misc]
    """The server has not answered in time. The connection is of no use any more."""


class _BoundedConnection(psycopg.Connection):  # type: ignore[misc]
    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return super().wait(_until(gen, time.monotonic() + ANSWER_SECONDS), *args, **kwargs)
        except NoAnswer:
            self.pgconn.finish()
            raise


def _until(gen: Generator[Any, Any, Any], deadline: float) -> Generator[Any, Any, Any]:
    """Pass through what a generator of psycopg waits for; psycopg comes back ten times a second at least."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= deadline:
                raise NoAnswer(f"no answer within {ANSWER_SECONDS} seconds")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value


class Session:
    """`conninfo` is libpq's; `shown` is the address as messages may show it, without a password."""

    def __init__(self, conninfo: str, schema: str, shown: str) -> None:
        self.schema = schema
        self.shown = shown
        self._conninfo = conninfo
        self._connection: Any = None
        self._failure = ""
        self._retry_at = 0.0

    @property
    def is_lost(self) -> bool:
        return self._connection is None or self._connection.closed

    def connection(self) -> Any:
        """The open connection, or a new one, in autocommit mode. Raises CatalogError with what to do."""
        if self.is_lost:
            self._connection = self._connect()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> Any:
        started = time.monotonic()
        if started < self._retry_at:
            raise CatalogError(self._failure)
        connection = None
        try:
            given = psycopg.conninfo.conninfo_to_dict(self._conninfo)
            parameters = {name: value for name, value in _PARAMETERS.items() if name not in given}
            connection = _BoundedConnection.connect(
                self._conninfo, autocommit=True, prepare_threshold=None, client_encoding="utf8", **parameters
            )
            self._set_up(connection)
        except psycopg.Error as error:
            if connection is not None:
                connection.close()
            now = time.monotonic()
            self._retry_at = now + 2 * (now - started)
            self._failure = (
                f"cannot reach PostgreSQL at {self.shown}: {one_line(error)} (check the address in --cluster, "
                "libpq's variables such as PGHOST, PGPASSFILE and PGSERVICE, and that the server runs)"
            )
            raise CatalogError(self._failure) from error
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        return connection

    def _set_up(self, connection: Any) -> None:
        for name, value in _SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        path = psycopg.sql.SQL("{}, pg_temp").format(psycopg.sql.Identifier(self.schema)).as_string(connection)
        connection.execute("SELECT set_config('search_path', %s, false)", (path,))
        fsync, synchronous_commit, encoding, is_standby, backend = connection.execute(
            """
            SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('server_encoding'),
                pg_is_in_recovery(), pg_backend_pid()
            """
        ).fetchone()
        if is_standby:
            raise self._refusal("is a standby in recovery", "name its primary in --cluster")
        if backend != connection.info.backend_pid:
            raise self._refusal(
                "is reached through a connection pooler, which may give this broker's session to others",
                "connect to PostgreSQL itself",
            )
        if fsync != "on":
            raise self._refusal("runs with fsync=off and forgets in a crash what it confirmed", "set fsync=on")
        if synchronous_commit not in _KEEPS_COMMITS:
            raise self._refusal(
                f"runs with synchronous_commit={synchronous_commit} for this user and may forget what it confirmed",
                "set synchronous_commit=on",
            )
        if encoding != "UTF8":
            raise self._refusal(f"has a database in the encoding {encoding}", "create one with ENCODING 'UTF8'")

    def _refusal(self, what: str, remedy: str) -> CatalogError:
        return CatalogError(f"PostgreSQL at {self.shown} {what}: {remedy}")


def describe(what: str, session: Session, error: psycopg.Error) -> CatalogError:
    """Why something could not be done with a cluster, and what to do."""
    if isinstance(error, (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)):
        return CatalogError(
            f"there is no cluster in the schema {session.schema!r} at {session.shown}, or one of an earlier Penstock: "
            "correct --cluster, or start a broker once"
        )
    return CatalogError(f"cannot {what} at {session.shown}: {one_line(error)}")


def one_line(error: BaseException) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
