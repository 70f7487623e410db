"""What only the SQLite engine does: its file, its durability, and what it says when the file cannot be used."""

from __future__ import annotations

import base64
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.catalog.contract import CatalogError, TopicRow, replaced_by
from penstock.catalog.shared import Kind, Placement
from penstock.catalog.sqlite import SqliteCatalog

ID = bytes(range(16))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.db"


@pytest.fixture
def catalog(path: Path) -> Iterator[SqliteCatalog]:
    with closing(SqliteCatalog.open(path)) as catalog:
        yield catalog


def test_a_new_cluster_gets_an_id_of_kafkas_form(catalog: SqliteCatalog) -> None:
    assert len(catalog.cluster_id) == 22
    assert len(base64.urlsafe_b64decode(catalog.cluster_id + "==")) == 16
    assert not catalog.cluster_id.startswith("-")


def test_two_clusters_have_two_ids(catalog: SqliteCatalog, tmp_path: Path) -> None:
    with closing(SqliteCatalog.open(tmp_path / "other.db")) as other:
        assert other.cluster_id != catalog.cluster_id


def test_a_deleted_topic_leaves_no_rows_behind(catalog: SqliteCatalog, path: Path) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "1"})
    catalog.delete_topic(ID)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM topic_config").fetchone() == (0,)


def test_it_is_written_through_to_the_disk_before_it_answers(catalog: SqliteCatalog) -> None:
    connection = catalog._connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_what_was_answered_survives_a_kill(path: Path) -> None:
    program = (
        "import sys; from penstock.catalog.sqlite import SqliteCatalog\n"
        "c = SqliteCatalog.open(sys.argv[1])\n"
        "c.create_topic('orders', bytes(16), 4, {'a': 'b'})\n"
        "print(c.allocate_producer_id_block().stop, flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1000\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
    with closing(SqliteCatalog.open(path)) as again:
        assert again.topics() == [TopicRow("orders", bytes(16), 4, {"a": "b"})]
        assert again.allocate_producer_id_block().start == 1000


def test_a_full_disk_is_reported_and_changes_nothing(catalog: SqliteCatalog) -> None:
    catalog.create_topic("orders", ID, 1, {})
    pages = catalog._connection.execute("PRAGMA page_count").fetchone()[0]
    catalog._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(CatalogError, match="full"):
        catalog.change_topic_configs(ID, replaced_by({f"name-{i}": "v" * 1000 for i in range(100)}))
    assert catalog.topics() == [TopicRow("orders", ID, 1, {})]
    catalog._connection.execute("PRAGMA max_page_count = 100000")
    catalog.change_topic_configs(ID, replaced_by({"a": "b"}))
    assert catalog.topics()[0].configs == {"a": "b"}


def test_a_folder_that_does_not_exist_is_reported() -> None:
    with pytest.raises(CatalogError, match="cannot open the catalog"):
        SqliteCatalog.open("/nowhere/at/all/catalog.db")


def test_importing_the_engine_does_not_load_sqlite() -> None:
    program = "import sys, penstock.catalog.sqlite; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_only_the_owner_can_read_the_files(catalog: SqliteCatalog, path: Path) -> None:
    catalog.change_features(replaced_by({"f": 1}))
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {path.name: 0o600, f"{path.name}-wal": 0o600, f"{path.name}-shm": 0o600}


def test_files_of_an_earlier_version_become_private(path: Path) -> None:
    SqliteCatalog.open(path).close()
    path.chmod(0o644)
    with closing(SqliteCatalog.open(path)):
        assert path.stat().st_mode & 0o777 == 0o600


def test_partitions_that_one_broker_had_to_itself_are_given_to_a_broker(catalog: SqliteCatalog) -> None:
    other = bytes(reversed(ID))
    catalog.create_topic("alone", ID, 2, {})
    catalog.create_topic("shared", other, 1, {}, [Placement(2, (2,))])
    version = catalog.version()
    catalog.give_unowned_partitions(1)
    catalog.give_unowned_partitions(1)
    assert [(row.topic_id, row.leader) for row in catalog.partitions()] == [(ID, 1), (ID, 1), (other, 2)]
    assert Kind.PARTITIONS in catalog.changes_since(version).kinds
