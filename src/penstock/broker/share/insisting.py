"""Repeats a change of share states whose coordinator is on its way: its partition has just been created, or moves.

Kafka's persister does the same inside the broker, so administrators and group coordinators do not get to see it. Only
what was refused is repeated: what became of a request without an answer is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from penstock.queues.sessions import TopicIdPartition
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.world import World

PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
_NOT_YET = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})

V = TypeVar("V")
Codes = Callable[[dict[TopicIdPartition, ErrorCode]], None]


def insist(
    world: World,
    pending: Mapping[TopicIdPartition, V],
    attempt: Callable[[Mapping[TopicIdPartition, V], Codes], None],
    done: Codes,
) -> None:
    """Call `attempt` with all that is wanted, then with what is left of it; `done` gets the last code of each."""
    settled: dict[TopicIdPartition, ErrorCode] = {}
    pauses = iter(PAUSES_SECONDS)

    def answered(codes: dict[TopicIdPartition, ErrorCode]) -> None:
        settled.update(codes)
        left = {tp: pending[tp] for tp, code in codes.items() if code in _NOT_YET}
        pause = next(pauses, None) if left else None
        if pause is None:
            done(settled)
        else:
            world.call_later(pause, attempt, left, answered)

    attempt(pending, answered)
