"""Opening files of other versions: older ones are brought up to date, newer and foreign ones refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.catalog.contract import CatalogError, TopicRow
from penstock.catalog.schema import APPLICATION_ID, MIGRATIONS, migrate
from penstock.catalog.sqlite import SqliteCatalog
from penstock.wire.config_resources import ResourceType

# What earlier versions of the catalog looked like. Never edited: they stand for the files that users have.
VERSION_1 = """
CREATE TABLE cluster (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), cluster_id TEXT NOT NULL,
    next_producer_id INTEGER NOT NULL);
CREATE TABLE broker (node_id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL);
CREATE TABLE topic (topic_id BLOB PRIMARY KEY CHECK (length(topic_id) = 16), name TEXT NOT NULL,
    partitions INTEGER NOT NULL CHECK (partitions > 0), leader_epoch INTEGER NOT NULL DEFAULT 0,
    deleting INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE UNIQUE INDEX topic_name ON topic (name) WHERE deleting = 0;
CREATE TABLE topic_config (topic_id BLOB NOT NULL REFERENCES topic ON DELETE CASCADE, name TEXT NOT NULL,
    value TEXT NOT NULL, PRIMARY KEY (topic_id, name)) WITHOUT ROWID;
CREATE TABLE config (resource_type INTEGER NOT NULL, resource_name TEXT NOT NULL, name TEXT NOT NULL,
    value TEXT NOT NULL, PRIMARY KEY (resource_type, resource_name, name)) WITHOUT ROWID;
INSERT INTO cluster VALUES (1, 'abcdefghijklmnopqrstuv', 3000);
INSERT INTO topic (topic_id, name, partitions) VALUES (x'000102030405060708090a0b0c0d0e0f', 'orders', 4);
INSERT INTO topic_config VALUES (x'000102030405060708090a0b0c0d0e0f', 'retention.ms', '7');
INSERT INTO config VALUES (4, '', 'log.retention.ms', '9');
PRAGMA user_version = 1;
"""

VERSION_2 = (
    VERSION_1
    + """
CREATE TABLE feature (name TEXT PRIMARY KEY, level INTEGER NOT NULL) WITHOUT ROWID;
ALTER TABLE cluster ADD COLUMN features_epoch INTEGER NOT NULL DEFAULT 1;
INSERT INTO feature VALUES ('share.version', 0);
UPDATE cluster SET features_epoch = 5;
INSERT INTO broker VALUES (1, 7);
INSERT INTO topic VALUES (x'0f0e0d0c0b0a09080706050403020100', 'payments', 1, 3, 0);
INSERT INTO topic VALUES (x'ffffffffffffffffffffffffffffffff', 'orders', 2, 0, 1);
INSERT INTO topic_config VALUES (x'ffffffffffffffffffffffffffffffff', 'retention.ms', '8');
INSERT INTO config VALUES (32, 'g', 'share.auto.offset.reset', 'earliest');
PRAGMA user_version = 2;
"""
)


def _database(path: Path, script: str, application_id: int = APPLICATION_ID) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(script + f"PRAGMA application_id = {application_id};")
    connection.close()


def _tables(path: Path) -> list[tuple[str, str, str]]:
    """Tables and indexes with their columns, whatever statements made them."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT master.type, master.name, info.name"
            " FROM sqlite_master AS master, pragma_table_xinfo(master.name) AS info ORDER BY 1, 2, 3"
        ).fetchall()


def test_a_file_of_the_first_version_opens_with_all_it_holds(tmp_path: Path) -> None:
    _database(tmp_path / "catalog.db", VERSION_1)
    with closing(SqliteCatalog.open(tmp_path / "catalog.db")) as catalog:
        assert catalog.cluster_id == "abcdefghijklmnopqrstuv"
        assert catalog.topics() == [TopicRow("orders", bytes(range(16)), 4, {"retention.ms": "7"})]
        assert catalog.config_resources(ResourceType.BROKER) == {"": {"log.retention.ms": "9"}}
        assert catalog.allocate_producer_id_block().start == 3000
        assert (catalog.features(), catalog.features_epoch()) == ({}, 1)
        assert catalog._connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_file_of_the_second_version_opens_with_all_that_was_ever_used(tmp_path: Path) -> None:
    _database(tmp_path / "catalog.db", VERSION_2)
    for _ in range(2):
        with closing(SqliteCatalog.open(tmp_path / "catalog.db")) as catalog:
            assert catalog.cluster_id == "abcdefghijklmnopqrstuv"
            assert catalog.topics() == [
                TopicRow("orders", bytes(range(16)), 4, {"retention.ms": "7"}),
                TopicRow("payments", bytes(range(15, -1, -1)), 1, {}),
            ]
            assert catalog.config_resources(ResourceType.BROKER) == {"": {"log.retention.ms": "9"}}
            assert catalog.config_resources(ResourceType.GROUP) == {"g": {"share.auto.offset.reset": "earliest"}}
            assert (catalog.features(), catalog.features_epoch()) == ({"share.version": 0}, 5)
            assert catalog._connection.execute("SELECT next_producer_id FROM cluster").fetchone() == (3000,)


@pytest.mark.parametrize("script", [VERSION_1, VERSION_2], ids=["version 1", "version 2"])
def test_a_file_of_an_earlier_version_gets_the_tables_of_a_new_one(tmp_path: Path, script: str) -> None:
    _database(tmp_path / "old.db", script)
    SqliteCatalog.open(tmp_path / "old.db").close()
    SqliteCatalog.open(tmp_path / "new.db").close()
    assert _tables(tmp_path / "old.db") == _tables(tmp_path / "new.db")


def test_the_configs_of_a_topic_from_an_earlier_version_go_with_it(tmp_path: Path) -> None:
    _database(tmp_path / "catalog.db", VERSION_2)
    with closing(SqliteCatalog.open(tmp_path / "catalog.db")) as catalog:
        catalog.delete_topic(bytes(range(16)))
        assert catalog._connection.execute("SELECT count(*) FROM topic_config").fetchone() == (0,)
        assert catalog._connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_an_older_file_goes_through_the_migrations_it_is_missing(tmp_path: Path) -> None:
    _database(tmp_path / "catalog.db", VERSION_1)
    later = (*MIGRATIONS, ("ALTER TABLE feature ADD COLUMN since TEXT",), ("CREATE TABLE extra (name TEXT)",))
    connection = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    migrate(connection, "catalog.db", later)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(later),)
    connection.execute("INSERT INTO feature VALUES ('share.version', 1, 'today')")
    migrate(connection, "catalog.db", later)
    assert connection.execute("SELECT count(*) FROM extra").fetchone() == (0,)


def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path) -> None:
    _database(tmp_path / "catalog.db", VERSION_1)
    connection = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, "catalog.db", (*MIGRATIONS, ("CREATE TABLE extra (name TEXT)", "THIS IS NO SQL")))
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)


def test_a_file_of_a_newer_penstock_is_refused_and_left_alone(tmp_path: Path) -> None:
    _database(tmp_path / "catalog.db", VERSION_1 + "PRAGMA user_version = 99;")
    with pytest.raises(CatalogError, match=r"written by a newer Penstock \(catalog version 99"):
        SqliteCatalog.open(tmp_path / "catalog.db")
    assert sqlite3.connect(tmp_path / "catalog.db").execute("PRAGMA user_version").fetchone() == (99,)


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    _database(tmp_path / "catalog.db", "CREATE TABLE theirs (a);", application_id=0)
    with pytest.raises(CatalogError, match="not a catalog of Penstock's"):
        SqliteCatalog.open(tmp_path / "catalog.db")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"this is no database, it is a text file" * 100)
    with pytest.raises(CatalogError, match="not a database"):
        SqliteCatalog.open(tmp_path / "catalog.db")
