"""The data folder that several brokers share: owners that stay, and a folder of one broker that becomes theirs."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from penstock.broker.foundation import CATALOG_FILE
from penstock.broker.processes.folder import folder_of, is_of_several, owners_of, prepare
from penstock.catalog.contract import CatalogError
from penstock.catalog.shared import HostAndPort, Placement
from penstock.catalog.sqlite import SqliteCatalog


def catalog_of(data: Path) -> SqliteCatalog:
    return SqliteCatalog.open(data / CATALOG_FILE)


def create(data: Path, name: str, *owners: int, partitions: int | None = None) -> None:
    catalog = catalog_of(data)
    placements = [Placement(owner, (owner,)) for owner in owners]
    catalog.create_topic(name, uuid.uuid4().bytes, partitions or len(owners), {}, placements)
    catalog.close()


def leaders(data: Path) -> list[int]:
    catalog = catalog_of(data)
    try:
        return [row.leader for row in catalog.partitions()]
    finally:
        catalog.close()


def test_a_new_folder_is_made_for_several(tmp_path: Path) -> None:
    assert owners_of(tmp_path) == []
    assert prepare(tmp_path, (1, 2)) == ""
    assert is_of_several(tmp_path)


def test_more_brokers_than_before_are_welcome(tmp_path: Path) -> None:
    create(tmp_path, "t", 1, 2)
    assert prepare(tmp_path, (1, 2, 3)) == ""
    assert leaders(tmp_path) == [1, 2]
    assert owners_of(tmp_path) == [1, 2]


def test_fewer_brokers_than_have_partitions_are_refused_with_how_many_it_takes(tmp_path: Path) -> None:
    create(tmp_path, "t", 1, 3, 3)
    with pytest.raises(CatalogError, match=r"broker 3 \(2\).*start it with --brokers 3 or more"):
        prepare(tmp_path, (1, 2))


def test_brokers_with_other_node_ids_are_refused_with_the_first_one(tmp_path: Path) -> None:
    create(tmp_path, "t", 5, 6)
    with pytest.raises(CatalogError, match=r"--brokers 2 -c node\.id=5 or more"):
        prepare(tmp_path, (1, 2))


def test_what_one_broker_had_becomes_the_first_brokers(tmp_path: Path) -> None:
    create(tmp_path, "t", partitions=2)
    for name in ("t-0", "t-1"):
        (tmp_path / name).mkdir()
    note = prepare(tmp_path, (7, 8))
    assert "moved the 2 partitions" in note
    assert "broker 7 keeps them" in note
    assert leaders(tmp_path) == [7, 7]
    assert (folder_of(tmp_path, 7) / "t-1").is_dir()
    assert prepare(tmp_path, (7, 8)) == "", "it is told once"


def test_a_move_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    create(tmp_path, "t", partitions=2)
    (tmp_path / "t-1").mkdir()
    (folder_of(tmp_path, 1) / "t-0").mkdir(parents=True)
    prepare(tmp_path, (1, 2))
    assert sorted(path.name for path in folder_of(tmp_path, 1).iterdir()) == ["t-0", "t-1"]
    assert leaders(tmp_path) == [1, 1]


def test_brokers_that_were_killed_count_as_gone(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.register_broker(2, "before", None, {"PLAINTEXT": HostAndPort("127.0.0.1", 1)})
    prepare(tmp_path, (1, 2))
    assert [row.is_live for row in catalog.brokers()] == [False]
    catalog.close()
