"""Stores rolled segments as objects, which then take the place of the extents that they cover.

Some threads do it, each for one log at a time, so that a log's segments are shipped in order. A segment is read from
its file while it is uploaded: its size costs time, not memory. An upload that fails is made anew under another key,
after a growing pause; what may have arrived under the first key is reported as an orphan. A shipment whose leader was
replaced is given up, and so is one whose segment was compacted or deleted in the meantime.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from penstock.log.errors import StorageError
from penstock.log.files import OpenFiles, SegmentFile, pread_all
from penstock.log.recovery import snapshot_path
from penstock.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from penstock.storage.objects.commit_log import CommitLog, Outcome, SegmentEntry
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.store import ObjectStore
from penstock.threads import THREADS, Thread, Threads

logger = logging.getLogger("penstock.storage")

_THREADS = 4
_READ_BYTES = 1 << 20
_PAUSE_SECONDS_MIN = 0.5
_PAUSE_SECONDS_MAX = 30.0


@dataclass(slots=True, eq=False)
class Shipment:
    log: ObjectLog
    leader_epoch: int
    segment: Segment
    file: SegmentFile
    end_offset: int
    replaced: list[str]
    """Keys of the objects whose place the segment takes."""
    pause: float = _PAUSE_SECONDS_MIN
    due: float = 0.0

    @property
    def is_void(self) -> bool:
        """Whether compaction, retention or another leader was faster."""
        return not self.log.holds_office or not self.log.has_segment(self.segment)


class _Overtaken(StorageError):
    """The shipment has become void while it was uploaded."""


class Shipper:
    """`call_soon` runs a function in the owner's thread, which calls everything here but what the threads do."""

    def __init__(
        self,
        commits: CommitLog,
        store: ObjectStore,
        new_key: Callable[[ObjectLog, int], str],
        call_soon: Callable[[Callable[[], None]], object],
        on_shipped: Callable[[ObjectLog, SegmentEntry], None],
        on_fenced: Callable[[ObjectLog, int], None],
        on_orphan: Callable[[str], None],
        threads: Threads = THREADS,
    ) -> None:
        """`on_orphan` is called, by any thread, with the key of an upload that will not be committed."""
        self._commits = commits
        self._store = store
        self._new_key = new_key
        self._call_soon = call_soon
        self._on_shipped = on_shipped
        self._on_fenced = on_fenced
        self._on_orphan = on_orphan
        self._system = threads
        self._changed = threads.condition()
        self._shipments: dict[ObjectLog, Shipment] = {}
        self._under_way: set[Shipment] = set()
        self._closing = False
        self._threads: list[Thread] = []
        self.shipped = self.shipped_bytes = self.failures = 0

    @property
    def waiting(self) -> int:
        return len(self._shipments)

    def look_at(self, log: ObjectLog) -> None:
        """Ship the next segment of a log, if one is due and none is under way."""
        if not log.holds_office or log in self._shipments or self._closing:
            return
        found = log.unshipped()
        if found is None:
            return
        segment, end_offset = found
        replaced = [each.object_key for each in log.replaced_by(segment.base_offset, end_offset)]
        shipment = Shipment(log, log.leader_epoch, segment, segment.open_file(), end_offset, replaced)
        with self._changed:
            self._shipments[log] = shipment
            if len(self._threads) < min(len(self._shipments), _THREADS):
                self._threads.append(self._system.start("penstock-shipper", self._run))
            self._changed.notify_all()

    def forget(self, log: ObjectLog) -> None:
        with self._changed:
            self._shipments.pop(log, None)

    def close(self, timeout_seconds: float) -> None:
        """What is not shipped is left to whoever leads next."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        until = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))

    # The threads

    def _run(self) -> None:
        while (shipment := self._next()) is not None:
            try:
                self._ship(shipment)
            except Exception:
                logger.exception("shipping a segment of %s-%d failed", shipment.log.topic, shipment.log.partition)
                self._again(shipment)
            with self._changed:
                self._under_way.discard(shipment)
                self._changed.notify_all()

    def _next(self) -> Shipment | None:
        """The next one that is due. None when the broker stops."""
        with self._changed:
            while not self._closing:
                now = time.monotonic()
                waiting = [each for each in self._shipments.values() if each not in self._under_way]
                due = next((each for each in waiting if each.due <= now), None)
                if due is not None:
                    self._under_way.add(due)
                    return due
                self._changed.wait(min((each.due - now for each in waiting), default=None))
            return None

    def _ship(self, shipment: Shipment) -> None:
        log = shipment.log
        key = self._new_key(log, shipment.segment.base_offset)
        try:
            entry, sides = self._describe(shipment, key)
            self._store.put_stream(key, entry.size, self._parts(shipment, sides))
            if shipment.is_void:
                raise _Overtaken
        except _Overtaken:
            self._on_orphan(key)
            self._done(shipment, None)
            return
        except (StorageError, OSError) as error:
            self._on_orphan(key)
            if shipment.is_void:
                self._done(shipment, None)
            else:
                self._failed(f"cannot store a segment of {log.topic}-{log.partition}", error)
                self._again(shipment)
            return
        outcome = self._commit(shipment, entry)
        if outcome is None:
            return
        if outcome is Outcome.COMMITTED:
            self.shipped += 1
            self.shipped_bytes += entry.size
            self._done(shipment, entry)
            return
        logger.info("a segment of %s-%d was not taken: %s", log.topic, log.partition, outcome.value)
        self._on_orphan(key)
        self._done(shipment, None)
        if outcome is not Outcome.DIVERGED:
            self._call_soon(partial(self._on_fenced, log, shipment.leader_epoch))

    def _describe(self, shipment: Shipment, key: str) -> tuple[SegmentEntry, list[bytes]]:
        """The segment's entry, and what follows the batches in its object."""
        segment, log = shipment.segment, shipment.log
        times = _apart(shipment)
        times.load_timestamps()
        index, time_index, txn_index = (
            _read(segment.stem + suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
        )
        snapshot = _read(snapshot_path(str(log.folder), shipment.end_offset))
        # Whoever takes over starts from the snapshot of the last segment, and a loaded log has no others.
        if not snapshot and not any(each.base_offset >= shipment.end_offset for each in log.entries):
            raise StorageError(f"there is no producer snapshot at offset {shipment.end_offset}")
        entry = SegmentEntry(
            segment.base_offset,
            shipment.end_offset,
            key,
            segment.size,
            len(index),
            len(time_index),
            len(txn_index),
            len(snapshot),
            times.first_batch_timestamp(),
            times.max_timestamp,
            times.max_timestamp_offset,
        )
        return entry, [index, time_index, txn_index, snapshot]

    def _parts(self, shipment: Shipment, sides: list[bytes]) -> Iterator[bytes]:
        size = shipment.segment.size
        for position in range(0, size, _READ_BYTES):
            if shipment.is_void or self._closing:
                raise _Overtaken
            yield pread_all(shipment.file, min(_READ_BYTES, size - position), position)
        yield from (each for each in sides if each)

    def _commit(self, shipment: Shipment, entry: SegmentEntry) -> Outcome | None:
        """Repeated as it is until the outcome is known; None if the broker stops before."""
        log, epoch = shipment.log, shipment.leader_epoch
        pause = _PAUSE_SECONDS_MIN
        while not self._closing:
            try:
                if shipment.replaced:
                    return self._commits.replace_segments(log.key, epoch, shipment.replaced, entry)
                return self._commits.add_segment(log.key, epoch, entry)
            except StorageError as error:
                self._failed(f"cannot commit a segment of {log.topic}-{log.partition}", error)
                self._wait(pause)
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        return None

    def _wait(self, pause: float) -> None:
        until = time.monotonic() + pause * random.uniform(0.5, 1.0)
        with self._changed:
            while not self._closing and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _again(self, shipment: Shipment) -> None:
        with self._changed:
            shipment.due = time.monotonic() + shipment.pause * random.uniform(0.5, 1.0)
            shipment.pause = min(2 * shipment.pause, _PAUSE_SECONDS_MAX)

    def _done(self, shipment: Shipment, entry: SegmentEntry | None) -> None:
        with self._changed:
            if self._shipments.get(shipment.log) is shipment:
                del self._shipments[shipment.log]

        def tell() -> None:
            log = shipment.log
            if log.holds_office and log.leader_epoch == shipment.leader_epoch:
                if entry is not None:
                    log.was_shipped(shipment.segment, entry)
                    self._on_shipped(log, entry)
                self.look_at(log)

        self._call_soon(tell)

    def _failed(self, what: str, error: BaseException) -> None:
        self.failures += 1
        logger.warning("%s: %s", what, error)


def _apart(shipment: Shipment) -> Segment:
    """The same segment, for a thread: the owner's belongs to the event loop, and never waits for the disk."""
    segment = shipment.segment
    apart = Segment(
        str(shipment.log.folder),
        segment.base_offset,
        segment.size,
        OpenFiles(),
        created_ms=segment.created_ms,
        index_interval_bytes=segment.index_interval_bytes,
        has_txn_index=False,
    )
    apart.file = shipment.file
    return apart


def _read(path: str) -> bytes:
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()
