from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.cluster_folder import EMBEDDED_CATALOG, RESTORE_FILE
from penstock.log.errors import FolderInUse, StorageError
from penstock.operation.target_folder import claim_target


def test_a_new_folder_is_marked_and_locked_and_for_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lock = claim_target(data, RESTORE_FILE, {"backup": "a"})
    assert (data / RESTORE_FILE).read_text() == '{"backup": "a"}'
    assert data.stat().st_mode & 0o077 == 0
    with pytest.raises(FolderInUse):
        claim_target(data, RESTORE_FILE, {"backup": "a"})
    lock.release()


def test_what_an_earlier_attempt_has_left_is_removed(tmp_path: Path) -> None:
    claim_target(tmp_path, RESTORE_FILE, "a").release()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "file").write_text("text")
    claim_target(tmp_path, RESTORE_FILE, "a").release()
    assert not (tmp_path / "half").exists()


def test_a_folder_that_is_whole_stays(tmp_path: Path) -> None:
    claim_target(tmp_path, RESTORE_FILE, "a").release()
    (tmp_path / EMBEDDED_CATALOG).write_text("catalog")
    claim_target(tmp_path, RESTORE_FILE, "a").release()
    assert (tmp_path / EMBEDDED_CATALOG).read_text() == "catalog"


@pytest.mark.parametrize("text", ["another source", "not empty"])
def test_a_folder_of_something_else_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    if text == "another source":
        claim_target(tmp_path, RESTORE_FILE, "a").release()
    (tmp_path / "file").write_text("text")
    with pytest.raises(StorageError, match=text):
        claim_target(tmp_path, RESTORE_FILE, "b")
    assert (tmp_path / "file").exists()
