"""Starts several processes, starts those again that end, and ends all of them together.

The supervisor does nothing else: no threads, no event loop, so that it can fork at any time, and so that hardly
anything can happen to it. It waits for signals, for what its processes report, and for the time to start one again.
When one fails before all were ready for the first time, all are ended and the failure is raised: that is how a mistake
in the settings shows. Later ones are started again, at once the first time and after pauses that grow while it goes on
failing.

A process that is ready gives a sign of life with every beat of its event loop. One that is silent for too long hangs:
it is killed, and started again like any other that ends. What does not end in time when it is to stop is killed too.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

log = logging.getLogger("penstock.supervisor")

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_SETTLED_SECONDS = 10.0
"""Who has been ready for this long has not failed to start."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
_MAX_REPORT_BYTES = 1 << 16
BEAT_SECONDS = 1.0
"""How often a process gives a sign of life."""

RunChild = Callable[[int, int], int]
"""Given its place and the descriptor to report to, does the work of a process; returns its exit code."""


class ProcessesFailed(Exception):
    """Not all processes could be started; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the supervisor waits before it takes a process for hung."""

    round_seconds: float = BEAT_SECONDS
    silent_rounds_max: int = 30
    """Time in which the supervisor itself stood still does not count, so these are not seconds."""
    stop_seconds: float = 60.0
    again_seconds: float = 1.0
    """A signal that comes this long after the first one ends everything at once. Programs that start others often pass
    a signal on that these have got already."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What a process says when it is ready."""

    addresses: str
    remarks: list[str]


class _Process:
    def __init__(self, place: int, name: str) -> None:
        self.place = place
        self.name = name
        self.process_id = 0
        self.reports = -1
        self.unread = b""
        self.ready: Ready | None = None
        self.ready_at = 0.0
        self.silent_rounds = 0
        self.failure = ""
        self.pause_seconds = 0.0
        self.start_at: float | None = 0.0
        """When to start it; None while it runs."""


class Supervisor:
    def __init__(
        self,
        names: Sequence[str],
        run_child: RunChild,
        *,
        on_ready: Callable[[list[Ready]], None],
        on_stopping: Callable[[], None],
        every: float = 0.0,
        beat: Callable[[], None] = lambda: None,
        patience: Patience | None = None,
    ) -> None:
        """`names` of the processes, for messages. `on_ready` is called once, when all are, and `on_stopping` before
        they are told to end. `beat` is called `every` so many seconds from then on, if that is not 0."""
        self._processes = [_Process(place, name) for place, name in enumerate(names)]
        self._run_child = run_child
        self._on_ready = on_ready
        self._on_stopping = on_stopping
        self._every = every
        self._beat = beat
        self._beat_at: float | None = None
        self._patience = patience or Patience()
        self._round_at = 0.0
        self._kill_at: float | None = None
        self._stopping_since = 0.0
        self._selector: selectors.BaseSelector
        self._was_ready = False
        self._is_stopping = False
        self._failure = ""

    def run(self) -> None:
        """Until SIGINT or SIGTERM. Raises ProcessesFailed if they could not be started."""
        with self._listening():
            while not self._is_stopping or any(each.process_id for each in self._processes):
                self._start_due()
                self._wait()
        if self._failure:
            raise ProcessesFailed(self._failure)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Have signals, which may come at any time, wake up the selector."""
        self._selector = selectors.DefaultSelector()
        self._woken, self._waking = socket.socketpair()
        for each in (self._woken, self._waking):
            each.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        before = signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._close()

    def _close(self) -> None:
        self._selector.close()
        self._woken.close()
        self._waking.close()

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        times = [] if self._is_stopping else [each.start_at for each in self._processes if each.start_at is not None]
        times += [each for each in (self._beat_at, self._kill_at) if each is not None]
        if self._was_ready and not self._is_stopping:
            times.append(self._round_at)
        timeout = max(0.0, min(times) - time.monotonic()) if times else None
        numbers: set[int] = set()
        for key, _ in self._selector.select(timeout):
            if key.fileobj is self._woken:
                numbers.update(self._signals())
            else:
                self._read(key.data)
        if numbers & {signal.SIGINT, signal.SIGTERM}:
            self._stop_requested()
        self._reap()
        now = time.monotonic()
        if self._beat_at is not None and now >= self._beat_at:
            self._beat()
            self._beat_at = now + self._every
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._kill_all()
        if now >= self._round_at:
            self._round_at = now + self._patience.round_seconds
            self._look_for_hung()

    def _look_for_hung(self) -> None:
        for process in self._processes:
            if self._is_stopping or not process.process_id or process.ready is None:
                continue  # to read the logs at the start takes as long as it takes
            process.silent_rounds += 1
            if process.silent_rounds > self._patience.silent_rounds_max:
                process.silent_rounds = 0
                log.error("%s (process %d) does not respond and is killed", process.name, process.process_id)
                os.kill(process.process_id, signal.SIGKILL)

    def _signals(self) -> bytes:
        try:
            return self._woken.recv(4096)
        except BlockingIOError:
            return b""

    def _read(self, process: _Process) -> bool:
        """What a process reports; it closes the pipe by ending. False if there is nothing to read."""
        if process.reports < 0:
            return False
        try:
            found = os.read(process.reports, _MAX_REPORT_BYTES)
        except BlockingIOError:
            return False
        if not found:
            self._forget_reports(process)
            return False
        *lines, process.unread = (process.unread + found).split(b"\n")
        for line in lines:
            self._message_received(process, json.loads(line))
        return True

    def _message_received(self, process: _Process, report: dict[str, object]) -> None:
        process.silent_rounds = 0
        if "alive" in report:
            return
        if "failed" in report:
            process.failure = str(report["failed"])
            return
        remarks = report["remarks"]
        assert isinstance(remarks, list)
        process.ready, process.ready_at = Ready(str(report["ready"]), remarks), time.monotonic()
        if self._was_ready:
            log.warning("%s is running again", process.name)
            return
        ready = [each.ready for each in self._processes if each.ready is not None]
        if len(ready) == len(self._processes) and not self._is_stopping:
            self._was_ready = True
            self._on_ready(ready)
            if self._every:
                self._beat_at = time.monotonic()

    def _forget_reports(self, process: _Process) -> None:
        if process.reports >= 0:
            self._selector.unregister(process.reports)
            os.close(process.reports)
            process.reports = -1

    # -- starting and ending ---------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        now = time.monotonic()
        for process in self._processes:
            if process.start_at is not None and process.start_at <= now and not self._is_stopping:
                self._start(process)

    def _start(self, process: _Process) -> None:
        process.start_at = process.ready = None
        process.silent_rounds = 0
        process.failure, process.unread = "", b""
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # none may reach the child as if it were the supervisor
        try:
            process.process_id = os.fork()
            if not process.process_id:
                self._be_child(process.place, writing)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(writing)
        os.set_blocking(reading, False)
        process.reports = reading
        self._selector.register(reading, selectors.EVENT_READ, process)

    def _be_child(self, place: int, reports: int) -> None:
        """The rest of the life of a process. It never returns, whatever happens."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            # Ctrl-C is for the supervisor, which tells its processes.
            for number, handler in zip(_SIGNALS, (signal.SIG_IGN, signal.SIG_DFL, signal.SIG_DFL), strict=True):
                signal.signal(number, handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._close()
            for other in self._processes:
                if other.reports >= 0:
                    os.close(other.reports)
            code = self._run_child(place, reports)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        for process in self._processes:
            if process.process_id:
                process_id, status = os.waitpid(process.process_id, os.WNOHANG)
                if process_id:
                    self._ended(process, os.waitstatus_to_exitcode(status))

    def _ended(self, process: _Process, code: int) -> None:
        while self._read(process):  # its last words
            pass
        self._forget_reports(process)
        process_id, process.process_id = process.process_id, 0
        if self._is_stopping:
            return
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        if not self._was_ready:
            self._failure = process.failure or f"{process.name} {how} before it was ready"
            self._stop()
            return
        now = time.monotonic()
        if process.ready is not None and now - process.ready_at >= _SETTLED_SECONDS:
            process.pause_seconds = 0.0
        process.start_at = now + process.pause_seconds
        why = f": {process.failure}" if process.failure else ""
        log.error("%s (process %d) %s and is restarted%s", process.name, process_id, how, why)
        process.pause_seconds = min(max(_FIRST_PAUSE_SECONDS, 2 * process.pause_seconds), _LONGEST_PAUSE_SECONDS)

    def _stop_requested(self) -> None:
        is_impatient = self._is_stopping and time.monotonic() >= self._stopping_since + self._patience.again_seconds
        self._stop()
        if is_impatient:
            self._kill_all()

    def _kill_all(self) -> None:
        for process in self._processes:
            if process.process_id:
                log.error("%s (process %d) has not stopped and is killed", process.name, process.process_id)
                os.kill(process.process_id, signal.SIGKILL)

    def _stop(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self._stopping_since = time.monotonic()
            self._kill_at = self._stopping_since + self._patience.stop_seconds
            self._on_stopping()
        for process in self._processes:
            if process.process_id:
                os.kill(process.process_id, signal.SIGTERM)
