"""One step of a member towards its target, as a value."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.groups.consumer.member import ConsumerMember, MemberState
from penstock.groups.consumer.reconciliation import reconcile
from penstock.wire.errors import FencedMemberEpoch

A, B = b"a" * 16, b"b" * 16
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)
MEMBER = ConsumerMember("m", 5, 4, assigned={A: {0: 3, 1: 3}, B: {0: 4}})


def step(member: ConsumerMember, **changes: Any) -> ConsumerMember:
    arguments: dict[str, Any] = {
        "target_epoch": 6,
        "target": {A: frozenset({0, 1}), B: frozenset({0})},
        "subscribed_topic_ids": frozenset({A, B}),
        "subscription_changed": False,
        "owned": None,
        "owners": {},
    }
    return reconcile(member, **arguments | changes)


def seen(member: ConsumerMember) -> tuple[object, ...]:
    return (
        member.state,
        member.member_epoch,
        member.previous_member_epoch,
        member.assigned,
        member.pending_revocation,
    )


def test_nothing_changes_for_a_member_that_has_arrived() -> None:
    assert step(MEMBER, target_epoch=5) is MEMBER
    assert step(MEMBER, target_epoch=5, subscription_changed=True) is MEMBER


def test_a_member_keeps_the_epoch_at_which_it_got_a_partition() -> None:
    moved = step(MEMBER, target={A: frozenset({0, 1, 2}), B: frozenset({0})})
    assert seen(moved) == (STABLE, 6, 5, {A: {0: 3, 1: 3, 2: 6}, B: {0: 4}}, {})


def test_what_others_hold_is_waited_for_at_the_target_epoch() -> None:
    moved = step(MEMBER, target={A: frozenset({0, 1, 2, 3})}, owned={}, owners={(A, 2): "other", (A, 3): "m"})
    assert seen(moved) == (UNRELEASED, 6, 5, {A: {0: 3, 1: 3, 3: 6}}, {})
    arrived = step(moved, target={A: frozenset({0, 1, 2, 3})})
    assert seen(arrived) == (STABLE, 6, 6, {A: {0: 3, 1: 3, 2: 6, 3: 6}}, {})


@pytest.mark.parametrize("owned", [None, {A: frozenset({1})}])
def test_a_member_that_must_give_up_partitions_stays_at_its_epoch(owned: object) -> None:
    moved = step(MEMBER, target={A: frozenset({0, 2})}, owned=owned)
    assert seen(moved) == (UNREVOKED, 5, 5, {A: {0: 3}}, {A: {1: 3}, B: {0: 4}})
    assert step(moved, target={A: frozenset({0, 2})}, owned={B: frozenset({0})}) is moved
    assert step(moved, target={A: frozenset({0, 2})}, owned=None) is moved
    given_up = step(moved, target={A: frozenset({0, 2})}, owned={A: frozenset({0})})
    assert seen(given_up) == (STABLE, 6, 5, {A: {0: 3, 2: 6}}, {})


@pytest.mark.parametrize("owned", [None, {B: frozenset({0})}])
def test_partitions_of_a_topic_that_a_member_no_longer_subscribes_to_are_taken_away_at_once(owned: object) -> None:
    moved = step(MEMBER, target_epoch=5, subscribed_topic_ids=frozenset({A}), subscription_changed=True, owned=owned)
    assert seen(moved) == (UNREVOKED, 5, 5, {A: {0: 3, 1: 3}}, {B: {0: 4}})


def test_they_are_gone_if_the_member_holds_none_of_them() -> None:
    moved = step(
        MEMBER,
        target_epoch=5,
        subscribed_topic_ids=frozenset({A}),
        subscription_changed=True,
        owned={A: frozenset({0, 1})},
    )
    assert seen(moved) == (STABLE, 5, 5, {A: {0: 3, 1: 3}}, {})


def test_they_join_what_the_member_has_to_give_up_already() -> None:
    revoking = ConsumerMember(
        "m", 5, 4, state=UNREVOKED, assigned={A: {0: 3}, B: {0: 4}}, pending_revocation={A: {1: 3}, B: {1: 2}}
    )
    moved = step(revoking, subscribed_topic_ids=frozenset({A}), subscription_changed=True)
    assert seen(moved) == (UNREVOKED, 5, 5, {A: {0: 3}}, {A: {1: 3}, B: {0: 4, 1: 2}})


def test_a_member_in_a_state_of_a_newer_version_starts_over() -> None:
    unknown = ConsumerMember("m", 5, 4, state=MemberState.UNKNOWN, assigned={A: {0: 3}})
    for owned in (None, {A: frozenset({0})}):
        with pytest.raises(FencedMemberEpoch):
            step(unknown, owned=owned)
    moved = step(unknown, owned={A: frozenset[int]()})
    assert (moved.state, moved.member_epoch, moved.previous_member_epoch) == (STABLE, 6, 6)


def test_the_epoch_of_a_partition_is_known_while_it_is_held_and_while_it_is_given_up() -> None:
    member = ConsumerMember("m", 5, 4, state=UNREVOKED, assigned={A: {0: 3}}, pending_revocation={A: {1: 2}, B: {0: 1}})
    epochs = [member.assignment_epoch(*each) for each in ((A, 0), (A, 1), (B, 0), (A, 2), (B, 1), (b"c" * 16, 0))]
    assert epochs == [3, 2, 1, None, None, None]
