"""Idempotent and transactional producers: Kafka's checks, in Kafka's order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.config import LogConfig
from penstock.log.partition import PartitionLog
from penstock.log.producer_state import (
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    CorruptSnapshot,
    EndMarker,
    ProducerEntry,
    ProducerState,
    parse_snapshot,
    snapshot_bytes,
)
from penstock.log.results import ActiveProducer, IsolationLevel
from penstock.log.transaction_index import AbortedTransaction
from penstock.records.batch import BatchHeader, parse_header
from penstock.records.checksum import crc32c
from penstock.records.control import ControlType, end_marker_batch
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


# The state alone, without a log


def header(sequence: int, *values: str, **fields: Any) -> BatchHeader:
    return parse_header(produced(sequence, *values, **fields))


def known(*, first_offset: int = 100, **fields: Any) -> ProducerState:
    """A producer with one batch of two records, at sequences 0 and 1."""
    state = ProducerState()
    state.apply_data(header(0, "a", "b", **fields), first_offset, NOW)
    return state


def check(state: ProducerState, batch: BatchHeader, version: int = 0) -> BatchMetadata | None:
    return state.check(batch, AppendOrigin.CLIENT, None, version)


def test_what_is_known_of_a_producer_is_told_to_administrators() -> None:
    state = known(timestamp=NOW + 3, epoch=4, transactional=True)
    assert state.active_producers() == [ActiveProducer(7, 4, 1, NOW + 3, -1, 100)]
    state.apply_marker(header(-1, epoch=4, timestamp=NOW + 9), EndMarker(True, 6), 102, NOW)
    assert state.active_producers() == [ActiveProducer(7, 4, 1, NOW + 9, 6, -1)]
    assert state.entries[7].last_data_offset == 101


def test_a_producer_of_which_only_a_marker_is_known_has_written_nothing() -> None:
    state = ProducerState()
    assert state.apply_marker(header(-1, epoch=4), EndMarker(True, 6), 102, NOW) is None
    assert state.active_producers() == [ActiveProducer(7, 4, -1, NOW, 6, -1)]
    assert state.entries[7].last_data_offset == -1
    assert (state.entries[7].next_sequence, state.entries[7].seen_ms) == (0, NOW)


def test_a_transaction_is_open_for_the_epoch_that_began_it() -> None:
    state = known(epoch=4, transactional=True)
    assert state.has_open_transaction(7, 4)
    assert not state.has_open_transaction(7, 3)
    assert not state.has_open_transaction(8, 4)
    assert not known(epoch=4).has_open_transaction(7, 4)
    at_the_beginning = known(epoch=4, transactional=True, first_offset=0)
    assert at_the_beginning.has_open_transaction(7, 4)
    assert at_the_beginning.first_unstable_offset == 0


def test_the_end_of_a_transaction_says_what_is_stable_then() -> None:
    state = known(transactional=True, first_offset=0)
    state.apply_data(header(0, producer_id=8, transactional=True), 2, NOW)
    state.apply_data(header(2, transactional=True), 3, NOW)
    marker = header(-1, producer_id=7)
    assert state.apply_marker(marker, EndMarker(True, 0), 4, NOW) == CompletedTransaction(7, 0, 4, False, 2)
    other = state.apply_marker(header(-1, producer_id=8), EndMarker(False, 0), 5, NOW)
    assert other == CompletedTransaction(8, 2, 5, True, 6)
    assert other.index_entry() == AbortedTransaction(8, 2, 5, 6)


def test_a_marker_of_the_next_epoch_forgets_the_batches_of_the_one_before() -> None:
    state = known(transactional=True)
    state.apply_marker(header(-1, epoch=1), EndMarker(True, 0), 102, NOW)
    entry = state.entries[7]
    assert (entry.producer_epoch, entry.batches, entry.next_sequence) == (1, [], 0)
    state = known(transactional=True)
    state.apply_marker(header(-1, epoch=0), EndMarker(True, 0), 102, NOW)
    assert (len(state.entries[7].batches), state.entries[7].next_sequence) == (1, 2)


def test_a_batch_repeats_another_if_it_is_the_same_from_first_to_last() -> None:
    state = known()
    state.apply_data(header(2, "c", "d", "e"), 102, NOW)
    assert check(state, header(0, "a", "b")) == BatchMetadata(1, 101, 1, NOW)
    assert check(state, header(2, "c", "d", "e")) == BatchMetadata(4, 104, 2, NOW)
    assert state.entries[7].batches[1].first_offset == 102
    for other in (header(1), header(3, "x", "y"), header(2, "c"), header(0, "a", "b", "c")):
        with pytest.raises(OutOfOrderSequenceNumber):
            check(state, other)
    assert check(state, header(5)) is None


def test_the_next_sequence_of_another_epoch_is_not_the_next() -> None:
    state = known(epoch=3)
    assert check(state, header(2, epoch=3)) is None
    with pytest.raises(OutOfOrderSequenceNumber):
        check(state, header(2, epoch=4))
    assert check(state, header(0, epoch=4)) is None
    with pytest.raises(InvalidProducerEpoch):
        check(state, header(2, epoch=2))


def test_the_next_plain_batch_is_refused_while_a_transaction_is_open() -> None:
    for first_offset in (0, 100):
        state = known(transactional=True, first_offset=first_offset)
        with pytest.raises(InvalidTxnState):
            check(state, header(2))
        assert check(state, header(2, transactional=True)) is None
    state.apply_marker(header(-1), EndMarker(True, 0), 102, NOW)
    assert check(state, header(2)) is None


def test_the_rule_for_the_first_write_of_a_transaction_holds_for_that_alone() -> None:
    unknown = ProducerState()
    assert check(unknown, header(5), 2) is None, "it is no transaction"
    assert check(unknown, header(5, transactional=True), 1) is None, "the producer is an older one"
    coordinators = unknown.check(header(5, transactional=True), AppendOrigin.COORDINATOR, None, 2)
    assert coordinators is None
    with pytest.raises(OutOfOrderSequenceNumber):
        check(unknown, header(5, transactional=True), 2)
    assert check(known(transactional=True), header(2, transactional=True), 2) is None


def test_a_marker_of_the_last_epoch_ends_an_open_transaction() -> None:
    """That epoch cannot be raised any more."""
    state = known(epoch=32767, transactional=True)
    assert state.check(header(-1, epoch=32767), AppendOrigin.MARKER, EndMarker(False, 0), 2) is None
    state = known(epoch=32766, transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        state.check(header(-1, epoch=32766), AppendOrigin.MARKER, EndMarker(False, 0), 2)
    assert state.check(header(-1, epoch=32767), AppendOrigin.MARKER, EndMarker(False, 0), 2) is None
    assert state.check(header(-1, epoch=32766), AppendOrigin.MARKER, EndMarker(False, 0), 1) is None


def test_a_batch_of_nobody_is_not_remembered_when_a_log_is_read() -> None:
    state = ProducerState()
    assert state.replay(parse_header(plain("a")), None, NOW) is None
    assert state.entries == {}
    batch = bytearray(produced(3, "a", "b", transactional=True, producer_id=0))
    batch[0:8] = (50).to_bytes(8, "big")
    assert state.replay(parse_header(batch), None, NOW + 1) is None
    assert state.entries[0].batches == [BatchMetadata(4, 51, 1, NOW)]
    assert (state.entries[0].seen_ms, state.first_unstable_offset) == (NOW + 1, 50)
    marker = end_marker_batch(ControlType.ABORT, 0, 0, 0, NOW)
    marker[0:8] = (52).to_bytes(8, "big")
    assert state.replay(parse_header(marker), None, NOW) is None, "compaction has emptied it"
    ended = state.replay(parse_header(marker), EndMarker(False, 0), NOW)
    assert ended == CompletedTransaction(0, 50, 52, True, 53)


def test_producers_are_forgotten_when_they_have_been_silent_for_so_long() -> None:
    state = known()
    state.remove_expired(NOW + 999, 1_000)
    assert list(state.entries) == [7]
    state.remove_expired(NOW + 1_000, 1_000)
    assert state.entries == {}
    open_ones = known(transactional=True, first_offset=0)
    open_ones.remove_expired(NOW + 1_000, 1_000)
    assert list(open_ones.entries) == [7]


def test_a_loaded_snapshot_takes_the_place_of_all_that_was_known(tmp_path: Path) -> None:
    path = str(tmp_path / "x.snapshot")
    state = known(transactional=True, first_offset=0)
    state.write_snapshot(path)
    state.apply_data(header(0, producer_id=8, transactional=True), 2, NOW)
    state.load_snapshot(path, NOW + 5)
    assert (list(state.entries), state.entries[7].seen_ms) == ([7], NOW + 5)
    assert state.first_unstable_offset == 0
    (tmp_path / "x.snapshot").write_bytes(b"torn")
    with pytest.raises(CorruptSnapshot):
        state.load_snapshot(path, NOW)
    assert state.entries == {}
    assert state.first_unstable_offset is None


def test_a_snapshot_of_nobody_is_read_back() -> None:
    data = snapshot_bytes([])
    assert len(data) == 10
    assert parse_snapshot(data) == []
    entry = ProducerEntry(1, 0)
    entry.coordinator_epoch = 3
    entry.last_timestamp = NOW
    (read,) = parse_snapshot(snapshot_bytes([entry]))
    assert (read.batches, read.next_sequence, read.last_timestamp, read.coordinator_epoch) == ([], 0, NOW, 3)


@pytest.mark.parametrize(("earlier", "fits"), [(b"\0", True), (b"\x05", False), (b"\xff", False), (b"\x01", False)])
def test_earlier_batches_that_do_not_fit_are_refused(earlier: bytes, fits: bool) -> None:
    entry = ProducerEntry(1, 0)
    entry.add_batch(BatchMetadata(1, 11, 0, NOW))
    data = snapshot_bytes([entry])[6:] + b"penstock\0\1" + earlier
    snapshot = b"\0\1" + crc32c(data).to_bytes(4, "big") + data
    if fits:
        assert parse_snapshot(snapshot)[0].batches == entry.batches
    else:
        with pytest.raises(CorruptSnapshot):
            parse_snapshot(snapshot)
