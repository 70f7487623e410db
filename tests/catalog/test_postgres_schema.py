"""Opening schemas of other versions and other owners: what cannot be used is refused with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.catalog.contract import CatalogError
from penstock.catalog.postgres_schema import MIGRATIONS, Migration, migrate
from penstock.catalog.postgres_session import Session
from tests.catalog.postgres_catalogs import new_schema, open_postgres
from tests.catalog.test_contract import ID
from tests.postgres import PostgresServer

KNOWN = len(MIGRATIONS)
_NEWER = rf"newer Penstock .catalog version {KNOWN + 2}, usable from {KNOWN + 2}, this one knows {KNOWN}"
EXPAND = Migration(1, ["ALTER TABLE topic ADD COLUMN colour text"])
CONTRACT = Migration(KNOWN + 2, ["ALTER TABLE topic DROP COLUMN colour"])


@pytest.fixture
def schema() -> str:
    return new_schema()


@pytest.fixture
def connection(postgres: PostgresServer, schema: str) -> Iterator[Any]:
    session = Session(postgres.url(), schema, "the server")
    yield session.connection()
    session.close()


def version(connection: Any) -> tuple[int, int]:
    found: tuple[int, int] = connection.execute("SELECT version, usable_from FROM schema_version").fetchone()
    return found


def test_an_older_schema_is_brought_up_to_date_and_keeps_its_rows(
    postgres: PostgresServer, connection: Any, schema: str
) -> None:
    catalog = open_postgres(postgres, schema)
    catalog.create_topic("orders", ID, 3, {})
    catalog.close()
    migrate(connection, schema, "the server", [*MIGRATIONS, EXPAND])
    assert connection.execute("SELECT name, colour FROM topic").fetchone() == ("orders", None)
    assert version(connection) == (KNOWN + 1, 1)


def test_a_schema_that_a_newer_version_only_added_to_is_used(
    postgres: PostgresServer, connection: Any, schema: str
) -> None:
    migrate(connection, schema, "the server", [*MIGRATIONS, EXPAND])
    catalog = open_postgres(postgres, schema)
    catalog.create_topic("orders", ID, 3, {})
    assert [row.name for row in catalog.topics()] == ["orders"]
    catalog.close()
    assert version(connection) == (KNOWN + 1, 1)


def test_a_schema_that_a_newer_version_took_from_is_refused(
    postgres: PostgresServer, connection: Any, schema: str
) -> None:
    migrate(connection, schema, "the server", [*MIGRATIONS, EXPAND, CONTRACT])
    with pytest.raises(CatalogError, match=_NEWER):
        open_postgres(postgres, schema)
    assert version(connection) == (KNOWN + 2, KNOWN + 2)


def test_a_migration_that_fails_leaves_the_version_before_it(connection: Any, schema: str) -> None:
    migrate(connection, schema, "the server")
    with pytest.raises(psycopg.Error):
        migrate(connection, schema, "the server", [*MIGRATIONS, EXPAND, Migration(KNOWN + 2, ["DROP TABLE nothing"])])
    assert version(connection) == (KNOWN, 1)
    assert connection.execute("SELECT * FROM topic").description[-1].name == "partitions"


def test_a_schema_with_tables_of_somebody_else_is_refused(
    postgres: PostgresServer, connection: Any, schema: str
) -> None:
    connection.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(schema)))
    connection.execute("CREATE TABLE invoices (n integer)")
    with pytest.raises(CatalogError, match="holds tables that are not Penstock's: name another one"):
        open_postgres(postgres, schema)
    assert connection.execute("SELECT count(*) FROM invoices").fetchone() == (0,)


def test_a_user_needs_no_more_than_a_schema_of_its_own(postgres: PostgresServer, connection: Any, schema: str) -> None:
    connection.execute("CREATE ROLE plain LOGIN")
    try:
        session = Session(postgres.url(user="plain"), schema, "the server")
        with pytest.raises(
            CatalogError, match=r'an administrator run: CREATE SCHEMA .* AUTHORIZATION "plain"'
        ) as refusal:
            migrate(session.connection(), schema, "the server")
        connection.execute(str(refusal.value).partition("run: ")[2])
        migrate(session.connection(), schema, "the server")
        session.close()
        assert version(connection) == (KNOWN, 1)
    finally:
        connection.execute("DROP OWNED BY plain CASCADE")
        connection.execute("DROP ROLE plain")
