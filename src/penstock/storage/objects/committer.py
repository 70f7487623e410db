"""Commits what the logs append: gathers, uploads, commits, and says so. It takes the place of `fdatasync`.

**Two lanes.** A little at a time goes into PostgreSQL together with the commit, at once: milliseconds at low traffic.
The bytes that may go there per second are bounded. What is more is gathered for a window, or until it is large enough,
and put into the store as one object; several uploads are under way at a time. The window ends early when nobody has
appended for a moment: producers that may have only so much in flight send no more until they are answered. Internal
topics always take the first lane, because whole groups wait for them. A partition keeps the second lane while an upload
of it is under way.

**Order.** Uploads overlap and may end in any order. A commit of a partition waits until the one before it is done.

**Trouble.** An upload is repeated under its key, a commit as it was, with growing pauses, for as long as it takes. Each
upload that fails halves how many may be tried at once, and each one that succeeds allows one more: on a slow line few
uploads finish in time where many would all time out. What waits is bounded (`has_room`): then producers are refused.
Nothing that was not committed is ever reported as durable.

Two threads of its own and a pool for uploads; the results are handed to `call_soon`.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from penstock.log.errors import StorageError
from penstock.storage.objects.commit_log import CommitLog, Outcome, StoredObject, Tail
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.store import ObjectStore, StoreError
from penstock.threads import THREADS, Thread, Threads

logger = logging.getLogger("penstock.storage")

_PAUSE_SECONDS_MIN = 0.05
_PAUSE_SECONDS_MAX = 2.0
_COMPLAINT_SECONDS = 10.0
_QUIET_BYTES = 64 << 10
_URGENT_BYTES = 1 << 20
"""How much of an internal topic's log a commit puts into PostgreSQL at most."""

OnOutcomes = Callable[[Sequence[tuple[ObjectLog, Tail, Outcome]]], None]


@dataclass(frozen=True, slots=True)
class CommitSettings:
    window_ms: int = 250
    """How long larger appends are gathered at the most."""
    quiet_ms: int = 5
    """They are gathered no longer when nothing was appended for so long, unless they are few."""
    object_bytes: int = 8 << 20
    """How much is gathered at most, give or take a batch."""
    inline_bytes: int = 256 << 10
    """How much a commit may put into PostgreSQL."""
    inline_bytes_per_second: int = 2 << 20
    uploads_max: int = 8
    backlog_bytes: int = 128 << 20
    """How much may wait for its commit."""


@dataclass(slots=True)
class CommitterStatistics:
    commits: int = 0
    commit_seconds: float = 0.0
    inline_bytes: int = 0
    uploads: int = 0
    upload_bytes: int = 0
    upload_seconds: float = 0.0
    failures: int = 0
    last_commit: float = 0.0
    """By the monotonic clock."""


class _Pending:
    """What a log has appended and nobody has taken yet."""

    __slots__ = ("chunks", "end", "has_begun", "since", "size", "taken")

    def __init__(self, end: int, since: float) -> None:
        self.chunks: list[tuple[bytes, int, float]] = []
        """Bytes, the offset at which they end, and when they were appended."""
        self.size = 0
        self.taken = self.end = end
        self.since = since
        self.has_begun = False


@dataclass(slots=True, eq=False)
class _Job:
    tails: list[tuple[ObjectLog, Tail]]
    stored: StoredObject
    parts: list[bytes]
    is_uploaded: bool = False
    before: list[_Job] = field(default_factory=list)
    """Uploads of the same partitions that must be committed first."""
    is_done: bool = False

    @property
    def is_ready(self) -> bool:
        return self.is_uploaded and all(job.is_done for job in self.before)


class Committer:
    def __init__(
        self,
        commits: CommitLog,
        store: ObjectStore,
        new_key: Callable[[], str],
        settings: CommitSettings,
        call_soon: Callable[[Callable[[], None]], object],
        on_outcomes: OnOutcomes,
        on_orphan: Callable[[str], None],
        is_urgent: Callable[[ObjectLog], bool],
        may_go_inline: Callable[[], bool],
        threads: Threads = THREADS,
    ) -> None:
        self._commits = commits
        self._store = store
        self._new_key = new_key
        self._settings = settings
        self._call_soon = call_soon
        self._on_outcomes = on_outcomes
        self._on_orphan = on_orphan
        self._is_urgent = is_urgent
        self._may_go_inline = may_go_inline
        self._threads = threads
        self._changed = threads.condition()
        self._pending: dict[ObjectLog, _Pending] = {}
        self._dirty: dict[ObjectLog, None] = {}
        self._last_job: dict[ObjectLog, _Job] = {}
        self._jobs: list[_Job] = []
        self._uploading = 0
        self._attempts = 0
        self._attempts_max = settings.uploads_max
        """How many uploads may be tried at once: few, if they fail."""
        self._backlog = 0
        self._waiting = 0
        """The part of the backlog that nobody has taken yet."""
        self._appended_at = 0.0
        self._budget = float(settings.inline_bytes)
        self._budget_at = time.monotonic()
        self._closing = self._abandoned = False
        self._committing = False
        self._thread: Thread | None = None
        self._uploads = threads.pool("penstock-upload", settings.uploads_max)
        self._complained_at = 0.0
        self.statistics = CommitterStatistics()

    # The owner's side

    @property
    def backlog_bytes(self) -> int:
        return self._backlog

    @property
    def uploads_under_way(self) -> int:
        return self._uploading

    def has_room(self) -> bool:
        return self._backlog < self._settings.backlog_bytes

    def begin(self, log: ObjectLog) -> None:
        """The log is led from here on, and everything in it is committed."""
        with self._changed:
            self._pending[log] = _Pending(log.log_end_offset, 0.0)

    def end(self, log: ObjectLog) -> None:
        """The log is not led any more: what it had appended is of no use."""
        with self._changed:
            pending = self._pending.pop(log, None)
            self._dirty.pop(log, None)
            if pending is not None:
                self._backlog -= pending.size
                self._waiting -= pending.size

    def append(self, log: ObjectLog, data: bytes, end_offset: int) -> None:
        with self._changed:
            pending = self._pending[log]
            now = self._appended_at = time.monotonic()
            pending.chunks.append((data, end_offset, now))
            pending.size += len(data)
            pending.end = end_offset
            self._backlog += len(data)
            self._waiting += len(data)
            if log not in self._dirty:
                pending.since = now
                self._dirty[log] = None
                if self._thread is None:
                    self._start()
                self._changed.notify_all()
            elif (
                self._waiting >= self._settings.object_bytes
                or self._waiting - len(data) < _QUIET_BYTES <= self._waiting
            ):
                self._changed.notify_all()  # from now on it may end the window

    def _start(self) -> None:
        self._thread = self._threads.start("penstock-committer", self._run)

    def close(self, timeout_seconds: float) -> bool:
        """Commit what waits and end. False if it could not be committed in time: it is given up."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_seconds)
        is_done = thread is None or not thread.is_alive()
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()
        self._uploads.shutdown(wait=is_done, cancel_futures=True)
        return is_done

    # The committing thread

    def _run(self) -> None:
        while True:
            try:
                step = self._await_step()
                if step is None:
                    return
                step()
            except Exception:
                logger.exception("the committer failed and continues")
                self._threads.sleep(_PAUSE_SECONDS_MAX)

    def _await_step(self) -> Callable[[], None] | None:
        """What is to be done next; None when all is done, or given up."""
        with self._changed:
            while (step := self._next_step()) is None:
                if self._abandoned or (self._closing and not self._dirty and not self._jobs):
                    return None
                self._changed.wait(self._patience())
            return step

    def _next_step(self) -> Callable[[], None] | None:
        """What can be done now. The lock is held."""
        if self._abandoned:
            return None
        ready = next((job for job in self._jobs if job.is_ready), None)
        if ready is not None:
            return partial(self._commit_job, ready)
        inline, rest = self._divide()
        if inline:
            return partial(self._commit_inline, self._take_inline(inline))
        if rest and self._uploading < self._settings.uploads_max and self._is_due(rest):
            job = self._take_job(rest)
            return partial(self._begin_upload, job)
        return None

    def _divide(self) -> tuple[list[ObjectLog], list[ObjectLog]]:
        """The dirty logs that go into PostgreSQL now, smallest first, and those that wait for the next object."""
        settings = self._settings
        now = time.monotonic()
        self._budget += (now - self._budget_at) * settings.inline_bytes_per_second
        self._budget = min(self._budget, settings.inline_bytes_per_second, 4 * settings.inline_bytes)
        self._budget_at = now
        inline, rest = [], []
        room = min(float(settings.inline_bytes), self._budget) if self._may_go_inline() else -1.0
        for log in sorted(self._dirty, key=lambda each: self._pending[each].size):
            size = self._pending[log].size
            last = self._last_job.get(log)
            if last is not None and not last.is_done:
                rest.append(log)
            elif self._is_urgent(log):
                inline.append(log)
            elif size <= room:
                inline.append(log)
                room -= size
            else:
                rest.append(log)
        return inline, rest

    def _is_due(self, logs: list[ObjectLog]) -> bool:
        settings = self._settings
        waiting = sum(self._pending[log].size for log in logs)
        if self._closing or waiting >= settings.object_bytes:
            return True
        now = time.monotonic()
        since = min(self._pending[log].since for log in logs)
        return now - since >= settings.window_ms / 1000 or (
            waiting >= _QUIET_BYTES and now - self._appended_at >= settings.quiet_ms / 1000
        )

    def _patience(self) -> float | None:
        """How long nothing may have to be done. The lock is held."""
        if not self._dirty:
            return None
        if self._uploading >= self._settings.uploads_max:
            return 1.0
        due = min(self._pending[log].since for log in self._dirty) + self._settings.window_ms / 1000
        now = time.monotonic()
        quiet_at = self._appended_at + self._settings.quiet_ms / 1000
        return max((quiet_at if now < quiet_at < due else due) - now, 0.001)

    def _take(self, log: ObjectLog, room: int) -> tuple[_Pending, int, list[bytes], int]:
        """What a log has appended: all of it if there is room for it, and else as much as there is, but something."""
        pending = self._pending[log]
        base, taken, size = pending.taken, pending.chunks, pending.size
        if size > room and len(taken) > 1:
            count, size = 1, len(taken[0][0])
            while size + len(taken[count][0]) <= room:
                size += len(taken[count][0])
                count += 1
            taken, pending.chunks = taken[:count], taken[count:]
            pending.taken, pending.since = taken[-1][1], pending.chunks[0][2]
        else:
            pending.chunks, pending.taken = [], pending.end
            del self._dirty[log]
        pending.size -= size
        self._waiting -= size
        return pending, base, [data for data, _, _ in taken], size

    def _take_inline(self, logs: list[ObjectLog]) -> list[tuple[ObjectLog, Tail]]:
        tails = []
        for log in logs:
            pending, base, chunks, size = self._take(log, max(self._settings.inline_bytes, _URGENT_BYTES))
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            tail = Tail(log.key, log.leader_epoch, base, pending.taken, 0, size, data, not pending.has_begun)
            pending.has_begun = True
            tails.append((log, tail))
            self._budget -= size
            self.statistics.inline_bytes += size
        return tails

    def _take_job(self, logs: list[ObjectLog]) -> _Job:
        """As much as one object holds; those who have waited longest come first."""
        tails, parts, position = [], [], 0
        before: list[_Job] = []
        room = self._settings.object_bytes
        taken = []
        for log in sorted(logs, key=lambda each: self._pending[each].since):
            if position >= room:
                break
            pending, base, chunks, size = self._take(log, room - position)
            tail = Tail(log.key, log.leader_epoch, base, pending.taken, position, size, None, not pending.has_begun)
            pending.has_begun = True
            tails.append((log, tail))
            taken.append(log)
            parts += chunks
            position += size
            last = self._last_job.get(log)
            if last is not None and not last.is_done:
                before.append(last)
        job = _Job(tails, StoredObject(self._new_key(), position), parts, before=before)
        for log in taken:
            self._last_job[log] = job
        self._jobs.append(job)
        self._uploading += 1
        return job

    # Uploads

    def _begin_upload(self, job: _Job) -> None:
        self._uploads.submit(self._upload, job)

    def _upload(self, job: _Job) -> None:
        started = time.monotonic()
        pause = _PAUSE_SECONDS_MIN
        while not self._abandoned and not self._is_uploaded(job):
            pause = self._wait(pause)
        with self._changed:
            job.is_uploaded = not self._abandoned
            job.parts = []
            self._uploading -= 1
            self.statistics.uploads += 1
            self.statistics.upload_bytes += job.stored.size
            self.statistics.upload_seconds += time.monotonic() - started
            self._changed.notify_all()

    def _is_uploaded(self, job: _Job) -> bool:
        """Try it once, when it is its turn."""
        with self._changed:
            while self._attempts >= self._attempts_max and not self._abandoned:
                self._changed.wait()
            self._attempts += 1
        is_done = False
        try:
            if not self._abandoned:
                self._store.put(job.stored.key, job.parts)
                is_done = True
        except StoreError as error:
            self._complain(error)
        finally:
            with self._changed:
                self._attempts -= 1
                allowed = self._attempts_max + 1 if is_done else self._attempts_max // 2
                self._attempts_max = min(max(allowed, 1), self._settings.uploads_max)
                self._changed.notify_all()
        return is_done

    # Commits

    def _commit_inline(self, tails: list[tuple[ObjectLog, Tail]]) -> None:
        self._commit(None, tails)

    def _commit_job(self, job: _Job) -> None:
        self._commit(job.stored, job.tails)
        with self._changed:
            job.is_done = True
            job.before = []
            self._jobs.remove(job)
            for log, _ in job.tails:
                if self._last_job.get(log) is job:
                    del self._last_job[log]

    def _commit(self, stored: StoredObject | None, tails: list[tuple[ObjectLog, Tail]]) -> None:
        pause = _PAUSE_SECONDS_MIN
        while not self._abandoned:
            started = time.monotonic()
            try:
                outcomes = self._commits.commit(stored, [tail for _, tail in tails])
                break
            except StorageError as error:
                self._complain(error)
                pause = self._wait(pause)
        else:
            return
        now = time.monotonic()
        with self._changed:
            self._backlog -= sum(tail.size for _, tail in tails)
            self.statistics.commits += 1
            self.statistics.commit_seconds += now - started
            self.statistics.last_commit = now
        if stored is not None and Outcome.COMMITTED not in outcomes:
            self._on_orphan(stored.key)
        settled = [(log, tail, outcome) for (log, tail), outcome in zip(tails, outcomes, strict=True)]
        self._call_soon(partial(self._on_outcomes, settled))

    def _complain(self, error: StorageError) -> None:
        """Now and then."""
        now = time.monotonic()
        self.statistics.failures += 1
        if now - self._complained_at >= _COMPLAINT_SECONDS:
            self._complained_at = now
            logger.warning("records wait to be committed: %s", error)

    def _wait(self, pause: float) -> float:
        """Back off, with jitter. Returns the next pause."""
        until = time.monotonic() + pause * random.uniform(0.5, 1.0)
        with self._changed:
            while not self._abandoned and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
        return min(2 * pause, _PAUSE_SECONDS_MAX)
