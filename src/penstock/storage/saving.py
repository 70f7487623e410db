"""Writes the checkpoints of a data folder in a thread, because they are synced, and one at a time.

They are written now and then. Whoever has moved the start of a log waits for it (DeleteRecords): what has gathered
while one is written shares the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from penstock import guard
from penstock.log.errors import StorageError
from penstock.log.flusher import Callback
from penstock.log.partition import PartitionLog
from penstock.storage.checkpoint import Checkpoints, Progress, take_stock
from penstock.threads import Thread, Threads


class Saving:
    """`call_soon` runs a function in the owner's thread, which calls everything here but what the thread does."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        logs: Callable[[], Collection[PartitionLog]],
        call_soon: Callable[[Callable[[], None]], object],
        threads: Threads,
    ) -> None:
        self._checkpoints = checkpoints
        self._logs = logs
        self._call_soon = call_soon
        self._threads = threads
        self._thread: Thread | None = None
        self._is_writing = False
        self._waiting: list[Callback] = []

    def begin(self) -> None:
        """Write all of them, unless some are being written: then the next time will do."""
        if not self._is_writing:
            progress = take_stock(self._logs())
            self._start(partial(guard.attempt, "saving the checkpoints", self._checkpoints.write, progress))

    def when_starts_are_saved(self, callback: Callback) -> None:
        """Call back when no log will begin earlier than it does now, or when that could not be written."""
        self._waiting.append(callback)
        if not self._is_writing:
            self._save_starts()

    def finish(self) -> None:
        """Wait until nothing is being written."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Write all of them, in this thread, for whoever still waits too. Raises StorageError."""
        self.finish()
        waiting, self._waiting = self._waiting, []
        self._checkpoints.save(self._logs())
        self._call_soon(partial(self._answer, waiting, None))

    def _save_starts(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._start(partial(self._write_starts, take_stock(self._logs()), waiting))

    def _start(self, write: Callable[[], object]) -> None:
        def run() -> None:
            try:
                write()
            finally:
                self._call_soon(self._written)

        self._is_writing = True
        self._thread = self._threads.start("penstock-checkpoints", run)

    def _write_starts(self, progress: Progress, waiting: list[Callback]) -> None:
        failure: StorageError | None = None
        try:
            self._checkpoints.write_starts(progress)
        except StorageError as error:
            failure = error
        self._call_soon(partial(self._answer, waiting, failure))

    def _answer(self, waiting: list[Callback], failure: StorageError | None) -> None:
        for callback in waiting:
            guard.attempt("a callback after the starts of logs were saved", callback, failure)

    def _written(self) -> None:
        self._is_writing = False
        if self._waiting:
            self._save_starts()
