"""An event loop with virtual time, and processes in it that can be paused and killed.

Nothing sleeps: when nothing is left to do now, the clock moves to the next timer. There are no file descriptors, and no
threads of the operating system: work for a thread is done at a later virtual time, and the threads of a process that
has some are strands (`strands`). Callbacks run in the order of asyncio, timers of the
same time in the order in which they were set, so a run depends on nothing but the programs in it.

A process is a `contextvars` context. asyncio runs every callback in the context in which it was scheduled, so whatever
a process sets off belongs to it. What belongs to a paused process waits; what belongs to a killed one never runs, not
even its `finally` blocks, as after SIGKILL.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar, TypeVarTuple

from penstock.simulation.strands import Strand, Strands

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_CALLBACKS_AT_ONCE_MAX = 200_000
_AWAITS_IN_CLEANUP_MAX = 100
_THREAD_SECONDS = (0.0001, 0.004)

_process: ContextVar[Process | None] = ContextVar("simulated process", default=None)


class Stuck(Exception):
    """Nothing will ever happen again, or time does not pass any more. The message says which."""


class Entry(Protocol):
    """What the loop runs: a callback of asyncio, or a strand that goes on."""

    @property
    def _cancelled(self) -> bool: ...

    def _run(self) -> object: ...


class _Handle(asyncio.Handle):
    """Does what asyncio's does, without asking each time whether the loop is being debugged."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: SimulatedLoop, context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]  # as asyncio does

    def _run(self) -> None:
        try:
            self._context.run(self._callback, *self._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._loop.call_exception_handler({"message": "a callback failed", "exception": error, "handle": self})


class _TimerHandle(_Handle, asyncio.TimerHandle):
    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimulatedLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = False


class Process:
    """Everything that a program in the world has set off."""

    def __init__(self, name: str, machine: str | None = None, *, has_threads: bool = False) -> None:
        self.name = name
        self.machine = machine if machine is not None else name
        """Where it runs, as the network knows it."""
        self.has_threads = has_threads
        """Whether it may wait, in threads and in its event loop."""
        self.is_dead = False
        self.is_paused = False
        self.pauses: list[tuple[float, float]] = []
        """From when to when it was paused, as far as that is over."""
        self.paused_at = 0.0
        self.is_silent = False
        """Whether it died with its machine, so that nobody heard of it."""
        self.clock_ahead_ms = 0
        """How far its wall clock is ahead of the world's."""
        self.context = copy_context()
        self.context.run(_process.set, self)
        self.held: list[Entry] = []
        """What would have run while it was paused."""
        self.runner: Strand | None = None
        """What runs its callbacks, if it has threads."""
        self.is_waiting = False
        """Whether its event loop waits for something, as for a thread."""
        self.waiting: list[Entry] = []
        """Callbacks that would have run meanwhile."""

    def __repr__(self) -> str:
        return f"Process({self.name!r})"


class SimulatedLoop(asyncio.BaseEventLoop):
    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._now = 0.0
        self._soon: deque[tuple[Process | None, Entry]] = deque()
        self._timers: list[tuple[float, int, Process | None, Entry]] = []
        self._timers_set = 0
        self.callbacks = 0
        """How many callbacks have run: a measure of how much has happened."""
        self.connector: Callable[..., Coroutine[Any, Any, tuple[asyncio.Transport, asyncio.BaseProtocol]]] | None = None
        """What opens connections (`create_connection`): the network."""
        self._tasks: list[asyncio.Task[Any]] = []
        """Kept to the end of the run: a killed task that was collected would run its `finally` blocks."""
        self._strands: Strands | None = None
        self.set_exception_handler(lambda loop, context: None)

    def time(self) -> float:
        return self._now

    # -- scheduling ------------------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._soon.append((_process.get() if context is None else context.get(_process), handle))
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _TimerHandle(when, callback, args, self, context)
        owner = _process.get() if context is None else context.get(_process)
        self._timers_set = number = self._timers_set + 1
        heappush(self._timers, (when, number, owner, handle))
        return handle

    def run_at(self, when: float, owner: Process | None, entry: Entry) -> None:
        self._timers_set += 1
        heappush(self._timers, (when, self._timers_set, owner, entry))

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Do the work of a thread at some later time; all of it at once, unless the process has threads."""
        done: asyncio.Future[T] = self.create_future()
        process = current_process()
        if process is not None and process.has_threads:
            self.strands.start(process, partial(self._in_thread, done, func, args))
            return done
        self.call_later(self._chance.uniform(*_THREAD_SECONDS), _do, done, func, args)
        return done

    def _in_thread(self, done: asyncio.Future[T], work: Callable[[*Ts], T], args: tuple[*Ts]) -> None:
        try:
            result = work(*args)
        except Exception as error:
            self.call_soon(_fail, done, error)
        else:
            self.call_soon(_succeed, done, result)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        assert self.connector is not None, "this loop has no network"
        return await self.connector(protocol_factory, host, port, options.get("ssl"))

    # -- processes -------------------------------------------------------------------------------------------------

    @property
    def strands(self) -> Strands:
        if self._strands is None:
            self._strands = Strands(self, self._chance)
        return self._strands

    def kill(self, process: Process) -> None:
        process.is_dead = True
        process.held.clear()
        process.waiting.clear()

    def pause(self, process: Process) -> None:
        process.is_paused = True
        process.paused_at = self._now

    def resume(self, process: Process) -> None:
        if process.is_paused:
            process.pauses.append((process.paused_at, self._now))
        process.is_paused = False
        held, process.held = process.held, []
        self._soon.extend((process, entry) for entry in held)

    def release(self, process: Process) -> None:
        """Its event loop does not wait any more."""
        waiting, process.waiting = process.waiting, []
        self._soon.extend((process, entry) for entry in waiting)

    def bury_tasks(self) -> None:
        """End what was killed or never finished, now that it can do no harm."""
        if self._strands is not None:
            self._strands.bury()
        for task in self._tasks:
            coroutine = task.get_coro()
            for _ in range(_AWAITS_IN_CLEANUP_MAX):
                try:
                    coroutine.close()
                except RuntimeError:  # it awaits something in a `finally` block
                    continue
                except BaseException:
                    pass
                break
        self._tasks.clear()

    # -- running ---------------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Run until somebody stops the loop: it has nothing to do in between that asyncio would have to do."""
        soon, timers = self._soon, self._timers
        ran_at_once = 0
        while True:
            now = self._now
            while timers:
                when, _, owner, entry = timers[0]
                if when > now and not entry._cancelled:
                    break
                heappop(timers)
                if not entry._cancelled:
                    soon.append((owner, entry))
            if not soon:
                if not timers:
                    raise Stuck("nothing is left that could happen, and somebody waits")
                self._now = timers[0][0]
                ran_at_once = 0
                continue
            ran = self._run_soon(soon)
            self.callbacks += ran
            ran_at_once += ran
            if ran_at_once > _CALLBACKS_AT_ONCE_MAX:
                raise Stuck(f"{ran_at_once} callbacks have run, and no time has passed")
            if self._stopping:  # type: ignore[attr-defined]  # by which asyncio stops a loop
                return

    def _run_soon(self, soon: deque[tuple[Process | None, Entry]]) -> int:
        """Run what is to run now, and not what that sets off. Returns how many callbacks that were."""
        ran = 0
        for _ in range(len(soon)):
            owner, entry = soon.popleft()
            if entry._cancelled:
                continue
            if owner is not None:
                if owner.is_dead:
                    continue
                if owner.is_paused:
                    owner.held.append(entry)
                    continue
                if owner.has_threads and isinstance(entry, _Handle):
                    if owner.is_waiting:
                        owner.waiting.append(entry)
                    else:
                        ran += 1
                        self.strands.call(owner, entry)
                    continue
            ran += 1
            entry._run()
        return ran

    def _process_events(self, event_list: object) -> None:
        """There are no descriptors."""

    def _write_to_self(self) -> None:
        """There are no threads to be woken by."""


def current_process() -> Process | None:
    return _process.get()


def _do(done: asyncio.Future[T], work: Callable[[*Ts], T], args: tuple[*Ts]) -> None:
    if done.cancelled():
        return
    try:
        done.set_result(work(*args))
    except Exception as error:
        done.set_exception(error)


def _succeed(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)
