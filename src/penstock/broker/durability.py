"""Durability in one place: do something when these appends are as durable as was asked for.

`when_durable` is what every promise of the broker goes through: Produce with `acks=all`, a coordinator's reply, a
transaction's marker, a dead letter. In the embedded engine durable means on disk: the flusher gathers what waits and
brings it there with one `fdatasync` per log. With `penstock.acks.all.flush=false` nobody waits, as in Apache Kafka.

An append may turn out not to be durable: the disk fails, another broker becomes the leader, or the wait takes longer
than its caller can bear. `then` is called once, with what went wrong or with None.

Where what was appended can be lost while the broker runs on (`Storage.can_lose_appends`), everybody waits, whatever is
configured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock import guard
from penstock.storage.contract import StorageError

if TYPE_CHECKING:
    from penstock.broker.world import World
    from penstock.storage.contract import Log, Storage

Then = Callable[[StorageError | None], None]
ThenEach = Callable[[list[StorageError | None]], None]


_LATE = "the records, or where they begin, were not on disk in time"


class NotDurableInTime(StorageError):
    """What was requested is done, and not known to be durable before the time of the request was up."""


class _Wait:
    __slots__ = ("_missing", "_then", "_waits", "deadline")

    def __init__(self, waits: dict[_Wait, None], missing: int, then: Then, deadline: float | None) -> None:
        self._waits = waits
        self._missing = missing
        self._then: Then | None = then
        self.deadline = deadline
        waits[self] = None

    def flushed(self, failure: StorageError | None) -> None:
        self._missing -= 1
        if failure is not None or not self._missing:
            self.end(failure)

    def end(self, failure: StorageError | None) -> None:
        then, self._then = self._then, None
        if then is not None:
            self._waits.pop(self, None)
            then(failure)


class _WaitForEach(_Wait):
    """As above; one that fails does not end the wait for the others."""

    __slots__ = ("_outcomes",)

    def __init__(self, waits: dict[_Wait, None], missing: int, then: ThenEach, deadline: float | None) -> None:
        super().__init__(waits, missing, self._outcomes_to(then), deadline)
        self._outcomes: list[StorageError | None] = [NotDurableInTime(_LATE)] * missing

    def _outcomes_to(self, then: ThenEach) -> Then:
        return lambda _: then(self._outcomes)

    def settled(self, at: int, failure: StorageError | None) -> None:
        self._outcomes[at] = failure
        self.flushed(None)


class Durability:
    def __init__(self, storage: Storage, world: World, is_awaited: Callable[[], bool]) -> None:
        """`is_awaited` says whether answers wait for the disk (`penstock.acks.all.flush`, which may change)."""
        self._storage = storage
        self._world = world
        self._is_awaited = is_awaited
        self._waits: dict[_Wait, None] = {}

        self.can_lose_appends = storage.can_lose_appends
        """Whether what is not durable can be lost while the broker runs on: then everybody waits."""

    @property
    def is_awaited(self) -> bool:
        return self.can_lose_appends or self._is_awaited()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not self._waits

    def when_durable(self, appends: Sequence[tuple[Log, int]], then: Then, *, timeout_ms: int | None = None) -> None:
        """Call `then` when each log is durable up to its offset; at once, where nobody waits for the disk."""
        if not appends or not self.is_awaited:
            then(None)
            return
        wait = _Wait(self._waits, len(appends), then, self._deadline(timeout_ms))
        for log, position in appends:
            self._storage.when_durable(log, position, wait.flushed)

    def when_each_is_settled(
        self, appends: Sequence[tuple[Log, int]], then: ThenEach, *, timeout_ms: int | None = None
    ) -> None:
        """Call `then` when each append is durable or cannot become so, with the failure of each."""
        if not appends or not self.is_awaited:
            then([None] * len(appends))
            return
        wait = _WaitForEach(self._waits, len(appends), then, self._deadline(timeout_ms))
        for at, (log, position) in enumerate(appends):
            self._storage.when_durable(log, position, partial(wait.settled, at))

    def when_each_start_is_settled(self, logs: Sequence[Log], then: ThenEach, *, timeout_ms: int) -> None:
        """Call `then` when no log will begin earlier than it does now, with what keeps each from that.

        Everybody waits, whatever is configured: where a log begins is not in the page cache for the next start.
        """
        if not logs:
            then([])
            return
        wait = _WaitForEach(self._waits, len(logs), then, self._deadline(timeout_ms))
        for at, log in enumerate(logs):
            self._storage.when_start_durable(log, partial(wait.settled, at))

    def _deadline(self, timeout_ms: int | None) -> float | None:
        return None if timeout_ms is None else self._world.monotonic() + timeout_ms / 1000

    def begin(self, log: Log) -> None:
        """Begin to bring a log to the disk with nobody waiting for it yet."""
        if self.is_awaited:
            self._storage.make_durable_soon(log)

    def end_late_waits(self) -> None:
        """The bound on waiting: whoever has waited longer than allowed is told so."""
        now = self._world.monotonic()
        late = [wait for wait in self._waits if wait.deadline is not None and wait.deadline < now]
        for wait in late:
            failure = NotDurableInTime(_LATE)
            guard.attempt("answering without knowing that the records are on disk", wait.end, failure)
