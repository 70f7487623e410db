"""Members that still speak the classic protocol inside a consumer group.

They see a group that never makes them wait: JoinGroup is answered at once with the member's epoch as generation and no
list of members, SyncGroup with the assignment that the coordinator computed, Heartbeat with REBALANCE_IN_PROGRESS when
the member should join again because its target moved on, it must give up partitions, or what it waited for is free.
Between being told to rejoin and doing so, and between JoinGroup and SyncGroup, a member has its rebalance timeout.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.coordination.context import RequestContext
from penstock.coordination.effects import Effects, Respond, answered
from penstock.groups.classic.group import CONSUMER_PROTOCOL_TYPE, protocols_of, rebalance_timeout_of
from penstock.groups.classic.protocol import MEMBER_ID_REQUIRED_VERSION, ClassicProtocol
from penstock.groups.consumer import migration
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ClassicMemberMetadata, ConsumerMember, MemberState, without_epochs
from penstock.groups.consumer.protocol import Change, ConsumerProtocol, check_instance
from penstock.groups.failures import join_error, leave_error, reply_join
from penstock.groups.records import Partitions
from penstock.groups.settings import MigrationPolicy, TopicsView
from penstock.groups.state import ShardState
from penstock.groups.timeline import Happened
from penstock.groups.timers import TimerKey, TimerKind
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage
from penstock.wire.errors import (
    ErrorCode,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
)


class ClassicMembers:
    def __init__(self, state: ShardState, consumer: ConsumerProtocol, classic: ClassicProtocol) -> None:
        self._state = state
        self._timers = state.timers
        self._consumer = consumer
        self._classic = classic

    # ---- JoinGroup ---------------------------------------------------------------------------------------------------

    def join(
        self,
        respond: Respond[m.JoinGroupResponse],
        context: RequestContext,
        request: m.JoinGroupRequest,
        group: ConsumerGroup,
    ) -> Effects:
        if self._state.settings.group_consumer_migration_policy is MigrationPolicy.DISABLED:
            raise InconsistentGroupProtocol(
                f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
                "migration is disabled."
            )
        effects = Effects()
        member_id = request.member_id or self._state.new_uuid()
        self._consumer.check_capacity(group, member_id, request.group_instance_id)
        protocols = protocols_of(request)
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_classic_protocols(
            {name for name, _ in protocols}
        ):
            raise InconsistentGroupProtocol(f"Member {member_id}'s protocols are not supported.")
        dynamic = request.group_instance_id is None
        if dynamic and not request.member_id and context.api_version >= MEMBER_ID_REQUIRED_VERSION:
            return answered(respond, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))

        replaced = group.static_member(request.group_instance_id)
        downgrades = replaced is not None and migration.may_downgrade_with(group, replaced, self._state.settings)
        before, former_id = self._member(effects, group, member_id, request)
        subscription = _subscription(protocols[0][1])
        updated = replace(
            before,
            instance_id=request.group_instance_id if request.group_instance_id is not None else before.instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            rebalance_timeout_ms=rebalance_timeout_of(request),
            subscribed_topic_names=frozenset(subscription.topics),
            subscribed_topic_regex="" if before.subscribed_topic_regex else before.subscribed_topic_regex,
            client_id=context.client_id,
            client_host=context.client_host,
            classic=ClassicMemberMetadata(request.session_timeout_ms, protocols),
        )
        change = Change(group, before, updated, former_id)
        owned = _owned(subscription, self._state.topics)
        if downgrades:
            assert replaced is not None
            generation = self._downgrade(effects, context, change, replaced, owned)
        else:
            self._consumer.advance(effects, context, change, owned)
            generation = change.member.member_epoch
            now_ms = context.now_ms
            self._timers.cancel(TimerKey(TimerKind.CONSUMER_JOIN, group.group_id, member_id))
            self._consumer.start_session(group.group_id, member_id, now_ms, request.session_timeout_ms)
            deadline_ms = now_ms + updated.rebalance_timeout_ms
            self._timers.schedule(TimerKey(TimerKind.CONSUMER_SYNC, group.group_id, member_id), deadline_ms)
        group.in_motion_ms = context.now_ms
        reply_join(
            effects,
            respond,
            m.JoinGroupResponse(
                member_id=member_id,
                generation_id=generation,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocol_name=protocols[0][0],
            ),
        )
        return effects

    def _member(
        self, effects: Effects, group: ConsumerGroup, member_id: str, request: m.JoinGroupRequest
    ) -> tuple[ConsumerMember, str | None]:
        instance_id = request.group_instance_id
        if instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id), None
        existing = group.static_member(instance_id)
        if not request.member_id:
            if existing is None:
                return ConsumerMember(member_id), None
            return self._consumer.replace_static(effects, group, existing, member_id)
        check_instance(existing, member_id, instance_id)
        assert existing is not None
        return existing, None

    def _downgrade(
        self,
        effects: Effects,
        context: RequestContext,
        change: Change,
        replaced: ConsumerMember,
        owned: Partitions | None,
    ) -> int:
        """The last consumer-protocol member comes back as a classic one: the group is classic from now on.

        Returns its generation, which the member needs even if it has to join again at once.
        """
        group = change.group
        scratch = Effects()  # its records are tombstoned at once; only the new epochs matter
        self._consumer.update_subscription(scratch, context, change)
        stale = group.target_epoch < change.epoch
        change.target_epoch = group.target_epoch
        if not stale:
            self._consumer.reconcile_member(scratch, context, change, owned)
        effects.records.clear()
        joining = (change.member, replaced.member_id)
        classic = migration.downgrade(effects, group, [], joining, self._state, context.now_ms)
        for member_id in group.members:
            self._consumer.cancel_timers(group.group_id, member_id)
        effects.extend(self._classic.start_sessions(classic, context.now_ms))
        if stale:
            self._classic.prepare_rebalance(effects, classic, context.now_ms)
        return classic.generation

    # ---- SyncGroup ---------------------------------------------------------------------------------------------------

    def sync(
        self,
        respond: Respond[m.SyncGroupResponse],
        context: RequestContext,
        request: m.SyncGroupRequest,
        group: ConsumerGroup,
    ) -> Effects:
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        assert member.classic is not None
        _check_generation(member, request.generation_id)
        protocol_name, metadata = member.classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
            raise InconsistentGroupProtocol(
                f"The protocol type {request.protocol_type} from member {member.member_id} request is not equal to the "
                f"group protocol type {CONSUMER_PROTOCOL_TYPE}."
            )
        if request.protocol_name not in (None, protocol_name):
            raise InconsistentGroupProtocol(
                f"The protocol name {request.protocol_name} from member {member.member_id} request is not equal to the "
                f"protocol name {protocol_name} returned in the join response."
            )
        if group.target_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._ask_to_rejoin(group, member, context.now_ms)
            raise RebalanceInProgress(
                f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should rejoin "
                "to catch up."
            )
        self._timers.cancel(TimerKey(TimerKind.CONSUMER_SYNC, group.group_id, member.member_id))
        timeout_ms = member.classic.session_timeout_ms
        self._consumer.start_session(group.group_id, member.member_id, context.now_ms, timeout_ms)
        blob = migration.assignment_blob(
            without_epochs(member.assigned), migration.embedded_version(metadata), self._state.topics
        )
        response = m.SyncGroupResponse(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=blob
        )
        return answered(respond, response)

    # ---- Heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(self, context: RequestContext, request: m.HeartbeatRequest, group: ConsumerGroup) -> ErrorCode:
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        assert member.classic is not None
        _check_generation(member, request.generation_id)
        timeout_ms = member.classic.session_timeout_ms
        self._consumer.start_session(group.group_id, member.member_id, context.now_ms, timeout_ms)
        must_rejoin = (
            member.member_epoch < group.target_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        )
        if must_rejoin:
            self._ask_to_rejoin(group, member, context.now_ms)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _ask_to_rejoin(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        key = TimerKey(TimerKind.CONSUMER_JOIN, group.group_id, member.member_id)
        self._timers.schedule_if_absent(key, now_ms + member.rebalance_timeout_ms)

    def _classic_member(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
        if instance_id is None:
            member = group.member(member_id)
        else:
            existing = group.static_member(instance_id)
            check_instance(existing, member_id, instance_id)
            assert existing is not None
            member = existing
        if not member.uses_classic_protocol:
            raise UnknownMemberId(f"Member {member.member_id} does not use the classic protocol.")
        return member

    # ---- LeaveGroup --------------------------------------------------------------------------------------------------

    def leave(
        self,
        respond: Respond[m.LeaveGroupResponse],
        context: RequestContext,
        request: m.LeaveGroupRequest,
        group: ConsumerGroup,
    ) -> Effects:
        responses: list[m.LeaveGroupResponse.MemberResponse] = []
        leaving: dict[str, str] = {}
        for identity in request.members:
            response = m.LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            responses.append(response)
            try:
                leaving[self._leaving_member(group, identity).member_id] = identity.reason or ""
            except KafkaError as error:
                response.error_code = error.code
        effects = self._consumer.fence(group, leaving, context.now_ms, Happened.LEFT)
        effects.reply(respond, m.LeaveGroupResponse(members=responses), leave_error)
        return effects

    def _leaving_member(self, group: ConsumerGroup, identity: m.LeaveGroupRequest.MemberIdentity) -> ConsumerMember:
        if identity.group_instance_id is None:
            return group.member(identity.member_id)
        existing = group.static_member(identity.group_instance_id)
        if existing is not None and not identity.member_id:
            return existing  # an administrator removes a static member without knowing its member id
        check_instance(existing, identity.member_id, identity.group_instance_id)
        assert existing is not None
        return existing


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if member.member_epoch != generation:
        raise IllegalGeneration(
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of member "
            f"{member.member_id}."
        )


def _subscription(metadata: bytes) -> m.ConsumerProtocolSubscription:
    try:
        return migration.subscription_of(metadata)
    except MalformedMessage as error:
        raise InconsistentGroupProtocol(
            "Malformed embedded consumer protocol in subscription deserialization."
        ) from error


def _owned(subscription: m.ConsumerProtocolSubscription, topics: TopicsView) -> Partitions:
    owned = {}
    for topic in subscription.owned_partitions:
        topic_id = topics.topic_id(topic.topic)
        if topic_id is not None:
            owned[topic_id] = frozenset(topic.partitions)
    return owned
