"""Opening a log: what a crash may have left, and how it becomes a log again.

After a clean stop nothing is read: the newest producer snapshot is named by the log end offset, and the indexes are on
disk. After a crash everything behind the *recovery point* (up to which all was known to be on disk) is suspect. Those
batches are read and checked one by one: whole, CRC right, offsets rising. The log ends before the first one that fails;
bytes behind it were never acknowledged as durable. Indexes, the transaction index, producer state and leader epochs are
made anew from what is kept.

Below the recovery point only headers are walked: that data was on disk before it was acknowledged, and a bit that
rotted since must not make us throw away everything after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.log.cleaner.swap import CLEANED_SUFFIX, SWAP_SUFFIX, finish_interrupted_swaps
from penstock.log.files import DELETED_SUFFIX, SegmentFile, pread_all, remove_if_there
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.producer_state import CorruptSnapshot, EndMarker, ProducerState
from penstock.log.segment import (
    LOG_SUFFIX,
    SUFFIXES,
    TXN_INDEX_SUFFIX,
    Segment,
    file_stem,
)
from penstock.log.transaction_index import AbortedTransaction, TransactionIndex
from penstock.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Buffer,
    CorruptBatch,
    crc_is_valid,
    parse_header,
)
from penstock.records.control import ControlType, parse_control
from penstock.records.record import iter_records

SNAPSHOT_SUFFIX = ".snapshot"
_CHUNK = 1 << 20


@dataclass(slots=True)
class FolderContents:
    """The files of a partition's folder that make up its log."""

    segment_sizes: dict[int, int] = field(default_factory=dict)
    txn_indexes: set[int] = field(default_factory=set)
    snapshots: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Recovered:
    log_end_offset: int
    first_suspect: int
    """Slot of the first segment that is not known to be on disk."""
    truncated_bytes: int = 0
    dropped_segments: int = 0


def list_folder(folder: str) -> FolderContents:
    """Take stock, after finishing or undoing whatever deletion, cleaning or write was interrupted."""
    found, names = _list_files(folder)
    if any(name.endswith(SWAP_SUFFIX) for name in names):
        finish_interrupted_swaps(folder, names, found.segment_sizes)
        found, _ = _list_files(folder)
    return found


def _list_files(folder: str) -> tuple[FolderContents, list[str]]:
    found = FolderContents()
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
                os.unlink(entry.path)
                continue
            names.append(name)
            digits, dot, suffix = name.partition(".")
            if not dot or len(digits) != 20 or not digits.isdigit():
                continue
            offset, suffix = int(digits), dot + suffix
            if suffix == LOG_SUFFIX:
                found.segment_sizes[offset] = entry.stat().st_size
            elif suffix == SNAPSHOT_SUFFIX:
                found.snapshots.append(offset)
            elif suffix == TXN_INDEX_SUFFIX:
                found.txn_indexes.add(offset)
    found.snapshots.sort()
    return found, names


def snapshot_path(folder: str, offset: int) -> str:
    return file_stem(folder, offset) + SNAPSHOT_SUFFIX


def read_marker(batch: Buffer) -> EndMarker | None:
    """The end-of-transaction marker in a control batch; None of one that compaction emptied or of another kind."""
    for record in iter_records(batch):
        control = parse_control(record)
        if control.kind in (ControlType.ABORT, ControlType.COMMIT):
            return EndMarker(control.kind is ControlType.COMMIT, control.coordinator_epoch)
    return None


def iter_stored_batches(
    file: SegmentFile, position: int, end: int, *, crc_from_offset: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Whole, well-formed batches as (position, header, bytes) up to the first that is not.

    The CRC is checked of batches that reach beyond `crc_from_offset`; of the others only the header is looked at.
    """
    chunk = b""
    chunk_at = position
    while position + HEADER_SIZE <= end:
        at = position - chunk_at
        if at + HEADER_SIZE > len(chunk):
            chunk = pread_all(file, min(_CHUNK, end - position), position)
            chunk_at, at = position, 0
        try:
            header = parse_header(chunk, at)
        except CorruptBatch:
            return
        size = header.batch_length + LOG_OVERHEAD
        if position + size > end or header.last_offset_delta < 0:
            return
        if at + size > len(chunk):
            chunk = pread_all(file, max(size, min(_CHUNK, end - position)), position)
            chunk_at, at = position, 0
        if header.base_offset + header.last_offset_delta >= crc_from_offset and not crc_is_valid(chunk, at, size):
            return
        yield position, header, memoryview(chunk)[at : at + size]
        position += size


def load_producer_state(folder: str, snapshots: list[int], up_to: int, state: ProducerState, now_ms: int) -> int | None:
    """Load the newest usable snapshot not above `up_to` and return its offset; damaged ones are removed."""
    for offset in reversed([each for each in snapshots if each <= up_to]):
        try:
            state.load_snapshot(snapshot_path(folder, offset), now_ms)
            return offset
        except (CorruptSnapshot, FileNotFoundError):
            remove_if_there(snapshot_path(folder, offset))
            snapshots.remove(offset)
    state.clear()
    return None


def recover_segments(
    folder: str,
    segments: list[Segment],
    snapshots: list[int],
    *,
    recovery_point: int,
    log_start_offset: int,
    state: ProducerState,
    epochs: LeaderEpochs,
    now_ms: int,
) -> Recovered:
    """Check and mend the segments behind the recovery point, and bring the producer state up to the log's end."""
    first_suspect = 0
    for slot, segment in enumerate(segments):
        if segment.base_offset <= recovery_point:
            first_suspect = slot
    suspect_base = segments[first_suspect].base_offset
    epochs.truncate_end(suspect_base)

    snapshot = load_producer_state(folder, snapshots, suspect_base, state, now_ms)
    replay_from = snapshot if snapshot is not None else log_start_offset
    for segment, following in pairwise(segments[: first_suspect + 1]):
        if following.base_offset > replay_from:
            _replay(segment, replay_from, state, epochs, now_ms)

    next_offset = suspect_base
    recovered = Recovered(next_offset, first_suspect)
    for slot in range(first_suspect, len(segments)):
        segment = segments[slot]
        file_size = segment.size
        next_offset = max(next_offset, segment.base_offset)
        replay_after = replay_from if slot == first_suspect else segment.base_offset
        limit = segments[slot + 1].base_offset if slot + 1 < len(segments) else segment.base_offset + 2**31
        next_offset = _recover_segment(segment, next_offset, limit, recovery_point, replay_after, state, epochs, now_ms)
        recovered.truncated_bytes += file_size - segment.size
        if segment.size < file_size:
            for dropped in segments[slot + 1 :]:
                recovered.truncated_bytes += dropped.size
                recovered.dropped_segments += 1
                dropped.release()
                for suffix in SUFFIXES:
                    remove_if_there(dropped.stem + suffix)
            del segments[slot + 1 :]
            break
    recovered.log_end_offset = max(next_offset, log_start_offset)
    epochs.truncate_end(recovered.log_end_offset)
    for offset in [each for each in snapshots if each > recovered.log_end_offset]:
        remove_if_there(snapshot_path(folder, offset))
        snapshots.remove(offset)
    return recovered


def _replay(segment: Segment, from_offset: int, state: ProducerState, epochs: LeaderEpochs, now_ms: int) -> None:
    for _, header, data in iter_stored_batches(
        segment.open_file(), segment.position_of(from_offset), segment.size, crc_from_offset=2**63
    ):
        epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.base_offset >= from_offset:
            state.replay(header, read_marker(data) if header.attributes & CONTROL else None, now_ms)


def _recover_segment(
    segment: Segment,
    next_offset: int,
    limit_offset: int,
    recovery_point: int,
    replay_from: int,
    state: ProducerState,
    epochs: LeaderEpochs,
    now_ms: int,
) -> int:
    """Validate, truncate, rebuild the indexes; returns the offset after the last batch kept."""
    aborted: list[AbortedTransaction] = []
    kept_bytes = 0
    for position, header, data in iter_stored_batches(
        segment.open_file(), 0, segment.size, crc_from_offset=recovery_point
    ):
        if not next_offset <= header.base_offset <= header.last_offset < limit_offset:
            break
        next_offset = header.base_offset + header.last_offset_delta + 1
        kept_bytes = position + len(data)
        epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.base_offset < replay_from:
            continue
        completed = state.replay(header, read_marker(data) if header.attributes & CONTROL else None, now_ms)
        if completed is not None and completed.aborted:
            aborted.append(
                AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
                )
            )
    if kept_bytes < segment.size:
        segment.truncate_to(kept_bytes)
    segment.rebuild_indexes()
    _restore_transaction_index(segment, aborted, replay_from, next_offset)
    return next_offset


def _restore_transaction_index(
    segment: Segment, replayed: list[AbortedTransaction], replay_from: int, end_offset: int
) -> None:
    """Entries before the replay are kept from the file; those that the replay saw are written anew."""
    path = segment.stem + TXN_INDEX_SUFFIX
    kept = [entry for entry in TransactionIndex(path).entries if entry.last_offset < min(replay_from, end_offset)]
    segment.txn_index = TransactionIndex.rebuilt(path, kept + replayed)
