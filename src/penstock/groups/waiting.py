"""What a group that is not settled waits for: for people who look at a group that seems stuck.

Kafka's protocol tells only that a group is rebalancing. The coordinator knows more: which members have not come back,
which must give up partitions, since when, and when its patience ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.groups.classic.group import ClassicGroup
from penstock.groups.classic.states import ClassicState
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import MemberState
from penstock.groups.state import Group, ShardState
from penstock.groups.timers import TimerKey, TimerKind


@dataclass(frozen=True, slots=True)
class Waiting:
    """One member that the group waits for (or a member id that was handed out and never used)."""

    member_id: str
    client_id: str
    client_host: str
    what: str
    since_ms: int | None
    until_ms: int | None


def waits_of(state: ShardState, group: Group) -> list[Waiting]:
    if isinstance(group, ClassicGroup):
        return _classic(state, group)
    return _consumer(state, group) if isinstance(group, ConsumerGroup) else []


def _classic(state: ShardState, group: ClassicGroup) -> list[Waiting]:
    since_ms, group_id = group.state_since_ms, group.group_id
    if group.state is ClassicState.PREPARING_REBALANCE:
        until_ms = state.timers.deadline_ms(TimerKey(TimerKind.CLASSIC_JOIN, group_id))
        waits = [
            Waiting(m.member_id, m.client_id, m.client_host, "to rejoin", since_ms, until_ms)
            for m in group.members.values()
            if m.awaiting_join is None
        ]
        for member_id in sorted(group.pending_joins):
            expires_ms = state.timers.deadline_ms(TimerKey(TimerKind.CLASSIC_SESSION, group_id, member_id))
            waits.append(Waiting(member_id, "", "", "to join with its member id", None, expires_ms))
        return waits
    if group.state is ClassicState.COMPLETING_REBALANCE:
        until_ms = state.timers.deadline_ms(TimerKey(TimerKind.CLASSIC_SYNC, group_id, str(group.generation)))
        leader = group.members.get(group.leader or "")
        if leader is not None and leader.awaiting_sync is None:
            what = "to compute the assignment (it is the leader)"
            return [Waiting(leader.member_id, leader.client_id, leader.client_host, what, since_ms, until_ms)]
    return []


def _consumer(state: ShardState, group: ConsumerGroup) -> list[Waiting]:
    waits = []
    for member in group.members.values():
        what, until_ms = "", None
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            count = sum(len(partitions) for partitions in member.pending_revocation.values())
            what = f"to give up {count} partition{'s' if count > 1 else ''}"
            kind = TimerKind.CONSUMER_JOIN if member.uses_classic_protocol else TimerKind.CONSUMER_REBALANCE
            until_ms = state.timers.deadline_ms(TimerKey(kind, group.group_id, member.member_id))
        elif member.member_epoch < group.target_epoch:
            what = "to ask for its new assignment" if member.member_epoch >= 0 else "to come back (a static member)"
            until_ms = state.timers.deadline_ms(TimerKey(TimerKind.CONSUMER_SESSION, group.group_id, member.member_id))
        if what:
            since_ms = None
            if member.state is MemberState.UNREVOKED_PARTITIONS and until_ms is not None:
                since_ms = until_ms - member.rebalance_timeout_ms
            waits.append(Waiting(member.member_id, member.client_id, member.client_host, what, since_ms, until_ms))
    return waits
