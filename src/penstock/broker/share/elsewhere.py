"""States of share-partitions that other brokers keep: Kafka's requests to the share coordinator, for the windows here.

The share coordinator of a share-partition is on the broker that leads its partition of `__share_group_state`; the
window is on the broker that leads the partition of records. Where they are not the same broker, a window is made from
the answer to ReadShareGroupState, and its changes are WriteShareGroupState.

**A window runs ahead of its writes.** It goes on while a write is under way, so that acknowledgements are pipelined,
and the client is answered when its write is. The requests of a broker travel over one connection, so the coordinator
sees the writes of a window in their order. If one of them fails, or nobody knows what became of it, the window holds
what may not be stored: it is thrown away, all its other writes fail too, and the next fetch makes one from what is
stored. Records that were held come again, which a queue may do; what was confirmed is stored. A write of the old window
that was delayed on its way could undo one of the new window, so a coordinator takes nothing from a broker's connection
after a later one of that broker (`handlers.share_state`).

All that one turn of the event loop gathers for a group and a broker is one request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from penstock.broker.peer_connection import PeerFailed
from penstock.broker.peers import Lane
from penstock.broker.topics import SHARE_STATE_TOPIC
from penstock.queues.sessions import TopicIdPartition
from penstock.queues.state import UNKNOWN, ShareGroupState, SharePartitionKey
from penstock.queues.transitions import StateBatch, StateWrite
from penstock.wire import messages as m
from penstock.wire.errors import CoordinatorNotAvailable, ErrorCode, KafkaError, error_class

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.peers import Peers
    from penstock.broker.world import World
    from penstock.groups.share.protocol import InitializeShareState

_MAX_PARTITIONS = 1000
"""In one request."""

Read = Callable[[ShareGroupState | KafkaError], None]
Written = Callable[[KafkaError | None], None]
Codes = Callable[[dict[TopicIdPartition, ErrorCode]], None]
Summaries = Callable[[dict[TopicIdPartition, ShareGroupState | ErrorCode]], None]


class _Result(Protocol):
    @property
    def partition(self) -> int: ...

    @property
    def error_code(self) -> int: ...


P = TypeVar("P", bound=_Result, covariant=True)


class _DueWrite(NamedTuple):
    key: SharePartitionKey
    data: m.WriteShareGroupStateRequest.PartitionData
    done: Written


class ShareStateElsewhere:
    def __init__(self, cluster: ClusterView, peers: Callable[[], Peers], world: World) -> None:
        self._cluster = cluster
        self._peers = peers
        self._world = world
        self._due: dict[tuple[int, str], list[_DueWrite]] = {}

    def keeper(self, state_partition: int) -> int:
        """The broker that keeps a partition of the state topic. Raises CoordinatorNotAvailable while none is known."""
        node_id = self._cluster.leader_elsewhere(SHARE_STATE_TOPIC, state_partition)
        if node_id is None:
            raise CoordinatorNotAvailable()
        return node_id

    # -- for windows -----------------------------------------------------------------------------------------------

    def read(self, node_id: int, key: SharePartitionKey, leader_epoch: int, done: Read) -> None:
        """The stored state for a new owner, who fences the one before."""
        self._send_writes()  # of the owner's earlier window, which this one is to see
        shapes = m.ReadShareGroupStateRequest
        partition = shapes.PartitionData(partition=key[2], leader_epoch=leader_epoch)
        request = shapes(group_id=key[0], topics=[shapes.ReadStateData(topic_id=key[1], partitions=[partition])])

        def answered(answer: m.ReadShareGroupStateResponse | PeerFailed) -> None:
            if isinstance(answer, PeerFailed):
                done(CoordinatorNotAvailable())
                return
            found = [each for topic in answer.results for each in topic.partitions if each.partition == key[2]]
            if not found:
                done(CoordinatorNotAvailable())
            elif found[0].error_code:
                done(error_class(found[0].error_code)(found[0].error_message or ""))
            else:
                done(_state_of(found[0], leader_epoch))

        self._peers().send(node_id, Lane.SHARE_STATE, request, m.ReadShareGroupStateResponse, answered)

    def write(
        self,
        node_id: int,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        write: StateWrite,
        done: Written,
    ) -> None:
        shapes = m.WriteShareGroupStateRequest
        data = shapes.PartitionData(
            partition=key[2],
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            state_batches=[
                shapes.StateBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.delivery_state,
                    delivery_count=batch.delivery_count,
                )
                for batch in write.batches
            ],
        )
        if not self._due:
            self._world.call_soon(self._send_writes)
        self._due.setdefault((node_id, key[0]), []).append(_DueWrite(key, data, done))

    def _send_writes(self) -> None:
        due, self._due = self._due, {}
        for (node_id, group_id), writes in due.items():
            for batch in _batches(writes):
                self._send_batch(node_id, group_id, batch)

    def _send_batch(self, node_id: int, group_id: str, batch: Mapping[TopicIdPartition, _DueWrite]) -> None:
        shapes = m.WriteShareGroupStateRequest
        topics: dict[bytes, list[m.WriteShareGroupStateRequest.PartitionData]] = {}
        for (topic_id, _), due in batch.items():
            topics.setdefault(topic_id, []).append(due.data)
        request = shapes(
            group_id=group_id,
            topics=[shapes.WriteStateData(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()],
        )

        def answered(answer: m.WriteShareGroupStateResponse | PeerFailed) -> None:
            results = {} if isinstance(answer, PeerFailed) else _by_partition(answer.results)
            for partition, due in batch.items():
                result = results.get(partition)
                if result is None:
                    due.done(CoordinatorNotAvailable())
                elif result.error_code:
                    due.done(error_class(result.error_code)(result.error_message or ""))
                else:
                    due.done(None)

        self._peers().send(node_id, Lane.SHARE_STATE, request, m.WriteShareGroupStateResponse, answered)

    # -- for group coordinators and administrators -----------------------------------------------------------------

    def begin(
        self, node_id: int, action: InitializeShareState, start_offsets: Mapping[TopicIdPartition, int], done: Codes
    ) -> None:
        """Begin states, anew or where there are none. Kafka's request replaces what there is: that is read first."""

        def looked(found: Mapping[TopicIdPartition, ShareGroupState | ErrorCode]) -> None:
            codes: dict[TopicIdPartition, ErrorCode] = {}
            for tp, state in found.items():
                if isinstance(state, ErrorCode):
                    codes[tp] = state
                elif state.start_offset != UNKNOWN:
                    codes[tp] = ErrorCode.NONE
            missing = {tp: at for tp, at in start_offsets.items() if tp not in codes}
            if missing:
                initialize(missing, lambda results: done(codes | results))
            else:
                done(codes)

        initialize = partial(self.initialize, node_id, action.group_id, action.state_epoch)
        kept = [tp for tp in start_offsets if tp[0] not in action.anew]
        if kept:
            self.summaries(node_id, action.group_id, kept, looked)
        else:
            initialize(start_offsets, done)

    def initialize(
        self, node_id: int, group_id: str, state_epoch: int, start_offsets: Mapping[TopicIdPartition, int], done: Codes
    ) -> None:
        shapes = m.InitializeShareGroupStateRequest
        topics: dict[bytes, list[m.InitializeShareGroupStateRequest.PartitionData]] = {}
        for (topic_id, index), start_offset in start_offsets.items():
            data = shapes.PartitionData(partition=index, state_epoch=state_epoch, start_offset=start_offset)
            topics.setdefault(topic_id, []).append(data)
        request = shapes(
            group_id=group_id,
            topics=[
                shapes.InitializeStateData(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()
            ],
        )

        def answered(answer: m.InitializeShareGroupStateResponse | PeerFailed) -> None:
            results = {} if isinstance(answer, PeerFailed) else _by_partition(answer.results)
            done({partition: _code(results.get(partition)) for partition in start_offsets})

        self._peers().send(node_id, Lane.SHARE_STATE, request, m.InitializeShareGroupStateResponse, answered)

    def delete(self, node_id: int, group_id: str, partitions: Iterable[TopicIdPartition], done: Codes) -> None:
        shapes = m.DeleteShareGroupStateRequest
        named = list(partitions)
        topics: dict[bytes, list[m.DeleteShareGroupStateRequest.PartitionData]] = {}
        for topic_id, index in named:
            topics.setdefault(topic_id, []).append(shapes.PartitionData(partition=index))
        request = shapes(
            group_id=group_id,
            topics=[shapes.DeleteStateData(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()],
        )

        def answered(answer: m.DeleteShareGroupStateResponse | PeerFailed) -> None:
            results = {} if isinstance(answer, PeerFailed) else _by_partition(answer.results)
            done({partition: _code(results.get(partition)) for partition in named})

        self._peers().send(node_id, Lane.SHARE_STATE, request, m.DeleteShareGroupStateResponse, answered)

    def summaries(self, node_id: int, group_id: str, partitions: Iterable[TopicIdPartition], done: Summaries) -> None:
        """What administrators see of states; the batches are not among it."""
        shapes = m.ReadShareGroupStateSummaryRequest
        named = list(partitions)
        topics: dict[bytes, list[m.ReadShareGroupStateSummaryRequest.PartitionData]] = {}
        for topic_id, index in named:
            topics.setdefault(topic_id, []).append(shapes.PartitionData(partition=index, leader_epoch=UNKNOWN))
        request = shapes(
            group_id=group_id,
            topics=[
                shapes.ReadStateSummaryData(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()
            ],
        )

        def answered(answer: m.ReadShareGroupStateSummaryResponse | PeerFailed) -> None:
            results = {} if isinstance(answer, PeerFailed) else _by_partition(answer.results)
            done({partition: _summary(results.get(partition)) for partition in named})

        self._peers().send(node_id, Lane.SHARE_STATE, request, m.ReadShareGroupStateSummaryResponse, answered)


def _batches(writes: Iterable[_DueWrite]) -> list[dict[TopicIdPartition, _DueWrite]]:
    """Each share-partition once in a request: its writes keep their order."""
    batches: list[dict[TopicIdPartition, _DueWrite]] = []
    for each in writes:
        partition = (each.key[1], each.key[2])
        if not batches or partition in batches[-1] or len(batches[-1]) >= _MAX_PARTITIONS:
            batches.append({})
        batches[-1][partition] = each
    return batches


class _Topic(Protocol[P]):
    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[P]: ...


def _by_partition(topics: Iterable[_Topic[P]]) -> dict[TopicIdPartition, P]:
    return {(topic.topic_id, each.partition): each for topic in topics for each in topic.partitions}


def _code(result: _Result | None) -> ErrorCode:
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if result is None else ErrorCode(result.error_code)


def _state_of(found: m.ReadShareGroupStateResponse.PartitionResult, leader_epoch: int) -> ShareGroupState:
    batches = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in found.state_batches
    ]
    return ShareGroupState(0, found.state_epoch, leader_epoch, found.start_offset, UNKNOWN, 0, 0, batches)


def _summary(
    found: m.ReadShareGroupStateSummaryResponse.PartitionResult | None,
) -> ShareGroupState | ErrorCode:
    if found is None or found.error_code:
        return _code(found)
    return ShareGroupState(
        0, found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count, 0, 0
    )
