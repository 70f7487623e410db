"""What follows from commits and can wait: rolled segments become objects, log starts move, unnamed objects go.

One thread does it, in order, so that a log's segments are shipped one after the other. A chore that finds the store or
PostgreSQL away is tried again; one that finds its leader replaced is given up.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock import guard
from penstock.log.errors import StorageError
from penstock.log.files import SegmentFile, pread_all
from penstock.log.recovery import snapshot_path
from penstock.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from penstock.storage.objects.commit_log import CommitLog, Outcome, SegmentEntry
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.store import ObjectStore
from penstock.threads import THREADS, Thread, Threads

logger = logging.getLogger("penstock.storage")

_RETRY_SECONDS = 1.0


class Shipment(NamedTuple):
    log: ObjectLog
    leader_epoch: int
    segment: Segment
    file: SegmentFile
    end_offset: int
    replaced: list[str]
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int


class Chores:
    """`call_soon` runs a function in the owner's thread, which calls everything here but what the thread does."""

    def __init__(
        self,
        commits: CommitLog,
        store: ObjectStore,
        new_key: Callable[[ObjectLog, int], str],
        call_soon: Callable[[Callable[[], None]], object],
        on_fenced: Callable[[ObjectLog, int], None],
        on_start_committed: Callable[[ObjectLog, int], None],
        sweep: Callable[[], None],
        sweep_seconds: float,
        threads: Threads = THREADS,
    ) -> None:
        self._commits = commits
        self._store = store
        self._new_key = new_key
        self._call_soon = call_soon
        self._on_fenced = on_fenced
        self._on_start_committed = on_start_committed
        self._sweep = sweep
        self._sweep_seconds = sweep_seconds
        self._threads = threads
        self._changed = threads.condition()
        self._starts: dict[ObjectLog, tuple[int, int]] = {}
        self._shipments: dict[ObjectLog, Shipment] = {}
        self._busy = False
        self._closing = False
        self._thread: Thread | None = None
        self._sweep_at = time.monotonic() + sweep_seconds
        self.shipped = self.shipped_bytes = self.failures = 0

    @property
    def waiting(self) -> int:
        return len(self._shipments) + len(self._starts)

    def start(self) -> None:
        self._thread = self._threads.start("penstock-chores", self._run)

    def move_start(self, log: ObjectLog) -> None:
        with self._changed:
            self._starts[log] = (log.leader_epoch, log.log_start_offset)
            self._changed.notify_all()

    def look_at(self, log: ObjectLog) -> None:
        """Ship the next segment of a log, if one is due and none is under way."""
        if not log.holds_office or log in self._shipments:
            return
        found = log.unshipped()
        if found is None:
            return
        segment, end_offset = found
        segment.load_timestamps()
        shipment = Shipment(
            log,
            log.leader_epoch,
            segment,
            segment.open_file(),
            end_offset,
            [each.object_key for each in log.replaced_by(segment.base_offset, end_offset)],
            segment.first_batch_timestamp(),
            segment.max_timestamp,
            segment.max_timestamp_offset,
        )
        with self._changed:
            self._shipments[log] = shipment
            self._changed.notify_all()

    def forget(self, log: ObjectLog) -> None:
        with self._changed:
            self._starts.pop(log, None)
            self._shipments.pop(log, None)

    def close(self, timeout_seconds: float) -> None:
        """Commit the log starts that wait; shipments are left to the next start."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    # The thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._starts and not (self._shipments and not self._closing):
                    if self._closing:
                        return
                    if not self._changed.wait(max(self._sweep_at - time.monotonic(), 0.0)):
                        break
                starts = dict(self._starts)
                shipment = next(iter(self._shipments.values()), None) if not self._closing else None
            done = True
            for log, start in starts.items():
                done = self._commit_start(log, *start) and done
            if shipment is not None:
                done = self._ship(shipment) and done
            if time.monotonic() >= self._sweep_at and not self._closing:
                guard.attempt("looking for objects that nothing names", self._sweep)
                self._sweep_at = time.monotonic() + self._sweep_seconds
            if not done:
                with self._changed:
                    if self._closing:
                        return
                    self._changed.wait(_RETRY_SECONDS)

    def _commit_start(self, log: ObjectLog, leader_epoch: int, offset: int) -> bool:
        try:
            outcome = self._commits.move_start(log.key, leader_epoch, offset)
        except StorageError as error:
            return self._failed(f"cannot move the log start of {log.topic}-{log.partition}", error)
        with self._changed:
            if self._starts.get(log) == (leader_epoch, offset):
                del self._starts[log]
        if outcome is Outcome.COMMITTED:
            self._call_soon(partial(self._on_start_committed, log, offset))
        else:
            self._call_soon(partial(self._on_fenced, log, leader_epoch))
        return True

    def _ship(self, shipment: Shipment) -> bool:
        log = shipment.log
        entry: SegmentEntry | None = None
        try:
            parts, entry = self._pack(shipment)
            self._store.put(entry.object_key, parts)
            if not log.has_segment(shipment.segment):  # compaction or retention was faster
                self._store.delete([entry.object_key])
                self._done(shipment, None)
                return True
        except (StorageError, OSError) as error:
            # The key is not used again: what may have been stored under it is found by the sweep.
            self._done(shipment, None)
            return self._failed(f"cannot store a segment of {log.topic}-{log.partition}", error)
        outcome = self._commit_shipment(shipment, entry)
        if outcome is None:
            return False
        if outcome is Outcome.COMMITTED:
            self.shipped += 1
            self.shipped_bytes += entry.size
            self._done(shipment, entry)
        else:
            logger.info("a segment of %s-%d was not taken: %s", log.topic, log.partition, outcome.value)
            self._done(shipment, None)
            if outcome is not Outcome.DIVERGED:
                self._call_soon(partial(self._on_fenced, log, shipment.leader_epoch))
        return True

    def _commit_shipment(self, shipment: Shipment, entry: SegmentEntry) -> Outcome | None:
        """Repeated as it is until the outcome is known; None if the broker stops before."""
        log, epoch = shipment.log, shipment.leader_epoch
        while not self._closing:
            try:
                if shipment.replaced:
                    return self._commits.replace_segments(log.key, epoch, shipment.replaced, entry)
                return self._commits.add_segment(log.key, epoch, entry)
            except StorageError as error:
                self._failed(f"cannot commit a segment of {log.topic}-{log.partition}", error)
                with self._changed:
                    self._changed.wait(_RETRY_SECONDS)
        return None

    def _done(self, shipment: Shipment, entry: SegmentEntry | None) -> None:
        with self._changed:
            if self._shipments.get(shipment.log) is shipment:
                del self._shipments[shipment.log]

        def tell() -> None:
            log = shipment.log
            if entry is not None and log.holds_office and log.leader_epoch == shipment.leader_epoch:
                log.was_shipped(shipment.segment, entry)
                self.look_at(log)

        self._call_soon(tell)

    def _pack(self, shipment: Shipment) -> tuple[list[bytes], SegmentEntry]:
        segment, log = shipment.segment, shipment.log
        data = pread_all(shipment.file, segment.size, 0)
        index = _read(segment.stem + INDEX_SUFFIX)
        time_index = _read(segment.stem + TIME_INDEX_SUFFIX)
        txn_index = _read(segment.stem + TXN_INDEX_SUFFIX)
        snapshot = _read(snapshot_path(str(log.folder), shipment.end_offset))
        # Whoever takes over starts from the snapshot of the last segment, and a loaded log has no others.
        if not snapshot and not any(each.base_offset >= shipment.end_offset for each in log.entries):
            raise StorageError(f"there is no producer snapshot at offset {shipment.end_offset}")
        entry = SegmentEntry(
            segment.base_offset,
            shipment.end_offset,
            self._new_key(log, segment.base_offset),
            len(data),
            len(index),
            len(time_index),
            len(txn_index),
            len(snapshot),
            shipment.first_timestamp,
            shipment.max_timestamp,
            shipment.max_timestamp_offset,
        )
        return [data, index, time_index, txn_index, snapshot], entry

    def _failed(self, what: str, error: BaseException) -> bool:
        self.failures += 1
        logger.warning("%s: %s", what, error)
        return False


def _read(path: str) -> bytes:
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()
