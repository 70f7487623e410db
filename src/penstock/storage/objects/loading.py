"""Make a log of what is committed: segments stay in the store, what comes after them becomes a local file.

The bytes of the extents after the last segment are put into one segment file, with the producer snapshot of that last
segment beside it, and opened as after a crash: batches are checked, indexes made, and the producer state is brought up
to the end. Nothing that was in the folder before is used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.files import OpenFiles, write_all, write_file
from penstock.log.folder import claim_folder
from penstock.log.partition import LEADER_EPOCHS_FILE
from penstock.log.recovery import snapshot_path
from penstock.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_stem
from penstock.portable import OPEN_FLAGS
from penstock.records.batch import iter_headers
from penstock.storage.objects.commit_log import CommitLog, Extent, Layout, PartitionKey, SegmentEntry
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.remote import RemoteSegment, SegmentCache
from penstock.storage.objects.store import ObjectStore

PAGE_BYTES = 4 << 20
PAGE_EXTENTS = 4096


def open_loaded(
    data_folder: Path,
    log: ObjectLog,
    config: LogConfig,
    layout: Layout,
    store: ObjectStore,
    cache: SegmentCache,
    open_files: OpenFiles,
    now_ms: int,
) -> ObjectLog:
    """A log that holds what is committed, led under the epoch of the layout. Its tail is in its folder already.

    Runs in a thread. Raises StorageError when something that is committed cannot be had.
    """
    folder = data_folder / f"{log.topic}-{log.partition}"
    state = layout.state
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


# The tail


def prepare_folder(folder: Path, topic_id: bytes, layout: Layout) -> str:
    """The folder of a log that begins where the last stored segment ends. Returns the path of its empty segment file.

    Raises StorageError.
    """
    stem = file_stem(str(folder), tail_base(layout))
    lines = ["0", str(len(layout.epochs)), *(f"{epoch} {start}" for epoch, start in layout.epochs), ""]
    try:
        shutil.rmtree(folder, ignore_errors=True)
        claim_folder(folder, topic_id)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):  # indexes are made anew if there are batches
            write_file(stem + suffix, b"")
        write_file(str(folder / LEADER_EPOCHS_FILE), "\n".join(lines).encode())
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror}") from error
    return stem + LOG_SUFFIX


def tail_base(layout: Layout) -> int:
    if layout.segments:
        return layout.segments[-1].end_offset
    return layout.extents[0].base_offset if layout.extents else layout.state.end_offset


def check_dense(layout: Layout) -> None:
    """Raises StorageError if offsets of the tail are in no extent."""
    next_offset = tail_base(layout)
    for extent in layout.extents:
        if extent.base_offset > next_offset:
            raise StorageError(f"there is a hole in what is committed: nothing holds offset {next_offset}")
        next_offset = extent.end_offset


def straddling(layout: Layout) -> Extent | None:
    """The extent that begins before the last segment ends, and goes on behind it."""
    first = layout.extents[0] if layout.extents else None
    return first if first is not None and first.base_offset < tail_base(layout) else None


def batches_from(data: bytes, base: int) -> bytes:
    for position, header in iter_headers(data):
        if header.base_offset >= base:
            return data[position:]
    return b""


def write_snapshot(folder: Path, entry: SegmentEntry, store: ObjectStore) -> None:
    if entry.snapshot_size:
        data = store.get(entry.object_key, entry.size - entry.snapshot_size, entry.snapshot_size)
        write_file(snapshot_path(str(folder), entry.end_offset), data)


def write_tail_folder(
    folder: Path, partition: PartitionKey, layout: Layout, commits: CommitLog, store: ObjectStore
) -> None:
    """The folder of a log with all of its tail, one extent after the other. Raises StorageError."""
    path = prepare_folder(folder, partition.topic_id, layout)
    check_dense(layout)
    base = tail_base(layout)
    try:
        fd = os.open(path, os.O_WRONLY | OPEN_FLAGS)
        try:
            for extent, data in read_extents(partition, layout.extents, commits, store):
                write_all(fd, batches_from(data, base) if extent.base_offset < base else data)
        finally:
            os.close(fd)
        if layout.segments:
            write_snapshot(folder, layout.segments[-1], store)
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror}") from error


# Extents


def read_extents(
    partition: PartitionKey, extents: Sequence[Extent], commits: CommitLog, store: ObjectStore
) -> Iterator[tuple[Extent, bytes]]:
    """With their bytes, in order."""
    for page in pages(extents):
        if page[0].object_key is None:
            yield from read_page(partition, page, commits)
        else:
            yield page[0], store.get(page[0].object_key, page[0].position, page[0].size)


def pages(extents: Sequence[Extent]) -> Iterator[list[Extent]]:
    """What is read at once: an extent in the store, or several in the commit log that follow each other."""
    page: list[Extent] = []
    size = 0
    for extent in extents:
        is_inline = extent.object_key is None
        if page and (not is_inline or size + extent.size > PAGE_BYTES or len(page) >= PAGE_EXTENTS):
            yield page
            page, size = [], 0
        if is_inline:
            page.append(extent)
            size += extent.size
        else:
            yield [extent]
    if page:
        yield page


def read_page(partition: PartitionKey, page: Sequence[Extent], commits: CommitLog) -> Iterator[tuple[Extent, bytes]]:
    """Extents in the commit log. One that is there no more, or is damaged, raises StorageError."""
    found = dict(commits.read_inline(partition, page[0].base_offset, page[-1].base_offset))
    for extent in page:
        data = found.get(extent.base_offset)
        if data is None or len(data) != extent.size:
            raise StorageError(f"the commit log has no {extent.size} bytes for offset {extent.base_offset}")
        yield extent, data


# Segments


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
