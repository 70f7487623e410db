"""What a window tells the share coordinator of changes that hold in any case, written until it is stored.

A lock that runs out frees its record although the storage refuses to note that. But then the stored state trails
behind the window, and the delivery counts, and even that a record is archived, would be lost with the window when it is
forgotten. So what was refused is written again, as the whole window by then, and a window that is ahead of its state is
not forgotten (`ShareWindows.forget_idle`).

A window that is thrown away writes no more: the next one may know better by then.

An acknowledgement of what lies below the start offset changes nothing, and is confirmed. If the start offset itself is
not stored yet, it is written once more for that acknowledgement, which is confirmed when that is stored: a record
whose acknowledgement was confirmed does not come again (`is_stored`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.queues.transitions import StateWrite
from penstock.wire.errors import KafkaError

if TYPE_CHECKING:
    from penstock.broker.share.coordinator import Outcome
    from penstock.broker.world import Timer, World

log = logging.getLogger("penstock.share")

_RETRY_SECONDS = 1.0


class StateWrites:
    def __init__(
        self, world: World, send: Callable[[StateWrite, Outcome], bool], whole: Callable[[], StateWrite]
    ) -> None:
        """`send` hands a write over, as `ShareCoordinator.write` does; `whole` is one of all that the window knows."""
        self._world = world
        self._send = send
        self._whole = whole
        self._refused: Callable[[], StateWrite] | None = None
        self._retries: dict[object, Timer] = {}
        self._under_way = 0
        self._has_moved = False
        self._is_closed = False

    @property
    def is_ahead(self) -> bool:
        """Whether the window knows something that the stored state lacks."""
        return self._refused is not None

    @property
    def is_stored(self) -> bool:
        """Whether all that the window knows is as durable as configured."""
        return not self._under_way and not self._has_moved and not self.is_ahead

    def has_moved(self) -> None:
        """The window begins later than it did, because the log does: that alone is not worth a write."""
        self._has_moved = True

    def send(self, write: StateWrite, outcome: Outcome) -> bool:
        """Hand a write over, once, as `ShareCoordinator.write` does."""

        had_moved = self._has_moved

        def written(error: KafkaError | None) -> None:
            self._under_way -= 1
            self._has_moved |= had_moved and error is not None
            outcome(error)

        is_done = self._send(write, written)
        self._has_moved = False
        self._under_way += not is_done
        return is_done

    def write(self, write: StateWrite, then: Callable[[], None] = lambda: None) -> None:
        """Have a change remembered that has happened in any case; `then` is called when it is, or was refused."""

        def written(error: KafkaError | None) -> None:
            if error is not None:
                log.warning("the state of a share-partition was not written: %s", error)
                self._write_again(write)
            then()

        try:
            if self.send(write, written):
                then()
        except KafkaError as error:
            written(error)

    def later(self, work: Callable[[], None]) -> None:
        """Do something that the storage has refused once more, in a moment."""
        if self._is_closed:
            return
        token = object()

        def again() -> None:
            del self._retries[token]
            work()

        self._retries[token] = self._world.call_later(_RETRY_SECONDS, again)

    def close(self) -> None:
        """What is under way may still be stored; nothing is written again."""
        self._is_closed = True
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()

    def _write_again(self, write: StateWrite) -> None:
        if self._refused is not None:
            self._refused = self._whole
            return
        # A start offset alone stays what it was: whether somebody has set it is part of it.
        self._refused = self._whole if write.batches else lambda: write
        self.later(self._catch_up)

    def _catch_up(self) -> None:
        assert self._refused is not None
        write, self._refused = self._refused(), None
        self.write(write)
