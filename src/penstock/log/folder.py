"""The data folder: every partition's log under one lock, with Kafka's checkpoint files beside them.

The file `.kafka_cleanshutdown` exists only between a proper stop and the next start. While it does, logs open without
reading their data; without it each log is checked from its recovery point on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from penstock.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    read_checkpoint,
    write_checkpoint,
)
from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.files import DEFAULT_OPEN_FILES_MAX, FolderLock, OpenFiles, sync_path, write_file
from penstock.log.partition import DELETED_FOLDER_SUFFIX, PartitionLog

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"


class LogFolder:
    """Opens and closes the logs of one data folder. A second process on the same folder is refused (FolderInUse)."""

    def __init__(self, path: Path, *, open_files_max: int = DEFAULT_OPEN_FILES_MAX) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot create the data folder {path}: {error.strerror}") from error
        self._lock = FolderLock(path)
        self._open_files = OpenFiles(open_files_max)
        self._recovery_points = read_checkpoint(path / RECOVERY_POINTS)
        self._log_starts = read_checkpoint(path / LOG_START_OFFSETS)
        marker = path / CLEAN_SHUTDOWN_FILE
        self.clean = marker.exists()
        """Whether the last run was stopped properly."""
        try:
            if self.clean:
                marker.unlink()
                sync_path(str(path))
            self.deleted_folders = [entry for entry in path.iterdir() if entry.name.endswith(DELETED_FOLDER_SUFFIX)]
        except OSError as error:
            self._lock.release()
            raise StorageError(f"cannot use the data folder {path}: {error.strerror}") from error
        """Folders of deleted logs whose removal was interrupted; hand them to `remove_folder`."""
        self._logs: dict[TopicPartition, PartitionLog] = {}

    def open_log(
        self, topic: str, partition: int, topic_id: bytes, config: LogConfig, now_ms: int, *, leader_epoch: int = 0
    ) -> PartitionLog:
        key = (topic, partition)
        log = PartitionLog.open(
            self.path,
            topic,
            partition,
            topic_id,
            config,
            now_ms,
            clean=self.clean,
            recovery_point=self._recovery_points.get(key, 0),
            log_start_offset=self._log_starts.get(key, 0),
            leader_epoch=leader_epoch,
            open_files=self._open_files,
        )
        self._logs[key] = log
        return log

    def forget(self, log: PartitionLog) -> None:
        """The log was deleted; the next checkpoint leaves it out."""
        self._logs.pop((log.topic, log.partition), None)

    @property
    def logs(self) -> Iterable[PartitionLog]:
        return self._logs.values()

    def checkpoint(self) -> None:
        """Save recovery points and log start offsets if they moved. Cheap enough to be called every few seconds."""
        recovery_points = {key: log.recovery_point for key, log in self._logs.items()}
        if recovery_points != self._recovery_points:
            write_checkpoint(self.path / RECOVERY_POINTS, recovery_points)
            self._recovery_points = recovery_points
        log_starts = {key: log.log_start_offset for key, log in self._logs.items() if log.log_start_offset}
        if log_starts != self._log_starts:
            write_checkpoint(self.path / LOG_START_OFFSETS, log_starts)
            self._log_starts = log_starts

    def close(self) -> None:
        """Close every log properly and say so on disk; then let the folder go."""
        try:
            for log in self._logs.values():
                log.close()
            self.checkpoint()
            write_checkpoint(self.path / HIGH_WATERMARKS, {key: log.high_watermark for key, log in self._logs.items()})
            write_file(str(self.path / CLEAN_SHUTDOWN_FILE), b'{"version":0,"brokerEpoch":-1}', sync=True)
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Let the folder go without any of that, as after a storage failure: the next start checks everything."""
        self._lock.release()


def remove_folder(path: Path) -> None:
    """Remove a deleted log's folder. It may hold gigabytes, so run it where it blocks nobody."""
    shutil.rmtree(path, ignore_errors=True)
