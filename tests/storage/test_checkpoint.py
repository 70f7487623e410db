"""The data folder knows whether writes may have been lost since it was last open."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import portable
from penstock.log.errors import StorageError
from penstock.storage.checkpoint import BOOT_ID, LOG_ENDS, Checkpoints


def start(folder: Path) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    checkpoints.opened([])
    return checkpoints


def settled(folder: Path) -> Checkpoints:
    checkpoints = start(folder)
    checkpoints.keep_boot()
    return checkpoints


def reboot(folder: Path) -> None:
    (folder / BOOT_ID).write_text("another boot")


def test_a_broker_that_was_killed_has_lost_nothing(tmp_path: Path) -> None:
    settled(tmp_path)
    assert not Checkpoints(tmp_path).may_have_lost_writes


def test_a_machine_that_went_down_may_have(tmp_path: Path) -> None:
    settled(tmp_path)
    reboot(tmp_path)
    assert Checkpoints(tmp_path).may_have_lost_writes


def test_a_clean_stop_is_good_for_any_boot(tmp_path: Path) -> None:
    settled(tmp_path).mark_clean()
    reboot(tmp_path)
    assert not Checkpoints(tmp_path).may_have_lost_writes
    start(tmp_path)  # and is killed
    assert not Checkpoints(tmp_path).may_have_lost_writes


def test_the_doubt_remains_until_it_is_settled(tmp_path: Path) -> None:
    settled(tmp_path)
    reboot(tmp_path)
    start(tmp_path)  # and is killed before anything has followed from it
    assert start(tmp_path).may_have_lost_writes
    settled(tmp_path)
    assert not Checkpoints(tmp_path).may_have_lost_writes


def test_a_clean_stop_does_not_settle_it(tmp_path: Path) -> None:
    settled(tmp_path)
    reboot(tmp_path)
    start(tmp_path).mark_clean()
    assert Checkpoints(tmp_path).may_have_lost_writes


def test_a_failed_disk_counts_as_a_power_cut(tmp_path: Path) -> None:
    settled(tmp_path).forget_boot()
    assert Checkpoints(tmp_path).may_have_lost_writes


def test_a_system_without_boot_ids_trusts_a_clean_stop_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable, "boot_session", lambda: None)
    checkpoints = settled(tmp_path)
    assert Checkpoints(tmp_path).may_have_lost_writes
    checkpoints.mark_clean()
    assert not Checkpoints(tmp_path).may_have_lost_writes


def test_a_folder_that_takes_no_note_of_the_ends_is_a_storage_error(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    (tmp_path / (LOG_ENDS + ".tmp")).mkdir()
    with pytest.raises(StorageError, match=LOG_ENDS):
        checkpoints.save([])
