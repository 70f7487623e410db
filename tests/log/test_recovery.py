"""What a crash may leave behind, and that the log comes back without losing anything that was acknowledged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import portable
from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.partition import PartitionLog
from penstock.log.producer_state import snapshot_bytes
from penstock.log.results import IsolationLevel
from penstock.wire.errors import OutOfOrderSequenceNumber
from tests.log.log_helpers import (
    NOW,
    SMALL,
    append,
    contents,
    end_transaction,
    files,
    open_log,
    plain,
    produced,
    reopen,
    reopen_clean,
)

TINY = LogConfig(segment_bytes=300, index_interval_bytes=50)


def log_file(log: PartitionLog, base_offset: int = 0) -> Path:
    return log.folder / f"{base_offset:020d}.log"


def test_a_clean_restart_reads_no_log_data(tmp_path: Path) -> None:
    log = open_log(tmp_path, TINY)
    for n in range(10):
        append(log, plain(f"value {n}"))
    log.close()
    for path in log.folder.glob("*.log"):
        path.chmod(0)
        path.write_bytes(b"\0" * path.stat().st_size)
    again = open_log(tmp_path, TINY, clean=True, recovery_point=log.recovery_point)
    assert (again.log_start_offset, again.log_end_offset) == (0, 10)


def test_appending_goes_on_after_a_clean_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for round_ in range(5):
        for n in range(20):
            append(log, plain(f"{round_}.{n}"))
        log = reopen_clean(log)
        assert log.truncated_bytes == 0
    assert [value for _, value in contents(log)] == [f"{r}.{n}" for r in range(5) for n in range(20)]
    assert log.offset_for_timestamp(NOW) == (NOW, 0, 0)


def test_a_tail_torn_at_any_byte_is_cut_back_to_whole_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path / "original")
    ends = [0]
    for n in range(4):
        append(log, plain(*[f"value {n}.{k}" for k in range(n % 3 + 1)]))
        ends.append(log.size)
    expected = contents(log)
    for cut in range(ends[-1] + 1):
        shutil.copytree(tmp_path / "original", tmp_path / "copy")
        with log_file(log).open("rb") as file:
            data = file.read(cut)
        (tmp_path / "copy/t-0/00000000000000000000.log").write_bytes(data)
        recovered = open_log(tmp_path / "copy")
        whole = max(end for end in ends if end <= cut)
        assert recovered.size == whole
        assert recovered.truncated_bytes == cut - whole
        assert contents(recovered) == [pair for pair in expected if pair[0] < recovered.log_end_offset]
        assert append(recovered, plain("next")).base_offset == len(contents(recovered)) - 1
        shutil.rmtree(tmp_path / "copy")


@pytest.mark.parametrize("garbage", [b"\0" * 5000, b"\xff" * 5000, bytes(range(256)) * 20, b"\0" * 7])
def test_garbage_behind_the_last_batch_is_cut_off(tmp_path: Path, garbage: bytes) -> None:
    log = open_log(tmp_path)
    append(log, plain("a", "b"))
    with log_file(log).open("ab") as file:
        file.write(garbage)
    recovered = reopen(log)
    assert recovered.truncated_bytes == len(garbage)
    assert contents(recovered) == [(0, "a"), (1, "b")]


@pytest.mark.parametrize("position", [0, 9, 17, 30, 60, 65])
def test_a_flipped_bit_behind_the_recovery_point_ends_the_log_there(tmp_path: Path, position: int) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    size = log.size
    append(log, plain("b"))
    append(log, plain("c"))
    data = bytearray(log_file(log).read_bytes())
    data[size + position] ^= 0x40
    log_file(log).write_bytes(data)
    assert contents(reopen(log)) == [(0, "a")]


def test_what_was_synced_is_kept_even_if_a_bit_rotted(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for value in "abc":
        append(log, plain(value))
    log.sync()
    data = bytearray(log_file(log).read_bytes())
    data[65] ^= 0x40
    log_file(log).write_bytes(data)
    assert reopen(log, recovery_point=log.recovery_point).log_end_offset == 3


def test_segments_behind_a_broken_one_are_dropped(tmp_path: Path) -> None:
    log = open_log(tmp_path, TINY)
    for n in range(20):
        append(log, plain(f"value {n}"))
    broken = log.segments[2]
    with log_file(log, broken.base_offset).open("r+b") as file:
        file.truncate(broken.size - 1)
    recovered = reopen(log)
    assert len(recovered.segments) == 3
    assert contents(recovered) == [(n, f"value {n}") for n in range(recovered.log_end_offset)]
    assert recovered.log_end_offset == log.segments[3].base_offset - 1


def test_what_lies_behind_the_last_batch_that_is_on_disk_is_cut_off_although_a_segment_follows(tmp_path: Path) -> None:
    """A write that had failed was cut off without a sync, the log rolled, and a power cut brought the bytes back."""
    log = open_log(tmp_path)
    append(log, plain("a"))
    log.sync()
    log.roll(NOW)
    append(log, plain("b"))
    with open(log.folder / f"{0:020d}.log", "ab") as file:
        file.write(bytes(plain("torn"))[:38])
    again = reopen(log, recovery_point=1)
    assert contents(again) == [(0, "a"), (1, "b")]
    assert again.segments[0].size == log.segments[0].size


def test_a_segment_that_lost_whole_batches_ends_the_log_there(tmp_path: Path) -> None:
    log = open_log(tmp_path, TINY)
    for n in range(20):
        append(log, plain(f"value {n}"))
    broken = log.segments[2]
    last = broken.find(log.segments[3].base_offset - 1)
    assert last is not None
    with log_file(log, broken.base_offset).open("r+b") as file:
        file.truncate(last.position)
    recovered = reopen(log)
    assert len(recovered.segments) == 3
    assert contents(recovered) == [(n, f"value {n}") for n in range(last.base_offset)]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "odd", "zeros", "garbage", "shifted"])
@pytest.mark.parametrize("clean", [True, False])
def test_lost_and_damaged_indexes_do_not_matter(tmp_path: Path, suffix: str, damage: str, clean: bool) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2000, index_interval_bytes=100))
    for n in range(100):
        append(log, plain(f"value {n}", timestamp=NOW + n))
    log.close()
    for path in log.folder.glob(f"*.{suffix}"):
        data = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            replaced = {
                "empty": b"",
                "odd": data[:-1],
                "zeros": bytes(len(data)),
                "garbage": bytes((17 * n + 5) % 256 for n in range(len(data))),
                "shifted": data[4:] + data[:4],
            }
            path.write_bytes(replaced[damage])
    again = open_log(tmp_path, log.config, clean=clean, recovery_point=log.recovery_point)
    for n in range(0, 100, 7):
        found = again.offset_for_timestamp(NOW + n)
        assert found is not None
        assert found.offset == n
        assert again.read(n, 200).read()[:8] == n.to_bytes(8, "big")
    assert contents(again) == [(n, f"value {n}") for n in range(100)]
    append(again, plain("next"))
    assert contents(again)[-1] == (100, "next")


def test_producer_state_survives_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path, TINY)
    for n in range(12):
        append(log, produced(n))
    recovered = reopen(log)
    for n in range(7, 12):
        repeated = append(recovered, produced(n))
        assert (repeated.duplicate, repeated.base_offset) == (True, n)
    with pytest.raises(OutOfOrderSequenceNumber):
        append(recovered, produced(13))
    assert append(recovered, produced(12)).base_offset == 12


def test_producer_state_survives_a_clean_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for n in range(7):
        append(log, produced(n))
    again = reopen_clean(log)
    for n in range(2, 7):
        repeated = append(again, produced(n))
        assert (repeated.duplicate, repeated.base_offset) == (True, n)
    for n in (1, 8):
        with pytest.raises(OutOfOrderSequenceNumber):
            append(again, produced(n))
    assert append(again, produced(7)).base_offset == 7


def test_five_batches_are_remembered_after_a_roll_and_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for n in range(6):
        append(log, produced(n))
    log.roll(NOW)
    append(log, produced(6))
    log.sync()
    recovered = reopen(log, recovery_point=log.recovery_point)
    for n in range(2, 7):
        repeated = append(recovered, produced(n))
        assert (repeated.duplicate, repeated.base_offset) == (True, n)


@pytest.mark.parametrize("damage", [b"", b"\0\1garbage", None])
def test_a_damaged_snapshot_is_replaced_by_a_replay(tmp_path: Path, damage: bytes | None) -> None:
    log = open_log(tmp_path, TINY)
    for n in range(12):
        append(log, produced(n))
    log.close()
    for path in log.folder.glob("*.snapshot"):
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
    again = open_log(tmp_path, TINY, clean=True, recovery_point=log.recovery_point)
    assert again.log_end_offset == 12
    assert append(again, produced(11)).duplicate
    assert append(again, produced(12)).base_offset == 12


def test_an_old_snapshot_is_never_taken_for_the_end_of_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    log = reopen_clean(log)
    append(log, plain("b"))
    log.close()
    (log.folder / "00000000000000000002.snapshot").unlink()
    again = open_log(tmp_path, clean=True, recovery_point=log.recovery_point)
    assert contents(again) == [(0, "a"), (1, "b")]


def test_open_and_aborted_transactions_survive_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path, TINY)
    for n in range(5):
        append(log, produced(n, producer_id=1, transactional=True))
    append(log, produced(0, producer_id=2, transactional=True))
    end_transaction(log, False, producer_id=1)
    append(log, plain("after"))
    assert log.last_stable_offset == 5
    expected = log.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED).aborted
    assert expected
    for again in (reopen(log), reopen_clean(log)):
        assert again.last_stable_offset == 5
        assert again.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED).aborted == expected
        assert again.producer_state.has_open_transaction(2, 0)
        assert not again.producer_state.has_open_transaction(1, 0)


def test_leader_epochs_are_rebuilt_from_the_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    log.leader_epoch = 4
    append(log, plain("b"))
    (log.folder / "leader-epoch-checkpoint").unlink()
    again = reopen(log)
    assert again.epochs.entries == [(0, 0), (4, 1)]
    assert again.leader_epoch == 4


def test_leftovers_of_interrupted_work_are_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.log.cleaned", "x.tmp"):
        (log.folder / name).write_bytes(b"old")
    again = reopen(log)
    assert not any(name.endswith((".deleted", ".cleaned", ".tmp")) for name in files(again))
    assert contents(again) == [(0, "a")]


def test_an_interrupted_roll_leaves_an_empty_segment_that_is_used(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    (log.folder / "00000000000000000001.log").write_bytes(b"")
    again = reopen(log)
    assert again.log_end_offset == 1
    append(again, plain("b"))
    assert contents(reopen(again)) == [(0, "a"), (1, "b")]


def test_a_failed_roll_does_not_cut_off_what_was_appended_after_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    (log.folder / "00000000000000000001.log").write_bytes(b"")
    append(log, plain("b"))
    assert contents(reopen(log)) == [(0, "a"), (1, "b")]


def test_a_roll_that_fails_leaves_no_segment_behind(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    (log.folder / "00000000000000000001.index").mkdir()
    with pytest.raises(StorageError):
        log.roll(NOW)
    assert not log_file(log, 1).exists()
    append(log, plain("b"))
    assert contents(log) == [(0, "a"), (1, "b")]


@settings(max_examples=80, deadline=None)
@given(
    before=st.lists(st.integers(0, 200), max_size=12),
    after=st.lists(st.integers(0, 200), max_size=12),
    lost=st.floats(0, 1),
    torn=st.binary(max_size=100),
    indexes=st.booleans(),
)
def test_acknowledged_records_survive_a_power_cut(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[int],
    after: list[int],
    lost: float,
    torn: bytes,
    indexes: bool,
) -> None:
    """What was synced is on the disk; of what was written since, any suffix may be missing or be garbage."""
    folder = tmp_path_factory.mktemp("log")
    log = open_log(folder, LogConfig(segment_bytes=600, index_interval_bytes=50))
    for n, size in enumerate(before):
        append(log, plain(f"{n}" + "x" * size))
    log.sync()
    acknowledged = contents(log)
    synced = {segment.base_offset: segment.size for segment in log.segments}
    for n, size in enumerate(after):
        append(log, plain(f"later {n}" + "y" * size))
    everything = contents(log)
    for segment in log.segments:
        known = synced.get(segment.base_offset, 0)
        kept = known + int((segment.size - known) * lost)
        path = log_file(log, segment.base_offset)
        data = path.read_bytes()[:kept]
        path.write_bytes(data + (torn if kept < segment.size else b""))
    if not indexes:
        for path in [*log.folder.glob("*index"), *log.folder.glob("*.snapshot")]:
            path.unlink()
    recovered = reopen(log, recovery_point=log.recovery_point)
    survived = contents(recovered)
    assert survived == everything[: len(survived)]
    assert survived[: len(acknowledged)] == acknowledged
    append(recovered, plain("next"))
    assert contents(reopen(recovered))[-1][1] == "next"


def test_a_log_that_fits_no_batch_after_its_start_goes_on_from_there(tmp_path: Path) -> None:
    """The log start offset was saved, the records below it were not: no offset may be given out twice."""
    log = open_log(tmp_path, SMALL)
    for value in "abc":
        append(log, plain(value))
    log_file(log).write_bytes(b"")
    again = reopen(log, log_start_offset=2)
    assert (again.log_start_offset, again.log_end_offset) == (2, 2)
    assert append(again, plain("d")).base_offset == 2
    assert contents(reopen(again, log_start_offset=2)) == [(2, "d")]


# Where a log ended was noted while the broker ran


def test_a_log_that_was_not_written_to_before_a_crash_is_not_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, TINY)
    append(log, produced(0))
    log.close()
    log = open_log(tmp_path, TINY, clean=True, recovery_point=1)
    noted_end = log.note_end()
    assert noted_end is not None
    log_file(log).write_bytes(b"\0" * noted_end.size)
    again = reopen(log, recovery_point=1, noted_end=noted_end)
    assert (again.log_end_offset, again.recovery_point, again.was_cut) == (1, 1, False)
    assert append(again, produced(0)).duplicate


def test_an_empty_log_is_not_recovered_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    monkeypatch.delattr("penstock.log.partition.recover_segments")
    again = reopen(log)
    append(again, plain("a"))
    assert contents(again) == [(0, "a")]


def test_a_log_that_was_written_to_after_its_end_was_noted_is_recovered(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, produced(0, "a"))
    log.close()
    log = open_log(tmp_path, clean=True, recovery_point=1)
    noted_end = log.note_end()
    append(log, produced(1, "b"))
    again = reopen(log, recovery_point=1, noted_end=noted_end)
    assert contents(again) == [(0, "a"), (1, "b")]
    assert append(again, produced(1, "b")).duplicate
    assert not again.was_cut


def test_what_is_not_known_to_be_on_disk_is_synced_although_it_was_not_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, TINY)
    while len(log.segments) < 3 or log.segments[-1].size:
        append(log, plain("a" * 50))
        if len(log.segments) == 2:
            log.roll(NOW)
    again = reopen(log, recovery_point=1, noted_end=log.note_end())
    assert again.recovery_point == 1
    again.sync()
    assert again.recovery_point == log.log_end_offset


@pytest.mark.parametrize("lost_bytes", [1, len(plain("b"))], ids=["inside a batch", "a whole batch"])
def test_a_log_that_lost_its_tail_while_it_was_closed_says_so(tmp_path: Path, lost_bytes: int) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    append(log, plain("b"))
    log.close()
    noted_end = log.note_end()
    path = log_file(log)
    path.write_bytes(path.read_bytes()[:-lost_bytes])
    again = open_log(tmp_path, clean=True, recovery_point=2, noted_end=noted_end)
    assert again.was_cut
    assert contents(again) == [(0, "a")]


def test_a_log_that_ends_below_its_recovery_point_says_so(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    assert reopen(log, recovery_point=2).was_cut


def test_a_leader_epoch_is_not_forgotten_with_the_records_of_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, leader_epoch=4)
    append(log, plain("a"))
    log_file(log).write_bytes(b"")
    assert reopen(log).leader_epoch == 4


def test_an_index_that_recovery_made_is_used_by_the_appends_after_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, plain("a"))
    log.close()
    log = open_log(tmp_path, clean=True, recovery_point=1)
    for n in range(20):
        append(log, plain(f"{n}"))
    again = reopen(log, recovery_point=1)
    append(again, plain("last"))
    again.close()
    entries = (again.folder / f"{0:020d}.index").stat().st_size // 8
    assert entries >= 15


@pytest.mark.parametrize("config", [SMALL, TINY])
def test_what_a_failed_sync_may_have_dropped_is_written_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: LogConfig
) -> None:
    """The kernel shows what it has dropped, and takes it for synced: a later sync would leave a hole before it."""
    log = open_log(tmp_path, config)
    for n in range(3):
        append(log, plain(f"on disk {n}"))
    log.sync()
    for n in range(5):
        append(log, plain(f"dropped {n}"))
    before = {path.name: path.read_bytes() for path in log.folder.glob("*.log")}
    written: list[bytes] = []
    write_at = portable.write_at

    def write(fd: int, data: bytes, position: int) -> int:
        written.append(bytes(data))
        return write_at(fd, data, position)

    monkeypatch.setattr(portable, "write_at", write)
    reopen(log, recovery_point=log.recovery_point)
    assert not written
    again = reopen(log, recovery_point=log.recovery_point, may_have_lost_writes=True)
    assert all(b"dropped %d" % n in b"".join(written) for n in range(5))
    assert {path.name: path.read_bytes() for path in again.folder.glob("*.log")} == before
    assert again.recovery_point == 3


def test_a_producer_is_known_by_batches_below_the_log_start_too(tmp_path: Path) -> None:
    """It may repeat one that was deleted before it had heard that it was written."""
    log = open_log(tmp_path)
    append(log, produced(0, "deleted"))
    log.delete_records(1, NOW)
    again = reopen(log, log_start_offset=1)
    assert 7 in again.producer_state.entries
    assert (again.log_start_offset, again.log_end_offset) == (1, 1)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_whole_segments_are_replayed_from_the_last_snapshot_on(tmp_path: Path, kept: int) -> None:
    """Data, the markers of transactions, and the first batch behind the snapshot."""
    log = open_log(tmp_path, TINY, leader_epoch=4)
    for n in range(8):
        append(log, produced(n, f"value {n}", transactional=True))
        if n in (1, 6):
            end_transaction(log, n == 6, coordinator_epoch=n)
    append(log, produced(0, "open", producer_id=8, transactional=True))
    log.close()
    snapshots = sorted(log.folder.glob("*.snapshot"))
    assert len(snapshots) == 3
    for path in snapshots[kept:]:
        path.unlink()
    if not kept:
        (log.folder / "leader-epoch-checkpoint").unlink()
    again = open_log(tmp_path, TINY, clean=True, recovery_point=log.recovery_point, leader_epoch=4)
    assert snapshot_bytes(again.producer_state.entries.values()) == snapshot_bytes(log.producer_state.entries.values())
    assert again.last_stable_offset == log.last_stable_offset
    assert {entry.seen_ms for entry in again.producer_state.entries.values()} == {NOW}
    assert again.epochs.entries == [(4, 0)]
