"""Servers that cannot be reached, or would forget what they confirmed, are refused with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from penstock.catalog.contract import CatalogError
from penstock.catalog.postgres_session import Session
from tests.broker.process import free_port
from tests.catalog.postgres_proxy import PostgresProxy
from tests.postgres import PostgresServer


def connect(server: PostgresServer, port: int | None = None) -> None:
    session = Session(server.url(port=port), "penstock", "the server")
    try:
        session.connection()
    finally:
        session.close()


@contextmanager
def role_with(server: PostgresServer, setting: str) -> Iterator[str]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE hasty LOGIN")
        connection.execute(f"ALTER ROLE hasty SET {setting}")
        try:
            yield server.url(user="hasty")
        finally:
            connection.execute("DROP ROLE hasty")


def test_an_address_where_nobody_listens_is_refused(postgres: PostgresServer) -> None:
    with pytest.raises(CatalogError, match=r"cannot reach PostgreSQL at the server: .*refused.*check the address"):
        connect(postgres, free_port())


@pytest.mark.parametrize(
    ("conninfo", "complaint"),
    [
        ("postgresql://penstock@127.0.0.1:{port}/nothing", 'database "nothing" does not exist'),
        ("postgresql://nobody@127.0.0.1:{port}/postgres", 'role "nobody" does not exist'),
        ("postgresql://penstock@127.0.0.1:{port}/postgres?sslmode=require", "does not support SSL"),
        ("postgresql://penstock@127.0.0.1:{port}/postgres?colour=red", "invalid URI query parameter"),
    ],
)
def test_an_address_that_does_not_lead_to_the_database_is_refused(
    postgres: PostgresServer, conninfo: str, complaint: str
) -> None:
    with pytest.raises(CatalogError, match=complaint):
        Session(conninfo.format(port=postgres.port), "penstock", "the server").connection()


@pytest.mark.parametrize("value", ["off", "local", "remote_write"])
def test_a_user_whose_commits_may_be_forgotten_is_refused(postgres: PostgresServer, value: str) -> None:
    with (
        role_with(postgres, f"synchronous_commit = {value}") as url,
        pytest.raises(CatalogError, match=f"synchronous_commit={value}.*: set synchronous_commit=on"),
    ):
        Session(url, "penstock", "the server").connection()


@pytest.mark.parametrize("value", ["on", "remote_apply"])
def test_commits_that_are_kept_are_enough(postgres: PostgresServer, value: str) -> None:
    with role_with(postgres, f"synchronous_commit = {value}") as url:
        session = Session(url, "penstock", "the server")
        assert session.connection() is session.connection()
        session.close()


def test_a_server_without_fsync_and_a_standby_are_refused() -> None:
    with PostgresServer("-c fsync=off") as server:
        with pytest.raises(CatalogError, match=r"fsync=off.*: set fsync=on"):
            connect(server)
        server.stop()
        server.become_standby()
        server.start()
        with pytest.raises(CatalogError, match="is a standby in recovery: name its primary"):
            connect(server)


def test_a_database_in_another_encoding_is_refused(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
        try:
            with pytest.raises(CatalogError, match="LATIN1"):
                Session(postgres.url().replace("/postgres", "/latin"), "penstock", "the server").connection()
        finally:
            connection.execute("DROP DATABASE latin")


def test_a_pooler_is_refused(postgres: PostgresServer) -> None:
    with PostgresProxy(postgres.port) as proxy:
        connect(postgres, proxy.port)
        proxy.backend_pid = 123456789
        with pytest.raises(CatalogError, match=r"connection pooler.*: connect to PostgreSQL itself"):
            connect(postgres, proxy.port)


def test_waits_are_bounded_on_the_server_too(postgres: PostgresServer) -> None:
    session = Session(postgres.url(), "penstock", "the server")
    connection = session.connection()
    assert connection.execute("SHOW statement_timeout").fetchone() == ("3s",)
    assert connection.execute("SHOW lock_timeout").fetchone() == ("2500ms",)
    assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("2s",)
    assert connection.execute("SHOW tcp_keepalives_idle").fetchone() == ("5",)
    session.close()


def test_after_a_failure_callers_are_answered_with_it_for_a_while(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("penstock.catalog.postgres_session.time.monotonic", lambda: now[0])

    def connect_slowly(*args: object, **kwargs: object) -> None:
        now[0] += 3.0
        raise psycopg.OperationalError("timeout expired")

    session = Session(postgres.url(), "penstock", "the server")
    with monkeypatch.context() as patch:
        patch.setattr("penstock.catalog.postgres_session._BoundedConnection.connect", connect_slowly)
        with pytest.raises(CatalogError, match="timeout expired"):
            session.connection()
    now[0] += 5.9
    with pytest.raises(CatalogError, match="timeout expired"):
        session.connection()
    now[0] += 0.2
    session.connection()
    session.close()
