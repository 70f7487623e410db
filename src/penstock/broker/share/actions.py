"""What the group coordinator asks of the share coordinator: to begin or to forget the state of share-partitions.

Both coordinators sit in this process, so the request is a call; its answer is another command to the group's shard. It
is given in a later turn of the event loop, because the shard is still busy with the command that asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.coordination.runtime import ShardHandle
from penstock.groups.shard import GroupShard
from penstock.groups.share.protocol import DeleteShareState, InitializeShareState
from penstock.queues.sessions import TopicIdPartition
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.server import Broker

ShareAction = InitializeShareState | DeleteShareState


def carry_out_share_action(broker: Broker, handle: ShardHandle[GroupShard], action: ShareAction) -> None:
    broker.loop.call_soon(_carry_out, broker, handle, action)


def _carry_out(broker: Broker, handle: ShardHandle[GroupShard], action: ShareAction) -> None:
    shares = broker.share_groups
    if isinstance(action, DeleteShareState):
        deleted = shares.delete(action.group_id, action.partitions)
        failed = next((code for code in deleted.values() if code != ErrorCode.NONE), ErrorCode.NONE)
        topics = frozenset(action.partitions)
        handle.run(handle.shard.share_state_deleted(action.group_id, topics, broker.now_ms(), failed))
        return
    results = shares.initialize(action.group_id, action.state_epoch, action.start_offsets)
    for succeeded in (True, False):
        partitions = partitions_with(results, succeeded=succeeded)
        if partitions:
            handle.run(
                handle.shard.share_state_initialized(action.group_id, partitions, broker.now_ms(), succeeded=succeeded)
            )


def partitions_with(results: Mapping[TopicIdPartition, ErrorCode], *, succeeded: bool) -> dict[bytes, frozenset[int]]:
    found: dict[bytes, set[int]] = {}
    for (topic_id, index), code in results.items():
        if (code == ErrorCode.NONE) == succeeded:
            found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
