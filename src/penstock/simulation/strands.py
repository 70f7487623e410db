"""Code that waits, in a world in which one thing happens at a time: the threads of a process, and its event loop.

A *strand* is a thread of a simulated process, or that which runs the callbacks of its event loop. It is a greenlet: it
runs until it waits, and goes on when its wait is over, so that code that blocks runs as it is. While an event loop's
strand waits (for an answer of its catalog, for a thread to end) the callbacks of that process are held, as in a real
process whose loop is blocked.

A strand that may go on does so a moment later, as chance decides: threads are not served in the order of their waits.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from penstock.threads import Helper, Pool, Queue, Result, Thread

if TYPE_CHECKING:
    from greenlet import greenlet

    from penstock.simulation.loop import Process, SimulatedLoop

logger = logging.getLogger("penstock.simulation")

P = ParamSpec("P")
T = TypeVar("T")

_GO_ON_SECONDS = (0.00001, 0.0004)
_UNWINDINGS_MAX = 100
_COMPUTING_SECONDS = (0.0005, 0.05)


class CannotWait(Exception):
    """Something waits that is no part of a process with threads."""


class Strand:
    """A thread of a process, or that which runs its event loop."""

    __slots__ = ("greenlet", "process")

    def __init__(self, process: Process, body: greenlet) -> None:
        self.process = process
        self.greenlet = body


class Wait:
    """One wait of the strand that makes it. Either somebody ends it, or its time is over."""

    __slots__ = ("_cancelled", "_strand", "_strands", "was_ended")

    def __init__(self, strands: Strands) -> None:
        self._strands = strands
        self._strand = strands.current()
        self._cancelled = False
        """As an entry of the loop, when its time is over: it is not, if somebody has ended the wait."""
        self.was_ended = False

    def until_ended(self, seconds: float | None = None) -> bool:
        """False if nobody has ended it in time."""
        if not self._cancelled:
            if seconds is not None:
                self._strands.loop.run_at(self._strands.loop.time() + max(seconds, 0.0), self._strand.process, self)
            self._strands.switch_away(self._strand)
        return self.was_ended

    def end(self) -> None:
        if not self._cancelled:
            self._cancelled = self.was_ended = True
            self._strands.go_on_soon(self._strand)

    def _run(self) -> None:
        self._cancelled = True
        self._strands.go_on(self._strand)


class _GoOn:
    """An entry of the loop: a strand goes on."""

    __slots__ = ("_strand", "_strands")
    _cancelled = False

    def __init__(self, strands: Strands, strand: Strand) -> None:
        self._strands = strands
        self._strand = strand

    def _run(self) -> None:
        self._strands.go_on(self._strand)


class Strands:
    """All strands of a world. The loop itself runs in none of them."""

    def __init__(self, loop: SimulatedLoop, chance: random.Random) -> None:
        try:
            import greenlet
        except ImportError as error:
            raise ImportError(
                f"a world with several brokers or with files needs greenlet ({error}): pip install 'penstock[testing]'"
            ) from error
        self._greenlet = greenlet
        self.loop = loop
        self._chance = chance
        self._hub = greenlet.getcurrent()
        self._strands: dict[greenlet.greenlet, Strand] = {}
        """Kept to the end of the run: one of a killed process that was collected would run its `finally` blocks."""
        self._is_over = False

    def current(self) -> Strand:
        strand = self._strands.get(self._greenlet.getcurrent())
        if strand is None:
            raise CannotWait("this would wait, and belongs to no process with threads")
        return strand

    def start(self, process: Process, run: Callable[[], object]) -> None:
        """Begin a thread of a process."""
        body = self._greenlet.greenlet(partial(self._thread, run), self._hub)
        body.gr_context = process.context.copy()
        self._strands[body] = strand = Strand(process, body)
        self.go_on_soon(strand)

    def _thread(self, run: Callable[[], object]) -> None:
        try:
            run()
        except Exception:
            logger.exception("a thread of the broker failed")

    # -- the event loop of a process -----------------------------------------------------------------------------------

    def call(self, process: Process, handle: asyncio.Handle) -> None:
        """Run a callback of a process, as far as it gets without waiting."""
        if process.runner is None:
            body = self._greenlet.greenlet(self._callbacks, self._hub)
            self._strands[body] = process.runner = Strand(process, body)
        process.runner.greenlet.switch(handle)

    def _callbacks(self, handle: asyncio.Handle) -> None:
        while True:
            handle._run()
            handle = self._hub.switch()

    # -- waiting -------------------------------------------------------------------------------------------------------

    def switch_away(self, strand: Strand) -> None:
        """Let the loop go on, until this strand may."""
        if self._is_over:
            raise self._greenlet.GreenletExit
        loop, process = self.loop, strand.process
        task = None
        if strand is process.runner:
            process.is_waiting = True
            # Tasks of other processes run in the same loop, and it knows one current task.
            task = asyncio.current_task(loop)
            if task is not None:
                asyncio.tasks._leave_task(loop, task)
        self._hub.switch()
        if task is not None:
            asyncio.tasks._enter_task(loop, task)

    def go_on_soon(self, strand: Strand) -> None:
        moment = self.moment(_GO_ON_SECONDS)
        self.loop.run_at(self.loop.time() + moment, strand.process, _GoOn(self, strand))

    def moment(self, seconds: tuple[float, float]) -> float:
        return self._chance.uniform(*seconds)

    def go_on(self, strand: Strand) -> None:
        """Called by the loop."""
        process = strand.process
        if strand is not process.runner:
            strand.greenlet.switch()
            if strand.greenlet.dead:
                del self._strands[strand.greenlet]
            return
        process.is_waiting = False
        strand.greenlet.switch()
        if not process.is_waiting:
            self.loop.release(process)

    def bury(self) -> None:
        """End all strands, now that they can do no harm."""
        self._is_over = True
        for body in list(self._strands):
            for _ in range(_UNWINDINGS_MAX):
                if body.dead:
                    break
                try:
                    body.throw(self._greenlet.GreenletExit)
                except BaseException:
                    pass
        self._strands.clear()


class SimulatedThreads:
    """The threads of one process. See `penstock.threads.Threads`."""

    def __init__(self, strands: Strands, process: Process) -> None:
        self._strands = strands
        self._process = process

    def start(self, name: str, run: Callable[[], object]) -> Thread:
        return _Thread(self._strands, self._process, run)

    def pool(self, name: str, threads_max: int) -> Pool:
        return _Pool(self._strands, self._process, threads_max)

    def lock(self) -> _Lock:
        return _Lock(self._strands)

    def condition(self) -> _Condition:
        return _Condition(self._strands)

    def event(self) -> _Event:
        return _Event(self._strands)

    def queue(self) -> Queue[T]:
        return _Queue(self._strands)

    def sleep(self, seconds: float) -> None:
        Wait(self._strands).until_ended(seconds)

    def helper(self, module: str) -> Helper:
        return _Helper(self._strands, self._process, module)


class _Lock:
    def __init__(self, strands: Strands) -> None:
        self._strands = strands
        self._is_held = False
        self._waiting: deque[Wait] = deque()

    def __enter__(self) -> bool:
        while self._is_held:
            wait = Wait(self._strands)
            self._waiting.append(wait)
            wait.until_ended()
        self._is_held = True
        return True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
        if self._waiting:
            self._waiting.popleft().end()


class _Condition(_Lock):
    def __init__(self, strands: Strands) -> None:
        super().__init__(strands)
        self._waits: list[Wait] = []

    def wait(self, timeout: float | None = None) -> bool:
        wait = Wait(self._strands)
        self._waits.append(wait)
        self.__exit__()
        was_notified = wait.until_ended(timeout)
        if not was_notified:
            self._waits.remove(wait)
        self.__enter__()
        return was_notified

    def notify_all(self) -> None:
        waits, self._waits = self._waits, []
        for wait in waits:
            wait.end()


class _Event:
    def __init__(self, strands: Strands) -> None:
        self._strands = strands
        self._is_set = False
        self._waits: list[Wait] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waits, self._waits = self._waits, []
        for wait in waits:
            wait.end()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            wait = Wait(self._strands)
            self._waits.append(wait)
            if not wait.until_ended(timeout):
                self._waits.remove(wait)
        return self._is_set


class _Queue(Generic[T]):
    def __init__(self, strands: Strands) -> None:
        self._strands = strands
        self._items: deque[T] = deque()
        self._waits: deque[Wait] = deque()

    def put(self, item: T) -> None:
        self._items.append(item)
        if self._waits:
            self._waits.popleft().end()

    def get(self) -> T:
        while not self._items:
            wait = Wait(self._strands)
            self._waits.append(wait)
            wait.until_ended()
        return self._items.popleft()

    def qsize(self) -> int:
        return len(self._items)


class _Thread:
    def __init__(self, strands: Strands, process: Process, run: Callable[[], object]) -> None:
        self._run = run
        self._has_ended = _Event(strands)
        strands.start(process, self._body)

    def _body(self) -> None:
        try:
            self._run()
        finally:
            self._has_ended.set()

    def is_alive(self) -> bool:
        return not self._has_ended.is_set()

    def join(self, timeout: float | None = None) -> None:
        self._has_ended.wait(timeout)


class _Work(Generic[T]):
    """Work of a pool, and what came of it."""

    def __init__(self, strands: Strands, work: Callable[[], T]) -> None:
        self._work = work
        self._is_done = _Event(strands)
        self._value: Any = None
        self._failure: BaseException | None = None

    def do(self) -> None:
        try:
            self._value = self._work()
        except Exception as error:
            self._failure = error
        self._is_done.set()

    def cancel(self) -> None:
        self._failure = CancelledError()
        self._is_done.set()

    def result(self) -> T:
        self._is_done.wait()
        if self._failure is not None:
            raise self._failure
        return self._value  # type: ignore[no-any-return]


class _Pool:
    def __init__(self, strands: Strands, process: Process, threads_max: int) -> None:
        self._strands = strands
        self._process = process
        self._room = threads_max
        self._queue: deque[_Work[Any]] = deque()
        self._threads: list[_Thread] = []

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Result[T]:
        submitted = _Work(self._strands, partial(work, *args, **kwargs))
        self._queue.append(submitted)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) < self._room:
            self._threads.append(_Thread(self._strands, self._process, self._work_off))
        return submitted

    def _work_off(self) -> None:
        while self._queue:
            self._queue.popleft().do()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            while self._queue:
                self._queue.popleft().cancel()
        if wait:
            for thread in self._threads:
                thread.join()


class _Helper:
    """A process that computes, as a thread of the broker: it dies with it. Runs the `serve` of its module.

    `serve` gets lines, answers, a clock and what sleeps.
    """

    def __init__(self, strands: Strands, process: Process, module: str) -> None:
        self._strands = strands
        self._lines: _Queue[bytes] = _Queue(strands)
        self._answers: _Queue[bytes | None] = _Queue(strands)
        self._exit_code: int | None = None
        self._serve = importlib.import_module(module).serve
        _Thread(strands, process, self._run)

    def _run(self) -> None:
        try:
            self._serve(self, self, self._strands.loop.time, self._sleep)
            self._end(0)
        except Exception:  # a process ends with a code, whatever has failed
            self._end(1)

    def _sleep(self, seconds: float) -> None:
        Wait(self._strands).until_ended(seconds)

    def _end(self, exit_code: int) -> None:
        if self._exit_code is None:
            self._exit_code = exit_code
            self._answers.put(None)

    # -- for the broker ----------------------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        if self._exit_code is not None:
            raise BrokenPipeError("the process has ended")
        self._lines.put(line)

    def answers(self) -> Iterator[bytes]:
        while (answer := self._answers.get()) is not None:
            yield answer

    def poll(self) -> int | None:
        return self._exit_code

    def kill(self, patience_seconds: float) -> None:
        self._lines.put(b"")
        self._end(-9)

    def release(self) -> None:
        """There are no pipes."""

    # -- for the module, as its standard input and output ------------------------------------------------------------

    def readline(self) -> str:
        return self._lines.get().decode() + "\n"

    def write(self, text: str, /) -> None:
        Wait(self._strands).until_ended(self._strands.moment(_COMPUTING_SECONDS))
        if self._exit_code is not None:
            raise BrokenPipeError("the process was killed")
        self._answers.put(text.encode())

    def flush(self) -> None:
        """What is written is there."""
