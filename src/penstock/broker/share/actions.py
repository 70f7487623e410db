"""What the group coordinator asks of the share coordinator: to begin or to forget the state of share-partitions.

The share coordinator may be on this broker or on others. Its answer is another command to the group's shard, given in a
later turn of the event loop, because the shard is still busy with the command that asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from penstock.groups.share.protocol import DeleteShareState, InitializeShareState
from penstock.queues.sessions import TopicIdPartition
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.group_coordinator import Handle, ShareAction
    from penstock.broker.world import SteadyTime


Codes = Callable[[dict[TopicIdPartition, ErrorCode]], None]


class ShareState(Protocol):
    """The part of the share coordinator that group coordinators use."""

    def initialize(self, action: InitializeShareState, done: Codes) -> None: ...

    def delete(self, group_id: str, partitions: Mapping[bytes, Collection[int]], done: Codes) -> None: ...


class ShareActions:
    def __init__(self, share_state: Callable[[], ShareState], time: SteadyTime) -> None:
        """`time` is the clock that the timers of the groups run on."""
        self._share_state = share_state
        self._time = time

    def request(self, handle: Handle, action: ShareAction) -> None:
        self._time.call_soon(self._carry_out, handle, action)

    def _carry_out(self, handle: Handle, action: ShareAction) -> None:
        share_state, shard, group_id = self._share_state(), handle.shard, action.group_id

        def deleted(results: dict[TopicIdPartition, ErrorCode]) -> None:
            failed = next((code for code in results.values() if code != ErrorCode.NONE), ErrorCode.NONE)
            topics = frozenset(action.partitions if isinstance(action, DeleteShareState) else ())
            handle.run(shard.share_state_deleted(group_id, topics, self._time.now_ms(), failed))

        def initialized(results: dict[TopicIdPartition, ErrorCode]) -> None:
            for succeeded in (True, False):
                partitions = partitions_with(results, succeeded=succeeded)
                if partitions:
                    now_ms = self._time.now_ms()
                    handle.run(shard.share_state_initialized(group_id, partitions, now_ms, succeeded=succeeded))

        if isinstance(action, DeleteShareState):
            share_state.delete(group_id, action.partitions, deleted)
        else:
            share_state.initialize(action, initialized)


def partitions_with(results: Mapping[TopicIdPartition, ErrorCode], *, succeeded: bool) -> dict[bytes, frozenset[int]]:
    found: dict[bytes, set[int]] = {}
    for (topic_id, index), code in results.items():
        if (code == ErrorCode.NONE) == succeeded:
            found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
