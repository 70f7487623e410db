"""One group coordinator: all groups and offsets of one partition of `__consumer_offsets`.

    shard = GroupShard(settings, topics, new_uuid)
    for record in partition: shard.replay(key, value, producer_id)      # and replay_end_marker for control batches
    effects = shard.loaded(now_ms)
    effects = shard.join_group(respond, context, request)                 # one method per API

Every command returns `Effects`; see there for what the runtime does with them. A command never raises for what a client
did wrong: the error is a reply.

`tick` does one step per call, because a step sees only what has been replayed: call it as long as `next_deadline_ms()`
is not after `now_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.coordination.context import RequestContext
from penstock.coordination.effects import CoordinatorRecord, Effects, R, Respond, answered
from penstock.groups import describe
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.protocol import ClassicProtocol
from penstock.groups.classic.states import ClassicState
from penstock.groups.consumer.classic_members import ClassicMembers
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.protocol import ConsumerProtocol
from penstock.groups.failures import commit_error, join_error, reply_join, txn_commit_error
from penstock.groups.offsets import Offsets, group_error
from penstock.groups.records import Partitions, group_metadata_tombstone
from penstock.groups.replay import Replayer
from penstock.groups.settings import GroupSettings, TopicsView
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.protocol import DeleteShareState, InitializeShareState, ShareProtocol
from penstock.groups.state import Group, ShardState
from penstock.groups.timeline import Timeline
from penstock.groups.timers import TimerKey, TimerKind
from penstock.groups.waiting import Waiting, waits_of
from penstock.records.batch import NO_PRODUCER_ID
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

# So many tombstones of expired offsets at most go into one batch.
EXPIRY_BATCH_MAX = 1_000
RETRY_MS = 1_000
"""When what could not be written is tried again."""


@dataclass(slots=True)
class _GroupDeletion:
    """A DeleteGroups request that waits until the share coordinator has forgotten some of its groups."""

    respond: Respond[list[m.DeleteGroupsResponse.DeletableGroupResult]]
    results: dict[str, ErrorCode]
    waiting: set[str]


class GroupShard:
    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicsView,
        new_uuid: Callable[[], str],
        timeline: Timeline | None = None,
    ) -> None:
        """`timeline` is where it notes what happens to its groups; shards may share one."""
        self.state = ShardState(settings, topics, new_uuid, timeline)
        self._replayer = Replayer(self.state)
        self._classic = ClassicProtocol(self.state)
        self._consumer = ConsumerProtocol(self.state, self._classic)
        self._classic_members = ClassicMembers(self.state, self._consumer, self._classic)
        self._share = ShareProtocol(self.state)
        self._offsets = Offsets(self.state, self._classic)
        self._deletions: list[_GroupDeletion] = []
        self._to_expire: list[str] = []

    # ---- records -----------------------------------------------------------------------------------------------------

    def replay(
        self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER_ID, *, written_ms: int = 0
    ) -> None:
        """Apply one record of the log. Raises MalformedMessage when it cannot be read; the next ones can."""
        self.state.timers.settle()
        self._replayer.replay(key, value, None if producer_id == NO_PRODUCER_ID else producer_id)

    def replay_end_marker(self, producer_id: int, commit: bool) -> None:
        """A transaction ended: the marker is in the log."""
        self.state.offsets.end_transaction(producer_id, commit)

    def loaded(self, now_ms: int) -> Effects:
        """The log has been read to its end: start the sessions of all members."""
        self.state.loading = False
        self.state.now_ms = now_ms
        effects = Effects()
        for group in self.state.groups.values():
            if isinstance(group, ClassicGroup):
                effects.extend(self._classic.start_sessions(group, now_ms))
            elif isinstance(group, ConsumerGroup):
                self._consumer.start_sessions(group, now_ms)
            else:
                for member_id in group.members:
                    self._share.start_session(group.group_id, member_id, now_ms)
        self._schedule_expiry(now_ms)
        return effects

    def append_failed(self, effects: Effects, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> Effects:
        """The records could not be written: the replies to those who would be left parked without them."""
        self.state.timers.restore(self.state.now_ms + RETRY_MS)
        extra = Effects()
        touched = {record.key for record in effects.records}
        for group_id in list(self.state.incoming):
            if group_metadata_tombstone(group_id).key in touched:
                del self.state.incoming[group_id]
        for group in self.state.groups.values():
            waits = isinstance(group, ClassicGroup) and group.state is ClassicState.COMPLETING_REBALANCE
            if waits and group_metadata_tombstone(group.group_id).key in touched:
                assert isinstance(group, ClassicGroup)
                self._classic.fail_assignment(extra, group, error, self.state.now_ms)
                self._classic.prepare_rebalance(extra, group, self.state.now_ms)
        for action in effects.actions:
            if isinstance(action, InitializeShareState):
                extra.extend(self._share.give_up_waiting(action.group_id, error))
            elif isinstance(action, DeleteShareState):
                extra.extend(self._give_up_deleting(action.group_id, error))
        return Effects(replies=extra.replies)

    def _give_up_deleting(self, group_id: str, error: ErrorCode) -> Effects:
        effects = Effects()
        for deletion in [waiting for waiting in self._deletions if group_id in waiting.waiting]:
            self._deletions.remove(deletion)
            deletion.results = dict.fromkeys(deletion.results, error)
            _reply(effects, deletion)
        return effects

    def unload(self, error: ErrorCode) -> Effects:
        """The shard is given up, as when another broker takes over: parked requests are sent there."""
        effects = Effects()
        for group in self.state.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    if member.awaiting_join is not None:
                        reply_join(effects, member.awaiting_join, join_error(member.member_id, error))
                        member.awaiting_join = None
                self._classic.fail_assignment(effects, group, error, self.state.now_ms)
            effects.extend(self._share.give_up_waiting(group.group_id, error))
            effects.extend(self._give_up_deleting(group.group_id, error))
        return Effects(replies=effects.replies)

    # ---- timers ------------------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        return self.state.timers.next_deadline_ms()

    def tick(self, now_ms: int) -> Effects:
        """Run timers that are due, until one of them has something to write or to say."""
        self.state.now_ms = now_ms
        self.state.timers.settle()
        while (key := self.state.timers.pop_due(now_ms)) is not None:
            effects = self._on_timer(key, now_ms)
            if effects.records or effects.replies or effects.actions:
                return effects
        return Effects()

    def _on_timer(self, key: TimerKey, now_ms: int) -> Effects:
        if key.kind is TimerKind.OFFSETS_EXPIRY:
            return self._expire(now_ms)
        if key.kind is TimerKind.SHARE_INITIALIZE:
            return self._share.on_initialize_timer(key.group_id, now_ms)
        group = self.state.groups.get(key.group_id)
        if isinstance(group, ClassicGroup):
            if key.kind is TimerKind.CLASSIC_SESSION:
                return self._classic.on_session_expired(group, key.member_id, now_ms)
            if key.kind is TimerKind.CLASSIC_JOIN:
                return self._classic.on_join_timer(group, now_ms)
            if key.kind is TimerKind.CLASSIC_SYNC:
                return self._classic.on_sync_timer(group, int(key.member_id), now_ms)
        elif isinstance(group, ConsumerGroup):
            if key.kind is TimerKind.CONSUMER_REGEX:
                return self._consumer.on_regex_timer(group, now_ms)
            if key.kind is TimerKind.CONSUMER_ASSIGN:
                return self._consumer.on_assign_timer(group, now_ms)
            if key.kind.name.startswith("CONSUMER_"):
                return self._consumer.on_member_timer(group, key, now_ms)
        elif isinstance(group, ShareGroup) and key.kind is TimerKind.SHARE_SESSION:
            return self._share.on_session_expired(group, key.member_id, now_ms)
        return Effects()  # the group is gone, or has changed its type since the timer was set

    def _schedule_expiry(self, now_ms: int) -> None:
        interval_ms = self.state.settings.offsets_retention_check_interval_ms
        self.state.timers.schedule(TimerKey(TimerKind.OFFSETS_EXPIRY), now_ms + interval_ms)

    def _expire(self, now_ms: int) -> Effects:
        """Tombstones for expired offsets, and for groups that nothing is left of."""
        if not self._to_expire:
            self._to_expire = list(self.state.groups)
        effects = Effects()
        while self._to_expire and len(effects.records) < EXPIRY_BATCH_MAX:
            group = self.state.groups.get(self._to_expire.pop())
            if not isinstance(group, ClassicGroup | ConsumerGroup):
                continue  # share groups live until they are deleted
            tombstones, nothing_left = self._offsets.expire(group, now_ms)
            effects.records += tombstones
            if nothing_left and group.is_empty and not (isinstance(group, ClassicGroup) and group.pending_joins):
                effects.records += _tombstones(group)
        if self._to_expire:
            self.state.timers.schedule(TimerKey(TimerKind.OFFSETS_EXPIRY), now_ms)
        else:
            self._schedule_expiry(now_ms)
        return effects

    # ---- classic protocol --------------------------------------------------------------------------------------------

    def join_group(
        self, respond: Respond[m.JoinGroupResponse], context: RequestContext, request: m.JoinGroupRequest
    ) -> Effects:
        settings = self.state.settings

        def run() -> Effects:
            if not request.group_id:
                return answered(respond, join_error(request.member_id, ErrorCode.INVALID_GROUP_ID))
            if not (
                settings.group_min_session_timeout_ms
                <= request.session_timeout_ms
                <= settings.group_max_session_timeout_ms
            ):
                return answered(respond, join_error(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT))
            group = self.state.groups.get(request.group_id)
            if isinstance(group, ConsumerGroup) and group.members:
                return self._classic_members.join(respond, context, request, group)
            if isinstance(group, ShareGroup):
                return answered(respond, join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            if isinstance(group, ConsumerGroup):
                # An empty consumer group may be joined with the classic protocol, which turns it into a classic one.
                effects = self._classic.join(respond, context, request, None)
                if effects.records:
                    effects.records[:0] = group.tombstones()
                return effects
            return self._classic.join(respond, context, request, group)

        return self._run(respond, context, run, lambda error: join_error("", error.code))

    def sync_group(
        self, respond: Respond[m.SyncGroupResponse], context: RequestContext, request: m.SyncGroupRequest
    ) -> Effects:
        def run() -> Effects:
            if not request.group_id:
                return answered(respond, m.SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
            group = self.state.groups.get(request.group_id)
            if isinstance(group, ClassicGroup) and not group.is_empty:
                return self._classic.sync(respond, context, request, group)
            if isinstance(group, ConsumerGroup) and not group.is_empty:
                return self._classic_members.sync(respond, context, request, group)
            return answered(respond, m.SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))

        return self._run(respond, context, run, lambda error: m.SyncGroupResponse(error_code=error.code))

    def heartbeat(
        self, respond: Respond[m.HeartbeatResponse], context: RequestContext, request: m.HeartbeatRequest
    ) -> Effects:
        def run() -> Effects:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            group = self.state.groups.get(request.group_id)
            if not request.group_id:
                code = ErrorCode.INVALID_GROUP_ID
            elif isinstance(group, ClassicGroup):
                code = self._classic.heartbeat(context, request, group)
            elif isinstance(group, ConsumerGroup):
                code = self._classic_members.heartbeat(context, request, group)
            return answered(respond, m.HeartbeatResponse(error_code=code))

        return self._run(respond, context, run, lambda error: m.HeartbeatResponse(error_code=error.code))

    def leave_group(
        self, respond: Respond[m.LeaveGroupResponse], context: RequestContext, request: m.LeaveGroupRequest
    ) -> Effects:
        """In the shape of version 3 and later; `single_leave` makes older requests and answers fit."""

        def run() -> Effects:
            group = self.state.groups.get(request.group_id)
            if not request.group_id:
                return answered(respond, m.LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
            if isinstance(group, ClassicGroup):
                return self._classic.leave(respond, context, request, group)
            if isinstance(group, ConsumerGroup):
                return self._classic_members.leave(respond, context, request, group)
            response = m.LeaveGroupResponse(
                members=[
                    m.LeaveGroupResponse.MemberResponse(
                        member_id=member.member_id,
                        group_instance_id=member.group_instance_id,
                        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                    )
                    for member in request.members
                ]
            )
            return answered(respond, response)

        return self._run(respond, context, run, lambda error: m.LeaveGroupResponse(error_code=error.code))

    # ---- consumer and share protocol ---------------------------------------------------------------------------------

    def consumer_group_heartbeat(
        self,
        respond: Respond[m.ConsumerGroupHeartbeatResponse],
        context: RequestContext,
        request: m.ConsumerGroupHeartbeatRequest,
    ) -> Effects:
        def failed(error: KafkaError) -> m.ConsumerGroupHeartbeatResponse:
            return m.ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)

        return self._run(respond, context, lambda: self._consumer.heartbeat(respond, context, request), failed)

    def share_group_heartbeat(
        self,
        respond: Respond[m.ShareGroupHeartbeatResponse],
        context: RequestContext,
        request: m.ShareGroupHeartbeatRequest,
    ) -> Effects:
        def failed(error: KafkaError) -> m.ShareGroupHeartbeatResponse:
            return m.ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)

        return self._run(respond, context, lambda: self._share.heartbeat(respond, context, request), failed)

    # ---- offsets -----------------------------------------------------------------------------------------------------

    def offset_commit(
        self, respond: Respond[m.OffsetCommitResponse], context: RequestContext, request: m.OffsetCommitRequest
    ) -> Effects:
        """Topics have both name and id: the shell has resolved the one that the request left out."""
        return self._run(
            respond,
            context,
            lambda: self._offsets.commit(respond, context, request),
            lambda error: commit_error(request, error.code),
        )

    def txn_offset_commit(
        self, respond: Respond[m.TxnOffsetCommitResponse], context: RequestContext, request: m.TxnOffsetCommitRequest
    ) -> Effects:
        def run() -> Effects:
            if not request.group_id:
                return answered(respond, txn_commit_error(request, ErrorCode.INVALID_GROUP_ID))
            return self._offsets.commit_in_transaction(respond, context, request)

        return self._run(respond, context, run, lambda error: txn_commit_error(request, error.code))

    def offset_fetch(
        self, request: m.OffsetFetchRequest.OffsetFetchRequestGroup, require_stable: bool = False
    ) -> m.OffsetFetchResponse.OffsetFetchResponseGroup:
        """One group, in the shape of version 8 and later, with topic names."""
        try:
            return self._offsets.fetch(request, require_stable)
        except KafkaError as error:
            return group_error(request, error.code)

    def offset_delete(
        self, respond: Respond[m.OffsetDeleteResponse], context: RequestContext, request: m.OffsetDeleteRequest
    ) -> Effects:
        def run() -> Effects:
            if not request.group_id:
                return answered(respond, m.OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
            return self._offsets.delete(respond, request)

        return self._run(respond, context, run, lambda error: m.OffsetDeleteResponse(error_code=error.code))

    def topics_deleted(self, deleted: dict[str, bytes], now_ms: int) -> Effects:
        """Topics (name to id) are gone: so are their offsets and their share-partitions."""
        self.state.now_ms = now_ms
        effects = self._offsets.topics_deleted(deleted)
        effects.records += self._share.topics_deleted(frozenset(deleted.values()))
        return effects

    # ---- groups from outside -----------------------------------------------------------------------------------------

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[m.ListGroupsResponse.ListedGroup]:
        """The newest first."""
        return describe.list_groups(reversed(list(self.state.groups.values())), states, types)

    def describe_group(self, group_id: str, api_version: int) -> m.DescribeGroupsResponse.DescribedGroup:
        return describe.describe_classic(self.state, group_id, api_version)

    def consumer_group_describe(self, group_id: str) -> m.ConsumerGroupDescribeResponse.DescribedGroup:
        return describe.describe_consumer(self.state, group_id)

    def share_group_describe(self, group_id: str) -> m.ShareGroupDescribeResponse.DescribedGroup:
        return describe.describe_share(self.state, group_id)

    def waits_of(self, group_id: str) -> list[Waiting]:
        """Which members a group waits for, when it is not settled."""
        group = self.state.groups.get(group_id)
        return [] if group is None else waits_of(self.state, group)

    def delete_groups(
        self,
        respond: Respond[list[m.DeleteGroupsResponse.DeletableGroupResult]],
        context: RequestContext,
        group_ids: Iterable[str],
    ) -> Effects:
        """Answers with the DeletableGroupResults of the groups of this shard."""
        self.state.now_ms = context.now_ms
        effects = Effects()
        deletion = _GroupDeletion(respond, {}, set())
        for group_id in group_ids:
            try:
                group = self.state.group(group_id)
                group.validate_delete()
            except KafkaError as error:
                deletion.results[group_id] = error.code
                continue
            deletion.results[group_id] = ErrorCode.NONE
            begun = self._share.begin_delete_group(group) if isinstance(group, ShareGroup) else Effects()
            if begun.actions:
                effects.extend(begun)
                deletion.waiting.add(group_id)
            else:
                effects.records += self._offsets.delete_all(group_id) + _tombstones(group)
        if deletion.waiting:
            self._deletions.append(deletion)
        else:
            _reply(effects, deletion)
        return effects

    # ---- share-partition state ---------------------------------------------------------------------------------------

    def share_state_initialized(
        self, group_id: str, partitions: Partitions, now_ms: int, succeeded: bool = True
    ) -> Effects:
        """The shell has carried out an `InitializeShareState`, or could not."""
        self.state.now_ms = now_ms
        return self._share.state_initialized(group_id, partitions, succeeded, now_ms)

    def share_state_deleted(
        self, group_id: str, topics: frozenset[bytes], now_ms: int, error: ErrorCode = ErrorCode.NONE
    ) -> Effects:
        """The shell has carried out a `DeleteShareState`, or could not."""
        self.state.now_ms = now_ms
        deletion = next((waiting for waiting in self._deletions if group_id in waiting.waiting), None)
        if deletion is None:
            return self._share.state_deleted(group_id, topics) if error is ErrorCode.NONE else Effects()
        effects = Effects()
        deletion.waiting.discard(group_id)
        deletion.results[group_id] = error
        group = self.state.groups.get(group_id)
        if error is ErrorCode.NONE and isinstance(group, ShareGroup):
            effects.records += group.tombstones()
        if not deletion.waiting:
            self._deletions.remove(deletion)
            _reply(effects, deletion)
        return effects

    def share_state_partitions(self, group_id: str) -> dict[bytes, frozenset[int]]:
        """The share-partitions of a group whose state is initialized."""
        group = self.state.groups.get(group_id)
        return group.state_partitions.assignable() if isinstance(group, ShareGroup) else {}

    def share_groups(self) -> list[tuple[str, dict[bytes, frozenset[int]]]]:
        """Every share group, with its share-partitions whose state is initialized."""
        groups = [group for group in self.state.groups.values() if isinstance(group, ShareGroup)]
        return [(group.group_id, group.state_partitions.assignable()) for group in groups]

    def begin_alter_share_offsets(self, group_id: str, start_offsets: dict[bytes, dict[int, int]]) -> Effects:
        """Raises KafkaError; the shell carries out the action and reports it with `share_state_initialized`."""
        return self._share.begin_alter_offsets(group_id, start_offsets)

    def begin_delete_share_offsets(self, group_id: str, topics: frozenset[bytes]) -> Effects:
        """Raises KafkaError; topics without state are not in the action (UNKNOWN_TOPIC_OR_PARTITION)."""
        return self._share.begin_delete_offsets(group_id, topics)

    # ---- helpers -----------------------------------------------------------------------------------------------------

    def _run(
        self,
        respond: Respond[R],
        context: RequestContext,
        command: Callable[[], Effects],
        failed: Callable[[KafkaError], R],
    ) -> Effects:
        self.state.now_ms = context.now_ms
        self.state.timers.settle()
        try:
            return command()
        except KafkaError as error:
            return answered(respond, failed(error))


def _tombstones(group: Group) -> list[CoordinatorRecord]:
    return [group_metadata_tombstone(group.group_id)] if isinstance(group, ClassicGroup) else group.tombstones()


def _reply(effects: Effects, deletion: _GroupDeletion) -> None:
    codes = deletion.results
    effects.reply(deletion.respond, _deleted(codes), lambda error: _deleted(dict.fromkeys(codes, error)))


def _deleted(codes: dict[str, ErrorCode]) -> list[m.DeleteGroupsResponse.DeletableGroupResult]:
    return [
        m.DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
        for group_id, code in codes.items()
    ]
