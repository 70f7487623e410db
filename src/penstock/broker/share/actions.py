"""What the group coordinator asks of the share coordinator: to begin or to forget the state of share-partitions.

Both coordinators sit in this process, so the request is a call; its answer is another command to the group's shard. It
is given in a later turn of the event loop, because the shard is still busy with the command that asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from penstock.groups.share.protocol import DeleteShareState
from penstock.queues.sessions import TopicIdPartition
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.group_coordinator import Handle, ShareAction
    from penstock.broker.world import World


class ShareState(Protocol):
    """The part of the share coordinator that group coordinators use."""

    def initialize(
        self, group_id: str, state_epoch: int, start_offsets: Mapping[bytes, Mapping[int, int]]
    ) -> dict[TopicIdPartition, ErrorCode]: ...

    def delete(
        self, group_id: str, partitions: Mapping[bytes, Collection[int]]
    ) -> dict[TopicIdPartition, ErrorCode]: ...


class ShareActions:
    def __init__(self, share_state: Callable[[], ShareState], world: World) -> None:
        self._share_state = share_state
        self._world = world

    def request(self, handle: Handle, action: ShareAction) -> None:
        self._world.call_soon(self._carry_out, handle, action)

    def _carry_out(self, handle: Handle, action: ShareAction) -> None:
        share_state, now_ms = self._share_state(), self._world.now_ms()
        if isinstance(action, DeleteShareState):
            deleted = share_state.delete(action.group_id, action.partitions)
            failed = next((code for code in deleted.values() if code != ErrorCode.NONE), ErrorCode.NONE)
            topics = frozenset(action.partitions)
            handle.run(handle.shard.share_state_deleted(action.group_id, topics, now_ms, failed))
            return
        results = share_state.initialize(action.group_id, action.state_epoch, action.start_offsets)
        for succeeded in (True, False):
            partitions = partitions_with(results, succeeded=succeeded)
            if partitions:
                handle.run(
                    handle.shard.share_state_initialized(action.group_id, partitions, now_ms, succeeded=succeeded)
                )


def partitions_with(results: Mapping[TopicIdPartition, ErrorCode], *, succeeded: bool) -> dict[bytes, frozenset[int]]:
    found: dict[bytes, set[int]] = {}
    for (topic_id, index), code in results.items():
        if (code == ErrorCode.NONE) == succeeded:
            found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
