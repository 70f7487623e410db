"""Time that passes when the test lets it.

The coordinators and the share-partitions are given the time with every call, and say when they must be called next
(`next_deadline_ms`, `tick`). A virtual clock does for them what the broker's timers do: it stops at every deadline on
the way, in order, so that an hour of session timeouts takes no time and always happens in the same way.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

# Some machines answer a tick by asking for another one at the same moment; one that never stops is a bug.
_MAX_TICKS_PER_MOMENT = 10_000


class Timed(Protocol[T_co]):
    """A state machine that wants to be called at certain times."""

    def next_deadline_ms(self) -> int | None: ...

    def tick(self, now_ms: int) -> T_co: ...


class VirtualClock:
    """`clock.now_ms` is the time; `clock.advance(ms, machine, ...)` lets it pass."""

    __slots__ = ("now_ms",)

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """The time as a function, for what is handed one."""
        return self.now_ms

    def advance(self, duration_ms: int, *machines: Timed[T]) -> list[T]:
        """Let time pass, ticking each machine at each of its deadlines; returns what the ticks gave, in order."""
        if duration_ms < 0:
            raise ValueError("time does not run backwards")
        end = self.now_ms + duration_ms
        results: list[T] = []
        ticks = 0
        while machines:
            machine, deadline = _earliest(machines)
            if machine is None or deadline > end:
                break
            if deadline > self.now_ms:
                self.now_ms = deadline
                ticks = 0
            ticks += 1
            if ticks > _MAX_TICKS_PER_MOMENT:
                raise RuntimeError(f"{machine!r} asks for a tick at {deadline} again and again")
            results.append(machine.tick(self.now_ms))
        self.now_ms = end
        return results

    def advance_to_deadline(self, machine: Timed[T]) -> T:
        """Jump to the machine's next deadline and tick it once."""
        deadline = machine.next_deadline_ms()
        if deadline is None:
            raise LookupError(f"{machine!r} waits for nothing")
        self.now_ms = max(self.now_ms, deadline)
        return machine.tick(self.now_ms)


def _earliest(machines: tuple[Timed[T], ...]) -> tuple[Timed[T] | None, int]:
    found: Timed[T] | None = None
    earliest = 0
    for machine in machines:
        deadline = machine.next_deadline_ms()
        if deadline is not None and (found is None or deadline < earliest):
            found, earliest = machine, deadline
    return found, earliest
