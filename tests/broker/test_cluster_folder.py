"""A data folder remembers the cluster that it belongs to, and is not used without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.cluster_folder import CLUSTER_FILE, ClusterFolder, check_embedded
from penstock.catalog.contract import CatalogError


def test_a_folder_keeps_its_id_and_its_cluster(tmp_path: Path) -> None:
    new = ClusterFolder(tmp_path)
    assert new.cluster_id is None
    known = ClusterFolder(tmp_path)
    assert (known.folder_id, known.cluster_id) == (new.folder_id, None)
    known.belong_to("abc")
    again = ClusterFolder(tmp_path)
    assert (again.folder_id, again.cluster_id) == (new.folder_id, "abc")


def test_folders_differ(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert ClusterFolder(tmp_path).folder_id != ClusterFolder(tmp_path / "other").folder_id


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"folder_id": "a"}'])
def test_a_damaged_mark_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / CLUSTER_FILE).write_text(text)
    with pytest.raises(CatalogError, match="is damaged"):
        ClusterFolder(tmp_path)


def test_a_mark_that_cannot_be_read_or_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="cannot be written"):
        ClusterFolder(tmp_path / "nothing")
    (tmp_path / CLUSTER_FILE).mkdir()
    with pytest.raises(CatalogError, match="cannot be read"):
        ClusterFolder(tmp_path)


def test_a_folder_of_a_cluster_is_not_used_alone(tmp_path: Path) -> None:
    check_embedded(tmp_path)
    ClusterFolder(tmp_path)
    with pytest.raises(CatalogError, match=r"belongs to a cluster .*: start its broker with --cluster"):
        check_embedded(tmp_path)
