"""Make a log of what is committed: segments stay in the store, what comes after them becomes a local file.

The bytes of the extents after the last segment are put into one segment file, with the producer snapshot of that last
segment beside it, and opened as after a crash: batches are checked, indexes made, and the producer state is brought up
to the end. Nothing that was in the folder before is used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.files import OpenFiles, write_all, write_file
from penstock.log.folder import claim_folder
from penstock.log.partition import LEADER_EPOCHS_FILE
from penstock.log.recovery import snapshot_path
from penstock.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_stem
from penstock.records.batch import iter_headers
from penstock.storage.objects.commit_log import Extent, Layout, SegmentEntry
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.remote import RemoteSegment, SegmentCache
from penstock.storage.objects.store import ObjectStore


def load_log(
    data_folder: Path,
    log: ObjectLog,
    config: LogConfig,
    layout: Layout,
    store: ObjectStore,
    cache: SegmentCache,
    open_files: OpenFiles,
    now_ms: int,
) -> ObjectLog:
    """A log that holds what is committed, led under the epoch of the layout. Runs in a thread.

    Raises StorageError when something that is committed cannot be had.
    """
    folder = data_folder / f"{log.topic}-{log.partition}"
    state = layout.state
    write_tail_folder(folder, log.topic_id, layout, store)
    loaded = ObjectLog.open(
        data_folder,
        log.topic,
        log.partition,
        log.topic_id,
        config,
        now_ms,
        log_start_offset=state.log_start_offset,
        open_files=open_files,
    )
    if loaded.log_end_offset != state.end_offset:
        raise StorageError(
            f"{log.topic}-{log.partition} is committed up to {state.end_offset}, and what is stored ends at "
            f"{loaded.log_end_offset}: run penstock cluster check"
        )
    segments = [_segment(folder, entry, config, store, cache, open_files) for entry in layout.segments]
    loaded.put_in_front(segments)
    loaded.shipped = {each.base_offset: each for each in segments if not isinstance(each, RemoteSegment)}
    loaded.entries = list(layout.segments)
    loaded.log_start_offset = state.log_start_offset
    loaded.leader_epoch = state.leader_epoch
    return loaded


def write_tail_folder(folder: Path, topic_id: bytes, layout: Layout, store: ObjectStore) -> None:
    """The folder of a log that begins where the last stored segment ends. Raises StorageError."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
        claim_folder(folder, topic_id)
        _write_tail(folder, _tail_base(layout), layout, store)
        lines = ["0", str(len(layout.epochs)), *(f"{epoch} {start}" for epoch, start in layout.epochs), ""]
        write_file(str(folder / LEADER_EPOCHS_FILE), "\n".join(lines).encode())
        if layout.segments:
            _write_snapshot(folder, layout.segments[-1], store)
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror}") from error


def _tail_base(layout: Layout) -> int:
    if layout.segments:
        return layout.segments[-1].end_offset
    return layout.extents[0].base_offset if layout.extents else layout.state.end_offset


def _write_tail(folder: Path, base: int, layout: Layout, store: ObjectStore) -> None:
    stem = file_stem(str(folder), base)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):  # of a tail without batches; of others they are made anew
        write_file(stem + suffix, b"")
    fd = os.open(stem + LOG_SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        for data in _extents_from(base, layout, store):
            write_all(fd, data)
    finally:
        os.close(fd)


def _extents_from(base: int, layout: Layout, store: ObjectStore) -> Iterator[bytes]:
    next_offset = base
    for extent in layout.extents:
        if extent.base_offset > next_offset:
            raise StorageError(f"there is a hole in what is committed: nothing holds offset {next_offset}")
        data = read_extent(extent, store)
        if extent.base_offset < base:
            data = _batches_from(data, base)
        next_offset = extent.end_offset
        yield data


def read_extent(extent: Extent, store: ObjectStore) -> bytes:
    if extent.object_key is None:
        assert extent.data is not None
        return extent.data
    return store.get(extent.object_key, extent.position, extent.size)


def _batches_from(data: bytes, base: int) -> bytes:
    """An extent may begin before the last segment ends."""
    for position, header in iter_headers(data):
        if header.base_offset >= base:
            return data[position:]
    return b""


def _write_snapshot(folder: Path, entry: SegmentEntry, store: ObjectStore) -> None:
    if entry.snapshot_size:
        data = store.get(entry.object_key, entry.size - entry.snapshot_size, entry.snapshot_size)
        write_file(snapshot_path(str(folder), entry.end_offset), data)


def _segment(
    folder: Path,
    entry: SegmentEntry,
    config: LogConfig,
    store: ObjectStore,
    cache: SegmentCache,
    open_files: OpenFiles,
) -> Segment:
    """Compaction reads and writes files, so the segments of compacted logs are brought here as a whole."""
    if not config.compacts:
        return RemoteSegment(str(folder), entry, cache, config.index_interval_bytes)
    return local_segment(folder, entry, config, store, open_files)


def local_segment(
    folder: Path, entry: SegmentEntry, config: LogConfig, store: ObjectStore, open_files: OpenFiles
) -> Segment:
    stem = file_stem(str(folder), entry.base_offset)
    position = 0
    for suffix, size in (
        (LOG_SUFFIX, entry.log_size),
        (INDEX_SUFFIX, entry.index_size),
        (TIME_INDEX_SUFFIX, entry.time_index_size),
        (TXN_INDEX_SUFFIX, entry.txn_index_size),
    ):
        if size or suffix != TXN_INDEX_SUFFIX:
            write_file(stem + suffix, store.get(entry.object_key, position, size))
        position += size
    return Segment(
        str(folder),
        entry.base_offset,
        entry.log_size,
        open_files,
        created_ms=0,
        index_interval_bytes=config.index_interval_bytes,
        has_txn_index=bool(entry.txn_index_size),
    )
