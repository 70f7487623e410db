"""The share coordinator's own APIs: Initialize-, Read-, Write-, Delete- and ReadSummary of ShareGroupState.

Brokers call them on one another (`share.elsewhere`); what is kept on the same broker does not go through the network.
Each share-partition of a request is handled by itself, by the shard of `__share_group_state` that keeps it; the answer
goes out when the last result is durable. A request without a group, or (unless it initializes) with a topic without
partitions, gets no results at all, as from Kafka.

A broker that has lost a connection reads its states anew through the next. What it wrote through the earlier one and
was held up on the way must not be carried out after that, or it would undo later writes of the same leader epoch. So
nothing is taken from a broker's connection after a later one of that broker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock.broker.peers import client_id_of
from penstock.broker.requests import AnyRequest, Pending, Request
from penstock.coordination.effects import Effects, R, Respond
from penstock.queues.state import SharePartitionKey, ShareStateShard
from penstock.queues.transitions import StateBatch
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation
from penstock.wire.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.gate import Gate
    from penstock.broker.share.groups import ShareGroups
    from penstock.broker.world import World

Command = Callable[[ShareStateShard, Respond[R]], Effects]
Make = Callable[..., Message]
"""The class of a response or of a part of it."""


class _Partition(Protocol):
    @property
    def partition(self) -> int: ...


P = TypeVar("P", bound=_Partition, covariant=True)


class _Topic(Protocol[P]):
    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[P]: ...


class _Gathering(Generic[R]):
    """The results of a request that names many share-partitions, in its order."""

    def __init__(self, pending: Pending, response: Make, topic_result: Callable[..., object]) -> None:
        self.pending = pending
        self._response = response
        self._topic_result = topic_result
        self._results: dict[tuple[bytes, int], R | None] = {}
        self._awaited = 0

    def expect(self, key: SharePartitionKey) -> Respond[R]:
        self._results[key[1:]] = None
        self._awaited += 1

        def arrived(result: R) -> None:
            self._results[key[1:]] = result
            self._awaited -= 1
            self.answer_if_complete()

        return arrived

    def answer_if_complete(self) -> None:
        if self._awaited == 0:
            topics: dict[bytes, list[R | None]] = {}
            for (topic_id, _), result in self._results.items():
                topics.setdefault(topic_id, []).append(result)
            results = [self._topic_result(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()]
            self.pending.complete(self._response(results=results))


def _refuse(
    request: AnyRequest,
    topics: Sequence[_Topic[P]],
    makes: tuple[Make, Callable[..., object], Callable[..., R]],
    error: KafkaError,
) -> Pending:
    response, topic_result, partition_result = makes
    refused = [
        topic_result(
            topic_id=topic.topic_id,
            partitions=[
                partition_result(partition=requested.partition, error_code=error.code, error_message=error.message)
                for requested in topic.partitions
            ],
        )
        for topic in topics
    ]
    pending = request.defer()
    pending.complete(response(results=refused))
    return pending


class ShareStateHandlers:
    def __init__(self, share_groups: ShareGroups, cluster: ClusterView, world: World, gate: Gate) -> None:
        self._cluster = cluster
        self._latest: dict[str, int] = {}
        """The number of the latest connection of each other broker."""
        self._coordinator = share_groups.coordinator
        self._windows = share_groups.windows
        self._world = world
        self._gate = gate

    def _each(
        self,
        request: AnyRequest,
        group_id: str,
        topics: Sequence[_Topic[P]],
        command: Callable[[SharePartitionKey, P], Command[R]],
        makes: tuple[Make, Callable[..., object], Callable[..., R]],
        *,
        changes_state: bool,
        is_blind: bool = False,
        needs_partitions: bool = True,
        is_progress: bool = False,
    ) -> Pending:
        """Run one command per share-partition. A window that is in use is read anew when its state changed below it.

        `is_blind`: the command itself does not look whether the partition exists. `is_progress`: it writes what follows
        from acknowledgements, which may be confirmed before it is on disk (`penstock.share.flush.interval.ms`).
        """
        response, topic_result, partition_result = makes
        if not self._gate.allows_on_cluster(request, AclOperation.CLUSTER_ACTION):
            return _refuse(request, topics, makes, ClusterAuthorizationFailed())
        if self._is_outdated(request):
            return _refuse(request, topics, makes, CoordinatorNotAvailable())
        gathering: _Gathering[R] = _Gathering(request.defer(), response, topic_result)
        waiting: list[tuple[SharePartitionKey, Command[R], Respond[R]]] = []
        is_answered = group_id and (not needs_partitions or all(topic.partitions for topic in topics))
        for topic in topics if is_answered else ():
            for requested in topic.partitions:
                key = (group_id, topic.topic_id, requested.partition)
                waiting.append((key, command(key, requested), gathering.expect(key)))
        for key, run, respond in waiting:
            try:
                if key[2] < 0:
                    raise InvalidRequest("The partition is negative.")
                if is_blind and not self._coordinator.partition_exists(key[1], key[2]):
                    raise UnknownTopicOrPartition("The partition does not exist.")
                handle = self._coordinator.handle(key)
            except KafkaError as error:
                respond(partition_result(partition=key[2], error_code=error.code, error_message=error.message))
                continue
            effects = run(handle.shard, respond)
            if is_progress:
                self._coordinator.confirm_early(handle.log, effects)
            handle.run(effects)
            if changes_state:
                self._windows.drop(key, NotLeaderOrFollower())
        if not waiting:
            gathering.answer_if_complete()
        return gathering.pending

    def _is_outdated(self, request: AnyRequest) -> bool:
        """Whether a later connection of the same broker has been used already."""
        sender, number = request.client_id or "", request.connection.number
        if not self._cluster.is_shared or not any(sender == client_id_of(each) for each in self._cluster.node_ids):
            return False
        if number < self._latest.get(sender, 0):
            return True
        self._latest[sender] = number
        return False

    def initialize_share_group_state(self, request: Request[m.InitializeShareGroupStateRequest]) -> Pending:
        body = request.body
        answer = m.InitializeShareGroupStateResponse
        now_ms = self._world.now_ms()

        def command(
            key: SharePartitionKey, requested: m.InitializeShareGroupStateRequest.PartitionData
        ) -> Command[m.InitializeShareGroupStateResponse.PartitionResult]:
            return lambda shard, respond: shard.initialize(
                respond, key, requested.state_epoch, requested.start_offset, now_ms
            )

        makes = (answer, answer.InitializeStateResult, answer.PartitionResult)
        return self._each(
            request, body.group_id, body.topics, command, makes, changes_state=True, needs_partitions=False
        )

    def read_share_group_state(self, request: Request[m.ReadShareGroupStateRequest]) -> Pending:
        body = request.body
        answer = m.ReadShareGroupStateResponse

        def command(
            key: SharePartitionKey, requested: m.ReadShareGroupStateRequest.PartitionData
        ) -> Command[m.ReadShareGroupStateResponse.PartitionResult]:
            return lambda shard, respond: shard.read(respond, key, requested.leader_epoch)

        makes = (answer, answer.ReadStateResult, answer.PartitionResult)
        return self._each(request, body.group_id, body.topics, command, makes, changes_state=False)

    def write_share_group_state(self, request: Request[m.WriteShareGroupStateRequest]) -> Pending:
        body = request.body
        answer = m.WriteShareGroupStateResponse
        now_ms = self._world.now_ms()

        def command(
            key: SharePartitionKey, requested: m.WriteShareGroupStateRequest.PartitionData
        ) -> Command[m.WriteShareGroupStateResponse.PartitionResult]:
            batches = [
                StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in requested.state_batches
            ]
            return lambda shard, respond: shard.write(
                respond,
                key,
                state_epoch=requested.state_epoch,
                leader_epoch=requested.leader_epoch,
                start_offset=requested.start_offset,
                delivery_complete_count=requested.delivery_complete_count,
                batches=batches,
                now_ms=now_ms,
            )

        makes = (answer, answer.WriteStateResult, answer.PartitionResult)
        return self._each(request, body.group_id, body.topics, command, makes, changes_state=True, is_progress=True)

    def delete_share_group_state(self, request: Request[m.DeleteShareGroupStateRequest]) -> Pending:
        body = request.body
        answer = m.DeleteShareGroupStateResponse

        def command(
            key: SharePartitionKey, requested: m.DeleteShareGroupStateRequest.PartitionData
        ) -> Command[m.DeleteShareGroupStateResponse.PartitionResult]:
            return lambda shard, respond: shard.delete(respond, key)

        makes = (answer, answer.DeleteStateResult, answer.PartitionResult)
        return self._each(request, body.group_id, body.topics, command, makes, changes_state=True, is_blind=True)

    def read_share_group_state_summary(self, request: Request[m.ReadShareGroupStateSummaryRequest]) -> Pending:
        body = request.body
        answer = m.ReadShareGroupStateSummaryResponse

        def command(
            key: SharePartitionKey, requested: m.ReadShareGroupStateSummaryRequest.PartitionData
        ) -> Command[m.ReadShareGroupStateSummaryResponse.PartitionResult]:
            return lambda shard, respond: shard.read_summary(respond, key)

        makes = (answer, answer.ReadStateSummaryResult, answer.PartitionResult)
        return self._each(request, body.group_id, body.topics, command, makes, changes_state=False, is_blind=True)
