"""The object engine: what is durable is in the object store and in PostgreSQL, and local files are a cache.

The leader of a partition assigns offsets in memory and writes to a local log, as the embedded engine does. What changes
is what durable means (`committer`), and that a leader can be replaced: every commit names the leader epoch.

A log is opened as a follower and loaded by a thread once the commit log names this broker as its leader. Then it leads,
until a commit is fenced or the log is closed.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import guard
from penstock.log.config import LogConfig
from penstock.log.errors import LeadershipLost, StorageError
from penstock.log.files import FileOwner, OpenFiles
from penstock.log.flusher import Callback
from penstock.portable import disk_space
from penstock.storage.contract import Log, StoreFigures, Volume
from penstock.storage.objects.commit_log import CommitLog, Layout, Outcome, SegmentEntry, Tail
from penstock.storage.objects.committer import CommitSettings, Committer
from penstock.storage.objects.key_space import KeySpace
from penstock.storage.objects.loader import Loader
from penstock.storage.objects.loading import open_loaded
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.log_starts import LogStarts
from penstock.storage.objects.remote import SegmentCache
from penstock.storage.objects.shipping import Shipper
from penstock.storage.objects.store import ObjectStore
from penstock.storage.objects.sweep import Sweep, SweepSettings, Writer
from penstock.storage.objects.tails import Tails, TailSettings
from penstock.storage.objects.takeover import Loaded, TakeOver
from penstock.threads import THREADS, Threads

if TYPE_CHECKING:
    from penstock.log.cleaner.manager import CleanerManager
    from penstock.log.partition import PartitionLog
    from penstock.storage.compaction import CleanerConfig, Compactor

logger = logging.getLogger("penstock.storage")

_ROLLS_AT_A_TIME = 4
_CLOSE_SECONDS = 15.0
_CACHE_FOLDER = "objects"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    node_id: int
    broker_epoch: int = 0
    keys: KeySpace = field(default_factory=KeySpace)
    """Where this cluster's objects are."""
    is_alone: bool = True
    """Whether this broker makes itself the leader of every partition that it opens."""
    commit: CommitSettings = field(default_factory=CommitSettings)
    tails: TailSettings = field(default_factory=TailSettings)
    sweep: SweepSettings = field(default_factory=SweepSettings)
    cache_bytes: int = 4 << 30
    """What local files of segments that are in the store may take."""


class SharedOpenFiles(OpenFiles):
    """Logs are loaded by several threads."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()

    def opened(self, owner: FileOwner) -> None:
        with self._lock:
            super().opened(owner)

    def forget(self, owner: FileOwner) -> None:
        with self._lock:
            super().forget(owner)


class ObjectStorage:
    """See `contract.Storage`. The caller holds the folder's lock.

    `on_fatal` is called when the commit log is not what this broker has seen committed: going on would overwrite it.
    """

    can_lose_appends = True
    may_have_lost_writes = False

    def __init__(
        self,
        folder: Path,
        now_ms: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], object],
        on_fatal: Callable[[StorageError], None],
        commits: CommitLog,
        store: ObjectStore,
        settings: EngineSettings,
        internal_topics: frozenset[str] = frozenset(),
        threads: Threads = THREADS,
        new_id: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> None:
        """`new_id` makes names that nobody else has."""
        self.folder = folder
        self._new_id = new_id
        self.settings = settings
        self._now_ms = now_ms
        self._call_soon = call_soon
        self._on_fatal = on_fatal
        self._commits = commits
        self._store = store
        self._logs: dict[tuple[str, int], ObjectLog] = {}
        self._waiting: dict[ObjectLog, deque[tuple[int, int, Callback]]] = {}
        self._is_open = self._is_closed = self._is_suspended = False
        self._cleaner: CleanerManager | None = None
        self._internal_topics = internal_topics
        self._take_overs = 0
        self._take_over_seconds = self._take_over_longest_seconds = 0.0
        self._clear_folder()
        self._cache = SegmentCache(folder / _CACHE_FOLDER, store, settings.cache_bytes, threads)
        self._open_files = SharedOpenFiles()
        self.writer = Writer(settings.keys.prefix, settings.node_id, settings.broker_epoch, new_id()[:6].hex())
        self.sweep = Sweep(commits, store, self.writer, settings.sweep, settings.keys, threads)
        self.tails = Tails(settings.tails)
        numbers = itertools.count()
        self.committer = Committer(
            commits,
            store,
            lambda: self.writer.key("wal", f"{next(numbers):012d}"),
            settings.commit,
            call_soon,
            self._settle,
            self.sweep.doom,
            lambda log: log.topic in internal_topics,
            lambda: self.tails.may_go_inline,
            threads,
        )
        self.shipper = Shipper(
            commits,
            store,
            lambda log, base: self.writer.key(
                "segment", f"{log.topic_id.hex()}-{log.partition}-{base:020d}-{next(numbers)}"
            ),
            call_soon,
            self._shipped,
            self._fenced,
            self.sweep.doom,
            threads,
        )
        self.log_starts = LogStarts(commits, call_soon, self._start_committed, self._fenced, threads)
        self.sweep.start()
        self._threads = threads
        self._take_over = TakeOver(folder, commits, store, self._open_loaded, threads)
        self._loader = Loader(
            commits,
            settings,
            lambda log: log.topic in internal_topics,
            self._take_over.begin,
            self.adopt,
            call_soon,
            threads,
        )

    def _clear_folder(self) -> None:
        """What an earlier run has left is a cache that nobody vouches for."""
        for entry in list(os.scandir(self.folder)):
            if entry.is_dir():
                shutil.rmtree(entry.path, ignore_errors=True)

    @property
    def cache(self) -> SegmentCache:
        return self._cache

    def volume(self) -> Volume:
        return Volume(self._store.shown, *disk_space(self.folder))

    def figures(self) -> StoreFigures:
        done, cache, shipper = self.committer.statistics, self._cache, self.shipper
        return StoreFigures(
            commits=done.commits,
            commit_seconds=done.commit_seconds,
            commit_age_seconds=time.monotonic() - done.last_commit if done.commits else -1.0,
            inline_bytes=done.inline_bytes,
            uploads=done.uploads,
            upload_bytes=done.upload_bytes,
            upload_seconds=done.upload_seconds,
            failures=done.failures + shipper.failures + self.log_starts.failures,
            backlog_bytes=self.committer.backlog_bytes,
            uploads_under_way=self.committer.uploads_under_way,
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            fetched_bytes=cache.fetched_bytes,
            cache_bytes=cache.bytes + sum(log.shipped_bytes for log in self._logs.values()),
            segments=shipper.shipped,
            segment_bytes=shipper.shipped_bytes,
            chores_waiting=shipper.waiting + self.log_starts.waiting,
            removed_objects=self.sweep.removed,
            removed_orphans=self.sweep.orphans,
            take_overs=self._take_overs,
            take_over_seconds=self._take_over_seconds,
            take_over_longest_seconds=self._take_over_longest_seconds,
        )

    # -- logs ------------------------------------------------------------------------------------------------------

    def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> ObjectLog:
        namesake = self._logs.get((topic, partition))
        if namesake is not None:
            self._give_up(namesake)
        log = ObjectLog(self.folder / f"{topic}-{partition}", topic, partition, topic_id, config, self._open_files)
        log.on_append = self.committer.append
        log.on_folder_lost = self._on_fatal
        log.has_room = self.committer.has_room
        log.on_start_moved = self._start_moved
        log.on_roll = self._rolled
        self._logs[topic, partition] = log
        if self._is_open and self.settings.is_alone:
            guard.attempt(f"leading {topic}-{partition}", self._loader.load_now, log)
        else:
            self._loader.add(log)
        return log

    def opened(self) -> None:
        self._is_open = True
        if self.settings.is_alone:
            self._loader.load_now()
        self._open_files.reader.may_wait = False
        self._cache.open_files.reader.may_wait = False
        self._loader.start()

    def logs(self) -> Iterator[ObjectLog]:
        return iter(list(self._logs.values()))

    def delete_log(self, log: Log) -> Callable[[], None]:
        assert isinstance(log, ObjectLog)
        del self._logs[log.topic, log.partition]
        self._give_up(log)
        self.sweep.note_work()
        return partial(shutil.rmtree, self._set_aside(log), ignore_errors=True)

    def resign(self, log: Log) -> None:
        log.on_leadership = None
        self._take_over.clear(self.delete_log(log))

    def _set_aside(self, log: ObjectLog) -> Path:
        """The log may be opened again before the files of this one are gone."""
        aside = log.folder.with_name(f"{self._new_id().hex()}-delete")
        with suppress(FileNotFoundError):
            log.folder.rename(aside)
        return aside

    def _give_up(self, log: ObjectLog) -> None:
        self._loader.remove(log)
        if self._cleaner is not None:
            self._cleaner.give_up(log)
        self.committer.end(log)
        self.tails.end(log)
        self.shipper.forget(log)
        self.log_starts.forget(log)
        self._refuse(log)
        log.resign()
        log.release_files()

    def _open_loaded(self, log: ObjectLog, layout: Layout) -> ObjectLog:
        return open_loaded(
            self.folder, log, log.config, layout, self._store, self._cache, self._open_files, self._now_ms()
        )

    def adopt(self, loaded: Loaded) -> None:
        """Lead a log that was loaded, unless it was closed in the meantime."""
        log = loaded.wanted
        if self._logs.get((log.topic, log.partition)) is not log or self._is_closed:
            loaded.log.release_files()
            return
        if loaded.log.leader_epoch < log.epoch_min:
            loaded.log.release_files()
            self._loader.add(log)
            return
        log.take_over(loaded.log, is_suspended=self._is_suspended)
        took = time.monotonic() - log.wanted_since
        self._take_overs += 1
        self._take_over_seconds += took
        self._take_over_longest_seconds = max(self._take_over_longest_seconds, took)
        self.committer.begin(log)
        self.tails.begin(log, loaded.extents, time.monotonic())
        log.announce()
        self._look_at_tail(log)

    def compactor(self, config: CleanerConfig, on_progress: Callable[[], None]) -> Compactor:
        from penstock.log.cleaner.manager import CleanerManager

        def led() -> Iterator[PartitionLog]:
            return (log for log in self.logs() if log.is_leader)

        self._cleaner = CleanerManager(self.folder, led, config, on_progress, self._threads)
        return self._cleaner

    # -- durability ------------------------------------------------------------------------------------------------

    def when_durable(self, log: Log, position: int, callback: Callback) -> None:
        assert isinstance(log, ObjectLog)
        if not log.holds_office:
            self._answer(callback, _leadership_lost(log))
        elif log.committed_end >= position and log.start_committed >= log.log_start_offset:
            self._answer(callback, None)
        else:
            self._waiting.setdefault(log, deque()).append((position, log.log_start_offset, callback))

    def when_start_durable(self, log: Log, callback: Callback) -> None:
        self.when_durable(log, 0, callback)

    def _answer(self, callback: Callback, failure: StorageError | None) -> None:
        self._call_soon(partial(callback, failure))

    def make_durable_soon(self, log: Log) -> None:
        """Every append is committed as soon as can be, awaited or not."""

    def _settle(self, outcomes: Sequence[tuple[ObjectLog, Tail, Outcome]]) -> None:
        now = time.monotonic()
        for log, tail, outcome in outcomes:
            if not log.holds_office or log.leader_epoch != tail.leader_epoch:
                continue
            if outcome is Outcome.COMMITTED:
                guard.attempt("telling of a commit", log.committed, tail.end_offset)
                self.tails.committed(log, tail, now)
                self._tell_waiting(log)
                self._look_at_tail(log)
            elif outcome is Outcome.DIVERGED:
                self._on_fatal(
                    StorageError(
                        f"{log.topic}-{log.partition} does not end at {tail.base_offset} in PostgreSQL, where this "
                        "broker has committed it under the same leader epoch: PostgreSQL has lost confirmed commits, "
                        "or was restored. The broker stops rather than overwrite them"
                    )
                )
            else:
                self._fenced(log, tail.leader_epoch)

        for log in self.tails.excess(now):
            self._begin_segment(log)

    def _look_at_tail(self, log: ObjectLog) -> None:
        if self.tails.is_due(log):
            self._begin_segment(log)
        guard.attempt("shipping a segment", self.shipper.look_at, log)

    def _begin_segment(self, log: ObjectLog) -> None:
        """The one before is stored once all of it is committed."""
        if log.is_leader:
            guard.attempt(f"beginning a segment of {log.topic}-{log.partition}", log.roll, self._now_ms())
            guard.attempt("shipping a segment", self.shipper.look_at, log)

    def _begin_segments(self, logs: Iterator[ObjectLog]) -> None:
        """A few at a time, so that nobody waits for many of them."""
        some = list(itertools.islice(logs, _ROLLS_AT_A_TIME))
        for log in some:
            self._begin_segment(log)
        if some:
            self._call_soon(partial(self._begin_segments, logs))

    def _rolled(self, log: PartitionLog) -> None:
        assert isinstance(log, ObjectLog)
        self.tails.rolled(log)

    def _start_moved(self, log: ObjectLog) -> None:
        self.tails.stored(log, log.log_start_offset)
        self.log_starts.move(log)

    def _tell_waiting(self, log: ObjectLog) -> None:
        waiting = self._waiting.get(log)
        if waiting is None:
            return
        for _ in range(len(waiting)):
            position, start, callback = waiting.popleft()
            if position <= log.committed_end and start <= log.start_committed:
                guard.attempt("telling that records are durable", callback, None)
            else:
                waiting.append((position, start, callback))
        if not waiting:
            self._waiting.pop(log, None)

    def _start_committed(self, log: ObjectLog, offset: int) -> None:
        log.start_committed = max(log.start_committed, offset)
        self.sweep.note_work()
        self._tell_waiting(log)

    def _shipped(self, log: ObjectLog, entry: SegmentEntry) -> None:
        self.tails.stored(log, entry.end_offset)
        self.sweep.note_work()

    def _refuse(self, log: ObjectLog) -> None:
        for _, _, callback in self._waiting.pop(log, ()):
            self._answer(callback, _leadership_lost(log))

    def _fenced(self, log: ObjectLog, leader_epoch: int) -> None:
        """Another broker has become the leader, or the topic is deleted. Perhaps this one will lead again."""
        if not log.holds_office or log.leader_epoch != leader_epoch:
            return
        log_it = logger.warning if self.settings.is_alone else logger.info
        log_it("%s-%d is not led from here any more", log.topic, log.partition)
        self._give_up(log)
        if self._logs.get((log.topic, log.partition)) is log and not self.settings.is_alone:
            log.epoch_min = max(log.epoch_min, leader_epoch + 1)
            self._loader.add(log)

    # -- leases ----------------------------------------------------------------------------------------------------

    def leads_since(self, log: Log, leader_epoch: int) -> None:
        assert isinstance(log, ObjectLog)
        if log.holds_office and log.leader_epoch >= leader_epoch:
            return
        log.epoch_min = max(log.epoch_min, leader_epoch)
        if log.holds_office:
            self._fenced(log, log.leader_epoch)
        else:
            self._loader.look()

    def suspend(self) -> None:
        self._is_suspended = True
        for log in self.logs():
            log.suspend()

    def resume(self) -> None:
        self._is_suspended = False
        for log in self.logs():
            log.resume()

    def registered(self, broker_epoch: int) -> None:
        self.writer = self.sweep.writer = replace(self.writer, broker_epoch=broker_epoch)

    def lost_writes_settled(self) -> None:
        pass

    def save_progress(self) -> None:
        """Called now and then: keeps the local files within their bounds."""
        now_ms = self._now_ms()
        self._begin_segments(self.tails.old(time.monotonic()))
        for log in self.logs():
            guard.attempt("shipping a segment", self.shipper.look_at, log)
        used = sum(log.shipped_bytes for log in self.logs())
        for log in sorted(self.logs(), key=lambda each: -each.shipped_bytes):
            while used > self.settings.cache_bytes and log.holds_office and not log.config.compacts:
                freed = log.let_go(self._cache, now_ms)
                if not freed:
                    break
                used -= freed

    def close(self) -> None:
        self._is_closed = True
        self._cache.close()
        self._take_over.give_up()
        self._loader.close()
        if not self.committer.close(_CLOSE_SECONDS):
            logger.error("some records could not be committed before the broker stopped; none of them was acknowledged")
        self.log_starts.close(_CLOSE_SECONDS)
        self.shipper.close(_CLOSE_SECONDS)
        self.sweep.close(_CLOSE_SECONDS)
        self._take_over.close()
        for log in self._logs.values():
            log.release_files()
        self._commits.close()


def _leadership_lost(log: ObjectLog) -> LeadershipLost:
    return LeadershipLost(f"another broker leads {log.topic}-{log.partition} now")
