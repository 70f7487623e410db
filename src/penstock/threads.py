"""Threads, processes, and what they wait with: a part that is handed to whatever works beside the event loop.

Code that waits in threads of its own (the flusher, the committer, the thread that holds a broker's lease) takes them
from the `Threads` that it is handed. `THREADS` are those of the operating system, and the default everywhere. Whoever
owns the time of a broker hands in others, in whose time a wait ends when the owner says so.

A lock under which nobody waits need not come from here: `threading.Lock` serves both.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Thread(Protocol):
    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...


class Event(Protocol):
    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """False if it was not set in time."""


class Condition(AbstractContextManager[bool, None], Protocol):
    """A lock, and a wait for whatever happens under it."""

    def wait(self, timeout: float | None = None) -> bool:
        """False if nobody notified in time."""

    def notify_all(self) -> None: ...


class Queue(Protocol[T]):
    def put(self, item: T) -> None: ...

    def get(self) -> T: ...

    def qsize(self) -> int: ...


class Result(Protocol[T_co]):
    def result(self) -> T_co:
        """Wait for it. Raises what the work has raised."""


class Pool(Protocol):
    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Result[T]: ...

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...


class Helper(Protocol):
    """A process that computes: it reads lines, and answers with lines."""

    def send(self, line: bytes) -> None:
        """Raises OSError if it is gone."""

    def answers(self) -> Iterator[bytes]:
        """Its lines, until it has ended. For one thread."""

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""

    def kill(self, patience_seconds: float) -> None:
        """End it. One that waits for the disk dies when the disk answers: it is not waited for any longer than this."""

    def release(self) -> None:
        """It has ended, and nobody reads its answers any more."""


class Threads(Protocol):
    def start(self, name: str, run: Callable[[], object]) -> Thread:
        """Run a function in a thread that does not keep the process from ending."""

    def pool(self, name: str, threads_max: int) -> Pool: ...

    def lock(self) -> AbstractContextManager[bool, None]:
        """A lock under which its holder may wait for something else."""

    def condition(self) -> Condition: ...

    def event(self) -> Event: ...

    def queue(self) -> Queue[T]:
        """Without a bound; cheaper for whoever puts than a condition."""

    def sleep(self, seconds: float) -> None: ...

    def helper(self, module: str) -> Helper:
        """Run a module in a process of its own, which ends with this one. Raises OSError."""


class SystemThreads:
    """Those of the operating system."""

    def __init__(self) -> None:
        self.lock = threading.Lock
        self.condition = threading.Condition
        self.event = threading.Event
        self.sleep = time.sleep

    def start(self, name: str, run: Callable[[], object]) -> Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def pool(self, name: str, threads_max: int) -> Pool:
        return ThreadPoolExecutor(threads_max, name)

    def queue(self) -> Queue[T]:
        return queue.SimpleQueue()

    def helper(self, module: str) -> Helper:
        return _SystemHelper(module)


class _SystemHelper:
    def __init__(self, module: str) -> None:
        command = [sys.executable, "-m", module]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answers(self) -> Iterator[bytes]:
        assert self.process.stdout is not None
        with self.process.stdout:
            yield from self.process.stdout

    def poll(self) -> int | None:
        return self.process.poll()

    def kill(self, patience_seconds: float) -> None:
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience_seconds)

    def release(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # of a line that a dead process did not take
            self.process.stdin.close()


THREADS: Threads = SystemThreads()
