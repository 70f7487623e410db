"""Opening a log: what a crash may have left, and how it becomes a log again.

After a clean stop nothing is read: the newest producer snapshot is named by the log end offset, and the indexes are on
disk. The same holds for a log that was not written to before a crash of the broker alone, which its size tells
(`PartitionLog.note_end`). Otherwise everything behind the *recovery point* (up to which all was known to be on disk) is
suspect. Those batches are read and checked one by one: whole, CRC right, offsets rising. The log ends before the first
one that fails; bytes behind it were never acknowledged as durable. Indexes, the transaction index, producer state and
leader epochs are made anew from what is kept.

After a sync has failed, what can be read need not be on disk: the kernel has dropped what it could not write, counts it
as written, and a sync of the same pages succeeds. So whatever was kept behind the recovery point is written once more
(`writes_again`), and then the next sync is about it.

Below the recovery point only headers are walked: that data was on disk before it was acknowledged, and a bit that
rotted since must not make us throw away everything after it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.log.cleaner.swap import CLEANED_SUFFIX, SWAP_SUFFIX, finish_interrupted_swaps
from penstock.log.files import DELETED_SUFFIX, pread_all, pwrite_all, remove_if_there
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.producer_state import CorruptSnapshot, EndMarker, ProducerState
from penstock.log.results import NotedEnd
from penstock.log.segment import (
    LOG_SUFFIX,
    SUFFIXES,
    TXN_INDEX_SUFFIX,
    Segment,
    file_stem,
)
from penstock.log.transaction_index import AbortedTransaction, TransactionIndex
from penstock.records.batch import (
    ATTRIBUTES_AT,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    Buffer,
    parse_header,
)
from penstock.records.checksum import crc32c
from penstock.records.control import ControlType, parse_control
from penstock.records.record import iter_records

SNAPSHOT_SUFFIX = ".snapshot"
_CHUNK = 1 << 20
_HEADERS_CHUNK = 1 << 14
_unpack = HEADER.unpack_from


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


def unchanged_end(segments: list[Segment], clean: bool, recovery_point: int, noted_end: NotedEnd | None) -> int:
    """Where a log ends if it was not written to since that was last noted, else -1."""
    active = segments[-1]
    if noted_end is not None:
        # A log only grows: as long as it has the same last segment of the same size, it is the same log.
        is_same = (active.base_offset, active.size) == (noted_end.base_offset, noted_end.size)
        return noted_end.log_end_offset if is_same else -1
    if clean:
        return recovery_point
    return active.base_offset if len(segments) == 1 and not active.size else -1


def load_unchanged(
    folder: str, segments: list[Segment], snapshots: list[int], end_offset: int, state: ProducerState, now_ms: int
) -> bool:
    """Load what was saved when a log was closed or last rolled.

    False if it is not all there, and the log must be recovered after all.
    """
    active = segments[-1]
    if end_offset < active.base_offset or (end_offset == active.base_offset) != (active.size == 0):
        return False
    if not snapshots:
        return end_offset == 0  # nobody has produced yet
    if snapshots[-1] != end_offset:
        return False
    return load_producer_state(folder, snapshots, end_offset, state, now_ms) == end_offset


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
    writes_again: bool = False,
) -> Recovered:
    """Check and repair the segments behind the recovery point, and bring the producer state up to the log's end."""
    if len(segments) > 1 and not segments[-1].size:
        # A roll that failed after its first file was created may have been followed by appends to the segment before:
        # the empty one says nothing about where that ends.
        _remove(segments.pop())
    # Of the segment that ends at the recovery point the batches are on disk. What lay behind them need not be gone: a
    # write that has failed, or a torn one of an earlier crash, may have been cut off without a sync.
    first_suspect = first_suspect_slot(segments, max(recovery_point - 1, 0))
    suspect_base = segments[first_suspect].base_offset
    epochs.truncate_end(suspect_base)

    snapshot = load_producer_state(folder, snapshots, suspect_base, state, now_ms)
    # Producers are known by their batches below the log start too, as they were before: they may send those again.
    replay_from = snapshot if snapshot is not None else segments[0].base_offset
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
        cleaned = os.path.exists(segment.stem + TXN_INDEX_SUFFIX)
        next_offset, has_gaps = _recover_segment(
            segment, next_offset, limit, recovery_point, replay_after, state, epochs, now_ms
        )
        if slot + 1 < len(segments):
            segment.write_indexes()  # The last one's are written when it rolls or the log is closed.
        recovered.truncated_bytes += file_size - segment.size
        # A power cut can take the end of a segment, even to the byte of a batch's end, and leave the one after it: what
        # lies behind such a hole is not a log. Only compaction leaves holes, and it leaves its mark: gaps, or a
        # transaction index, which every cleaned segment has.
        is_cut = segment.size < file_size
        if slot + 1 < len(segments) and next_offset < limit and (is_cut or not (cleaned or has_gaps)):
            for dropped in segments[slot + 1 :]:
                recovered.truncated_bytes += dropped.size
                recovered.dropped_segments += 1
                _remove(dropped)
            del segments[slot + 1 :]
            break
    if writes_again:
        for segment in segments[first_suspect:]:
            _write_again(segment, recovery_point)
    recovered.log_end_offset = max(next_offset, log_start_offset)
    epochs.truncate_end(recovered.log_end_offset)
    for offset in [each for each in snapshots if each > recovered.log_end_offset]:
        remove_if_there(snapshot_path(folder, offset))
        snapshots.remove(offset)
    return recovered


def first_suspect_slot(segments: list[Segment], recovery_point: int) -> int:
    """The slot of the first segment that is not known to be on disk as a whole."""
    first_suspect = 0
    for slot, segment in enumerate(segments):
        if segment.base_offset <= recovery_point:
            first_suspect = slot
    return first_suspect


def _remove(segment: Segment) -> None:
    segment.release()
    for suffix in SUFFIXES:
        remove_if_there(segment.stem + suffix)


def _replay(segment: Segment, from_offset: int, state: ProducerState, epochs: LeaderEpochs, now_ms: int) -> None:
    """Bring the producer state forward over a segment that is known to be whole."""
    file = segment.open_file()
    for batch in segment.batches_from(from_offset):
        header = parse_header(pread_all(file, HEADER_SIZE, batch.position))
        epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.base_offset >= from_offset:
            marker = None
            if header.attributes & CONTROL:
                marker = read_marker(pread_all(file, batch.size, batch.position))
            state.replay(header, marker, now_ms)


def _recover_segment(
    segment: Segment,
    next_offset: int,
    limit_offset: int,
    recovery_point: int,
    replay_from: int,
    state: ProducerState,
    epochs: LeaderEpochs,
    now_ms: int,
) -> tuple[int, bool]:
    """Validate, truncate, rebuild the indexes; returns the offset after the last batch kept, and whether some miss.

    One loop over what may be millions of small batches, so it makes no object per batch that it does not need.
    """
    aborted: list[AbortedTransaction] = []
    file = segment.open_file()
    segment.start_rebuild()
    chunk = memoryview(b"")
    position = chunk_at = 0
    end = segment.size
    latest_epoch = -1
    has_gaps = False
    while position + HEADER_SIZE <= end:
        at = position - chunk_at
        if at + HEADER_SIZE > len(chunk):
            wanted = _CHUNK if next_offset >= recovery_point else _HEADERS_CHUNK
            chunk, chunk_at, at = memoryview(pread_all(file, min(wanted, end - position), position)), position, 0
        base, length, epoch, magic, crc, attributes, delta, _, timestamp, producer_id, _, _, count = _unpack(chunk, at)
        size = length + LOG_OVERHEAD
        last = base + delta
        if magic != MAGIC or size < HEADER_SIZE or position + size > end:
            break
        if not next_offset <= base <= last < limit_offset:
            break
        if last >= recovery_point or attributes & CONTROL:
            if at + size > len(chunk):
                wanted = max(size, min(_CHUNK, end - position))
                chunk, chunk_at, at = memoryview(pread_all(file, wanted, position)), position, 0
            if last >= recovery_point and crc32c(chunk[at + ATTRIBUTES_AT : at + size]) != crc:
                break
        if epoch > latest_epoch:
            epochs.assign(epoch, base)
            latest_epoch = epoch
        if producer_id >= 0 and base >= replay_from:
            marker = read_marker(chunk[at : at + size]) if attributes & CONTROL else None
            completed = state.replay(parse_header(chunk, at), marker, now_ms)
            if completed is not None and completed.aborted:
                aborted.append(completed.index_entry())
        segment.note_batch(position, size, last, timestamp if count else -1)
        has_gaps = has_gaps or base != next_offset
        next_offset = last + 1
        position += size
    if position < end:
        segment.truncate_to(position)
    segment.finish_rebuild()
    _restore_transaction_index(segment, aborted, replay_from, next_offset)
    return next_offset, has_gaps


def _write_again(segment: Segment, recovery_point: int) -> None:
    """Write what is not known to be on disk as it is, so that the kernel brings it there."""
    file = segment.open_file()
    for position in range(segment.position_of(recovery_point), segment.size, _CHUNK):
        pwrite_all(file.fd, pread_all(file, min(_CHUNK, segment.size - position), position), position)


def _restore_transaction_index(
    segment: Segment, replayed: list[AbortedTransaction], replay_from: int, end_offset: int
) -> None:
    """Entries before the replay are kept from the file; those that the replay saw are written anew."""
    path = segment.stem + TXN_INDEX_SUFFIX
    kept = [entry for entry in TransactionIndex(path).entries if entry.last_offset < min(replay_from, end_offset)]
    segment.txn_index = TransactionIndex.rebuilt(path, kept + replayed)
