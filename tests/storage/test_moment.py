"""A moment of all logs: what was appended by then, whatever is appended, deleted or compacted before it is linked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.log.cleaner.manager import CleanerConfig, CleanerManager
from penstock.log.partition import PartitionLog
from penstock.storage.contract import LogConfig, StorageError
from penstock.storage.local import LocalStorage
from penstock.storage.moment import LogState, Moment, linked_path, stopped_moment
from tests.storage.test_local import NOW, TOPIC_ID, append, start

SMALL = LogConfig(segment_bytes=100, file_delete_delay_ms=0)


def some_segments(folder: Path) -> tuple[LocalStorage, PartitionLog]:
    folder.mkdir()
    storage, _ = start(folder, 0)
    log = storage.open_log("t", 0, TOPIC_ID, SMALL)
    for number in range(5):
        append(log, f"value {number}")
    assert len(log.segments) == 5
    return storage, log


def linked(moment: Moment, folder: Path) -> LogState:
    (state,) = moment.link(folder, lambda: True)
    return state


def contents(folder: Path, state: LogState, *, is_linked: bool = True) -> bytes:
    """The batches of the moment, in order."""
    names = sorted(name for name in state.files if name.endswith(".log"))
    paths = [linked_path(folder, state.folder, name) if is_linked else folder / state.folder / name for name in names]
    return b"".join(path.read_bytes()[: state.files[path.name[-24:]]] for path in paths)


def test_what_is_appended_afterwards_is_not_part_of_it(tmp_path: Path) -> None:
    storage, log = some_segments(tmp_path / "data")
    before = b"".join(path.read_bytes() for path in sorted(log.folder.glob("*.log")))
    moment = storage.fix_moment()
    append(log, "later")
    append(log, "and later, in another segment")
    state = linked(moment, tmp_path / "links")
    assert contents(tmp_path / "links", state) == before
    assert state.log_end_offset == 5
    assert state.topic_id == TOPIC_ID.hex()
    assert f"{4:020d}.index" not in state.files  # of the segment that was active
    assert f"{3:020d}.index" in state.files


def test_retention_removes_nothing_before_the_moment_has_ended(tmp_path: Path) -> None:
    storage, log = some_segments(tmp_path / "data")
    before = b"".join(path.read_bytes() for path in sorted(log.folder.glob("*.log")))
    moment = storage.fix_moment()
    assert log.delete_records(4, NOW) == 4
    log.apply_retention(NOW)
    log.purge(NOW + 1)
    state = linked(moment, tmp_path / "links")
    assert contents(tmp_path / "links", state) == before
    assert state.log_start_offset == 0
    storage.end_moment()
    log.purge(NOW + 1)
    assert [path.name for path in log.folder.glob("*.log*")] == [f"{4:020d}.log"]
    assert contents(tmp_path / "links", state) == before


def test_a_topic_that_is_deleted_meanwhile_belongs_to_it(tmp_path: Path) -> None:
    storage, log = some_segments(tmp_path / "data")
    before = b"".join(path.read_bytes() for path in sorted(log.folder.glob("*.log")))
    moment = storage.fix_moment()
    storage.delete_log(log)()
    state = linked(moment, tmp_path / "links")
    assert contents(tmp_path / "links", state) == before
    storage.end_moment()
    storage.close()


def test_compaction_takes_no_step_before_the_moment_has_ended(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    storage, _ = start(tmp_path / "data", 0)
    compactor = storage.compactor(CleanerConfig(backoff_ms=0), lambda: None)
    assert isinstance(compactor, CleanerManager)
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig(segment_bytes=100, cleanup_policy="compact"))
    for number in range(5):
        append(log, f"value {number}")
    log.sync()
    storage.fix_moment()
    compactor.poll(NOW)
    assert not compactor.has_process
    storage.end_moment()
    compactor.poll(NOW)
    assert compactor.has_process
    compactor.close()


def test_a_thread_that_does_not_get_ahead_gives_up(tmp_path: Path) -> None:
    storage, _ = some_segments(tmp_path / "data")
    with pytest.raises(StorageError, match="too long"):
        storage.fix_moment().link(tmp_path / "links", lambda: False)


def test_a_file_system_without_hard_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, _ = some_segments(tmp_path / "data")

    def refuse(source: object, target: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match="without hard links only a stopped broker can be backed up"):
        storage.fix_moment().link(tmp_path / "links", lambda: True)


def test_a_stopped_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    storage, log = some_segments(tmp_path / "data")
    storage.close()
    before = b"".join(path.read_bytes() for path in sorted(log.folder.glob("*.log")))
    (tmp_path / "data" / "half-0").mkdir()
    (log.folder / f"{0:020d}.log.deleted").write_text("not part of it")
    _, (state,) = stopped_moment(tmp_path / "data")
    assert (state.folder, state.recovery_point) == ("t-0", 5)
    assert contents(tmp_path / "data", state, is_linked=False) == before
    assert not any(name.endswith(".deleted") for name in state.files)
