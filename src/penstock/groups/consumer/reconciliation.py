"""How a member moves from what it holds to what it should hold (KIP-848).

    state                  the member's heartbeat shows        what happens
    ---------------------  ----------------------------------  ------------------------------------------------
    STABLE                 target epoch is its epoch           nothing
    STABLE                 target epoch is another             next step (below)
    UNREVOKED_PARTITIONS   still holds a revoked partition     nothing (its rebalance timeout is running)
    UNREVOKED_PARTITIONS   holds none of them any more         next step
    UNRELEASED_PARTITIONS  anything                            next step
    UNKNOWN                holds nothing                       next step; else it is fenced

    next step: keep = held ∩ target, revoke = held − target, take = target − held − what others still hold
      revoke not empty, member still holds some of it   → UNREVOKED: epoch stays, assignment is `keep`
      else, others hold part of the target              → UNRELEASED: target epoch, assignment is `keep ∪ take`
      else                                              → STABLE: target epoch, assignment is the target

A heartbeat without a list of owned partitions says nothing about them, so it never ends a revocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.groups.consumer.group import holds_any
from penstock.groups.consumer.member import ConsumerMember, MemberState
from penstock.groups.records import EpochPartitions, Partitions
from penstock.wire.errors import FencedMemberEpoch

Owners = Mapping[tuple[bytes, int], str]


def reconcile(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Partitions,
    subscribed_topic_ids: frozenset[bytes],
    subscription_changed: bool,
    owned: Partitions | None,
    owners: Owners,
) -> ConsumerMember:
    """The member as it should be after this heartbeat; the same object when nothing changes."""
    if member.state is MemberState.STABLE:
        if member.member_epoch != target_epoch:
            return _next_step(member, target_epoch, target, subscribed_topic_ids, owned, owners)
        return _drop_unsubscribed(member, subscribed_topic_ids, owned) if subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if owned is None or holds_any(owned, member.pending_revocation):
            return _drop_unsubscribed(member, subscribed_topic_ids, owned) if subscription_changed else member
        return _next_step(member, target_epoch, target, subscribed_topic_ids, owned, owners)
    if member.state is MemberState.UNKNOWN:
        if owned is None or any(owned.values()):
            raise FencedMemberEpoch(
                "The consumer group member is in an unknown state. "
                "The member must abandon all its partitions and rejoin."
            )
        member = replace(member, member_epoch=target_epoch)
    return _next_step(member, target_epoch, target, subscribed_topic_ids, owned, owners)


def _next_step(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    subscribed_topic_ids: frozenset[bytes],
    owned: Partitions | None,
    owners: Owners,
) -> ConsumerMember:
    assigned: dict[bytes, dict[int, int]] = {}
    revoke: dict[bytes, dict[int, int]] = {}
    take: dict[bytes, dict[int, int]] = {}
    waits = False
    for topic_id in sorted(member.assigned.keys() | target.keys()):
        held = member.assigned.get(topic_id, {})
        assigned_here = target.get(topic_id, frozenset()) if topic_id in subscribed_topic_ids else frozenset()
        keep = {partition: epoch for partition, epoch in held.items() if partition in assigned_here}
        if keep:
            assigned[topic_id] = keep
        if len(keep) < len(held):
            revoke[topic_id] = {partition: epoch for partition, epoch in held.items() if partition not in assigned_here}
        for partition in sorted(assigned_here - held.keys()):
            if owners.get((topic_id, partition), member.member_id) == member.member_id:
                take.setdefault(topic_id, {})[partition] = target_epoch
            else:
                waits = True
    if revoke and (owned is None or holds_any(owned, revoke)):
        return replace(
            member.with_epoch(member.member_epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=assigned,
            pending_revocation=revoke,
        )
    for topic_id, epochs in take.items():
        assigned[topic_id] = {**assigned.get(topic_id, {}), **epochs}
    return replace(
        member.with_epoch(target_epoch),
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        assigned=assigned,
        pending_revocation={},
    )


def _drop_unsubscribed(
    member: ConsumerMember, subscribed_topic_ids: frozenset[bytes], owned: Partitions | None
) -> ConsumerMember:
    """The member unsubscribed from topics it holds: take those partitions away now, before a new target is known."""
    dropped = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in subscribed_topic_ids}
    if not dropped:
        return member
    assigned = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in subscribed_topic_ids}
    revoke: EpochPartitions = {
        topic_id: {**member.pending_revocation.get(topic_id, {}), **dropped.get(topic_id, {})}
        for topic_id in member.pending_revocation.keys() | dropped.keys()
    }
    if owned is None or holds_any(owned, revoke):
        return replace(
            member.with_epoch(member.member_epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=assigned,
            pending_revocation=revoke,
        )
    return replace(member.with_epoch(member.member_epoch), assigned=assigned)
