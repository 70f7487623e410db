"""What a group that does not settle waits for, as far as its brokers tell."""

from __future__ import annotations

from penstock.client.admin import GroupDescription
from penstock.client.admin.groups import MemberDescription
from penstock.client.group_waits import Wait, explain, waits_of
from penstock.client.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def described(state: str, *members: MemberDescription, kind: str = "Consumer", epoch: int = 0) -> GroupDescription:
    return GroupDescription("g", kind, state, 0, members=list(members), assignment_epoch=epoch)


def test_a_settled_group_waits_for_nobody() -> None:
    for state in ("Stable", "Empty", "Dead"):
        group = described(state)
        assert waits_of(group, [{"memberId": "m"}]) == []
        assert explain(group, []) == []


def test_what_the_coordinator_shows_is_said_with_its_times() -> None:
    group = described("PreparingRebalance", kind="Classic")
    row = {"memberId": "m", "clientId": "c", "host": "/h", "what": "to rejoin", "forMs": 3_200, "leftMs": 12_000}
    assert explain(group, waits_of(group, [row])) == [
        "Waiting for m (c at h) to rejoin, for 3 s so far; it is removed in 12 s if it does not."
    ]
    assert explain(group, [Wait("m", "", "", "to join with its member id")]) == [
        "Waiting for m to join with its member id."
    ]


def test_of_other_brokers_it_follows_from_epochs_and_targets() -> None:
    slow = MemberDescription("a", "x", "h", epoch=3, assignment=[T0, T1], target=[T1])
    late = MemberDescription("b", "y", "h", epoch=3, assignment=[], target=[T0])
    group = described("Reconciling", slow, late, epoch=4)
    assert [(wait.member_id, wait.what) for wait in waits_of(group, None)] == [
        ("a", "to give up 1 partition"),
        ("b", "to fetch its new assignment"),
    ]


def test_without_any_of_it_the_state_says_something() -> None:
    for state, words in (
        ("PreparingRebalance", "joined again"),
        ("CompletingRebalance", "leader"),
        ("Assigning", "co"),
    ):
        group = described(state, kind="Classic")
        (sentence,) = explain(group, waits_of(group, None))
        assert words in sentence
