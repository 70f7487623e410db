"""The broker's side of compaction: picks a log, has it cleaned, puts the result in place, and keeps account.

Nothing here blocks: `poll` takes the next step. A thread reads what the cleaner process answers, which not every
operating system lets an event loop do, and reports that there is something to poll for. The process and the thread are
started when there is something to clean and ended when there is nothing more, so an idle broker has neither.

A dead cleaner is what fills disks, so how dirty each log is, when a round last succeeded, for how long work has waited
and what went wrong can be asked for at any time, and each failure is in the log once. A log that turned out to be
damaged is not tried again (Kafka calls it uncleanable); other failures (a full disk, a killed process) are retried
after `log.cleaner.backoff.ms`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from penstock import guard
from penstock.log.checkpoints import CLEANER_OFFSETS, TopicPartition, read_checkpoint, write_checkpoint
from penstock.log.cleaner.jobs import CleanedGroup, CleanedRound, FailedRound, Outcome, outcome_from_json
from penstock.log.cleaner.selection import Dirtiness, is_worth_cleaning, measure, plan_round
from penstock.log.cleaner.swap import discard_leftovers
from penstock.log.errors import ColdRead, StorageError
from penstock.log.files import remove_if_there, write_file
from penstock.log.partition import PartitionLog
from penstock.threads import THREADS, Helper, Thread, Threads

logger = logging.getLogger("penstock.log")

_JOB_FILE = ".cleaner-job"
_KILL_SECONDS = 0.1


class Named(Protocol):
    """A log, as far as it is known by its name."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


@dataclass(slots=True, frozen=True, kw_only=True)
class CleanerConfig:
    """Kafka's `log.cleaner.*` broker configs. `log.cleaner.threads` is of no use: there is one process."""

    enable: bool = True
    dedupe_buffer_size: int = 134_217_728
    io_max_bytes_per_second: float = 1.7976931348623157e308
    backoff_ms: int = 15_000


@dataclass(slots=True)
class LogStatus:
    """How one compacted log is doing."""

    topic: str
    partition: int
    clean_bytes: int
    dirty_bytes: int
    dirty_ratio: float
    last_success_ms: int | None
    last_error: str | None
    uncleanable: bool
    in_progress: bool


@dataclass(slots=True)
class CleanerStatus:
    """How the cleaner as a whole is doing."""

    running: str | None
    """The log that is being cleaned."""
    rounds: int
    failures: int
    last_look_ms: int | None
    """When it last looked for something to clean."""
    last_success_ms: int | None
    last_error: str | None
    bytes_read: int
    bytes_written: int
    logs: list[LogStatus]

    @property
    def dirtiest_ratio(self) -> float:
        return max((log.dirty_ratio for log in self.logs), default=0.0)

    @property
    def uncleanable_logs(self) -> int:
        return sum(log.uncleanable for log in self.logs)


class CleanerManager:
    """`logs` gives the broker's logs whenever it is called; those that are not compacted are passed over."""

    def __init__(
        self,
        data_folder: Path,
        logs: Callable[[], Iterable[PartitionLog]],
        config: CleanerConfig | None = None,
        on_progress: Callable[[], None] = lambda: None,
        threads: Threads = THREADS,
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_progress` is called in a thread whenever `poll` can take a step; `is_held` says that no file may be
        replaced now."""
        self._is_held = is_held
        self._checkpoint_path = data_folder / CLEANER_OFFSETS
        self._job_path = str(data_folder / _JOB_FILE)
        self._logs = logs
        self._config = config if config is not None else CleanerConfig()
        self._on_progress = on_progress
        self._threads = threads
        self._cleaned = read_checkpoint(self._checkpoint_path)
        self._last_success_ms: dict[TopicPartition, int] = {}
        self._errors: dict[TopicPartition, str] = {}
        self._uncleanable: set[TopicPartition] = set()
        self._retry_at_ms: dict[TopicPartition, int] = {}
        self._process: Helper | None = None
        self._answers: deque[bytes] = deque()
        self._reading: Thread | None = None
        self._current: PartitionLog | None = None
        self._began_at = 0
        """The base offset of the first segment of the current log when its round began."""
        self._fetching: Thread | None = None
        self._next_look_ms = 0
        self._last_look_ms: int | None = None
        self._waiting_since_ms: int | None = None
        """Since when a log has been worth cleaning and nothing was cleaned."""
        self._rounds = self._failures = self._bytes_read = self._bytes_written = 0

    def poll(self, now_ms: int) -> None:
        """Take whatever steps can be taken now. Call it every second or so, and after `on_progress`."""
        if self._is_held():
            return
        while self._answers:
            self._handle(outcome_from_json(self._answers.popleft().decode()), now_ms)
        if self._process is not None and self._process.poll() is not None:
            self._process_died(now_ms)
        if self._current is None and self._config.enable and now_ms >= self._next_look_ms:
            self._start_dirtiest(now_ms)

    @property
    def has_process(self) -> bool:
        return self._process is not None

    def give_up(self, log: Named) -> None:
        """The log is not this broker's any more: no result of a round that is under way will be put in place."""
        if self._current is log:
            self._end_process()
            self._current = None
            logger.debug("the compaction of %s-%d was given up with the log", log.topic, log.partition)

    def forget(self, log: Named) -> None:
        """The log is about to be deleted."""
        self.give_up(log)
        key = (log.topic, log.partition)
        if self._cleaned.pop(key, None) is not None:
            write_checkpoint(self._checkpoint_path, self._cleaned)
        self._last_success_ms.pop(key, None)
        self._errors.pop(key, None)
        self._retry_at_ms.pop(key, None)
        self._uncleanable.discard(key)

    def status(self, now_ms: int) -> CleanerStatus:
        logs = []
        for log in self._compacted_logs():
            key = (log.topic, log.partition)
            try:
                dirtiness = measure(log, self._cleaned.get(key), now_ms)
            except ColdRead:
                dirtiness = measure(log, self._cleaned.get(key), None)
            logs.append(
                LogStatus(
                    topic=log.topic,
                    partition=log.partition,
                    clean_bytes=dirtiness.clean_bytes,
                    dirty_bytes=dirtiness.dirty_bytes,
                    dirty_ratio=dirtiness.ratio,
                    last_success_ms=self._last_success_ms.get(key),
                    last_error=self._errors.get(key),
                    uncleanable=key in self._uncleanable,
                    in_progress=log is self._current,
                )
            )
        current = self._current
        return CleanerStatus(
            running=f"{current.topic}-{current.partition}" if current is not None else None,
            rounds=self._rounds,
            failures=self._failures,
            last_look_ms=self._last_look_ms,
            last_success_ms=max(self._last_success_ms.values(), default=None),
            last_error=next(reversed(self._errors.values()), None),
            bytes_read=self._bytes_read,
            bytes_written=self._bytes_written,
            logs=logs,
        )

    def waiting_ms(self, now_ms: int) -> int:
        """For how long there has been a log worth cleaning, since anything was last cleaned; 0 without one."""
        return 0 if self._waiting_since_ms is None else max(0, now_ms - self._waiting_since_ms)

    def update_config(self, config: CleanerConfig) -> None:
        self._config = config
        self._next_look_ms = 0
        if not config.enable:
            self._waiting_since_ms = None

    def close(self) -> None:
        """End the process. A round that is under way is lost, the log is as it was."""
        self._end_process()
        self._current = None

    # Choosing

    def _compacted_logs(self) -> list[PartitionLog]:
        return [log for log in self._logs() if log.config.compacts]

    def _start_dirtiest(self, now_ms: int) -> None:
        self._last_look_ms = now_ms
        best: tuple[float, PartitionLog, Dirtiness] | None = None
        missing: list[Callable[[], None]] = []
        is_waiting = False
        for log in self._compacted_logs():
            key = (log.topic, log.partition)
            log.make_cleanable()
            is_held_back = key in self._uncleanable or now_ms < self._retry_at_ms.get(key, 0)
            try:
                dirtiness = measure(log, self._cleaned.get(key), now_ms)
            except ColdRead as cold:
                missing += () if is_held_back else cold.fetches
                continue
            if is_worth_cleaning(log, dirtiness):
                is_waiting = True
                if not is_held_back and (best is None or dirtiness.ratio > best[0]):
                    best = (dirtiness.ratio, log, dirtiness)
        if not is_waiting:
            self._waiting_since_ms = None
        elif self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        if missing:
            self._fetch(missing)
        if best is None:
            self._end_process()
            if not missing:
                self._next_look_ms = now_ms + self._config.backoff_ms
            return
        _, log, dirtiness = best
        try:
            discard_leftovers(str(log.folder))
            job = plan_round(
                log,
                dirtiness,
                now_ms,
                dedupe_buffer_bytes=self._config.dedupe_buffer_size,
                io_max_bytes_per_second=self._config.io_max_bytes_per_second,
            )
            write_file(self._job_path, job.to_json().encode())
            self._send(self._job_path)
        except OSError as error:
            self._failed(log, f"cannot start the cleaner process: {error.strerror}", now_ms)
            return
        self._current = log
        self._began_at = log.segments[0].base_offset

    def _fetch(self, missing: list[Callable[[], None]]) -> None:
        """Have a thread bring timestamps into memory: the logs that need them are looked at the next time."""

        def fetch() -> None:
            for each in missing:
                guard.attempt("reading timestamps for the cleaner", each)

        if self._fetching is None or not self._fetching.is_alive():
            self._fetching = self._threads.start("penstock-cleaner-reads", fetch)

    # The process

    def _send(self, line: str) -> None:
        process = self._process
        if process is None:
            process = self._process = self._threads.helper("penstock.log.cleaner.process")
            self._answers = deque()
            read = partial(self._read, process, self._answers)
            self._reading = self._threads.start("penstock-cleaner-answers", read)
        process.send(line.encode())

    def _read(self, process: Helper, answers: deque[bytes]) -> None:
        """Until the process has ended. Runs in a thread."""
        for line in process.answers():
            answers.append(line)
            self._on_progress()
        if self._process is process:
            self._on_progress()

    def _end_process(self) -> None:
        process, self._process = self._process, None
        reading, self._reading = self._reading, None
        if process is None or reading is None:
            return
        self._answers = deque()
        process.kill(_KILL_SECONDS)
        reading.join(_KILL_SECONDS)
        process.release()
        remove_if_there(self._job_path)

    def _process_died(self, now_ms: int) -> None:
        assert self._process is not None
        code = self._process.poll()
        log, self._current = self._current, None
        self._end_process()
        if log is not None:
            self._failed(log, f"the cleaner process ended with code {code}", now_ms)

    # Results

    def _handle(self, outcome: Outcome, now_ms: int) -> None:
        log = self._current
        if log is None:
            return
        if isinstance(outcome, CleanedGroup):
            self._put_in_place(log, outcome, now_ms)
        elif isinstance(outcome, CleanedRound):
            self._round_done(log, outcome, now_ms)
        elif isinstance(outcome, FailedRound):
            self._current = None
            if outcome.corrupt:
                self._uncleanable.add((log.topic, log.partition))
            elif log.segments[0].base_offset != self._began_at:
                self._gave_way(log)
                return
            self._failed(log, outcome.message, now_ms)

    def _put_in_place(self, log: PartitionLog, group: CleanedGroup, now_ms: int) -> None:
        message: str | None
        try:
            if log.replace_segments(group.base_offsets, now_ms):
                self._waiting_since_ms = now_ms
                self._send("next")
                return
            message = None
        except StorageError as error:
            message = str(error)
        except OSError as error:
            message = f"the cleaner process is gone: {error.strerror}"
        # The rest of the round was made for segments that are no longer there.
        self._end_process()
        self._current = None
        if message is not None:
            self._failed(log, message, now_ms)
        else:
            self._gave_way(log)

    def _gave_way(self, log: PartitionLog) -> None:
        """Retention or DeleteRecords was faster, and the round begins anew, with what is left."""
        logger.info("segments of %s-%d were deleted while they were being cleaned", log.topic, log.partition)

    def _round_done(self, log: PartitionLog, done: CleanedRound, now_ms: int) -> None:
        key = (log.topic, log.partition)
        self._current = None
        self._cleaned[key] = done.end_offset
        self._rounds += 1
        self._bytes_read += done.bytes_read
        self._bytes_written += done.bytes_written
        self._next_look_ms = 0
        self._waiting_since_ms = now_ms
        try:
            write_checkpoint(self._checkpoint_path, self._cleaned)
        except StorageError as error:
            # The round is done all the same; after a restart it would be done once more.
            self._errors[key] = str(error)
            return
        self._last_success_ms[key] = now_ms
        self._errors.pop(key, None)

    def _failed(self, log: PartitionLog, message: str, now_ms: int) -> None:
        key = (log.topic, log.partition)
        self._failures += 1
        known = self._errors.pop(key, None)
        self._errors[key] = message
        if key in self._uncleanable:
            logger.error("%s-%d is damaged and will not be compacted any more: %s", *key, message)
        elif message != known:
            logger.error("the compaction of %s-%d failed and will be tried again: %s", *key, message)
        self._retry_at_ms[key] = now_ms + self._config.backoff_ms
