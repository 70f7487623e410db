"""Logs that move to another folder, with all that is remembered of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.storage.contract import StorageError
from penstock.storage.relocation import move_logs
from tests.storage.test_local import append, start


def test_logs_and_checkpoints_are_found_in_the_other_folder_as_if_nothing_had_happened(tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    (source / "catalog.sqlite").touch()
    (source / "tls").mkdir()
    before, (log,) = start(source, 1)
    append(log)
    before.close()
    assert move_logs(source, target) == 1
    assert sorted(path.name for path in source.iterdir()) == ["catalog.sqlite", "tls"]
    after, (log,) = start(target, 1)
    assert not after.may_have_lost_writes
    assert log.log_end_offset == 1
    after.close()
    assert move_logs(source, target) == 0


def test_a_folder_that_cannot_be_moved_to_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "to").write_text("a file")
    with pytest.raises(StorageError, match="cannot move the logs"):
        move_logs(tmp_path, tmp_path / "to")
