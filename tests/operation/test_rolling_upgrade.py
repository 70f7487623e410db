"""Brokers of the version before go on while a newer one expands the schema, and keep it from being contracted."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.contract import CatalogError
from penstock.catalog.postgres_schema import MIGRATIONS, Migration, migrate
from penstock.catalog.postgres_session import Session
from penstock.client.sync import Admin, Producer
from tests.cluster.members import Members
from tests.postgres import PostgresServer

EXPANDED = [*MIGRATIONS, Migration(1, ["ALTER TABLE topic ADD COLUMN colour text", "CREATE TABLE palette (name text)"])]
CONTRACTED = [*EXPANDED, Migration(len(EXPANDED), ["DROP TABLE palette"])]


def test_brokers_serve_and_start_on_a_schema_that_a_newer_version_has_expanded(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    members = Members(tmp_path, postgres, 2)
    address, _, schema = members.cluster.partition("?schema=")
    session = Session(address, schema, "the server")
    with members:
        with Admin(bootstrap_servers=members.bootstrap) as admin:
            admin.create_topic("before", 4)
        migrate(session.connection(), schema, "the server", EXPANDED)
        with Admin(bootstrap_servers=members.bootstrap) as admin:
            admin.create_topic("after", 4)
        assert members.brokers[1].stop() == 0
        members.brokers[1].start()  # of the version before, on the newer schema
        with Producer(bootstrap_servers=members.bootstrap) as producer:
            for topic in ("before", "after"):
                for partition in range(4):
                    producer.send(topic, b"x", partition=partition).result()
        with pytest.raises(CatalogError, match=r"running brokers .node 1, 2.*stop all of them"):
            migrate(session.connection(), schema, "the server", CONTRACTED)
        upgraded = "UPDATE broker SET knows = %s WHERE node_id = 1"
        session.connection().execute(upgraded, (len(EXPANDED),))
        with pytest.raises(CatalogError, match=r"running brokers .node 2."):
            migrate(session.connection(), schema, "the server", CONTRACTED)
        assert [broker.stop() for broker in members.brokers.values()] == [0, 0]
    migrate(session.connection(), schema, "the server", CONTRACTED)
    with pytest.raises(CatalogError, match="newer Penstock"):
        migrate(session.connection(), schema, "the server")
    session.close()
