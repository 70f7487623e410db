"""Folders of every earlier version open, one of a newer version is refused, and today's opens in what it promises."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from penstock.catalog.contract import CatalogError
from penstock.catalog.schema import MIGRATIONS
from penstock.testing.broker import Broker
from tests.adoption import kafka_load
from tests.adoption.folders import tree
from tests.adoption.record import OBSERVED
from tests.operation.earlier_versions import EARLIER, CheckedOut, Earlier

UNCHANGED = {"log.cleaner.enable": "false"}
"""So that no record is compacted away between two looks at it."""
OLDEST_OF_THIS_CATALOG = [each for each in EARLIER if each.catalog == len(MIGRATIONS)][:1]


@pytest.mark.parametrize("earlier", EARLIER, ids=lambda earlier: earlier.recording.name.partition(".")[0])
def test_a_folder_of_an_earlier_version_opens_with_everything_in_it(tmp_path: Path, earlier: Earlier) -> None:
    expected = earlier.unpack(tmp_path)
    with Broker({**earlier.configs, **UNCHANGED}, data=tmp_path / "data") as broker:
        found = earlier.observe(broker.bootstrap_servers)
        for name, value in expected.items():
            assert found[name] == value, name
        producer = kafka_load.open_transaction(broker.bootstrap_servers)  # fences the one that was left open
        producer.commit_transaction(30)
        payments = kafka_load.read({"bootstrap.servers": broker.bootstrap_servers}, "payments", "read_committed")
        assert len(payments) == len(expected["read_committed"]["payments"]) + 1


def test_every_earlier_version_of_the_catalog_has_a_folder() -> None:
    assert {each.catalog for each in EARLIER} >= set(range(1, len(MIGRATIONS)))


def test_a_folder_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    EARLIER[-1].unpack(tmp_path)
    data = tmp_path / "data"
    newer = len(MIGRATIONS) + 1
    with closing(sqlite3.connect(data / "catalog.sqlite")) as catalog:
        catalog.execute(f"PRAGMA user_version = {newer}")
    before = tree(data)
    message = rf"newer Penstock \(catalog version {newer}, this one knows up to {newer - 1}\): use that version"
    with pytest.raises(CatalogError, match=message), Broker(data=data):
        pass
    assert tree(data) == before


def check_out(earlier: Earlier, folder: Path) -> Path:
    try:
        return earlier.check_out(folder)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the project's history")


@pytest.mark.long
@pytest.mark.parametrize("older", OLDEST_OF_THIS_CATALOG)
def test_the_oldest_version_with_this_catalog_opens_a_folder_of_today(tmp_path: Path, older: Earlier) -> None:
    sources = check_out(older, tmp_path)
    with Broker({**older.configs, **UNCHANGED}, data=tmp_path / "data") as broker:
        held = kafka_load.fill(broker.bootstrap_servers)
        expected = older.observe(broker.bootstrap_servers)
    del held
    expected["records of the queue"] = kafka_load.delivered_once_more(expected["records of the queue"])
    process = CheckedOut(sources, tmp_path / "data", {**older.configs, **UNCHANGED})
    try:
        found = older.observe(process.bootstrap)
    finally:
        process.end()
    for name, value in expected.items():
        assert found[name] == value, name


@pytest.mark.long
def test_a_version_with_an_older_catalog_refuses_a_folder_of_today(tmp_path: Path) -> None:
    older = next(each for each in EARLIER if each.catalog == len(MIGRATIONS) - 1)
    sources = check_out(older, tmp_path)
    EARLIER[-1].unpack(tmp_path)
    (tmp_path / OBSERVED).unlink()
    before = tree(tmp_path / "data")
    with pytest.raises(AssertionError, match=r"the broker does not start: .*newer Penstock"):
        CheckedOut(sources, tmp_path / "data", {})
    assert tree(tmp_path / "data") == before
