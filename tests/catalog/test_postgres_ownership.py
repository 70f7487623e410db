"""A cluster has one broker and one data folder, and a broker that lost it is told."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from penstock.catalog.contract import CatalogError, CatalogLost
from penstock.catalog.postgres_ownership import Claim
from tests.catalog.postgres_catalogs import CLAIM, new_schema, open_postgres
from tests.catalog.postgres_proxy import PostgresProxy
from tests.postgres import PostgresServer

OTHER = Claim("another test", "folder-2")


def take_over(server: PostgresServer, schema: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        name = psycopg.sql.Identifier(schema)
        connection.execute(psycopg.sql.SQL("UPDATE {}.cluster SET owner_epoch = owner_epoch + 1").format(name))


def test_a_second_broker_is_refused_until_the_first_has_gone(postgres: PostgresServer) -> None:
    schema = new_schema()
    first = open_postgres(postgres, schema)
    with pytest.raises(CatalogError, match=r"another broker uses the cluster .*a test.*: stop it, or give this broker"):
        open_postgres(postgres, schema)
    first.close()
    open_postgres(postgres, schema).close()


def test_a_broker_that_started_is_the_owner_under_a_new_epoch(postgres: PostgresServer) -> None:
    schema = new_schema()
    first = open_postgres(postgres, schema)
    first.close()
    second = open_postgres(postgres, schema)
    assert second.ownership.epoch == first.ownership.epoch + 1
    second.ownership.check()
    second.close()


def test_a_folder_of_another_cluster_is_refused(postgres: PostgresServer) -> None:
    schema = new_schema()
    with pytest.raises(CatalogError, match=r"folder belongs to the cluster abc.*: correct --cluster or --data"):
        open_postgres(postgres, schema, replace(CLAIM, cluster_id="abc"))
    catalog = open_postgres(postgres, schema)
    catalog.close()
    open_postgres(postgres, schema, replace(CLAIM, cluster_id=catalog.cluster_id)).close()


def test_another_folder_for_the_cluster_is_refused(postgres: PostgresServer) -> None:
    schema = new_schema()
    open_postgres(postgres, schema).close()
    with pytest.raises(CatalogError, match=r"in another data folder .a test.: start the broker with that folder"):
        open_postgres(postgres, schema, OTHER)
    open_postgres(postgres, schema).close()


def test_a_refused_broker_leaves_the_lock_to_others(postgres: PostgresServer) -> None:
    schema = new_schema()
    open_postgres(postgres, schema).close()
    with pytest.raises(CatalogError) as refusal:
        open_postgres(postgres, schema, OTHER)
    open_postgres(postgres, schema).close()
    assert "another data folder" in str(refusal.value)


def test_a_check_takes_the_lock_again_after_the_connection_was_lost(postgres: PostgresServer) -> None:
    schema = new_schema()
    with PostgresProxy(postgres.port) as proxy:
        catalog = open_postgres(postgres, schema, port=proxy.port)
        proxy.cut_all()
        with pytest.raises(CatalogError, match="cannot check"):
            catalog.ownership.check()
        catalog.ownership.check()
        with pytest.raises(CatalogError, match="another broker uses the cluster"):
            open_postgres(postgres, schema)
        catalog.close()


def test_a_check_finds_that_another_broker_has_taken_over(postgres: PostgresServer) -> None:
    schema = new_schema()
    catalog = open_postgres(postgres, schema)
    take_over(postgres, schema)
    with pytest.raises(CatalogLost, match="was taken over"):
        catalog.ownership.check()
    catalog.close()


def test_a_check_after_the_end_asks_nobody(postgres: PostgresServer) -> None:
    catalog = open_postgres(postgres, new_schema())
    catalog.close()
    catalog.ownership.check()
    assert catalog.ownership._session.is_lost
