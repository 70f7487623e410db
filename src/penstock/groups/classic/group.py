"""A classic group and its members as they stand in memory.

What survives a restart is in the GroupMetadata record: generation, selected protocol, leader, members with the
metadata of the selected protocol and their assignments. All else (who waits for which reply, pending member ids,
timers) is soft and starts anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.coordination.effects import Respond
from penstock.groups.classic.states import TRANSITIONS, ClassicState
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage, decode_prefix
from penstock.wire.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)

CONSUMER_PROTOCOL_TYPE = "consumer"

# Protocol name and metadata, in the member's order of preference.
Protocols = tuple[tuple[str, bytes], ...]


def protocols_of(request: m.JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def rebalance_timeout_of(request: m.JoinGroupRequest) -> int:
    """JoinGroup v0 has no rebalance timeout: the session timeout stands in for it."""
    return request.session_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms


@dataclass(slots=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    # A member that has joined but not yet seen a generation; its session is then the long new-member timeout.
    is_new: bool = False
    awaiting_join: Respond[m.JoinGroupResponse] | None = None
    awaiting_sync: Respond[m.SyncGroupResponse] | None = None

    def metadata(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: set[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def is_parked(self) -> bool:
        return self.awaiting_join is not None or self.awaiting_sync is not None


class ClassicGroup:
    def __init__(
        self,
        group_id: str,
        *,
        state: ClassicState = ClassicState.EMPTY,
        generation: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader: str | None = None,
        state_since_ms: int | None = None,
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = ClassicState.DEAD
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.state_since_ms = state_since_ms
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        # A member arrived while the first rebalance waited for more members.
        self.new_member_added = False
        # What is left of the time by which the first rebalance may be put off.
        self.initial_delay_remaining_ms = 0
        self.initial_delay_ms = 0
        self.subscribed_topics: frozenset[str] | None = None

    # ---- identity ----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_simple(self) -> bool:
        """A group that only holds offsets: nobody ever joined it."""
        return not self.protocol_type and self.is_empty and not self.pending_joins

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def in_state(self, *states: ClassicState) -> bool:
        return self.state in states

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        assert self.state in TRANSITIONS[state], f"{self.group_id} cannot go from {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in TRANSITIONS[ClassicState.PREPARING_REBALANCE]

    # ---- members -----------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember) -> None:
        assert member.instance_id is None or member.instance_id not in self.static_members
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def replace_static(self, instance_id: str, new_member_id: str) -> ClassicMember:
        """A restarted static member takes the place of its former self, assignment included (KIP-345)."""
        old = self.members.pop(self.static_members[instance_id])
        new = ClassicMember(
            new_member_id,
            instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        self.members[new_member_id] = new
        self.static_members[instance_id] = new_member_id
        if self.leader == old.member_id:
            self.leader = new_member_id
        if old.member_id in self.pending_syncs:
            self.pending_syncs.discard(old.member_id)
            self.pending_syncs.add(new_member_id)
        return new

    def validate_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise UnknownMemberId
            if known != member_id:
                raise FencedInstanceId
        if member_id not in self.members:
            raise UnknownMemberId

    @property
    def awaiting_join_count(self) -> int:
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        return not self.pending_joins and all(member.awaiting_join is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it rejoined, else take any member that did. False when nobody did."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    # ---- protocols ---------------------------------------------------------------------------------------------------

    def _supported_by_all(self) -> set[str]:
        names = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*names) if names else set()

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        return not self.members or any(name in self._supported_by_all() for name, _ in protocols)

    def select_protocol(self) -> str:
        candidates = self._supported_by_all()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def init_next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition_to(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms)
        self.pending_syncs.clear()

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members subscribe to, or None when the coordinator cannot know."""
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                topics.update(subscribed_topics_of(member.metadata(self.protocol_name)))
            except MalformedMessage:
                return None
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # ---- rules of other APIs -----------------------------------------------------------------------------------------

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> None:
        if self.state is ClassicState.DEAD:
            raise CoordinatorNotAvailable
        if generation < 0 and self.is_empty:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.validate_member(member_id, instance_id)
            if generation != self.generation:
                raise IllegalGeneration
        elif not transactional and not self.is_empty:
            raise UnknownMemberId
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise RebalanceInProgress

    def validate_offset_delete(self) -> None:
        if not self.is_empty and not self.uses_consumer_protocol:
            raise NonEmptyGroup

    def validate_delete(self) -> None:
        if not self.is_empty:
            raise NonEmptyGroup

    # ---- persistence -------------------------------------------------------------------------------------------------

    def to_value(self, assignments: dict[str, bytes] | None = None) -> m.GroupMetadataValue:
        """The GroupMetadata record; only the metadata of the selected protocol is kept."""
        return m.GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=[
                m.GroupMetadataValue.MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    @staticmethod
    def empty_value(now_ms: int) -> m.GroupMetadataValue:
        """The record of a group that exists but never had a generation."""
        return m.GroupMetadataValue(
            protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=now_ms, members=[]
        )

    @classmethod
    def from_value(cls, group_id: str, value: m.GroupMetadataValue) -> ClassicGroup:
        group = cls(
            group_id,
            state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            leader=value.leader,
            state_since_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
        )
        for saved in value.members:
            timeout = saved.session_timeout if saved.rebalance_timeout == -1 else saved.rebalance_timeout
            group.add(
                ClassicMember(
                    saved.member_id,
                    saved.group_instance_id,
                    saved.client_id,
                    saved.client_host,
                    timeout,
                    saved.session_timeout,
                    value.protocol_type,
                    ((value.protocol or "", bytes(saved.subscription)),),
                    bytes(saved.assignment),
                )
            )
        group.subscribed_topics = group.compute_subscribed_topics()
        return group

    def persisted(self, value: m.GroupMetadataValue, now_ms: int) -> None:
        """The record that this very group asked for is in the log: its assignments are now valid."""
        for saved in value.members:
            member = self.members.get(saved.member_id)
            if member is not None:
                member.assignment = bytes(saved.assignment)
        if value.members and self.state is ClassicState.COMPLETING_REBALANCE:
            self.transition_to(ClassicState.STABLE, now_ms)


def subscribed_topics_of(metadata: bytes) -> list[str]:
    """The topics in a consumer's subscription blob. Versions newer than ours begin like version 0 (KIP-429)."""
    if len(metadata) < 2:
        raise MalformedMessage("a subscription is shorter than its version")
    return decode_prefix(m.ConsumerProtocolSubscription, metadata, 0, 2)[0].topics
