"""What a group that is not settled waits for."""

from __future__ import annotations

from tests.groups.group_shell import Shell


def waits(shell: Shell) -> list[tuple[str, str]]:
    return [(wait.member_id, wait.what) for wait in shell.shard.waits_of("group")]


def test_a_settled_group_waits_for_nobody() -> None:
    shell = Shell(foo=2)
    assert waits(shell) == []
    shell.stable_group(2)
    assert waits(shell) == []
    shell.consumer_join("A", "foo", group_id="other")
    assert shell.shard.waits_of("other") == []


def test_a_classic_group_waits_for_those_who_have_not_rejoined_and_for_ids_never_used() -> None:
    shell = Shell()
    (leader, follower), _ = shell.stable_group(2, rebalance_timeout_ms=5_000, session_timeout_ms=60_000)
    shell.join(leader, rebalance_timeout_ms=5_000, session_timeout_ms=60_000)
    shell.pass_time(2_000)
    (wait,) = shell.shard.waits_of("group")
    assert (wait.member_id, wait.what, wait.client_host) == (follower, "to rejoin", "/127.0.0.1")
    assert wait.since_ms is not None
    assert wait.until_ms is not None
    assert (shell.now_ms - wait.since_ms, wait.until_ms - shell.now_ms) == (2_000, 3_000)
    pending = shell.new_member_id()
    assert waits(shell)[1] == (pending, "to join with its member id")


def test_after_the_joins_it_waits_for_the_leaders_assignment() -> None:
    shell = Shell()
    leader, follower = shell.new_member_id(), shell.new_member_id()
    shell.join_round(leader, follower)
    shell.sync(follower, 1)
    assert waits(shell) == [(leader, "to compute the assignment (it is the leader)")]


def test_a_consumer_group_waits_for_partitions_to_be_given_up() -> None:
    shell = Shell(foo=4)
    shell.consumer_join("A", "foo")
    shell.consumer_join("B", "foo")
    assert waits(shell) == [("A", "to ask for its new assignment")]
    shell.consumer_heartbeat("A", 2)
    shell.pass_time(1_000)
    (wait,) = shell.shard.waits_of("group")
    assert wait.what == "to give up 2 partitions"
    assert wait.since_ms == shell.now_ms - 1_000


def test_it_waits_for_a_static_member_that_is_away() -> None:
    shell = Shell(foo=4)
    shell.consumer_join("A", "foo", instance_id="i")
    shell.consumer_join("B", "foo")
    shell.consumer_heartbeat("A", -2, instance_id="i")
    assert ("A", "to come back (a static member)") in waits(shell)
