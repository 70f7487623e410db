"""The embedded engine: segment files in one folder, made durable by `fdatasync`.

A folder `<topic>-<partition>` holds each log (`penstock.log`). Beside them are the checkpoints and the marks that tell
a clean stop, a killed process and a machine that went down from each other (`checkpoint`).
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.files import OpenFiles
from penstock.log.flusher import Callback, Flusher
from penstock.log.partition import PartitionLog
from penstock.portable import disk_space
from penstock.storage.checkpoint import Checkpoints
from penstock.storage.contract import Log, Volume
from penstock.storage.saving import Saving
from penstock.threads import THREADS, Threads

if TYPE_CHECKING:
    from penstock.storage.compaction import CleanerConfig, Compactor
    from penstock.storage.moment import Moment

log = logging.getLogger("penstock.storage")

_CLOSING_THREADS = 8


class LocalStorage:
    """See `contract.Storage`. The caller holds the folder's lock.

    `call_soon` runs a function in the event loop's thread; `on_fatal` is called there when the disk has failed to keep
    what it took, after which nothing can be promised any more.
    """

    def __init__(
        self,
        folder: Path,
        now_ms: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], object],
        on_fatal: Callable[[StorageError], None],
        clock: Callable[[], float] | None = None,
        on_synced: Callable[[float], None] = lambda seconds: None,
        threads: Threads = THREADS,
        new_id: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> None:
        """`clock` and `on_synced` are for who wants to know how long the disk takes. `new_id` makes names that nobody
        else has."""
        self.folder = folder
        self._new_id = new_id
        self._now_ms = now_ms
        self._on_fatal = on_fatal
        self._threads = threads
        self._checkpoints = Checkpoints(folder)
        self._open_files = OpenFiles()
        self._flusher = Flusher(call_soon, self._disk_failed, clock, on_synced, threads)
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self._saving = Saving(self._checkpoints, self._logs.values, call_soon, threads)
        self._moment: Moment | None = None
        self._is_open = False

    can_lose_appends = False
    """As long as the broker runs, the page cache has what the disk does not."""

    @property
    def may_have_lost_writes(self) -> bool:
        return self._checkpoints.may_have_lost_writes

    def volume(self) -> Volume:
        return Volume(str(self.folder.resolve()), *disk_space(self.folder))

    # -- logs ------------------------------------------------------------------------------------------------------

    def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> PartitionLog:
        known = self._checkpoints
        if self._is_open:
            self._forget_namesake(topic, partition)
        opened = PartitionLog.open(
            self.folder,
            topic,
            partition,
            topic_id,
            config,
            self._now_ms(),
            clean=known.was_clean,
            recovery_point=known.recovery_points.get((topic, partition), 0),
            log_start_offset=known.log_start_offsets.get((topic, partition), 0),
            leader_epoch=known.leader_epoch,
            noted_end=known.noted_ends.get((topic, partition)),
            open_files=self._open_files,
            may_have_lost_writes=known.may_have_lost_writes,
        )
        opened.on_roll = self._flusher.request_sync
        self._logs[topic, partition] = opened
        return opened

    def _forget_namesake(self, topic: str, partition: int) -> None:
        """A new log must not be taken for a deleted one of the same name, whose offsets are in the checkpoints.

        After a crash they would tell that records are deleted, or safe on disk, which are neither. One save takes care
        of all partitions of a topic.
        """
        self._saving.finish()
        if self._checkpoints.knows(topic, partition):
            self._checkpoints.save(self._logs.values())

    def opened(self) -> None:
        self._remove_strays()
        self._checkpoints.opened(self._logs.values())
        self._open_files.reader.may_wait = False
        self._is_open = True

    def _remove_strays(self) -> None:
        """Finish deletions that a crash interrupted; set aside folders that the catalog does not know.

        A folder that no topic owns is left by a crash while creating, or by a catalog that was lost: it is renamed,
        never removed, because it may hold records.
        """
        known = {f"{topic}-{partition}" for topic, partition in self._logs}
        for entry in list(os.scandir(self.folder)):
            name, dash, index = entry.name.rpartition("-")
            if not dash or entry.name in known or not entry.is_dir():
                continue
            if index == "delete":
                shutil.rmtree(entry.path, ignore_errors=True)
            elif index.isdigit() and name:
                aside = f"{entry.path}.{self._new_id().hex()}-stray"
                log.warning("%s belongs to no topic; renamed to %s", entry.path, aside)
                os.rename(entry.path, aside)

    def logs(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def delete_log(self, log: Log) -> Callable[[], None]:
        deleted = self._logs.pop((log.topic, log.partition))
        folder = deleted.delete(self._new_id())
        remove = partial(shutil.rmtree, folder, ignore_errors=True)
        if self._moment is None:
            return remove
        self._moment.moved(deleted, folder)
        self._open_files.hold.run_afterwards(partial(self._threads.start, "penstock-removal", remove))
        return lambda: None

    def resign(self, log: Log) -> None:
        self._logs.pop((log.topic, log.partition)).close()

    def compactor(self, config: CleanerConfig, on_progress: Callable[[], None]) -> Compactor:
        from penstock.log.cleaner.manager import CleanerManager

        hold = self._open_files.hold
        return CleanerManager(self.folder, self.logs, config, on_progress, self._threads, lambda: hold.is_on)

    # -- backups ---------------------------------------------------------------------------------------------------

    def fix_moment(self) -> Moment:
        """Note what all logs hold now. Until `end_moment` no file of theirs is removed or replaced."""
        from penstock.storage.moment import Moment

        self._open_files.hold.begin()
        self._moment = Moment(self._checkpoints.leader_epoch, self._logs.values())
        return self._moment

    def end_moment(self) -> None:
        self._moment = None
        self._open_files.hold.end()

    # -- durability ------------------------------------------------------------------------------------------------

    def when_durable(self, log: Log, position: int, callback: Callback) -> None:
        assert isinstance(log, PartitionLog)
        self._flusher.request(log, position, callback)

    def when_start_durable(self, log: Log, callback: Callback) -> None:
        self._saving.when_starts_are_saved(callback)

    def make_durable_soon(self, log: Log) -> None:
        assert isinstance(log, PartitionLog)
        self._flusher.request_sync(log)

    def lost_writes_settled(self) -> None:
        self._checkpoints.keep_boot()

    def save_progress(self) -> None:
        self._saving.begin()

    def _disk_failed(self, error: StorageError) -> None:
        self._checkpoints.forget_boot()
        self._on_fatal(error)

    def close(self) -> None:
        self._saving.finish()
        self._flusher.close()
        if self._flusher.failure is not None:
            return
        # Several at a time: each waits for the disk a few times.
        pool = self._threads.pool("penstock-close", _CLOSING_THREADS)
        try:
            for closing in [pool.submit(each.close) for each in self._logs.values()]:
                closing.result()
            pool.shutdown()
            self._saving.close()
            self._checkpoints.mark_clean()
        except (OSError, StorageError):
            self._checkpoints.forget_boot()  # it may have been a sync that has failed
            raise
