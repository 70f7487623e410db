"""The history of consumer groups as it is seen at the broker's door: who owns which partition, and until when.

A member owns what the coordinator has assigned to it, until it says that it has given it up, is told that it is no
member any more, or has not been heard of for a session timeout: the last request that was answered counts from when it
was sent. A member is known by the name of its program.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.simulation.door import Door, Exchange
from penstock.simulation.world import SimulatedWorld
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.codec import decode_versioned
from penstock.wire.errors import ErrorCode
from tests.simulation.scenario import History

LISTENED = (
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
)
"""What a door is to listen for."""

Place = tuple[str, int]

_EXPELLED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
_COOPERATIVE = "cooperative-sticky"
_ROUNDED_MS = 1


class GroupHistory:
    def __init__(
        self, history: History, door: Door, world: SimulatedWorld, topics: dict[bytes, str], session_ms: int
    ) -> None:
        self._history = history
        self._world = world
        self._topics = topics
        self._session_ms = session_ms
        self._owned: dict[str, dict[Place, None]] = {}
        self._session_ends: dict[str, int] = {}
        """Until when each member is one, unless it is heard of."""
        self._away: dict[str, int] = {}
        """Until when each static member that was killed has to be back."""
        self._given_up: dict[str, int] = {}
        """The number of the last request with which a member gave something up: earlier answers do not count."""
        door.on_request = self._requested
        door.on_answer = self._answered

    def static_member_is_away(self, group: str, member: str, members: int) -> None:
        """Has to return in time. Nothing is said of a group that some of its members have not joined yet.

        One that is killed again before it has returned is away since the first time.
        """
        if member in self._away or sum(map(bool, self._owned.values())) < members:
            return
        self._away[member] = self._session_ends[member]
        self._history.add("static-away", group=group, member=member, time=self._world.now_ms)

    # -- what a member says --------------------------------------------------------------------------------------------

    def _requested(self, exchange: Exchange) -> None:
        request = exchange.request
        if isinstance(request, m.ConsumerGroupHeartbeatRequest):
            if request.member_epoch < 0 or (request.member_epoch == 0 and not request.topic_partitions):
                self._give_up(exchange, request.group_id, ())
            elif request.topic_partitions is not None:
                self._give_up(exchange, request.group_id, self._named(request.topic_partitions))
        elif isinstance(request, m.JoinGroupRequest):
            self._give_up(exchange, request.group_id, _kept_over_a_rebalance(request))
        elif isinstance(request, m.LeaveGroupRequest):
            self._give_up(exchange, request.group_id, ())

    def _give_up(self, exchange: Exchange, group: str, kept: Iterable[Place]) -> None:
        self._given_up[exchange.client] = exchange.number
        self._keep(group, exchange.client, kept)

    # -- what it is told -----------------------------------------------------------------------------------------------

    def _answered(self, exchange: Exchange) -> None:
        request, answer, member = exchange.request, exchange.answer, exchange.client
        if isinstance(answer, m.ConsumerGroupHeartbeatResponse) and isinstance(
            request, m.ConsumerGroupHeartbeatRequest
        ):
            assigned = self._named(answer.assignment.topic_partitions) if answer.assignment is not None else []
            if request.member_epoch >= 0:
                self._heard(exchange, request.group_id, answer.error_code, assigned)
        elif isinstance(answer, m.SyncGroupResponse) and isinstance(request, m.SyncGroupRequest):
            self._heard(exchange, request.group_id, answer.error_code, _assigned(answer))
        elif isinstance(answer, m.HeartbeatResponse) and isinstance(request, m.HeartbeatRequest):
            self._heard(exchange, request.group_id, answer.error_code, [])
        elif isinstance(answer, m.OffsetCommitResponse) and isinstance(request, m.OffsetCommitRequest):
            self._committed(request, answer, member)

    def _heard(self, exchange: Exchange, group: str, error: int, assigned: Iterable[Place]) -> None:
        member = exchange.client
        if exchange.number < self._given_up.get(member, 0):
            return
        if error in _EXPELLED:
            self._keep(group, member, ())
        elif error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            owned = self._owned.setdefault(member, {})
            owned.update(dict.fromkeys(assigned))
            until = self._session_ends[member] = exchange.sent_ms + self._session_ms - _ROUNDED_MS
            for place in owned:
                self._change("own", group, member, place, until=until)
            if owned and member in self._away and self._world.now_ms < self._away.pop(member):
                self._history.add("static-back", group=group, member=member, time=self._world.now_ms)

    def _committed(self, request: m.OffsetCommitRequest, answer: m.OffsetCommitResponse, member: str) -> None:
        errors = {
            (self._topics.get(topic.topic_id, topic.name), each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        for topic in request.topics:
            name = self._topics.get(topic.topic_id, topic.name)
            for each in topic.partitions:
                self._history.add(
                    "offset-commit",
                    group=request.group_id,
                    member=member,
                    topic=name,
                    partition=each.partition_index,
                    offset=each.committed_offset,
                    result="failed" if errors[name, each.partition_index] else "ok",
                )

    # -- inside --------------------------------------------------------------------------------------------------------

    def _keep(self, group: str, member: str, kept: Iterable[Place]) -> None:
        owned = self._owned.get(member, {})
        for place in [place for place in owned if place not in set(kept)]:
            del owned[place]
            self._change("disown", group, member, place)

    def _change(self, op: str, group: str, member: str, place: Place, **more: object) -> None:
        topic, partition = place
        time = self._world.now_ms
        self._history.add(op, group=group, member=member, topic=topic, partition=partition, time=time, **more)

    def _named(
        self,
        topics: Iterable[
            m.ConsumerGroupHeartbeatRequest.TopicPartitions | m.ConsumerGroupHeartbeatResponse.TopicPartitions
        ],
    ) -> list[Place]:
        return [(self._topics[each.topic_id], index) for each in topics for index in each.partitions]


def _kept_over_a_rebalance(request: m.JoinGroupRequest) -> list[Place]:
    """Who can take part in an eager protocol gives everything up before it joins."""
    if [each.name for each in request.protocols] != [_COOPERATIVE]:
        return []
    metadata = decode_versioned(m.ConsumerProtocolSubscription, request.protocols[0].metadata)
    return [(each.topic, index) for each in metadata.owned_partitions for index in each.partitions]


def _assigned(answer: m.SyncGroupResponse) -> list[Place]:
    if not answer.assignment:
        return []
    assignment = decode_versioned(m.ConsumerProtocolAssignment, answer.assignment)
    return [(each.topic, index) for each in assignment.assigned_partitions for index in each.partitions]
