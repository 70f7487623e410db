"""A disk that takes no more, and then has room again: nothing is forgotten, and the log goes on by itself."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import portable
from penstock.log import segment as segments
from penstock.log import transaction_index
from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.partition import PartitionLog
from penstock.log.results import IsolationLevel
from penstock.storage.checkpoint import take_stock
from tests.log.log_helpers import NOW, append, contents, end_transaction, open_log, plain, produced, reopen

CONFIG = LogConfig(segment_bytes=1 << 20)


def full(code: int = errno.ENOSPC) -> Callable[..., Any]:
    def refuse(*_: object) -> None:
        raise OSError(code, "the disk is full")

    return refuse


def aborted(log: PartitionLog) -> list[tuple[int, int]]:
    found = log.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED).aborted or []
    return [(entry.producer_id, entry.first_offset) for entry in found]


def abort_one(log: PartitionLog) -> None:
    append(log, produced(0, "aborted", transactional=True))
    end_transaction(log, commit=False)


def test_an_append_that_does_not_fit_leaves_nothing_and_the_next_one_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, CONFIG)
    append(log, plain("a"))
    with monkeypatch.context() as patch:
        patch.setattr(segments, "pwrite_all", full())
        with pytest.raises(StorageError, match="the disk is full"):
            append(log, plain("b"))
    append(log, plain("c"))
    assert contents(log) == contents(reopen(log)) == [(0, "a"), (1, "c")]


def test_records_are_durable_although_there_is_no_room_for_the_index_of_aborted_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, CONFIG)
    with monkeypatch.context() as patch:
        patch.setattr(transaction_index, "write_all", full())
        abort_one(log)
        log.roll(NOW)
        append(log, plain("b"))
        log.sync()
        assert log.is_durable
        assert (log.recovery_point, log.recovery_start) == (3, 0)
    log.sync()
    assert log.recovery_start == 3


@pytest.mark.parametrize("is_rolled", [False, True], ids=["active", "rolled"])
def test_what_was_aborted_on_a_full_disk_stays_aborted_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_rolled: bool
) -> None:
    """The disk has room for the checkpoints again, and the broker is killed before it appends anything."""
    log = open_log(tmp_path, CONFIG)
    with monkeypatch.context() as patch:
        patch.setattr(transaction_index, "write_all", full())
        abort_one(log)
        if is_rolled:
            log.roll(NOW)
        log.sync()
    progress = take_stock([log])
    again = reopen(log, recovery_point=progress.recovery_points["t", 0], noted_end=log.note_end())
    assert b"t 0" not in progress.log_ends
    assert aborted(again) == aborted(log) == [(7, 0)]


def test_an_end_is_noted_again_when_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, CONFIG)
    with monkeypatch.context() as patch:
        patch.setattr(transaction_index, "write_all", full())
        abort_one(log)
        assert log.note_end() is None
    log.roll(NOW)
    log.sync()
    assert log.note_end() is not None


def test_an_index_that_cannot_be_synced_ends_all_trust_in_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, CONFIG)
    abort_one(log)
    log.roll(NOW)
    monkeypatch.setattr(portable, "datasync", full(errno.EIO))
    with pytest.raises(StorageError, match="cannot sync"):
        log.sync()
