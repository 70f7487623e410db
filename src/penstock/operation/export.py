"""Brings a cluster that has been stopped out into a data folder, which a single broker then serves.

The catalog gets its name last. Until then the file `cluster-export.json` says that the folder is not whole, and no
broker starts on it; a command that was killed is repeated and begins anew. The cluster stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.broker.cluster_folder import EMBEDDED_CATALOG, EXPORT_FILE
from penstock.catalog.contract import TopicRow, replaced_by
from penstock.catalog.postgres_session import Session
from penstock.catalog.postgres_whole import WholeCatalog, find_cluster, stopped_cluster
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, write_checkpoint
from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.files import remove_if_there, sync_path, write_all, write_file
from penstock.log.partition import LEADER_EPOCHS_FILE, PartitionLog
from penstock.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, file_stem
from penstock.operation.folder import file_damage
from penstock.operation.import_ import copy_catalog
from penstock.operation.target_folder import claim_target
from penstock.storage.checkpoint import CLEAN_SHUTDOWN, LEADER_EPOCH
from penstock.storage.objects.commit_log import (
    NOBODY,
    CommitLog,
    Layout,
    PartitionKey,
    PartitionState,
    SegmentEntry,
)
from penstock.storage.objects.loading import write_tail_folder
from penstock.storage.objects.store import ObjectStore

_UNFINISHED = ".exporting"
_CHUNK_BYTES = 4 << 20
_PARTITIONS_AT_A_TIME = 200

OnProgress = Callable[[int, int], object]


@dataclass(slots=True)
class Export:
    cluster_id: str
    topics: int = 0
    partitions: int = 0
    segments: int = 0
    bytes: int = 0
    was_there: bool = False
    """Whether an earlier attempt had finished."""


def export_cluster(
    data: Path,
    session: Session,
    commits: CommitLog,
    store: ObjectStore,
    now_ms: int,
    on_progress: OnProgress,
    *,
    dry_run: bool = False,
) -> Export:
    """Raises CatalogError, StorageError or FolderInUse with what to do."""
    lock = None if dry_run else claim_target(data, EXPORT_FILE, find_cluster(session))
    try:
        with stopped_cluster(session) as catalog:
            found = Export(catalog.cluster_id)
            if (data / EMBEDDED_CATALOG).exists() and (data / EXPORT_FILE).exists():
                found.was_there = True
                remove_if_there(str(data / EXPORT_FILE))
            else:
                _Exporter(data, catalog, commits, store, now_ms, on_progress, found).run(dry_run=dry_run)
            return found
    finally:
        if lock is not None:
            lock.release()


class _Exporter:
    def __init__(
        self,
        data: Path,
        catalog: WholeCatalog,
        commits: CommitLog,
        store: ObjectStore,
        now_ms: int,
        on_progress: OnProgress,
        found: Export,
    ) -> None:
        self._data = data
        self._catalog = catalog
        self._commits = commits
        self._store = store
        self._now_ms = now_ms
        self._on_progress = on_progress
        self._found = found
        self._total = 0

    def run(self, *, dry_run: bool) -> None:
        found = self._found
        topics = self._catalog.topics()
        keys = [(topic, PartitionKey(topic.topic_id, index)) for topic in topics for index in range(topic.partitions)]
        found.topics, found.partitions = len(topics), len(keys)
        usage = self._commits.usage()
        self._total = usage.bytes + usage.inline_bytes
        ends: dict[tuple[str, int], int] = {}
        starts: dict[tuple[str, int], int] = {}
        epoch = 0
        for at in range(0, len(keys), _PARTITIONS_AT_A_TIME):
            some = keys[at : at + _PARTITIONS_AT_A_TIME]
            layouts = self._commits.layouts([key for _, key in some])
            for topic, key in some:
                layout = layouts.get(key, Layout(PartitionState(NOBODY, 0, 0, 0)))
                epoch = max(epoch, layout.state.leader_epoch)
                if not dry_run:
                    self._write_partition(topic, key.partition, layout)
                self._count(layout)
                ends[topic.name, key.partition] = layout.state.end_offset
                if layout.state.log_start_offset:
                    starts[topic.name, key.partition] = layout.state.log_start_offset
        if not dry_run:
            self._finish(topics, ends, starts, epoch + 1)

    def _count(self, layout: Layout) -> None:
        found = self._found
        found.segments += len(layout.segments)
        found.bytes += sum(each.size for each in layout.segments) + sum(each.size for each in layout.extents)
        self._on_progress(found.bytes, max(self._total, found.bytes))

    def _write_partition(self, topic: TopicRow, index: int, layout: Layout) -> None:
        """What is not in segments becomes the last one of them, whose indexes and producer state are made here."""
        folder = self._data / f"{topic.name}-{index}"
        write_tail_folder(folder, PartitionKey(topic.topic_id, index), layout, self._commits, self._store)
        epochs = (folder / LEADER_EPOCHS_FILE).read_bytes()
        state = layout.state
        log = PartitionLog.open(
            self._data,
            topic.name,
            index,
            topic.topic_id,
            LogConfig(),
            self._now_ms,
            log_start_offset=state.log_start_offset,
        )
        if log.log_end_offset != state.end_offset:
            raise StorageError(
                f"{topic.name}-{index} is committed up to {state.end_offset}, and what is stored ends at "
                f"{log.log_end_offset}: run penstock cluster check"
            )
        log.close()
        try:
            write_file(str(folder / LEADER_EPOCHS_FILE), epochs, sync=True)
            for entry in layout.segments:
                self._write_segment(folder, entry)
            sync_path(str(folder))
        except OSError as error:
            raise StorageError(f"cannot write to {folder}: {error.strerror}") from error

    def _write_segment(self, folder: Path, entry: SegmentEntry) -> None:
        stem = file_stem(str(folder), entry.base_offset)
        position = 0
        for suffix, size in (
            (LOG_SUFFIX, entry.log_size),
            (INDEX_SUFFIX, entry.index_size),
            (TIME_INDEX_SUFFIX, entry.time_index_size),
            (TXN_INDEX_SUFFIX, entry.txn_index_size),
        ):
            if size or suffix != TXN_INDEX_SUFFIX:
                self._copy(entry.object_key, position, size, stem + suffix)
            position += size
        text = file_damage(stem + LOG_SUFFIX, entry.base_offset, entry.end_offset) if entry.log_size else None
        if text is not None:
            raise StorageError(f"{entry.object_key} is damaged: {text}. Run penstock cluster check")

    def _copy(self, key: str, position: int, size: int, path: str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            for at in range(position, position + size, _CHUNK_BYTES):
                write_all(fd, self._store.get(key, at, min(_CHUNK_BYTES, position + size - at)))
            os.fsync(fd)
        finally:
            os.close(fd)

    def _finish(
        self,
        topics: list[TopicRow],
        ends: dict[tuple[str, int], int],
        starts: dict[tuple[str, int], int],
        leader_epoch: int,
    ) -> None:
        data = self._data
        write_checkpoint(data / RECOVERY_POINTS, ends)
        write_checkpoint(data / LOG_START_OFFSETS, starts)
        write_file(str(data / LEADER_EPOCH), b"%d" % leader_epoch, sync=True)
        write_file(str(data / CLEAN_SHUTDOWN), b'{"version":0}', sync=True)
        unfinished = data / (EMBEDDED_CATALOG + _UNFINISHED)
        source = self._catalog
        target = SqliteCatalog.open(unfinished)
        try:
            target.change_features(replaced_by(source.features()))
            copy_catalog(source, target, topics)
            target.become(
                source.cluster_id,
                source.next_producer_id(),
                secret=source.secret(),
                features_epoch=source.features_epoch(),
            )
        finally:
            target.close()
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(f"{unfinished}{suffix}")
        sync_path(str(unfinished))
        unfinished.rename(data / EMBEDDED_CATALOG)
        sync_path(str(data))
        remove_if_there(str(data / EXPORT_FILE))
