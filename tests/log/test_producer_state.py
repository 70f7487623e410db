"""Idempotent and transactional producers: Kafka's checks, in Kafka's order."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.config import LogConfig
from penstock.log.partition import PartitionLog
from penstock.log.producer_state import (
    AppendOrigin,
    BatchMetadata,
    CorruptSnapshot,
    ProducerEntry,
    ProducerState,
    parse_snapshot,
    snapshot_bytes,
)
from penstock.log.results import IsolationLevel
from penstock.records.checksum import crc32c
from penstock.wire.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from tests.log.log_helpers import NOW, append, contents, end_transaction, open_log, plain, produced

_LAST_SEQUENCE = 2**31 - 1
COMMITTED = IsolationLevel.READ_COMMITTED


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path)


def write(log: PartitionLog, sequence: int, *values: str, producer_id: int = 7, epoch: int = 0) -> int:
    """A transactional batch that the coordinator vouches for; returns its offset."""
    batch = produced(sequence, *values, producer_id=producer_id, epoch=epoch, transactional=True)
    return append(log, batch).base_offset


def test_a_retry_is_answered_with_its_first_offset_and_not_written_again(log: PartitionLog) -> None:
    append(log, plain("other"))
    for _ in range(3):
        appended = append(log, produced(0, "a", "b", timestamp=NOW + 5))
        assert (appended.base_offset, appended.last_offset) == (1, 2)
    assert appended.duplicate
    assert appended.log_append_time_ms == NOW + 5
    assert log.log_end_offset == 3


def test_five_batches_are_remembered(log: PartitionLog) -> None:
    for sequence in range(5):
        append(log, produced(sequence))
    assert append(log, produced(0)).duplicate
    append(log, produced(5))
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(0))
    assert append(log, produced(1)).base_offset == 1


def test_a_gap_in_the_sequence_is_refused(log: PartitionLog) -> None:
    append(log, produced(0, "a", "b"))
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(3))
    assert append(log, produced(2)).base_offset == 2


def test_a_batch_that_overlaps_but_does_not_equal_an_earlier_one_is_refused(log: PartitionLog) -> None:
    append(log, produced(0, "a", "b"))
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(0, "a"))


def test_sequences_wrap_around(log: PartitionLog) -> None:
    append(log, produced(_LAST_SEQUENCE - 1, "a", "b", "c"))
    assert log.producer_state.entries[7].last_sequence == 0
    assert append(log, produced(_LAST_SEQUENCE - 1, "a", "b", "c")).duplicate
    assert append(log, produced(1)).base_offset == 3


def test_an_unknown_producer_may_start_anywhere(log: PartitionLog) -> None:
    assert append(log, produced(41)).base_offset == 0


def test_a_new_epoch_starts_at_sequence_zero(log: PartitionLog) -> None:
    append(log, produced(0))
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(1, epoch=1))
    append(log, produced(0, epoch=1))
    assert not append(log, produced(1, epoch=1)).duplicate


def test_an_old_epoch_is_refused(log: PartitionLog) -> None:
    append(log, produced(0, epoch=3))
    with pytest.raises(InvalidProducerEpoch):
        append(log, produced(0, epoch=2))


def test_producers_do_not_disturb_each_other(log: PartitionLog) -> None:
    append(log, produced(0, producer_id=1))
    append(log, produced(9, producer_id=2))
    append(log, produced(1, producer_id=1))
    append(log, produced(10, producer_id=2))
    assert log.log_end_offset == 4


# Transactions


def test_a_retry_is_recognised_after_its_transaction_has_ended(log: PartitionLog) -> None:
    write(log, 0)
    end_transaction(log, True)
    assert append(log, produced(0, transactional=True)).duplicate


def test_a_stale_epoch_is_refused_in_a_transaction(log: PartitionLog) -> None:
    write(log, 0, epoch=5)
    with pytest.raises(InvalidProducerEpoch):
        append(log, produced(0, epoch=4, transactional=True))


def test_a_plain_batch_inside_a_transaction_is_refused(log: PartitionLog) -> None:
    write(log, 0)
    with pytest.raises(InvalidTxnState):
        append(log, produced(1))


def test_with_bumped_epochs_the_first_sequence_must_be_zero(log: PartitionLog) -> None:
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(5, transactional=True), transaction_version=2)
    append(log, produced(0, transactional=True), transaction_version=2)
    end_transaction(log, True, epoch=1, version=2)
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, produced(1, epoch=1, transactional=True), transaction_version=2)
    append(log, produced(0, epoch=1, transactional=True), transaction_version=2)


def test_coordinators_append_without_sequences(log: PartitionLog) -> None:
    for _ in range(3):
        batch = produced(-1, "offset", transactional=True)
        append(log, batch, origin=AppendOrigin.COORDINATOR)
    assert log.last_stable_offset == 0
    end_transaction(log, True)
    assert log.last_stable_offset == 4


def test_read_committed_ends_at_the_first_open_transaction(log: PartitionLog) -> None:
    append(log, plain("free"))
    write(log, 0, "a", producer_id=1)
    write(log, 0, "b", producer_id=2)
    append(log, plain("behind"))
    assert log.last_stable_offset == 1
    found = log.read(0, 1 << 20, isolation=COMMITTED)
    assert found.size == len(plain("free"))
    assert log.read(1, 1 << 20, isolation=COMMITTED).size == 0
    end_transaction(log, True, producer_id=1)
    assert log.last_stable_offset == 2
    end_transaction(log, True, producer_id=2)
    assert log.last_stable_offset == log.log_end_offset == 6
    assert log.read(0, 1 << 20, isolation=COMMITTED).size == log.size


def test_aborted_transactions_come_with_the_fetch(log: PartitionLog) -> None:
    write(log, 0, "a", producer_id=1)
    write(log, 0, "b", producer_id=2)
    end_transaction(log, False, producer_id=2)
    write(log, 1, "c", producer_id=1)
    end_transaction(log, False, producer_id=1)
    append(log, plain("free"))
    found = log.read(0, 1 << 20, isolation=COMMITTED)
    assert [(entry.producer_id, entry.first_offset) for entry in found.aborted or []] == [(1, 0), (2, 1)]
    assert log.read(5, 1 << 20, isolation=COMMITTED).aborted == []
    assert log.read(0, 1 << 20).aborted is None


def test_an_abort_marker_in_a_later_segment_is_found(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=150, index_interval_bytes=1))
    write(log, 0, "a")
    for n in range(5):
        append(log, plain(f"free {n}"))
    end_transaction(log, False)
    found = log.read(0, 100, isolation=COMMITTED)
    assert [(entry.producer_id, entry.first_offset) for entry in found.aborted or []] == [(7, 0)]


def test_a_marker_without_data_takes_an_offset_and_nothing_else(log: PartitionLog) -> None:
    assert end_transaction(log, False).base_offset == 0
    append(log, plain("a"))
    assert log.last_stable_offset == 2
    assert log.read(0, 1 << 20, isolation=COMMITTED).aborted == []


def test_markers_of_old_epochs_and_old_coordinators_are_refused(log: PartitionLog) -> None:
    write(log, 0, epoch=5)
    with pytest.raises(InvalidProducerEpoch):
        end_transaction(log, True, epoch=4)
    end_transaction(log, True, epoch=5, coordinator_epoch=3)
    with pytest.raises(TransactionCoordinatorFenced):
        end_transaction(log, True, epoch=5, coordinator_epoch=2)


def test_with_bumped_epochs_a_marker_must_be_newer_than_the_data(log: PartitionLog) -> None:
    write(log, 0, epoch=5)
    with pytest.raises(InvalidProducerEpoch):
        end_transaction(log, True, epoch=5, version=2)
    end_transaction(log, True, epoch=6, version=2)
    end_transaction(log, True, epoch=6, version=2)
    write(log, 0, epoch=6)
    with pytest.raises(InvalidProducerEpoch):
        end_transaction(log, True, epoch=6, version=2)


def test_the_first_transaction_marker_is_visible_data_but_no_record(log: PartitionLog) -> None:
    write(log, 0, "a")
    end_transaction(log, True)
    assert contents(log) == [(0, "a")]
    assert log.log_end_offset == 2


# Expiry and snapshots


def test_silent_producers_are_forgotten_by_the_brokers_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(producer_id_expiration_ms=1000, retention_ms=-1))
    append(log, produced(0, producer_id=1, timestamp=-1))
    append(log, produced(0, producer_id=2, timestamp=-1), now_ms=NOW + 500)
    write(log, 0, producer_id=3)
    log.apply_retention(NOW + 1000)
    assert set(log.producer_state.entries) == {2, 3}


def test_a_snapshot_holds_the_batches_of_each_producer() -> None:
    entry = ProducerEntry(2**40, 3)
    entry.add_batch(BatchMetadata(0, 10, 0, NOW))
    entry.add_batch(BatchMetadata(5, 15, 4, NOW + 1))
    entry.coordinator_epoch = 9
    entry.current_txn_first_offset = 10
    (read,) = parse_snapshot(snapshot_bytes([entry]))
    assert read.producer_id == 2**40
    assert (read.producer_epoch, read.coordinator_epoch, read.current_txn_first_offset) == (3, 9, 10)
    assert read.batches == [BatchMetadata(0, 10, 0, NOW), BatchMetadata(5, 15, 4, NOW + 1)]
    assert (read.next_sequence, read.last_timestamp) == (6, NOW + 1)


batches = st.builds(
    BatchMetadata,
    st.integers(0, _LAST_SEQUENCE),
    st.integers(0, 2**62),
    st.integers(0, _LAST_SEQUENCE),
    st.integers(-1, 2**62),
)


@given(st.lists(st.lists(batches, max_size=7), max_size=5))
def test_a_snapshot_gives_back_what_each_producer_remembers(remembered: list[list[BatchMetadata]]) -> None:
    entries = []
    for producer_id, own in enumerate(remembered):
        entry = ProducerEntry(producer_id, 0)
        for batch in own:
            entry.add_batch(batch)
        entries.append(entry)
    for entry, read in zip(entries, parse_snapshot(snapshot_bytes(entries)), strict=True):
        assert read.batches == entry.batches
        assert read.next_sequence == entry.next_sequence


def two_batches() -> ProducerEntry:
    entry = ProducerEntry(1, 0)
    entry.add_batch(BatchMetadata(0, 10, 0, NOW))
    entry.add_batch(BatchMetadata(1, 11, 0, NOW))
    return entry


def test_a_snapshot_of_kafka_or_of_an_earlier_release_holds_the_last_batch() -> None:
    entry = ProducerEntry(1, 0)
    entry.add_batch(BatchMetadata(1, 11, 0, NOW))
    ours, kafkas = snapshot_bytes([two_batches()]), snapshot_bytes([entry])
    assert len(kafkas) == 56
    assert ours[10:56] == kafkas[10:]
    (read,) = parse_snapshot(kafkas)
    assert read.batches == [BatchMetadata(1, 11, 0, NOW)]


def test_what_a_later_release_writes_behind_the_entries_is_passed_over() -> None:
    data = snapshot_bytes([two_batches()])
    changed = data[6:].replace(b"penstock\0\1", b"penstock\0\2")
    (read,) = parse_snapshot(data[:2] + crc32c(changed).to_bytes(4, "big") + changed)
    assert read.batches == [BatchMetadata(1, 11, 0, NOW)]


def test_a_snapshot_that_was_cut_or_changed_is_refused() -> None:
    data = snapshot_bytes([two_batches()])
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            parse_snapshot(data[:size])
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(CorruptSnapshot):
            parse_snapshot(bytes(changed))


def test_open_transactions_keep_their_order_through_a_snapshot(tmp_path: Path) -> None:
    state = ProducerState()
    entries = []
    for producer_id, first_offset in ((1, 50), (2, 20), (3, -1)):
        entry = ProducerEntry(producer_id, 0)
        entry.current_txn_first_offset = first_offset
        entries.append(entry)
    (tmp_path / "x.snapshot").write_bytes(snapshot_bytes(entries))
    state.load_snapshot(str(tmp_path / "x.snapshot"), NOW)
    assert state.first_unstable_offset == 20
