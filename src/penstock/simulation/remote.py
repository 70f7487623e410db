"""A server that brokers talk to, as a database or an object store: requests travel, are carried out, and are answered.

A request that has been sent arrives and is carried out whatever becomes of its sender, who may be dead, paused, or have
given up. What can go wrong is what clients of servers meet: it is away, slow, refuses, or does what was requested and
the answer is lost. A client that gets no answer knows nothing: the request may be carried out later still.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.simulation.strands import Wait

if TYPE_CHECKING:
    from penstock.simulation.loop import Process
    from penstock.simulation.world import SimulatedWorld

T = TypeVar("T")

_KNOCK_SECONDS = 0.05
_NOBODY = contextvars.Context()


class NoAnswer(Exception):
    """The server is away, or the connection was lost. What was requested may have been done."""


class Refused(NoAnswer):
    """Nothing was done."""


class Server:
    """A machine in the network. Its faults are attributes; whoever sets them takes them back."""

    def __init__(
        self, world: SimulatedWorld, name: str, latency_seconds: tuple[float, float], answer_seconds: float
    ) -> None:
        self.world = world
        self.name = name
        self.latency_seconds = latency_seconds
        """Each way."""
        self.answer_seconds = answer_seconds
        """How long clients wait for an answer."""
        self.is_away = False
        """Connections are refused, and those that there were are lost."""
        self.refusals = 0
        """How many of the next requests are refused."""
        self.lost_answers = 0
        """How many of the next requests are carried out and not answered."""
        self.on_request: Callable[[Process, str], object] | None = None
        """Called with who requests what, when a request has arrived and before it is carried out."""
        self.on_carried_out: Callable[[Process, str], object] | None = None
        """Called before the answer is on its way."""
        self.requests = 0
        self.carried_out = 0

    def ask(self, process: Process, what: str, work: Callable[[], T]) -> T:
        """Have work done by the server, for a thread of a process. Raises NoAnswer, or what the work raises."""
        return _Request(self, process, what, work).answer()

    def latency(self) -> float:
        return self.world.chance.uniform(*self.latency_seconds)


class _Request(Generic[T]):
    def __init__(self, server: Server, process: Process, what: str, work: Callable[[], T]) -> None:
        self._server = server
        self._process = process
        self._what = what
        self._work = work
        self._wait = Wait(server.world.loop.strands)
        self._result: T
        self._failure: BaseException | None = None
        self._is_given_up = False

    def answer(self) -> T:
        server = self._server
        server.requests += 1
        self._later(server.latency(), self._arrive)
        if not self._wait.until_ended(server.answer_seconds):
            self._is_given_up = True
            raise NoAnswer(f"{server.name} does not answer")
        if self._failure is not None:
            raise self._failure
        return self._result

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        """On the way, or in the server: whatever the client does meanwhile."""
        self._server.world.loop.call_later(seconds, callback, context=_NOBODY)

    @property
    def _is_parted(self) -> bool:
        return self._server.world.network.is_parted(self._process, self._server.name)

    def _arrive(self) -> None:
        server = self._server
        if self._is_parted:
            if not self._is_given_up:
                self._later(_KNOCK_SECONDS, self._arrive)
            return
        if server.on_request is not None:
            server.on_request(self._process, self._what)
        if server.is_away or server.refusals > 0:
            server.refusals -= not server.is_away
            self._failure = Refused(f"{server.name} is away")
        else:
            server.carried_out += 1
            try:
                self._result = self._work()
            except Exception as error:
                self._failure = error
            if server.on_carried_out is not None:
                server.on_carried_out(self._process, self._what)
            if server.lost_answers > 0:
                server.lost_answers -= 1
                server.world.tell(server.name, "the connection is lost before an answer")
                self._failure = NoAnswer(f"{server.name}: the connection was lost")
        self._later(server.latency(), self._reply)

    def _reply(self) -> None:
        if self._is_parted:
            self._later(_KNOCK_SECONDS, self._reply)
        else:
            self._wait.end()
