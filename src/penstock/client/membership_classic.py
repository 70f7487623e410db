"""The classic group protocol (KIP-62, KIP-345, KIP-429), from a member's side.

One round of a rebalance: all members send JoinGroup and wait until everyone has joined. The coordinator makes one of
them the leader, which runs the assignor over all subscriptions. All members send SyncGroup, the leader's with the
result, and get their assignment back. From then on they send heartbeats; the response REBALANCE_IN_PROGRESS starts
another round.

With an eager assignor, a member gives up all its partitions before it joins. With a cooperative one it keeps them,
afterwards gives up those that the new assignment lacks, and joins again so that they can be assigned to others.

====================  ===========================================================================================
state                 left by
====================  ===========================================================================================
out                   the next `advance`: gives up the partitions that it must give up, starts joining → joining joining
JoinGroup and SyncGroup both answered → joined; `advance` takes the assignment over → member member                a
heartbeat says so, or topics changed → out (to join again) failed                nothing; `advance` raises the error
(fenced by another member with the same instance id…)
====================  ===========================================================================================
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from penstock.client.assignors.base import Assignor, MemberSubscription
from penstock.client.cluster import GROUP, Backoff, Cluster
from penstock.client.config import ConsumerConfig
from penstock.client.errors import UsageError, check, kafka_error
from penstock.client.membership import Hooks, Membership
from penstock.client.metrics import Metrics, Rebalances
from penstock.client.transactions import ConsumerGroupMetadata
from penstock.client.types import TopicPartition
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage, decode_versioned, encode_versioned
from penstock.wire.errors import ErrorCode, FencedInstanceId, KafkaError

_log = logging.getLogger("penstock.client")

_SUBSCRIPTION_VERSION = 3
_ASSIGNMENT_VERSION = 3
_JOIN_GRACE_MS = 5_000  # the coordinator parks JoinGroup for the rebalance timeout; be more patient than that
_GROUP = "consumer-coordinator-metrics"

_REJOIN = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.MEMBER_ID_REQUIRED,
}


class _Joined:
    """What a finished round brought."""

    __slots__ = ("assignor", "generation_id", "partitions")

    def __init__(self, generation_id: int, assignor: Assignor, partitions: list[TopicPartition]) -> None:
        self.generation_id = generation_id
        self.assignor = assignor
        self.partitions = partitions


class ClassicMembership(Membership):
    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, hooks: Hooks, assignors: Sequence[Assignor], metrics: Metrics
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._hooks = hooks
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = all(assignor.cooperative for assignor in assignors)
        self._instance_id = config.group_instance_id or None
        self._member_id = ""
        self._generation_id = -1
        self._needs_join = True
        self._lost = False  # the coordinator no longer knows us: what we held is gone
        self._joining: asyncio.Task[_Joined] | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._last_poll = 0.0
        self._joined_topics: set[str] = set()
        self._assigned_counts: dict[str, int] | None = None  # the leader's view, to notice new partitions
        self._heartbeats = metrics.sensor(_GROUP, "heartbeat", "rate", "total")
        self._heartbeat_time = metrics.sensor(_GROUP, "heartbeat-response-time", "max")
        self._joins = metrics.sensor(_GROUP, "join", "rate", "total")
        self._join_time = metrics.sensor(_GROUP, "join-time", "avg", "max")
        metrics.gauge(_GROUP, "last-heartbeat-seconds-ago", self._heartbeats.seconds_ago)
        self._rebalances = Rebalances(metrics, _GROUP)
        names = sorted(self._assignors)
        if len(names) != len(assignors):
            raise UsageError(f"two assignors have the same name: {names}")

    # What poll sees

    def identity(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata(self._config.group_id, self._generation_id, self._member_id, self._instance_id)

    def is_settled(self) -> bool:
        return not self._needs_join and self._error is None and (self._joining is None or not self._joining.done())

    def subscription_changed(self) -> None:
        topics = self._hooks.subscribed()
        changed = topics != self._joined_topics
        if not changed and self._assigned_counts is not None:
            now = self._cluster.metadata.partition_count
            changed = any(now(topic) != count for topic, count in self._assigned_counts.items())
        if changed and self._generation_id >= 0 and not self._needs_join:
            self._needs_join = True
            self._hooks.wake()

    def enforce_rebalance(self) -> None:
        self._needs_join = True
        self._hooks.wake()

    async def advance(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self._last_poll = loop.time()
        while True:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._joining is None and self._needs_join:
                self._rebalances.begin()
                await self._let_go()
                self._needs_join = False
                self._joining = asyncio.create_task(self._join())
                self._joining.add_done_callback(lambda _: self._hooks.wake())
            if self._joining is None:
                return
            remaining = deadline - loop.time()
            if not self._joining.done():
                if remaining <= 0:
                    await asyncio.sleep(0)
                    return
                await asyncio.wait([self._joining], timeout=min(remaining, 60.0))
                self._last_poll = loop.time()
                if not self._joining.done():
                    continue
            task, self._joining = self._joining, None
            try:
                joined = task.result()
            except KafkaError as error:
                self._needs_join = True
                if not error.retriable:
                    raise
                _log.info("joining group %s failed, will try again: %s", self._config.group_id, error)
                await asyncio.sleep(min(self._config.retry_backoff_ms / 1000, max(remaining, 0)))
                continue
            await self._take_over(joined)

    async def _let_go(self) -> None:
        """Give up, before joining, what may not be kept."""
        owned = self._hooks.owned()
        if self._lost:
            self._lost = False
            await self._hooks.lose(owned)
        elif not self._cooperative:
            await self._hooks.revoke(owned)
        else:
            topics = self._hooks.subscribed()
            await self._hooks.revoke([tp for tp in owned if tp.topic not in topics])

    async def _take_over(self, joined: _Joined) -> None:
        owned, given = set(self._hooks.owned()), set(joined.partitions)
        revoked = sorted(owned - given)
        if revoked:
            await self._hooks.revoke(revoked)
            self._needs_join = self._needs_join or self._cooperative
        joined.assignor.on_assignment(sorted(given), joined.generation_id)
        await self._hooks.assign(sorted(given - owned))
        self._rebalances.end()

    async def leave(self) -> None:
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)
            self._joining = None
        await self._stop_heartbeat()
        owned = self._hooks.owned()
        try:
            await self._hooks.revoke(owned)
        finally:
            self.losses += 1
            # A static member keeps its place: that is what it is static for.
            if self._member_id and self._instance_id is None:
                await self._send_leave("the consumer is being closed")
            self._reset()

    async def _send_leave(self, reason: str) -> None:
        def build(version: int) -> m.Message:
            if version < 3:
                return m.LeaveGroupRequest(group_id=self._config.group_id, member_id=self._member_id)
            who = m.LeaveGroupRequest.MemberIdentity(
                member_id=self._member_id, group_instance_id=self._instance_id, reason=reason if version >= 5 else None
            )
            return m.LeaveGroupRequest(group_id=self._config.group_id, members=[who])

        try:
            await self._cluster.call_coordinator(
                GROUP, self._config.group_id, build, m.LeaveGroupResponse, timeout_ms=5_000
            )
        except KafkaError as error:
            _log.debug("leaving group %s: %s", self._config.group_id, error)

    def _reset(self) -> None:
        self._member_id = ""
        self._generation_id = -1
        self._needs_join = True

    # A round of a rebalance

    async def _join(self) -> _Joined:
        loop = asyncio.get_running_loop()
        started = loop.time()
        await self._stop_heartbeat()
        backoff = Backoff(self._config)
        while True:
            try:
                joined = await self._round()
            except KafkaError as error:
                if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                    if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                        self._member_id = ""
                    self._generation_id = -1
                    self.losses += 1
                elif error.code != ErrorCode.MEMBER_ID_REQUIRED and not (
                    error.retriable or error.code == ErrorCode.REBALANCE_IN_PROGRESS
                ):
                    raise
                if error.code not in _REJOIN:
                    self._cluster.forget_coordinator(GROUP, self._config.group_id)
                    await asyncio.sleep(backoff.next_pause())
                continue
            self._joins.record()
            self._join_time.record((loop.time() - started) * 1000)
            self._heartbeat = asyncio.create_task(self._beat(), name="penstock-heartbeat")
            self._heartbeat.add_done_callback(self._stopped_beating)
            return joined

    async def _round(self) -> _Joined:
        config = self._config
        await self._cluster.refresh(self._hooks.subscribed())
        topics = self._hooks.subscribed()
        self._joined_topics = topics
        join_timeout_ms = config.max_poll_interval_ms + _JOIN_GRACE_MS
        node = await self._cluster.coordinator(GROUP, config.group_id)
        connection = await self._cluster.connection(node, "join")

        def build(version: int) -> m.Message:
            return m.JoinGroupRequest(
                group_id=config.group_id,
                session_timeout_ms=config.session_timeout_ms,
                rebalance_timeout_ms=config.max_poll_interval_ms,
                member_id=self._member_id,
                group_instance_id=self._instance_id if version >= 5 else None,
                protocol_type="consumer",
                protocols=self._protocols(topics),
            )

        answer = await connection.request(
            build, m.JoinGroupResponse, timeout_ms=join_timeout_ms, at_least=5 if self._instance_id else 2
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        self._check(answer.error_code)
        self._member_id = answer.member_id
        self._generation_id = answer.generation_id
        assignor = self._assignors.get(answer.protocol_name or "")
        if assignor is None:
            raise kafka_error(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group chose the assignor {answer.protocol_name!r}"
            )
        is_leader = answer.leader == answer.member_id
        assignments: list[m.SyncGroupRequest.SyncGroupRequestAssignment] = []
        self._assigned_counts = None
        if is_leader and not answer.skip_assignment:
            assignments = await self._assign_all(assignor, answer)

        def build_sync(version: int) -> m.Message:
            return m.SyncGroupRequest(
                group_id=config.group_id,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                group_instance_id=self._instance_id if version >= 3 else None,
                protocol_type="consumer" if version >= 5 else None,
                protocol_name=answer.protocol_name if version >= 5 else None,
                assignments=assignments,
            )

        synced = await connection.request(build_sync, m.SyncGroupResponse, timeout_ms=join_timeout_ms)
        self._check(synced.error_code)
        return _Joined(answer.generation_id, assignor, _partitions_of(bytes(synced.assignment)))

    def _check(self, code: int) -> None:
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise FencedInstanceId(
                f"another member of group {self._config.group_id!r} runs with group_instance_id "
                f"{self._instance_id!r} now; give each running consumer one of its own"
            )
        check(code, about=f"group {self._config.group_id!r}")

    def _protocols(self, topics: set[str]) -> list[m.JoinGroupRequest.JoinGroupRequestProtocol]:
        owned: dict[str, list[int]] = {}
        for tp in sorted(self._hooks.owned()):
            owned.setdefault(tp.topic, []).append(tp.partition)
        protocols = []
        for assignor in self._assignors.values():
            subscription = m.ConsumerProtocolSubscription(
                topics=sorted(topics),
                user_data=assignor.user_data(topics),
                owned_partitions=[
                    m.ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
                    for topic, numbers in owned.items()
                ],
                generation_id=self._generation_id,
                rack_id=self._config.client_rack or None,
            )
            protocols.append(
                m.JoinGroupRequest.JoinGroupRequestProtocol(
                    name=assignor.name, metadata=encode_versioned(subscription, _SUBSCRIPTION_VERSION)
                )
            )
        return protocols

    async def _assign_all(
        self, assignor: Assignor, answer: m.JoinGroupResponse
    ) -> list[m.SyncGroupRequest.SyncGroupRequestAssignment]:
        """The leader's duty."""
        members = {member.member_id: _subscription_of(member) for member in answer.members}
        topics = {topic for member in members.values() for topic in member.topics}
        await self._cluster.refresh(topics)
        counts = {topic: self._cluster.metadata.partition_count(topic) for topic in sorted(topics)}
        self._assigned_counts = counts
        assignment = assignor.assign({topic: n for topic, n in counts.items() if n}, members)
        return [
            m.SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=name, assignment=_assignment_bytes(assignment.get(name, []))
            )
            for name in members
        ]

    # Heartbeats

    async def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            await asyncio.gather(self._heartbeat, return_exceptions=True)
            self._heartbeat = None

    async def _beat(self) -> None:
        """Keep the membership alive until the coordinator wants a rebalance or no longer knows us."""
        config = self._config
        loop = asyncio.get_running_loop()
        failing_since: float | None = None
        while True:
            await asyncio.sleep(config.heartbeat_interval_ms / 1000)
            if loop.time() - self._last_poll > config.max_poll_interval_ms / 1000 and self._joining is None:
                _log.warning(
                    "leaving group %s: nobody has polled for max_poll_interval_ms=%d",
                    config.group_id,
                    config.max_poll_interval_ms,
                )
                if self._instance_id is None:
                    await self._send_leave("the consumer was not polled in time")
                    self._member_id = ""
                self._forget_place(lost=True)
                return
            started = loop.time()
            try:
                node = await self._cluster.coordinator(GROUP, config.group_id)
                answer = await self._cluster.request(
                    self._heartbeat_request, m.HeartbeatResponse, node=node, channel="coordinator"
                )
                code = answer.error_code
            except KafkaError as error:
                _log.debug("heartbeat: %s", error)
                code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._heartbeats.record()
            self._heartbeat_time.record((loop.time() - started) * 1000)
            if code == 0:
                failing_since = None
                continue
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                self._needs_join = True
                self._hooks.wake()
                continue
            if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                if code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                self._forget_place(lost=True)
                return
            if code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
                self._cluster.forget_coordinator(GROUP, config.group_id)
                failing_since = failing_since or started
                if loop.time() - failing_since > config.session_timeout_ms / 1000:
                    self._forget_place(lost=True)
                    return
                continue
            try:
                self._check(code)
            except KafkaError as error:
                if not error.retriable:
                    self._error = error
                    self._forget_place(lost=True)
                    return

    def _stopped_beating(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._error = error
            self._forget_place(lost=True)

    def _heartbeat_request(self, version: int) -> m.Message:
        return m.HeartbeatRequest(
            group_id=self._config.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._instance_id if version >= 3 else None,
        )

    def _forget_place(self, lost: bool) -> None:
        self._generation_id = -1
        self._lost = lost
        self.losses += lost
        self._needs_join = True
        self._hooks.wake()


def _subscription_of(member: m.JoinGroupResponse.JoinGroupResponseMember) -> MemberSubscription:
    try:
        decoded = decode_versioned(m.ConsumerProtocolSubscription, member.metadata)
    except MalformedMessage as error:
        raise kafka_error(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"member {member.member_id} sent a subscription that is none: {error}",
        ) from error
    return MemberSubscription(
        topics=tuple(decoded.topics),
        owned=tuple(TopicPartition(o.topic, number) for o in decoded.owned_partitions for number in o.partitions),
        generation_id=decoded.generation_id,
        group_instance_id=member.group_instance_id,
        rack_id=decoded.rack_id,
        user_data=bytes(decoded.user_data) if decoded.user_data is not None else None,
    )


def _assignment_bytes(partitions: list[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return encode_versioned(
        m.ConsumerProtocolAssignment(
            assigned_partitions=[
                m.ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=sorted(numbers))
                for topic, numbers in sorted(topics.items())
            ]
        ),
        _ASSIGNMENT_VERSION,
    )


def _partitions_of(assignment: bytes) -> list[TopicPartition]:
    if not len(assignment):
        return []
    decoded = decode_versioned(m.ConsumerProtocolAssignment, assignment)
    return [TopicPartition(a.topic, number) for a in decoded.assigned_partitions for number in a.partitions]
