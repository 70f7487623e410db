"""Share groups for administrators: their start offsets and lag (KIP-932, KIP-1226), read, reset and deleted.

**DescribeShareGroupOffsets**: topics null means every share-partition of the group, an empty list none. What is not
known is start offset -1 without an error. Lag is what lies between the start offset and the end of the log, less what
is done already. Starts and ends may be kept by other brokers, which are requested for them.

**AlterShareGroupOffsets** starts share-partitions anew at the given offsets, wiping what was in flight; **Delete**
forgets the group's topics. Both need a group without members. The answer goes out after the group coordinator has
written that the change was made.

Describing needs DESCRIBE on group and topics, altering READ on both, deleting DELETE on the group and READ on topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.handlers.table import DELETE_GROUP, DESCRIBE_GROUP, DESCRIBE_TOPIC, READ_GROUP, READ_TOPIC
from penstock.broker.requests import Answer, AnyRequest, Request
from penstock.broker.share.actions import partitions_with
from penstock.groups.share.protocol import DeleteShareState, InitializeShareState
from penstock.queues.sessions import TopicIdPartition
from penstock.queues.state import UNKNOWN
from penstock.wire import messages as m
from penstock.wire.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.gate import Gate
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.share.coordinator import ShareCoordinator
    from penstock.broker.share.groups import ShareGroups
    from penstock.broker.share.log_ends import LogEnds
    from penstock.broker.topics import Topic
    from penstock.queues.state import ShareGroupState


_NO_GROUP_ID = "The group id is empty."
_NEGATIVE = "A partition is negative."


class _Row(NamedTuple):
    """A share-partition of an answer whose offsets are to be filled in."""

    group: m.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
    topic: Topic
    partition: m.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition

    @property
    def key(self) -> TopicIdPartition:
        return self.topic.topic_id, self.partition.partition_index


class _Descriptions:
    """Looks up what an answer wants: the states of share-partitions and the ends of their logs."""

    def __init__(self, rows: list[_Row]) -> None:
        self._by_group: dict[str, list[_Row]] = {}
        for each in rows:
            self._by_group.setdefault(each.group.group_id, []).append(each)
        self._all = rows
        self._states: dict[tuple[str, TopicIdPartition], ShareGroupState | ErrorCode | None] = {}
        self._missing = len(self._by_group) + 1
        self.when_complete: Callable[[], None] = lambda: None

    @property
    def is_complete(self) -> bool:
        return self._missing == 0

    def look_up(self, coordinator: ShareCoordinator, log_ends: LogEnds) -> None:
        for group_id, rows in self._by_group.items():

            def found(
                states: dict[TopicIdPartition, ShareGroupState | ErrorCode | None], group_id: str = group_id
            ) -> None:
                self._states.update({(group_id, key): state for key, state in states.items()})
                self._arrived()

            try:
                coordinator.states(group_id, {each.key: None for each in rows}, found)
            except KafkaError as error:
                for each in rows:
                    each.group.topics = []
                    each.group.error_code, each.group.error_message = error.code, error.message
                self._arrived()
        places = {(each.topic.name, each.partition.partition_index): None for each in self._all}
        log_ends.find(places, self._ends_found)

    def _ends_found(self, ends: dict[tuple[str, int], int | None]) -> None:
        self._ends = ends
        self._arrived()

    def _arrived(self) -> None:
        self._missing -= 1
        if self._missing:
            return
        for each in self._all:
            index = each.partition.partition_index
            state = self._states.get((each.group.group_id, each.key))
            _describe(each.partition, state, self._ends[each.topic.name, index])
        self.when_complete()


def _describe(
    described: m.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition,
    state: ShareGroupState | ErrorCode | None,
    end: int | None,
) -> None:
    if isinstance(state, ErrorCode):
        described.error_code = state
        return
    if state is None:
        return
    if end is None:
        described.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        return
    # In a log that never had a record a group has no position, though where it will begin is settled and stored.
    if end == 0 and state.delivery_complete_count == UNKNOWN:
        return
    described.start_offset = state.start_offset
    described.leader_epoch = max(0, state.leader_epoch)
    lag = state.lag(end)
    described.lag = UNKNOWN if lag is None else lag


class ShareOffsetHandlers:
    def __init__(self, cluster: ClusterView, groups: GroupCoordinator, share_groups: ShareGroups, gate: Gate) -> None:
        self._cluster = cluster
        self._groups = groups
        self._coordinator = share_groups.coordinator
        self._log_ends = share_groups.log_ends
        self._gate = gate

    def describe_share_group_offsets(self, request: Request[m.DescribeShareGroupOffsetsRequest]) -> Answer:
        response = m.DescribeShareGroupOffsetsResponse()
        rows: list[_Row] = []
        for group in request.body.groups:
            described, found = self._begin_group(request, group)
            response.groups.append(described)
            rows += found
        descriptions = _Descriptions(rows)
        descriptions.look_up(self._coordinator, self._log_ends)
        if descriptions.is_complete:
            return response
        pending = request.defer()

        def settled(failure: Exception | None) -> None:
            if failure is not None:
                lost = CoordinatorNotAvailable()
                for group in response.groups:
                    group.topics, group.error_code, group.error_message = [], lost.code, lost.message
            pending.complete(response)

        descriptions.when_complete = lambda: self._coordinator.runtime.when_settled(settled)
        return pending

    def _begin_group(
        self, request: AnyRequest, group: m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    ) -> tuple[m.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup, list[_Row]]:
        """The answer about a group as far as it needs no offsets, and what is to be filled in."""
        response = m.DescribeShareGroupOffsetsResponse
        described = response.DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
        rows: list[_Row] = []
        if not self._gate.allows(request, *DESCRIBE_GROUP, group.group_id):
            described.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return described, rows
        denied: list[m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] = []
        try:
            if group.topics is None:
                known = self._groups.find(group.group_id).shard.share_state_partitions(group.group_id)
                requested = [
                    (topic.name, sorted(partitions))
                    for topic_id, partitions in known.items()
                    if (topic := self._cluster.topic_by_id(topic_id)) is not None
                    and self._gate.allows(request, *DESCRIBE_TOPIC, topic.name)
                ]
            else:
                allowed: list[m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] = []
                for named in group.topics:
                    may_see = self._gate.allows(request, *DESCRIBE_TOPIC, named.topic_name)
                    (allowed if may_see else denied).append(named)
                requested = self._named(group.group_id, allowed)
        except KafkaError as error:
            described.error_code, described.error_message = error.code, error.message
            return described, rows
        for name, indexes in sorted(requested):
            topic = self._cluster.find_topic(name)
            partitions = [
                response.DescribeShareGroupOffsetsResponsePartition(
                    partition_index=index, start_offset=UNKNOWN, lag=UNKNOWN
                )
                for index in indexes
            ]
            described.topics.append(
                response.DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=topic.topic_id if topic is not None else m.ZERO_UUID,
                    partitions=partitions,
                )
            )
            if topic is not None:
                rows += [
                    _Row(described, topic, partition)
                    for partition in partitions
                    if topic.has_partition(partition.partition_index)
                ]
        described.topics += [_not_described(named) for named in denied]
        return described, rows

    def _named(
        self,
        group_id: str,
        topics: Iterable[m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic],
    ) -> list[tuple[str, list[int]]]:
        """Each topic and partition once. What makes no sense has Kafka's error code, and a sentence that says what."""
        named: dict[str, dict[int, None]] = {}
        for topic in topics:
            named.setdefault(topic.topic_name, {}).update(dict.fromkeys(topic.partitions))
        for name, indexes in named.items():
            if self._cluster.find_topic(name) is not None:
                if not group_id:
                    raise UnknownServerError(_NO_GROUP_ID)
                if not indexes:
                    raise UnknownServerError(f"Topic {name} is named without partitions.")
                if min(indexes) < 0:
                    raise UnknownServerError(_NEGATIVE)
        return [(name, list(indexes)) for name, indexes in named.items()]

    def alter_share_group_offsets(self, request: Request[m.AlterShareGroupOffsetsRequest]) -> Answer:
        body = request.body
        answer = m.AlterShareGroupOffsetsResponse
        if not self._gate.allows(request, *READ_GROUP, body.group_id):
            error = GroupAuthorizationFailed()
            return answer(error_code=error.code, error_message=error.message)
        if not body.group_id:
            return answer(error_code=ErrorCode.INVALID_GROUP_ID, error_message=_NO_GROUP_ID)
        by_name: dict[str, m.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = {}
        start_offsets: dict[bytes, dict[int, int]] = {}
        for requested in body.topics:
            topic = self._cluster.find_topic(requested.topic_name)
            refused: KafkaError = UnknownTopicOrPartition()
            if not self._gate.allows(request, *READ_TOPIC, requested.topic_name):
                topic, refused = None, TopicAuthorizationFailed()
            if topic is None and not requested.partitions:
                continue
            if topic is not None and any(partition.partition_index < 0 for partition in requested.partitions):
                return answer(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=_NEGATIVE)  # Kafka's code for it
            results = by_name.setdefault(
                requested.topic_name,
                answer.AlterShareGroupOffsetsResponseTopic(
                    topic_name=requested.topic_name, topic_id=topic.topic_id if topic is not None else m.ZERO_UUID
                ),
            )
            for partition in requested.partitions:
                index = partition.partition_index
                result = answer.AlterShareGroupOffsetsResponsePartition(partition_index=index)
                results.partitions.append(result)
                if topic is None or not topic.has_partition(index):
                    result.error_code, result.error_message = refused.code, refused.message
                else:
                    start_offsets.setdefault(topic.topic_id, {})[index] = partition.start_offset
        response = answer(responses=list(by_name.values()))
        try:
            handle = self._groups.find(body.group_id)
            effects = handle.shard.begin_alter_share_offsets(body.group_id, start_offsets)
        except KafkaError as error:
            return answer(error_code=error.code, error_message=error.message)
        actions, effects.actions = effects.actions, []
        if not handle.run(effects):
            return answer(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not actions:
            return response
        (action,) = actions
        assert isinstance(action, InitializeShareState)
        pending = request.defer()

        def initialized(codes: dict[TopicIdPartition, ErrorCode]) -> None:
            for results in response.responses:
                for result in results.partitions:
                    result.error_code = codes.get((results.topic_id, result.partition_index), result.error_code)
            done, failed = partitions_with(codes, succeeded=True), partitions_with(codes, succeeded=False)
            now_ms = self._groups.time.now_ms()
            if failed:
                handle.run(handle.shard.share_state_initialized(body.group_id, failed, now_ms, succeeded=False))
            if not done:
                pending.complete(response)
                return
            written = handle.shard.share_state_initialized(body.group_id, done, now_ms)
            written.reply(pending.complete, response, lambda error: answer(error_code=error))
            handle.run(written)

        self._coordinator.initialize(action, initialized)
        return pending

    def delete_share_group_offsets(self, request: Request[m.DeleteShareGroupOffsetsRequest]) -> Answer:
        body = request.body
        answer = m.DeleteShareGroupOffsetsResponse
        if not self._gate.allows(request, *DELETE_GROUP, body.group_id):
            error = GroupAuthorizationFailed()
            return answer(error_code=error.code, error_message=error.message)
        if not body.group_id:
            return answer(error_code=ErrorCode.INVALID_GROUP_ID, error_message=_NO_GROUP_ID)
        names = dict.fromkeys(requested.topic_name for requested in body.topics)
        denied = [name for name in names if not self._gate.allows(request, *READ_TOPIC, name)]
        names = {name: None for name in names if name not in denied}
        known = frozenset(topic.topic_id for name in names if (topic := self._cluster.find_topic(name)) is not None)
        try:
            handle = self._groups.find(body.group_id)
            effects = handle.shard.begin_delete_share_offsets(body.group_id, known)
        except KafkaError as error:
            return answer(error_code=error.code, error_message=error.message)
        actions, effects.actions = effects.actions, []
        if not handle.run(effects):
            return answer(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        pending = request.defer()

        def deleted(codes: dict[TopicIdPartition, ErrorCode]) -> None:
            outcomes: dict[bytes, ErrorCode] = {}
            for (topic_id, _), code in codes.items():
                outcomes[topic_id] = outcomes.get(topic_id) or code
            refused = TopicAuthorizationFailed()
            response = answer(
                responses=[
                    answer.DeleteShareGroupOffsetsResponseTopic(
                        topic_name=name, error_code=refused.code, error_message=refused.message
                    )
                    for name in denied
                ]
                + [self._deleted(name, outcomes) for name in names]
            )
            done = frozenset(topic_id for topic_id, code in outcomes.items() if code == ErrorCode.NONE)
            if not done:
                pending.complete(response)
                return
            written = handle.shard.share_state_deleted(body.group_id, done, self._groups.time.now_ms())
            written.reply(pending.complete, response, lambda error: answer(error_code=error))
            handle.run(written)

        if actions:
            (action,) = actions
            assert isinstance(action, DeleteShareState)
            self._coordinator.delete(body.group_id, action.partitions, deleted)
        else:
            deleted({})
        return pending

    def _deleted(
        self, name: str, outcomes: dict[bytes, ErrorCode]
    ) -> m.DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic:
        topic = self._cluster.find_topic(name)
        result = m.DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic(topic_name=name)
        if topic is None or topic.topic_id not in outcomes:
            missing = UnknownTopicOrPartition("There is no offset information to delete.")
            result.error_code, result.error_message = missing.code, missing.message
        else:
            result.topic_id = topic.topic_id
            result.error_code = outcomes[topic.topic_id]
        return result


def _not_described(
    named: m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic,
) -> m.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic:
    error = TopicAuthorizationFailed()
    return m.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic(
        topic_name=named.topic_name,
        partitions=[
            m.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=UNKNOWN,
                lag=UNKNOWN,
                error_code=error.code,
                error_message=error.message,
            )
            for index in named.partitions
        ],
    )
