"""Group commit: one `fdatasync` answers everyone who waits for the disk.

A thread of its own takes whatever has been asked for since it last looked, syncs each log once, and hands all the
callbacks back to the event loop in one go. Many logs are synced side by side, so that the file system can bring them to
the disk together. While it waits for the disk (without the interpreter lock) more appends gather, so the slower the
disk the larger the groups.

A failed sync is fatal. The kernel may have dropped the dirty pages, and a later sync that succeeds proves nothing, so
no append that waits is ever reported as done; the shell is told once and must stop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from penstock.log.errors import StorageError
from penstock.threads import THREADS, Pool, Queue, Thread, Threads

logger = logging.getLogger("penstock.log")

# Two or three logs are synced faster one after the other than handed to threads.
_MANY_LOGS = 4
_SYNC_THREADS = 8

Callback = Callable[[StorageError | None], None]
"""Called with None when the append is on disk, else with what went wrong."""


class Syncable(Protocol):
    """What the flusher knows of a log."""

    recovery_point: int

    def sync(self) -> None: ...


class Flusher:
    """`call_soon` runs a function in the owner's thread (an event loop's `call_soon_threadsafe`).

    `on_fatal` is called there once, when the disk has failed. `close` syncs what is waiting and ends the thread.
    """

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        on_fatal: Callable[[StorageError], None],
        clock: Callable[[], float] | None = None,
        on_synced: Callable[[float], None] = lambda seconds: None,
        threads: Threads = THREADS,
    ) -> None:
        """With a clock, `on_synced` is told in the flusher's thread how long each round took."""
        self._call_soon = call_soon
        self._clock = clock
        self._on_synced = on_synced
        self._on_fatal = on_fatal
        self._threads = threads
        # None at the end. A condition variable would cost the event loop twice as much per append.
        self._requests: Queue[tuple[Syncable, Callback | None] | None] = threads.queue()
        self.failure: StorageError | None = None
        """What ended all trust in the disk."""
        self._starting = threads.lock()
        self._thread: Thread | None = None
        self._pool: Pool | None = None
        self.syncs = 0
        """How many rounds there were; the appends answered per round tell how well the grouping works."""

    def request(self, log: Syncable, position: int, callback: Callback) -> None:
        """Have `callback` called when the log is on disk up to this offset."""
        if position <= log.recovery_point and self.failure is None:
            self._call_soon(lambda: callback(None))
        else:
            self._enqueue(log, callback)

    def request_sync(self, log: Syncable) -> None:
        """Have a log synced with nobody waiting for it, as after a roll."""
        self._enqueue(log, None)

    def _enqueue(self, log: Syncable, callback: Callback | None) -> None:
        self._requests.put((log, callback))
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = self._threads.start("penstock-flusher", self._run)

    def close(self) -> None:
        """Sync what is waiting, then end the thread. The callbacks have been handed to `call_soon` on return."""
        self._requests.put(None)
        if self._thread is not None:
            self._thread.join()
        if self._pool is not None:
            self._pool.shutdown()

    def _run(self) -> None:
        closing = False
        while not closing:
            requests = [self._requests.get()]
            requests += [self._requests.get() for _ in range(self._requests.qsize())]
            waiting = [each for each in requests if each is not None]
            closing = len(waiting) < len(requests)
            self._sync(list({id(log): log for log, _ in waiting}.values()))
            callbacks = [callback for _, callback in waiting if callback is not None]
            if callbacks:
                self._hand_back(callbacks, self.failure)

    def _sync(self, logs: list[Syncable]) -> None:
        if self.failure is not None or not logs:
            return
        self.syncs += 1
        began = self._clock() if self._clock is not None else 0.0
        try:
            if len(logs) < _MANY_LOGS:
                for log in logs:
                    log.sync()
            else:
                self._sync_side_by_side(logs)
            if self._clock is not None:
                self._on_synced(self._clock() - began)
        except Exception as error:
            # Whatever went wrong, this thread must go on: everybody who waits is to hear of it.
            failure = error if isinstance(error, StorageError) else StorageError(f"cannot sync: {error!r}")
            self.failure = failure
            self._call_soon(lambda: self._on_fatal(failure))

    def _sync_side_by_side(self, logs: list[Syncable]) -> None:
        if self._pool is None:
            self._pool = self._threads.pool("penstock-flusher", _SYNC_THREADS)
        for done in [self._pool.submit(log.sync) for log in logs]:
            done.result()

    def _hand_back(self, callbacks: list[Callback], failure: StorageError | None) -> None:
        def deliver() -> None:
            for callback in callbacks:
                try:
                    callback(failure)
                except Exception:
                    logger.exception("a callback after a sync failed; the others are called")

        self._call_soon(deliver)
