"""Commits the starts of logs that DeleteRecords and retention have moved, in a thread.

A start is committed under the leader epoch under which it was moved, and repeated as it is until the outcome is known.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from penstock.log.errors import StorageError
from penstock.storage.objects.commit_log import CommitLog, Outcome
from penstock.storage.objects.log import ObjectLog
from penstock.threads import THREADS, Thread, Threads

logger = logging.getLogger("penstock.storage")

_RETRY_SECONDS = 1.0


class LogStarts:
    """`call_soon` runs a function in the owner's thread, which calls everything here but what the thread does."""

    def __init__(
        self,
        commits: CommitLog,
        call_soon: Callable[[Callable[[], None]], object],
        on_committed: Callable[[ObjectLog, int], None],
        on_fenced: Callable[[ObjectLog, int], None],
        threads: Threads = THREADS,
    ) -> None:
        self._commits = commits
        self._call_soon = call_soon
        self._on_committed = on_committed
        self._on_fenced = on_fenced
        self._threads = threads
        self._changed = threads.condition()
        self._starts: dict[ObjectLog, tuple[int, int]] = {}
        self._closing = False
        self._thread: Thread | None = None
        self.failures = 0

    @property
    def waiting(self) -> int:
        return len(self._starts)

    def move(self, log: ObjectLog) -> None:
        with self._changed:
            self._starts[log] = (log.leader_epoch, log.log_start_offset)
            if self._thread is None and not self._closing:
                self._thread = self._threads.start("penstock-log-starts", self._run)
            self._changed.notify_all()

    def forget(self, log: ObjectLog) -> None:
        with self._changed:
            self._starts.pop(log, None)

    def close(self, timeout_seconds: float) -> None:
        """Commit what waits, if that can be done at once."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._starts and not self._closing:
                    self._changed.wait()
                starts = list(self._starts.items())
            failed = [log for log, start in starts if not self._commit(log, *start)]
            with self._changed:
                if self._closing and (failed or not self._starts):
                    return
                until = time.monotonic() + (_RETRY_SECONDS if failed else 0.0)
                while not self._closing and (left := until - time.monotonic()) > 0:
                    self._changed.wait(left)

    def _commit(self, log: ObjectLog, leader_epoch: int, offset: int) -> bool:
        try:
            outcome = self._commits.move_start(log.key, leader_epoch, offset)
        except StorageError as error:
            self.failures += 1
            logger.warning("cannot move the log start of %s-%d: %s", log.topic, log.partition, error)
            return False
        with self._changed:
            if self._starts.get(log) == (leader_epoch, offset):
                del self._starts[log]
        if outcome is Outcome.COMMITTED:
            self._call_soon(partial(self._on_committed, log, offset))
        else:
            self._call_soon(partial(self._on_fenced, log, leader_epoch))
        return True
