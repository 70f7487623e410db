"""ShareGroupHeartbeat (KIP-932): joining, staying in and leaving a share group.

Only share-partitions whose state the share coordinator has initialized can be assigned. In Apache Kafka the heartbeat
that brings a new topic asks for the initialization and is answered with an empty assignment; the partitions come one
heartbeat interval later. Here that heartbeat waits for the initialization (a matter of one append, bounded by
`INITIALIZE_PATIENCE_MS`), so that a new group has its partitions with its first answer.

The conversation with the share coordinator: an `InitializeShareState` or `DeleteShareState` in `Effects.actions`, which
the shell carries out, and `state_initialized` / `state_deleted` when it is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.coordination.context import RequestContext
from penstock.coordination.effects import CoordinatorRecord, Effects, Respond, answered
from penstock.groups import pace, records
from penstock.groups.assignors import AssignorMember
from penstock.groups.consumer.group import metadata_hash
from penstock.groups.consumer.target import topic_ids
from penstock.groups.failures import share_heartbeat_error
from penstock.groups.records import Partitions
from penstock.groups.share.assignor import simple
from penstock.groups.share.group import ShareGroup, ShareMember, StateTopic
from penstock.groups.state import ShardState
from penstock.groups.timeline import Happened
from penstock.groups.timers import TimerKey, TimerKind
from penstock.wire import messages as m
from penstock.wire.errors import (
    ErrorCode,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    KafkaError,
)

LEAVE_GROUP_EPOCH = -1
MEMBER_ID_LENGTH_MAX = 36
INITIALIZE_PATIENCE_MS = 2_000
UNKNOWN_START_OFFSET = -1  # to be resolved by share.auto.offset.reset when the partition is first read


@dataclass(frozen=True, slots=True)
class InitializeShareState:
    """Ask the share coordinator to begin the state of share-partitions: topic id -> partition -> start offset."""

    group_id: str
    state_epoch: int
    start_offsets: Mapping[bytes, Mapping[int, int]]
    anew: frozenset[bytes] = frozenset()
    """Topics whose state is replaced if there is any. Elsewhere it is kept: it began by a request whose outcome could
    not be written down, and may have been in use since."""


@dataclass(frozen=True, slots=True)
class DeleteShareState:
    """Ask the share coordinator to forget share-partitions."""

    group_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class _Parked:
    respond: Respond[m.ShareGroupHeartbeatResponse]
    context: RequestContext
    request: m.ShareGroupHeartbeatRequest


class ShareProtocol:
    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._timers = state.timers
        self._parked: dict[str, list[_Parked]] = {}

    # ---- ShareGroupHeartbeat -----------------------------------------------------------------------------------------

    def heartbeat(
        self,
        respond: Respond[m.ShareGroupHeartbeatResponse],
        context: RequestContext,
        request: m.ShareGroupHeartbeatRequest,
    ) -> Effects:
        validate_heartbeat(request)
        if request.member_epoch == LEAVE_GROUP_EPOCH:
            return self._leave(respond, context, request)
        group, _, updated = self._member(context, request)
        start_offsets = self._uninitialized(group, updated, context.now_ms)
        if not start_offsets:
            if group.group_id in self._parked:
                # Another member's heartbeat has asked for the initialization: the answer comes with that one's.
                self._parked[group.group_id].append(_Parked(respond, context, request))
                return Effects()
            return self._answer(respond, context, request)
        topics = {t: StateTopic(self._name(t), frozenset(p)) for t, p in start_offsets.items()}
        anew = frozenset(topics.keys() & group.state_partitions.deleting.keys())
        effects = Effects()
        effects.records.append(group.state_partitions.with_initializing(topics).record(group.group_id))
        effects.actions.append(InitializeShareState(group.group_id, group.epoch + 1, start_offsets, anew))
        self._parked.setdefault(group.group_id, []).append(_Parked(respond, context, request))
        self._timers.schedule(
            TimerKey(TimerKind.SHARE_INITIALIZE, group.group_id), context.now_ms + INITIALIZE_PATIENCE_MS
        )
        return effects

    def _member(
        self, context: RequestContext, request: m.ShareGroupHeartbeatRequest
    ) -> tuple[ShareGroup, ShareMember, ShareMember]:
        """The group, and the member before and after what the request says."""
        group = self._state.groups.get(request.group_id)
        joins = request.member_epoch == 0
        if group is None and not joins:
            raise GroupIdNotFound(f"Share group {request.group_id} not found.")
        if group is None:
            group = ShareGroup(request.group_id)
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(f"Group {request.group_id} is not a share group.")
        limit = self._state.settings.group_share_max_size
        if request.member_id not in group.members and len(group.members) >= limit:
            raise GroupMaxSizeReached(f"The share group has reached its maximum capacity of {limit} members.")
        if joins and request.member_id not in group.members:
            member = ShareMember(request.member_id)
        else:
            member = group.member(request.member_id)
            _check_epoch(member, request.member_epoch)
        names = request.subscribed_topic_names
        updated = replace(
            member,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
            client_id=context.client_id,
            client_host=context.client_host,
        )
        return group, member, updated

    def _uninitialized(self, group: ShareGroup, updated: ShareMember, now_ms: int) -> dict[bytes, dict[int, int]]:
        """Subscribed share-partitions without state, with the offset at which each should start."""
        known = group.state_partitions
        patience_ms = self._state.settings.group_share_initialize_retry_interval_ms
        missing: dict[bytes, dict[int, int]] = {}
        for name in sorted(group.subscribed_topics_with(updated.member_id, updated)):
            topic_id = self._state.topics.topic_id(name)
            if topic_id is None:
                continue
            done = known.initialized[topic_id].partitions if topic_id in known.initialized else frozenset()
            requested = known.initializing.get(topic_id)
            if requested is not None and now_ms - requested.since_ms < patience_ms:
                done = done | requested.partitions
            # A partition added to a topic that the group already reads starts at its beginning: what was written
            # between its creation and this heartbeat must not be skipped.
            start = 0 if topic_id in known.initialized else UNKNOWN_START_OFFSET
            uninitialized = dict.fromkeys(sorted(set(range(self._state.topics.partition_count(name))) - done), start)
            if uninitialized:
                missing[topic_id] = uninitialized
        return missing

    def _answer(
        self,
        respond: Respond[m.ShareGroupHeartbeatResponse],
        context: RequestContext,
        request: m.ShareGroupHeartbeatRequest,
    ) -> Effects:
        group, before, updated = self._member(context, request)
        effects = Effects()
        group_id, now_ms = group.group_id, context.now_ms
        if updated != before:
            effects.records.append(updated.metadata_record(group_id))
        names_changed = updated.subscribed_topic_names != before.subscribed_topic_names
        # As in Kafka a deleted topic first vanishes from the assignment, under the same epoch; what is left is assigned
        # anew with the heartbeat after.
        lost = any(self._state.topics.topic_name(topic_id) is None for topic_id in before.assigned)
        epoch = group.epoch
        if names_changed or not lost:
            epoch = self._bump_epoch(effects, group, updated, names_changed)
        if epoch > group.epoch:
            self._note_change(group, epoch, updated, names_changed)
        target_epoch = group.target_epoch
        target = group.target.get(updated.member_id, {})
        if epoch > group.target_epoch:
            target_epoch = epoch
            target = self._compute_target(effects, group, updated, epoch, now_ms)
        if updated.member_epoch != target_epoch or names_changed or lost:
            after = self._reconciled(updated, target_epoch, target)
            if after != updated:
                effects.records.append(after.assignment_record(group_id))
                updated = after
        self.start_session(group_id, updated.member_id, now_ms)
        response = m.ShareGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.member_epoch,
            heartbeat_interval_ms=self._interval_ms(group, updated, target_epoch, bool(effects.records), now_ms),
        )
        full = request.subscribed_topic_names is not None
        if request.member_epoch == 0 or full or before.assigned != updated.assigned:
            response.assignment = _assignment(updated.assigned)
        effects.reply(respond, response, share_heartbeat_error)
        return effects

    def _note_change(self, group: ShareGroup, epoch: int, member: ShareMember, names_changed: bool) -> None:
        if not names_changed:
            self._state.note(group.group_id, Happened.TOPICS_CHANGED, epoch)
            return
        happened = Happened.RESUBSCRIBED if member.member_id in group.members else Happened.JOINED
        self._state.note(group.group_id, happened, epoch, member)

    def _bump_epoch(self, effects: Effects, group: ShareGroup, updated: ShareMember, names_changed: bool) -> int:
        topics = self._state.topics
        bump = names_changed or (group.target_epoch >= group.epoch and self._assignment_is_behind(group))
        if not bump and group.topics_version == topics.version:
            return group.epoch
        digest = metadata_hash(group.subscribed_topics_with(updated.member_id, updated), topics)
        if bump or digest != group.metadata_hash:
            effects.records.append(records.share_group_epoch(group.group_id, group.epoch + 1, digest))
            return group.epoch + 1
        group.topics_version = topics.version
        return group.epoch

    def _assignment_is_behind(self, group: ShareGroup) -> bool:
        """Some initialized partition of a subscribed topic is assigned to nobody."""
        if not group.members:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in group.target.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return any(
            topic.partitions != assigned.get(topic_id, set())
            for topic_id, topic in group.state_partitions.initialized.items()
            if group.is_subscribed_to(topic.name)
        )

    def _compute_target(
        self, effects: Effects, group: ShareGroup, updated: ShareMember, epoch: int, now_ms: int
    ) -> Partitions:
        members = {**group.members, updated.member_id: updated}
        specs = [
            AssignorMember(
                member_id,
                topic_ids(member.subscribed_topic_names, self._state.topics),
                group.target.get(member_id, {}),
            )
            for member_id, member in members.items()
        ]
        target = simple(specs, group.state_partitions.assignable())
        for member_id, partitions in target.items():
            if group.target.get(member_id) != partitions:
                effects.records.append(records.share_group_target(group.group_id, member_id, partitions))
        effects.records.append(records.share_group_target_epoch(group.group_id, epoch, now_ms))
        self._state.note(group.group_id, Happened.ASSIGNED, epoch)
        return target[updated.member_id]

    def _reconciled(self, member: ShareMember, target_epoch: int, target: Partitions) -> ShareMember:
        subscribed = topic_ids(member.subscribed_topic_names, self._state.topics)
        assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}
        if member.member_epoch == target_epoch:
            return replace(member, assigned=assigned)
        return replace(member, assigned=assigned, previous_member_epoch=member.member_epoch, member_epoch=target_epoch)

    def _interval_ms(
        self, group: ShareGroup, updated: ShareMember, target_epoch: int, changed: bool, now_ms: int
    ) -> int:
        configured_ms = self._state.settings.share_heartbeat_interval_ms(group.group_id)
        members = {**group.members, updated.member_id: updated}
        settled = group.epoch <= target_epoch and all(
            member.member_epoch == target_epoch for member in members.values()
        )
        if changed or not settled or group.in_motion_ms is None:
            group.in_motion_ms = now_ms
        if not settled:
            return pace.settling_interval_ms(configured_ms, len(members))
        if not group.state_partitions.initialized:
            return configured_ms  # no partition exists that could move
        return pace.settled_interval_ms(configured_ms, len(members), now_ms - group.in_motion_ms)

    # ---- the share coordinator's answers -----------------------------------------------------------------------------

    def state_initialized(self, group_id: str, partitions: Partitions, succeeded: bool, now_ms: int) -> Effects:
        """The share coordinator has (or has not) begun the state of these share-partitions."""
        effects = Effects()
        group = self._state.groups.get(group_id)
        if isinstance(group, ShareGroup) and partitions:
            topics = {t: StateTopic(self._name(t), frozenset(p)) for t, p in partitions.items()}
            known = group.state_partitions
            after = known.with_initialized(topics) if succeeded else known.without_initializing(topics)
            effects.records.append(after.record(group_id))
        if group_id in self._parked:
            # The heartbeats that wait for this are answered once the record above is replayed.
            self._timers.schedule(TimerKey(TimerKind.SHARE_INITIALIZE, group_id), now_ms)
        return effects

    def give_up_waiting(self, group_id: str, error: ErrorCode) -> Effects:
        """The share coordinator cannot even be asked: whoever waits for it is told."""
        effects = Effects()
        self._timers.cancel(TimerKey(TimerKind.SHARE_INITIALIZE, group_id))
        for parked in self._parked.pop(group_id, []):
            effects.reply(parked.respond, share_heartbeat_error(error), share_heartbeat_error)
        return effects

    def on_initialize_timer(self, group_id: str, now_ms: int) -> Effects:
        """Answer one waiting heartbeat, with whatever is initialized by now."""
        waiting = self._parked.get(group_id)
        if not waiting:
            return Effects()
        parked = waiting.pop(0)
        if waiting:
            self._timers.schedule(TimerKey(TimerKind.SHARE_INITIALIZE, group_id), now_ms)
        else:
            del self._parked[group_id]
        context = replace(parked.context, now_ms=now_ms)
        try:
            return self._answer(parked.respond, context, parked.request)
        except KafkaError as error:
            response = m.ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return answered(parked.respond, response)

    # ---- leaving -----------------------------------------------------------------------------------------------------

    def _leave(
        self,
        respond: Respond[m.ShareGroupHeartbeatResponse],
        context: RequestContext,
        request: m.ShareGroupHeartbeatRequest,
    ) -> Effects:
        group = self._state.share(request.group_id)
        effects = self.fence(group, group.member(request.member_id), context.now_ms, Happened.LEFT)
        response = m.ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        effects.reply(respond, response, share_heartbeat_error)
        return effects

    def fence(self, group: ShareGroup, member: ShareMember, now_ms: int, happened: Happened) -> Effects:
        group_id, member_id = group.group_id, member.member_id
        self._state.note(group_id, happened, group.epoch + 1, member)
        digest = metadata_hash(group.subscribed_topics_with(member_id, None), self._state.topics)
        self._timers.cancel(TimerKey(TimerKind.SHARE_SESSION, group_id, member_id))
        group.in_motion_ms = now_ms
        return Effects(
            records=[
                records.share_group_current_assignment_tombstone(group_id, member_id),
                records.share_group_target_tombstone(group_id, member_id),
                records.share_group_member_tombstone(group_id, member_id),
                records.share_group_epoch(group_id, group.epoch + 1, digest),
            ]
        )

    # ---- timers ------------------------------------------------------------------------------------------------------

    def start_session(self, group_id: str, member_id: str, now_ms: int) -> None:
        timeout_ms = self._state.settings.share_session_timeout_ms(group_id)
        self._timers.schedule(TimerKey(TimerKind.SHARE_SESSION, group_id, member_id), now_ms + timeout_ms)

    def on_session_expired(self, group: ShareGroup, member_id: str, now_ms: int) -> Effects:
        member = group.members.get(member_id)
        if member is None:
            return Effects()
        return self.fence(group, member, now_ms, Happened.SESSION_TIMED_OUT)

    # ---- share-partition state: for the admin APIs -------------------------------------------------------------------

    def topics_deleted(self, topic_ids_: frozenset[bytes]) -> list[CoordinatorRecord]:
        made = []
        for group in self._state.groups.values():
            if not isinstance(group, ShareGroup):
                continue
            known = group.state_partitions
            if topic_ids_.isdisjoint(known.initializing.keys() | known.initialized.keys() | known.deleting.keys()):
                continue
            after = replace(
                known,
                initializing={t: topic for t, topic in known.initializing.items() if t not in topic_ids_},
                initialized={t: topic for t, topic in known.initialized.items() if t not in topic_ids_},
                deleting={t: name for t, name in known.deleting.items() if t not in topic_ids_},
            )
            made.append(after.record(group.group_id))
        return made

    def begin_alter_offsets(self, group_id: str, start_offsets: Mapping[bytes, Mapping[int, int]]) -> Effects:
        """Start share-partitions anew at given offsets. The group must have no members; it is made when missing."""
        group = self._state.groups.get(group_id)
        if group is None:
            group = ShareGroup(group_id)
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a share group.")
        group.validate_delete()
        effects = Effects()
        if start_offsets:
            topics = {t: StateTopic(self._name(t), frozenset(p)) for t, p in start_offsets.items()}
            effects.records.append(group.state_partitions.with_initializing(topics).record(group_id))
            effects.actions.append(InitializeShareState(group_id, group.epoch, start_offsets, frozenset(topics)))
        return effects

    def begin_delete_offsets(self, group_id: str, topics: frozenset[bytes]) -> Effects:
        """Mark topics as on their way out; those of them that have state are in the action."""
        group = self._state.share(group_id)
        group.validate_delete()
        known = group.state_partitions
        doomed: dict[bytes, frozenset[int]] = {}
        for topic_id in topics:
            if topic_id in known.initialized:
                doomed[topic_id] = known.initialized[topic_id].partitions
            elif topic_id in known.deleting:  # an earlier deletion did not come to its end
                doomed[topic_id] = frozenset(range(self._state.topics.partition_count(self._name(topic_id))))
        if not doomed:
            return Effects()
        after = replace(
            known,
            initialized={t: topic for t, topic in known.initialized.items() if t not in doomed},
            deleting=known.deleting | {t: self._name(t) for t in doomed},
        )
        return Effects(records=[after.record(group_id)], actions=[DeleteShareState(group_id, doomed)])

    def begin_delete_group(self, group: ShareGroup) -> Effects:
        """All state must be gone before the group is: a new group of the same name must not find any of it."""
        known = group.state_partitions
        doomed = known.all_partitions()
        for topic_id, name in known.deleting.items():
            if topic_id not in doomed and self._state.topics.topic_id(name) == topic_id:
                doomed[topic_id] = frozenset(range(self._state.topics.partition_count(name)))
        if not doomed:
            return Effects()
        after = replace(known, initializing={}, initialized={}, deleting={t: self._name(t) for t in doomed})
        return Effects(records=[after.record(group.group_id)], actions=[DeleteShareState(group.group_id, doomed)])

    def state_deleted(self, group_id: str, topics: frozenset[bytes]) -> Effects:
        """The share coordinator has forgotten these topics of the group."""
        group = self._state.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return Effects()
        known = group.state_partitions
        after = replace(known, deleting={t: name for t, name in known.deleting.items() if t not in topics})
        return Effects(records=[after.record(group_id)])

    def _name(self, topic_id: bytes) -> str:
        return self._state.topics.topic_name(topic_id) or "<UNKNOWN>"


def validate_heartbeat(request: m.ShareGroupHeartbeatRequest) -> None:
    if not request.member_id or len(request.member_id) > MEMBER_ID_LENGTH_MAX:
        raise InvalidRequest(f"MemberId can't be empty or longer than {MEMBER_ID_LENGTH_MAX} characters.")
    if not request.group_id:
        raise InvalidRequest("GroupId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_GROUP_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")


def _check_epoch(member: ShareMember, received: int) -> None:
    if received in (0, member.member_epoch):
        return
    if received < member.member_epoch and received == member.previous_member_epoch:
        return  # the answer that brought the new epoch was lost
    word = "greater" if received > member.member_epoch else "smaller"
    raise FencedMemberEpoch(
        f"The share group member has a {word} member epoch ({received}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )


def _assignment(assigned: Partitions) -> m.ShareGroupHeartbeatResponse.Assignment:
    response = m.ShareGroupHeartbeatResponse
    return response.Assignment(
        topic_partitions=[
            response.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assigned.items())
        ]
    )
