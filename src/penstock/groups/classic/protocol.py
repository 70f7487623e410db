"""The classic protocol's rules: who may join, when a rebalance starts and ends, who gets which answer.

A rebalance has two phases. *Join*: the group goes to PreparingRebalance; members learn of it from their heartbeats
(REBALANCE_IN_PROGRESS), send JoinGroup again and are parked. When all are there, or the longest rebalance timeout has
passed, the generation goes up, everyone is answered and one member, the leader, gets the list of members. *Sync*: each
member sends SyncGroup and is parked; the leader's carries all assignments. They are written to the log, everyone is
answered, the group is Stable.

The first rebalance of an empty group waits `group.initial.rebalance.delay.ms` for more members, and again as long as
new ones keep coming (KIP-134). A dynamic member first gets a member id and joins with it (KIP-394), so that a client
which retries a JoinGroup does not leave ghosts behind. Static members (KIP-345) keep their place over a restart.
"""

from __future__ import annotations

from penstock.coordination.context import RequestContext
from penstock.coordination.effects import Effects, Respond
from penstock.groups import records
from penstock.groups.classic.group import ClassicGroup, ClassicMember, Protocols, protocols_of, rebalance_timeout_of
from penstock.groups.classic.states import ClassicState
from penstock.groups.failures import join_error, leave_error, reply_join, reply_sync, sync_error
from penstock.groups.state import ShardState
from penstock.groups.timeline import Happened
from penstock.groups.timers import TimerKey, TimerKind
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

MEMBER_ID_REQUIRED_VERSION = 4  # KIP-394
SKIP_ASSIGNMENT_VERSION = 9  # KIP-814

PREPARING = ClassicState.PREPARING_REBALANCE
COMPLETING = ClassicState.COMPLETING_REBALANCE
STABLE = ClassicState.STABLE


class ClassicProtocol:
    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._timers = state.timers

    # ---- JoinGroup ---------------------------------------------------------------------------------------------------

    def join(
        self,
        respond: Respond[m.JoinGroupResponse],
        context: RequestContext,
        request: m.JoinGroupRequest,
        group: ClassicGroup | None,
    ) -> Effects:
        """`group` is None when there is no group of this id (yet)."""
        effects = Effects()
        is_new_group = group is None
        if group is None:
            if request.member_id:
                reply_join(effects, respond, join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
                return effects
            group = ClassicGroup(request.group_id, state_since_ms=context.now_ms)
        if not self._accepts(group, request.member_id):
            self._timers.cancel(_session_key(group.group_id, request.member_id))
            group.remove(request.member_id)
            reply_join(effects, respond, join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not request.member_id:
            self._join_unknown(effects, respond, context, request, group)
        else:
            self._join_known(effects, respond, context, request, group)
        if is_new_group and not effects.records:
            self._state.incoming[group.group_id] = group
            effects.records.append(records.group_metadata(group.group_id, ClassicGroup.empty_value(context.now_ms)))
        return effects

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._state.settings.group_max_size
        if group.state is PREPARING:
            member = group.members.get(member_id)
            return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < limit
        if group.in_state(COMPLETING, STABLE):
            return member_id in group.members or len(group.members) < limit
        return True

    def _join_unknown(
        self,
        effects: Effects,
        respond: Respond[m.JoinGroupResponse],
        context: RequestContext,
        request: m.JoinGroupRequest,
        group: ClassicGroup,
    ) -> None:
        protocols = protocols_of(request)
        if not group.supports(request.protocol_type, protocols):
            reply_join(effects, respond, join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        instance_id = request.group_instance_id
        member_id = f"{context.client_id if instance_id is None else instance_id}-{self._state.new_uuid()}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(effects, respond, context, request, group, member_id)
        elif instance_id is None and context.api_version >= MEMBER_ID_REQUIRED_VERSION:
            group.pending_joins.add(member_id)
            deadline_ms = context.now_ms + request.session_timeout_ms
            self._timers.schedule(_session_key(group.group_id, member_id), deadline_ms)
            reply_join(effects, respond, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
        else:
            self._add_member(effects, respond, context, request, group, member_id)

    def _join_known(
        self,
        effects: Effects,
        respond: Respond[m.JoinGroupResponse],
        context: RequestContext,
        request: m.JoinGroupRequest,
        group: ClassicGroup,
    ) -> None:
        member_id = request.member_id
        protocols = protocols_of(request)
        if not group.supports(request.protocol_type, protocols):
            reply_join(effects, respond, join_error(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        if member_id in group.pending_joins:
            if request.group_instance_id is not None:
                # The id was given to a dynamic member. Kafka has no better code for one that turned static meanwhile.
                reply_join(effects, respond, join_error(member_id, ErrorCode.UNKNOWN_SERVER_ERROR))
            else:
                self._add_member(effects, respond, context, request, group, member_id)
            return
        try:
            group.validate_member(member_id, request.group_instance_id)
        except KafkaError as error:
            reply_join(effects, respond, join_error(member_id, error.code))
            return
        member = group.members[member_id]
        unchanged = member.protocols == protocols
        if group.state is COMPLETING and unchanged:
            # The member did not see the answer to its join: give it again.
            reply_join(effects, respond, self._joined(group, member))
        elif group.state is STABLE and unchanged and group.leader != member_id:
            reply_join(effects, respond, self._joined(group, member))
        elif group.in_state(PREPARING, COMPLETING, STABLE):
            self._update_member(effects, respond, request, member, protocols)
            if group.can_rebalance:
                self._note(group, Happened.REJOINED, member, request.reason)
            self._rebalance_or_complete_join(effects, group, context.now_ms)
        else:
            reply_join(effects, respond, join_error(member_id, ErrorCode.UNKNOWN_MEMBER_ID))

    def _add_member(
        self,
        effects: Effects,
        respond: Respond[m.JoinGroupResponse],
        context: RequestContext,
        request: m.JoinGroupRequest,
        group: ClassicGroup,
        member_id: str,
    ) -> None:
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            context.client_id,
            context.client_host,
            rebalance_timeout_of(request),
            request.session_timeout_ms,
            request.protocol_type,
            protocols_of(request),
            is_new=True,
            awaiting_join=respond,
        )
        if group.state is PREPARING and group.previous_state is ClassicState.EMPTY:
            group.new_member_added = True
        group.add(member)
        self._note(group, Happened.JOINED, member, request.reason)
        timeout_ms = self._state.settings.group_new_member_join_timeout_ms
        self._timers.schedule(_session_key(group.group_id, member_id), context.now_ms + timeout_ms)
        self._rebalance_or_complete_join(effects, group, context.now_ms)

    def _update_member(
        self,
        effects: Effects,
        respond: Respond[m.JoinGroupResponse],
        request: m.JoinGroupRequest,
        member: ClassicMember,
        protocols: Protocols,
    ) -> None:
        if member.awaiting_join is not None:
            # The client gave up on its first JoinGroup and sent another: the first one's answer goes nowhere.
            reply_join(effects, member.awaiting_join, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_of(request)
        member.session_timeout_ms = request.session_timeout_ms
        member.awaiting_join = respond

    def _replace_static(
        self,
        effects: Effects,
        respond: Respond[m.JoinGroupResponse],
        context: RequestContext,
        request: m.JoinGroupRequest,
        group: ClassicGroup,
        new_member_id: str,
    ) -> None:
        instance_id = request.group_instance_id
        assert instance_id is not None
        former_leader = group.leader
        old = group.members[group.static_members[instance_id]]
        if old.awaiting_join is not None:
            reply_join(effects, old.awaiting_join, join_error(old.member_id, ErrorCode.FENCED_INSTANCE_ID))
        if old.awaiting_sync is not None:
            reply_sync(effects, old.awaiting_sync, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        self._timers.cancel(_session_key(group.group_id, old.member_id))
        member = group.replace_static(instance_id, new_member_id)
        self._note(group, Happened.RETURNED, member, request.reason)
        self._update_member(effects, respond, request, member, protocols_of(request))
        self._restart_session(group, member, context.now_ms)
        if group.state is STABLE and group.select_protocol() == group.protocol_name:
            # Nothing changes for the others: the member goes on with the assignment of its former self.
            effects.records.append(records.group_metadata(group.group_id, group.to_value()))
            response = self._joined(group, member)
            if context.api_version >= SKIP_ASSIGNMENT_VERSION:
                response.skip_assignment = group.leader == new_member_id
            else:
                # An older client would compute a new assignment if it saw itself as leader.
                response.leader, response.members = former_leader or "", []
            reply_join(effects, respond, response)
            member.awaiting_join = None
        elif group.state is COMPLETING:
            # Its generation mates may have seen the old member id (KAFKA-9801).
            self._prepare_rebalance(effects, group, context.now_ms)
        else:
            self._rebalance_or_complete_join(effects, group, context.now_ms)

    def _joined(self, group: ClassicGroup, member: ClassicMember) -> m.JoinGroupResponse:
        response = m.JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader or "",
            member_id=member.member_id,
        )
        if group.leader == member.member_id:
            response.members = [
                m.JoinGroupResponse.JoinGroupResponseMember(
                    member_id=other.member_id,
                    group_instance_id=other.instance_id,
                    metadata=other.metadata(group.protocol_name),
                )
                for other in group.members.values()
            ]
        return response

    # ---- the course of a rebalance -----------------------------------------------------------------------------------

    def _rebalance_or_complete_join(self, effects: Effects, group: ClassicGroup, now_ms: int) -> None:
        if group.can_rebalance:
            self._prepare_rebalance(effects, group, now_ms)
        else:
            self._maybe_complete_join(effects, group, now_ms)

    def _prepare_rebalance(self, effects: Effects, group: ClassicGroup, now_ms: int) -> None:
        if group.state is COMPLETING:
            self.fail_assignment(effects, group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        group.pending_syncs.clear()
        self._timers.cancel(TimerKey(TimerKind.CLASSIC_SYNC, group.group_id, str(group.generation)))
        is_initial = group.is_empty
        self._note(group, Happened.REBALANCE_BEGAN)
        group.transition_to(PREPARING, now_ms)
        if is_initial:
            delay_ms = self._state.settings.group_initial_rebalance_delay_ms
            group.initial_delay_ms = delay_ms
            group.initial_delay_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._timers.schedule(TimerKey(TimerKind.CLASSIC_JOIN, group.group_id), now_ms + delay_ms)
        elif group.all_joined:
            self._complete_join(effects, group, now_ms)
        else:
            self._schedule_join(group, now_ms)

    def _maybe_complete_join(self, effects: Effects, group: ClassicGroup, now_ms: int) -> None:
        if group.state is PREPARING and group.previous_state is not ClassicState.EMPTY and group.all_joined:
            self._complete_join(effects, group, now_ms)

    def _schedule_join(self, group: ClassicGroup, now_ms: int) -> None:
        self._timers.schedule(TimerKey(TimerKind.CLASSIC_JOIN, group.group_id), now_ms + group.rebalance_timeout_ms)

    def _complete_join(self, effects: Effects, group: ClassicGroup, now_ms: int) -> None:
        self._timers.cancel(TimerKey(TimerKind.CLASSIC_JOIN, group.group_id))
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.instance_id is None:
                self._note(group, Happened.REBALANCE_TIMED_OUT, member, "did not rejoin")
                self._forget(group, member.member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members, and none of them is back: give them another rebalance timeout.
            self._schedule_join(group, now_ms)
            return
        group.init_next_generation(now_ms)
        self._state.rebalances["classic"] += 1
        if group.is_empty:
            effects.records.append(records.group_metadata(group.group_id, group.to_value()))
            return
        for member in group.members.values():
            if member.awaiting_join is not None:
                reply_join(effects, member.awaiting_join, self._joined(group, member))
                member.awaiting_join = None
            self._restart_session(group, member, now_ms)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._timers.schedule(
            TimerKey(TimerKind.CLASSIC_SYNC, group.group_id, str(group.generation)), now_ms + group.rebalance_timeout_ms
        )

    def fail_assignment(self, effects: Effects, group: ClassicGroup, error: ErrorCode, now_ms: int) -> None:
        """Nobody gets an assignment in this generation: answer the parked SyncGroups with an error."""
        for member in group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                reply_sync(effects, member.awaiting_sync, sync_error(error))
                member.awaiting_sync = None
                self._restart_session(group, member, now_ms)

    def prepare_rebalance(self, effects: Effects, group: ClassicGroup, now_ms: int) -> None:
        """Ask all members to join again; for those who change a group from outside."""
        if group.can_rebalance:
            self._prepare_rebalance(effects, group, now_ms)

    # ---- SyncGroup ---------------------------------------------------------------------------------------------------

    def sync(
        self,
        respond: Respond[m.SyncGroupResponse],
        context: RequestContext,
        request: m.SyncGroupRequest,
        group: ClassicGroup,
    ) -> Effects:
        effects = Effects()
        error = self._sync_error(group, request)
        if error is not ErrorCode.NONE:
            reply_sync(effects, respond, sync_error(error))
            return effects
        member = group.members[request.member_id]
        self._synced(group, member)
        if group.state is STABLE:
            reply_sync(effects, respond, self._assigned(group, member.assignment))
            return effects
        if member.awaiting_sync is not None:
            reply_sync(effects, member.awaiting_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = respond
        if group.leader == member.member_id:
            assignments = {given.member_id: bytes(given.assignment) for given in request.assignments}
            effects.records.append(records.group_metadata(group.group_id, group.to_value(assignments)))
            self._note(group, Happened.ASSIGNED)
            for waiting in group.members.values():
                if waiting.awaiting_sync is not None:
                    assignment = assignments.get(waiting.member_id, b"")
                    reply_sync(effects, waiting.awaiting_sync, self._assigned(group, assignment))
                    waiting.awaiting_sync = None
                    self._restart_session(group, waiting, context.now_ms)
        return effects

    def _assigned(self, group: ClassicGroup, assignment: bytes) -> m.SyncGroupResponse:
        return m.SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
        )

    def _sync_error(self, group: ClassicGroup, request: m.SyncGroupRequest) -> ErrorCode:
        try:
            group.validate_member(request.member_id, request.group_instance_id)
        except KafkaError as error:
            return error.code
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name is not None and request.protocol_name != group.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING else ErrorCode.NONE

    def _synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            self._timers.cancel(TimerKey(TimerKind.CLASSIC_SYNC, group.group_id, str(group.generation)))

    # ---- Heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(self, context: RequestContext, request: m.HeartbeatRequest, group: ClassicGroup) -> ErrorCode:
        try:
            group.validate_member(request.member_id, request.group_instance_id)
        except KafkaError as error:
            return error.code
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._restart_session(group, group.members[request.member_id], context.now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING else ErrorCode.NONE

    def restart_session(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """A commit of offsets shows that the member is alive, as a heartbeat does."""
        member = group.members.get(member_id)
        if member is not None and group.in_state(STABLE, PREPARING):
            self._restart_session(group, member, now_ms)

    def _restart_session(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
        self._timers.schedule(_session_key(group.group_id, member.member_id), now_ms + member.session_timeout_ms)

    # ---- LeaveGroup --------------------------------------------------------------------------------------------------

    def leave(
        self,
        respond: Respond[m.LeaveGroupResponse],
        context: RequestContext,
        request: m.LeaveGroupRequest,
        group: ClassicGroup,
    ) -> Effects:
        effects = Effects()
        responses = []
        for identity in request.members:
            error = self._leave_one(effects, group, identity)
            responses.append(
                m.LeaveGroupResponse.MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        if any(response.error_code == ErrorCode.NONE for response in responses):
            if group.in_state(STABLE, COMPLETING):
                self._prepare_rebalance(effects, group, context.now_ms)
            else:
                self._maybe_complete_join(effects, group, context.now_ms)
        effects.reply(respond, m.LeaveGroupResponse(members=responses), leave_error)
        return effects

    def _leave_one(
        self, effects: Effects, group: ClassicGroup, identity: m.LeaveGroupRequest.MemberIdentity
    ) -> ErrorCode:
        member_id = identity.member_id
        if not member_id:
            # An administrator removes a static member without knowing its member id.
            holder = group.static_members.get(identity.group_instance_id or "")
            if identity.group_instance_id is None or holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = holder
        elif member_id in group.pending_joins:
            self._forget(group, member_id)
            return ErrorCode.NONE
        else:
            try:
                group.validate_member(member_id, identity.group_instance_id)
            except KafkaError as error:
                return error.code
        self._note(group, Happened.LEFT, group.members[member_id], identity.reason)
        self._remove(effects, group, group.members[member_id])
        return ErrorCode.NONE

    def _remove(self, effects: Effects, group: ClassicGroup, member: ClassicMember) -> None:
        if member.awaiting_join is not None:
            reply_join(effects, member.awaiting_join, join_error("", ErrorCode.UNKNOWN_MEMBER_ID))
        if member.awaiting_sync is not None:
            reply_sync(effects, member.awaiting_sync, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        self._forget(group, member.member_id)

    def _forget(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(_session_key(group.group_id, member_id))
        group.remove(member_id)

    # ---- timers ------------------------------------------------------------------------------------------------------

    def on_session_expired(self, group: ClassicGroup, member_id: str, now_ms: int) -> Effects:
        effects = Effects()
        if member_id in group.pending_joins:
            group.remove(member_id)
            self._maybe_complete_join_now(effects, group, now_ms)
            return effects
        member = group.members.get(member_id)
        if member is None or (member.is_parked and not member.is_new):
            # A parked member is alive; its session starts again when it is answered.
            return effects
        self._note(group, Happened.SESSION_TIMED_OUT, member)
        self._remove(effects, group, member)
        if group.in_state(STABLE, COMPLETING):
            self._prepare_rebalance(effects, group, now_ms)
        else:
            self._maybe_complete_join_now(effects, group, now_ms)
        return effects

    def _maybe_complete_join_now(self, effects: Effects, group: ClassicGroup, now_ms: int) -> None:
        if group.state is PREPARING and group.all_joined:
            self._complete_join(effects, group, now_ms)

    def on_join_timer(self, group: ClassicGroup, now_ms: int) -> Effects:
        effects = Effects()
        if group.state is not PREPARING:
            return effects
        is_initial = group.previous_state is ClassicState.EMPTY
        if is_initial and group.new_member_added and group.initial_delay_remaining_ms > 0:
            group.new_member_added = False
            delay_ms = min(self._state.settings.group_initial_rebalance_delay_ms, group.initial_delay_remaining_ms)
            group.initial_delay_remaining_ms = max(group.initial_delay_remaining_ms - group.initial_delay_ms, 0)
            group.initial_delay_ms = delay_ms
            self._timers.schedule(TimerKey(TimerKind.CLASSIC_JOIN, group.group_id), now_ms + delay_ms)
        else:
            group.new_member_added = False
            self._complete_join(effects, group, now_ms)
        return effects

    def on_sync_timer(self, group: ClassicGroup, generation: int, now_ms: int) -> Effects:
        """Members that joined a generation and never asked for their assignment are gone."""
        effects = Effects()
        if generation == group.generation and group.in_state(COMPLETING, STABLE) and group.pending_syncs:
            for member_id in list(group.pending_syncs):
                self._note(group, Happened.REBALANCE_TIMED_OUT, group.members.get(member_id), "did not sync")
                self._forget(group, member_id)
            self._prepare_rebalance(effects, group, now_ms)
        return effects

    def _note(
        self, group: ClassicGroup, happened: Happened, member: ClassicMember | None = None, detail: str | None = None
    ) -> None:
        self._state.note(group.group_id, happened, group.generation, member, detail or "")

    def start_sessions(self, group: ClassicGroup, now_ms: int) -> Effects:
        """After loading, and after a downgrade: every member has a full session timeout to report."""
        effects = Effects()
        for member in group.members.values():
            self._restart_session(group, member, now_ms)
        if len(group.members) > self._state.settings.group_max_size:
            self.prepare_rebalance(effects, group, now_ms)
        return effects


def _session_key(group_id: str, member_id: str) -> TimerKey:
    return TimerKey(TimerKind.CLASSIC_SESSION, group_id, member_id)
