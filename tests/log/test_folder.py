"""The data folder: its lock, its checkpoints, clean and unclean stops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.log.errors import FolderInUse
from penstock.log.folder import LogFolder, remove_folder
from tests.log.log_helpers import NOW, SMALL, TOPIC_ID, append, contents, plain, produced


def test_a_second_process_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    script = "import sys, pathlib; from penstock.log.folder import LogFolder; LogFolder(pathlib.Path(sys.argv[1]))"
    second = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert second.returncode != 0
    assert "FolderInUse" in second.stderr
    folder.close()
    LogFolder(tmp_path).close()


def test_the_same_process_cannot_open_it_twice_either(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    with pytest.raises(FolderInUse):
        LogFolder(tmp_path)
    folder.abandon()
    LogFolder(tmp_path).abandon()


def test_a_proper_stop_is_remembered_once(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    assert not folder.clean
    log = folder.open_log("t", 0, TOPIC_ID, SMALL, NOW)
    append(log, produced(0))
    append(log, plain("a", "b"))
    log.delete_records(2, NOW)
    folder.close()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    again = LogFolder(tmp_path)
    assert again.clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log = again.open_log("t", 0, TOPIC_ID, SMALL, NOW)
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert append(log, produced(0)).duplicate
    again.abandon()
    assert not LogFolder(tmp_path).clean


def test_after_a_crash_checkpoints_shorten_the_recovery(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    log = folder.open_log("t", 0, TOPIC_ID, SMALL, NOW)
    append(log, plain("a"))
    log.sync()
    folder.checkpoint()
    append(log, plain("b"))
    folder.abandon()
    again = LogFolder(tmp_path)
    log = again.open_log("t", 0, TOPIC_ID, SMALL, NOW)
    assert log.recovery_point == 1
    assert contents(log) == [(0, "a"), (1, "b")]
    again.abandon()


def test_unreadable_checkpoints_count_as_none(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    append(folder.open_log("t", 0, TOPIC_ID, SMALL, NOW), plain("a"))
    folder.close()
    for path in tmp_path.glob("*checkpoint"):
        path.write_bytes(b"\xff\0garbage")
    again = LogFolder(tmp_path)
    assert contents(again.open_log("t", 0, TOPIC_ID, SMALL, NOW)) == [(0, "a")]
    again.abandon()


def test_a_deleted_log_does_not_lend_its_offsets_to_a_later_topic(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    log = folder.open_log("t", 0, TOPIC_ID, SMALL, NOW)
    append(log, plain("a", "b"))
    log.delete_records(1, NOW)
    folder.checkpoint()
    log.delete()
    folder.forget(log)
    folder.close()
    again = LogFolder(tmp_path)
    (deleted,) = again.deleted_folders
    remove_folder(deleted)
    log = again.open_log("t", 0, b"\1" * 16, SMALL, NOW)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    again.close()
    assert not deleted.exists()
