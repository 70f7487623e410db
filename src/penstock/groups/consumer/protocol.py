"""The consumer group protocol (KIP-848): what a heartbeat does, and what happens when heartbeats stop.

A heartbeat carries the member's epoch, whatever changed in its subscription, and the partitions it owns. The
coordinator updates the member, bumps the group epoch if the change calls for a new assignment, computes the target
assignment at once, moves the member one step towards its target (`reconciliation`) and answers with the member's new
epoch and, when it changed, its assignment. No member ever waits for another one to answer.

Differences from Apache Kafka, all invisible to clients: a target that cannot be computed at once because the last one
is too young (`assignment.interval.ms`, so that a burst of joins costs one assignment and not one each) is computed
`BATCH_MS` later and not a whole second, except in groups above `BATCHED_GROUP_SIZE`; and the interval until the next
heartbeat is short while the group moves (`pace`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.coordination.context import RequestContext, TopicView
from penstock.coordination.effects import CoordinatorRecord, Effects, Respond
from penstock.coordination.regex import compile_topic_regex
from penstock.groups import pace, records
from penstock.groups.assignors import ASSIGNORS, Assignment
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.protocol import ClassicProtocol
from penstock.groups.consumer import migration
from penstock.groups.consumer.group import ConsumerGroup, ResolvedRegex, is_settled, metadata_hash, with_changes
from penstock.groups.consumer.member import (
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    ConsumerMember,
    MemberState,
    same_partitions,
)
from penstock.groups.consumer.reconciliation import reconcile
from penstock.groups.consumer.target import changed_targets, compute_target, topic_ids
from penstock.groups.failures import consumer_heartbeat_error
from penstock.groups.records import EpochPartitions, Partitions
from penstock.groups.settings import GroupSettings
from penstock.groups.state import ShardState
from penstock.groups.timeline import Happened
from penstock.groups.timers import TimerKey, TimerKind
from penstock.wire import messages as m
from penstock.wire.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)

MEMBER_ID_FROM_CLIENT_VERSION = 1  # KIP-1082
# How long to wait for more changes before computing the target.
BATCH_MS = 40
# An assignment of this many members takes so long that the configured interval is kept.
BATCHED_GROUP_SIZE = 200
_TIMED_OUT = {
    TimerKind.CONSUMER_SESSION: (Happened.SESSION_TIMED_OUT, ""),
    TimerKind.CONSUMER_REBALANCE: (Happened.REBALANCE_TIMED_OUT, "did not give up partitions"),
    TimerKind.CONSUMER_JOIN: (Happened.REBALANCE_TIMED_OUT, "did not rejoin"),
    TimerKind.CONSUMER_SYNC: (Happened.REBALANCE_TIMED_OUT, "did not sync"),
}


@dataclass(slots=True)
class Change:
    """What one request makes of a group: the member before and after, and where the group stands then."""

    group: ConsumerGroup
    before: ConsumerMember
    member: ConsumerMember
    former_id: str | None = None  # the static member whose place this one takes
    names_changed: bool = False
    regex_changed: bool = False
    regex_known: bool = False  # the regular expression changed to one whose topics are known (or to none)
    epoch: int = 0
    target_epoch: int = 0
    target: Mapping[str, Partitions] | None = None  # the new target of all members, when it was computed

    @property
    def members(self) -> dict[str, ConsumerMember]:
        changed: dict[str, ConsumerMember | None] = {self.member.member_id: self.member}
        if self.former_id is not None:
            changed = {self.former_id: None, **changed}
        return with_changes(self.group.members, changed)

    def target_of(self, member_id: str) -> Partitions:
        if self.target is not None:
            return self.target.get(member_id, {})
        found = self.group.target.get(member_id)
        if found is None and self.former_id is not None:
            found = self.group.target.get(self.former_id)
        return found or {}


class ConsumerProtocol:
    def __init__(self, state: ShardState, classic: ClassicProtocol) -> None:
        self._state = state
        self._timers = state.timers
        self._classic = classic
        # Who asked for the regular expressions of a group to be resolved, until the timer is due, which is at once.
        self._views: dict[str, TopicView] = {}

    # ---- ConsumerGroupHeartbeat --------------------------------------------------------------------------------------

    def heartbeat(
        self,
        respond: Respond[m.ConsumerGroupHeartbeatResponse],
        context: RequestContext,
        request: m.ConsumerGroupHeartbeatRequest,
    ) -> Effects:
        validate_heartbeat(request, context.api_version, self._state.settings)
        if request.member_epoch in (LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH):
            return self._leave(respond, context, request)
        effects = Effects()
        joins = request.member_epoch == 0
        group, upgraded = self._group_for(effects, request.group_id, joins, context.now_ms)
        member_id = request.member_id or self._state.new_uuid()
        self.check_capacity(group, member_id, request.instance_id)
        owned = owned_partitions(request)
        if request.instance_id is None:
            before, former_id = self._dynamic_member(group, member_id, request.member_epoch, owned), None
        else:
            before, former_id = self._static_member(effects, group, member_id, request, owned)
        updated = _with_request(before, context, request)
        change = Change(group, before, updated, former_id)
        self.advance(effects, context, change, owned)

        if upgraded is not None:
            migration.release_parked(effects, upgraded)
            self._start_upgraded_sessions(group, context.now_ms)
        self.start_session(group.group_id, member_id, context.now_ms)
        self._timers.cancel(TimerKey(TimerKind.CONSUMER_JOIN, group.group_id, member_id))
        self._timers.cancel(TimerKey(TimerKind.CONSUMER_SYNC, group.group_id, member_id))
        response = m.ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=change.member.member_epoch,
            heartbeat_interval_ms=self._interval_ms(change, bool(effects.records), context.now_ms),
        )
        if joins or _is_full(request) or not same_partitions(change.before.assigned, change.member.assigned):
            response.assignment = heartbeat_assignment(change.member.assigned)
        effects.reply(respond, response, consumer_heartbeat_error)
        return effects

    def _group_for(
        self, effects: Effects, group_id: str, joins: bool, now_ms: int
    ) -> tuple[ConsumerGroup, ClassicGroup | None]:
        """The group to join. A classic group becomes a consumer group; it is returned too when it had members."""
        group = self._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, None
        if not joins:
            if group is None:
                raise GroupIdNotFound(f"Consumer group {group_id} not found.")
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        if group is None:
            return ConsumerGroup(group_id), None
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        effects.records.append(records.group_metadata_tombstone(group_id))
        if group.is_empty:
            return ConsumerGroup(group_id), group if group.pending_joins else None
        upgraded = migration.upgrade(group, self._state)
        self._state.note(group_id, Happened.PROTOCOL_CHANGED, upgraded.epoch, detail="from classic to consumer")
        effects.records.extend(migration.creation_records(upgraded))
        return upgraded, group

    def check_capacity(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        if member_id in group.members or group.static_member(instance_id) is not None:
            return
        limit = self._state.settings.group_consumer_max_size
        if len(group.members) >= limit:
            raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {limit} members.")

    def _dynamic_member(
        self, group: ConsumerGroup, member_id: str, epoch: int, owned: Partitions | None
    ) -> ConsumerMember:
        member = group.members.get(member_id)
        if member is None:
            if epoch != 0:
                raise UnknownMemberId(f"Member {member_id} is not a member of group {group.group_id}.")
            return ConsumerMember(member_id)
        check_epoch(member, epoch, owned)
        return member

    def _static_member(
        self,
        effects: Effects,
        group: ConsumerGroup,
        member_id: str,
        request: m.ConsumerGroupHeartbeatRequest,
        owned: Partitions | None,
    ) -> tuple[ConsumerMember, str | None]:
        instance_id = request.instance_id
        assert instance_id is not None
        existing = group.static_member(instance_id)
        if request.member_epoch != 0:
            check_instance(existing, member_id, instance_id)
            assert existing is not None
            check_epoch(existing, request.member_epoch, owned)
            return existing, None
        if existing is None:
            return group.members.get(member_id) or ConsumerMember(member_id), None
        if existing.member_epoch != LEAVE_GROUP_STATIC_EPOCH and not existing.uses_classic_protocol:
            raise UnreleasedInstanceId(
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {existing.member_id} member."
            )
        return self.replace_static(effects, group, existing, member_id)

    def replace_static(
        self, effects: Effects, group: ConsumerGroup, old: ConsumerMember, new_id: str
    ) -> tuple[ConsumerMember, str | None]:
        """A static member that comes back takes over the subscription and the partitions of its former self."""
        new = replace(old, member_id=new_id, member_epoch=0, previous_member_epoch=0)
        group_id = group.group_id
        self._state.note(group_id, Happened.RETURNED, group.epoch, new)
        effects.records += [
            *_removal_records(group_id, old.member_id),
            new.metadata_record(group_id),
            records.consumer_group_target(group_id, new_id, group.target.get(old.member_id, {})),
            new.assignment_record(group_id),
        ]
        if old.member_id != new_id:
            self.cancel_timers(group_id, old.member_id)
        return new, old.member_id if old.member_id != new_id else None

    # ---- from a changed member to records ----------------------------------------------------------------------------

    def advance(self, effects: Effects, context: RequestContext, change: Change, owned: Partitions | None) -> None:
        """Persist the member, bump the group epoch, compute the target, reconcile: each only if called for."""
        self.update_subscription(effects, context, change)
        self.update_target(effects, context, change)
        self.reconcile_member(effects, context, change, owned)

    def update_subscription(self, effects: Effects, context: RequestContext, change: Change) -> None:
        group, before, member = change.group, change.before, change.member
        if member != before:
            effects.records.append(member.metadata_record(group.group_id))
        change.names_changed = member.subscribed_topic_names != before.subscribed_topic_names
        self._update_regex(effects, context, change)
        change.epoch = group.epoch
        bump = change.names_changed or change.regex_known
        topics = self._state.topics
        if bump or group.topics_version != topics.version:
            members: dict[str, ConsumerMember | None] = {member.member_id: member}
            if change.former_id is not None:
                members[change.former_id] = None
            digest = metadata_hash(group.subscribed_topics_with(members), topics)
            if bump or digest != group.metadata_hash:
                change.epoch += 1
                effects.records.append(records.consumer_group_epoch(group.group_id, change.epoch, digest))
                if group.has_partition_metadata_record:
                    # Kafka before 4.1 kept the topics in a record of their own.
                    effects.records.append(records.consumer_group_partition_metadata_tombstone(group.group_id))
            else:
                # Only remembered when there is nothing to write: a bump whose append fails must be tried again.
                group.topics_version = topics.version
        self._note_change(change)

    def _note_change(self, change: Change) -> None:
        """A new member, or what else a new group epoch is due to."""
        group, member = change.group, change.member
        if member.member_id not in group.members and change.former_id is None:
            self._state.note(group.group_id, Happened.JOINED, change.epoch, member)
        elif change.epoch > group.epoch:
            if change.names_changed or change.regex_known:
                self._state.note(group.group_id, Happened.RESUBSCRIBED, change.epoch, member)
            else:
                self._state.note(group.group_id, Happened.TOPICS_CHANGED, change.epoch)

    def update_target(self, effects: Effects, context: RequestContext, change: Change) -> None:
        group = change.group
        change.target_epoch = group.target_epoch
        if change.epoch <= group.target_epoch:
            return
        members = change.members
        wait_ms = self._batch_ms(group, members, context.now_ms)
        if wait_ms > 0:
            key = TimerKey(TimerKind.CONSUMER_ASSIGN, group.group_id)
            self._timers.schedule_if_absent(key, context.now_ms + wait_ms)
            return
        former = {change.member.member_id: change.former_id} if change.former_id is not None else {}
        change.target = self._assign(effects, group, members, former, change.epoch, context.now_ms)
        change.target_epoch = change.epoch

    def _batch_ms(self, group: ConsumerGroup, members: Mapping[str, ConsumerMember], now_ms: int) -> int:
        """How long to put off the next assignment: not at all when it is the first, or the last one is old enough."""
        interval_ms = self._state.settings.consumer_assignment_interval_ms(group.group_id)
        if interval_ms == 0 or group.target_timestamp_ms == 0:
            return 0
        if any(member.uses_classic_protocol for member in members.values()):
            # Classic members pause for every assignment, and in a migration one change follows another.
            return interval_ms
        left_ms = group.target_timestamp_ms + interval_ms - now_ms
        return left_ms if len(members) > BATCHED_GROUP_SIZE else min(BATCH_MS, left_ms)

    def _assign(
        self,
        effects: Effects,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMember],
        former: Mapping[str, str],
        epoch: int,
        now_ms: int,
    ) -> dict[str, Assignment]:
        assignor = group.preferred_assignor(members.values())
        if assignor not in self._state.settings.group_consumer_assignors:
            assignor = self._state.settings.group_consumer_assignors[0]
        target = compute_target(group, members, former, assignor, self._state.topics)
        for member_id, partitions in changed_targets(group, target).items():
            effects.records.append(records.consumer_group_target(group.group_id, member_id, partitions))
        effects.records.append(records.consumer_group_target_epoch(group.group_id, epoch, now_ms))
        self._timers.cancel(TimerKey(TimerKind.CONSUMER_ASSIGN, group.group_id))
        self._state.note(group.group_id, Happened.ASSIGNED, epoch)
        return target

    def on_assign_timer(self, group: ConsumerGroup, now_ms: int) -> Effects:
        effects = Effects()
        if group.members and group.epoch > group.target_epoch:
            self._assign(effects, group, group.members, {}, group.epoch, now_ms)
            group.in_motion_ms = now_ms
        return effects

    def reconcile_member(
        self, effects: Effects, context: RequestContext, change: Change, owned: Partitions | None
    ) -> None:
        group, member = change.group, change.member
        subscription_changed = change.names_changed or change.regex_changed
        if not subscription_changed and member.is_reconciled_to(change.target_epoch):
            return
        after = reconcile(
            member,
            target_epoch=change.target_epoch,
            target=change.target_of(member.member_id),
            subscribed_topic_ids=topic_ids(group.topics_of(member), self._state.topics),
            subscription_changed=subscription_changed,
            owned=owned,
            owners=group.owners,
        )
        if after == member:
            return
        effects.records.append(after.assignment_record(group.group_id))
        change.member = after
        if not after.uses_classic_protocol:
            key = TimerKey(TimerKind.CONSUMER_REBALANCE, group.group_id, after.member_id)
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self._timers.schedule(key, context.now_ms + after.rebalance_timeout_ms)
            else:
                self._timers.cancel(key)

    def _interval_ms(self, change: Change, changed: bool, now_ms: int) -> int:
        group = change.group
        configured_ms = self._state.settings.consumer_heartbeat_interval_ms(group.group_id)
        members = change.members if changed else group.members
        settled = (
            is_settled(members, group.owners, change.epoch, change.target_epoch, change.target_of)
            if changed
            else group.is_settled
        )
        if changed or not settled or group.in_motion_ms is None:
            group.in_motion_ms = now_ms
        if not settled or self._timers.is_scheduled(TimerKey(TimerKind.CONSUMER_REGEX, group.group_id)):
            return pace.settling_interval_ms(configured_ms, len(members))
        if any(member.uses_classic_protocol for member in members.values()):
            return configured_ms
        if not any(change.target_of(member_id) for member_id in members):
            return configured_ms  # no partition exists that could move
        return pace.settled_interval_ms(configured_ms, len(members), now_ms - group.in_motion_ms)

    # ---- regular expressions -----------------------------------------------------------------------------------------

    def _update_regex(self, effects: Effects, context: RequestContext, change: Change) -> None:
        """Note a new or cleared regular expression; resolving it is a step of its own, after this reply."""
        group, old, new = change.group, change.before.subscribed_topic_regex, change.member.subscribed_topic_regex
        needed = False
        if (old or None) != (new or None):
            change.regex_changed = True
            if old and group.regex_subscribers(old) == 1:
                effects.records.append(records.consumer_group_regex_tombstone(group.group_id, old))
            if not new:
                change.regex_known = True
            elif group.regex_subscribers(new) == 0:
                compile_topic_regex(new)
                needed = True
            else:
                change.regex_known = new in group.regexes
        if needed or (new and self._regexes_are_stale(group, context)):
            self._views[group.group_id] = context.view
            self._timers.schedule_if_absent(TimerKey(TimerKind.CONSUMER_REGEX, group.group_id), context.now_ms)

    def _regexes_are_stale(self, group: ConsumerGroup, context: RequestContext) -> bool:
        now_ms = context.now_ms
        if group.regexes_version != (self._state.topics.version, context.view.rules_version):
            return True
        oldest_ms = min((regex.timestamp_ms for regex in group.regexes.values()), default=now_ms)
        return now_ms > oldest_ms + self._state.settings.group_consumer_regex_refresh_interval_ms

    def on_regex_timer(self, group: ConsumerGroup, now_ms: int) -> Effects:
        """Match all regular expressions of the group against the topics that exist now.

        As in Kafka, they are those that the member may describe whose heartbeat asked for it.
        """
        effects = Effects()
        topics = self._state.topics
        view = self._views.pop(group.group_id, None)
        if view is None:
            return effects
        names = [name for name in topics.topic_names() if view.shows(name)]
        wanted = {r for member in group.members.values() if (r := member.subscribed_topic_regex)}
        resolved = {}
        for pattern in sorted(wanted):
            regex = compile_topic_regex(pattern)
            found = frozenset(name for name in names if regex.matches(name))
            resolved[pattern] = ResolvedRegex(found, topics.version, now_ms)
        changed = False
        for pattern, found_now in resolved.items():
            known = group.regexes.get(pattern)
            if known is None or known.topics != found_now.topics:
                changed = changed or bool(found_now.topics) or (known is not None and bool(known.topics))
                effects.records.append(
                    records.consumer_group_regex(group.group_id, pattern, found_now.topics, topics.version, now_ms)
                )
        digest = metadata_hash(group.subscribed_topics_with({}, resolved), topics)
        if changed or digest != group.metadata_hash:
            effects.records.append(records.consumer_group_epoch(group.group_id, group.epoch + 1, digest))
            self._state.note(group.group_id, Happened.TOPICS_CHANGED, group.epoch + 1)
        group.regexes_version = (topics.version, view.rules_version)
        return effects

    # ---- leaving -----------------------------------------------------------------------------------------------------

    def _leave(
        self,
        respond: Respond[m.ConsumerGroupHeartbeatResponse],
        context: RequestContext,
        request: m.ConsumerGroupHeartbeatRequest,
    ) -> Effects:
        group = self._state.consumer(request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            existing = group.static_member(request.instance_id)
            check_instance(existing, request.member_id, request.instance_id)
            assert existing is not None
            member = existing
        effects = Effects()
        if request.member_epoch == LEAVE_GROUP_STATIC_EPOCH and request.instance_id is not None:
            # Its partitions stay reserved until it is back or its session expires.
            away = replace(
                member,
                member_epoch=LEAVE_GROUP_STATIC_EPOCH,
                pending_revocation={},
                assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()},
            )
            effects.records.append(away.assignment_record(group.group_id))
            self._state.note(group.group_id, Happened.AWAY, group.epoch, member)
            self._timers.cancel(TimerKey(TimerKind.CONSUMER_REBALANCE, group.group_id, member.member_id))
        else:
            effects = self.fence(group, {member.member_id: ""}, context.now_ms, Happened.LEFT)
        response = m.ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        effects.reply(respond, response, consumer_heartbeat_error)
        return effects

    def fence(self, group: ConsumerGroup, why: Mapping[str, str], now_ms: int, happened: Happened) -> Effects:
        """Remove members: they left, or they are taken for dead. `why` tells, by member id, what they say of it."""
        effects = Effects()
        leaving = list(why)
        if not leaving:
            return effects
        for member_id in leaving:
            self.cancel_timers(group.group_id, member_id)
            self._state.note(group.group_id, happened, group.epoch + 1, group.members[member_id], why[member_id])
        if migration.may_downgrade_without(group, leaving, self._state.settings):
            classic = migration.downgrade(effects, group, leaving, None, self._state, now_ms)
            effects.extend(self._classic.start_sessions(classic, now_ms))
            self._classic.prepare_rebalance(effects, classic, now_ms)
            return effects
        for member_id in leaving:
            effects.records += _removal_records(group.group_id, member_id)
        gone: dict[str, ConsumerMember | None] = dict.fromkeys(leaving)
        rest = with_changes(group.members, gone).values()
        for pattern in {r for i in leaving if (r := group.members[i].subscribed_topic_regex)}:
            if all(member.subscribed_topic_regex != pattern for member in rest):
                effects.records.append(records.consumer_group_regex_tombstone(group.group_id, pattern))
        digest = metadata_hash(group.subscribed_topics_with(gone), self._state.topics)
        effects.records.append(records.consumer_group_epoch(group.group_id, group.epoch + 1, digest))
        group.in_motion_ms = now_ms
        return effects

    # ---- timers ------------------------------------------------------------------------------------------------------

    def start_session(self, group_id: str, member_id: str, now_ms: int, timeout_ms: int | None = None) -> None:
        if timeout_ms is None:
            timeout_ms = self._state.settings.consumer_session_timeout_ms(group_id)
        self._timers.schedule(TimerKey(TimerKind.CONSUMER_SESSION, group_id, member_id), now_ms + timeout_ms)

    def _start_upgraded_sessions(self, group: ConsumerGroup, now_ms: int) -> None:
        for member in group.members.values():
            if member.classic is not None:
                self.start_session(group.group_id, member.member_id, now_ms, member.classic.session_timeout_ms)

    def start_sessions(self, group: ConsumerGroup, now_ms: int) -> None:
        """After loading: every member has a full session timeout to report, and time to revoke."""
        for member in group.members.values():
            self.start_session(group.group_id, member.member_id, now_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                key = TimerKey(TimerKind.CONSUMER_REBALANCE, group.group_id, member.member_id)
                self._timers.schedule(key, now_ms + member.rebalance_timeout_ms)

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        for kind in (
            TimerKind.CONSUMER_SESSION,
            TimerKind.CONSUMER_REBALANCE,
            TimerKind.CONSUMER_JOIN,
            TimerKind.CONSUMER_SYNC,
        ):
            self._timers.cancel(TimerKey(kind, group_id, member_id))

    def on_member_timer(self, group: ConsumerGroup, key: TimerKey, now_ms: int) -> Effects:
        member = group.members.get(key.member_id)
        if member is None:
            return Effects()
        if key.kind is TimerKind.CONSUMER_REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return Effects()
        happened, why = _TIMED_OUT[key.kind]
        return self.fence(group, {member.member_id: why}, now_ms, happened)


def validate_heartbeat(request: m.ConsumerGroupHeartbeatRequest, api_version: int, settings: GroupSettings) -> None:
    epoch = request.member_epoch
    needs_member_id = api_version >= MEMBER_ID_FROM_CLIENT_VERSION or epoch > 0 or epoch == LEAVE_GROUP_EPOCH
    if needs_member_id and not request.member_id:
        raise InvalidRequest("MemberId can't be empty.")
    if not request.group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if request.instance_id == "":
        raise InvalidRequest("InstanceId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == LEAVE_GROUP_STATIC_EPOCH and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    elif epoch < LEAVE_GROUP_STATIC_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    supported = [name for name in settings.group_consumer_assignors if name in ASSIGNORS]
    if request.server_assignor is not None and request.server_assignor not in supported:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(supported)}."
        )


def check_epoch(member: ConsumerMember, received: int, owned: Partitions | None) -> None:
    if received in (0, member.member_epoch):
        return
    # The answer that brought a new epoch may have been lost. What the member says it owns must be part of what it has.
    lost_answer = received < member.member_epoch and received == member.previous_member_epoch and owned is not None
    if lost_answer and all(p <= member.assigned.get(topic_id, {}).keys() for topic_id, p in (owned or {}).items()):
        return
    word = "greater" if received > member.member_epoch else "smaller"
    raise FencedMemberEpoch(
        f"The consumer group member has a {word} member epoch ({received}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )


def check_instance(existing: ConsumerMember | None, member_id: str, instance_id: str) -> None:
    if existing is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if existing.member_id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {existing.member_id}."
        )


def owned_partitions(request: m.ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """None: the request does not say what the member owns."""
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, frozenset[int]] = {}
    for topic in request.topic_partitions:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return owned


def heartbeat_assignment(assigned: EpochPartitions) -> m.ConsumerGroupHeartbeatResponse.Assignment:
    response = m.ConsumerGroupHeartbeatResponse
    return response.Assignment(
        topic_partitions=[
            response.TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
            for topic_id, epochs in sorted(assigned.items())
        ]
    )


def _with_request(
    member: ConsumerMember, context: RequestContext, request: m.ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    """The member with all that the request changes; null and -1 mean unchanged."""
    names = request.subscribed_topic_names
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=(
            member.subscribed_topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex
        ),
        client_id=context.client_id,
        client_host=context.client_host,
        classic=None,
    )


def _is_full(request: m.ConsumerGroupHeartbeatRequest) -> bool:
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def _removal_records(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    return [
        records.consumer_group_current_assignment_tombstone(group_id, member_id),
        records.consumer_group_target_tombstone(group_id, member_id),
        records.consumer_group_member_tombstone(group_id, member_id),
    ]
