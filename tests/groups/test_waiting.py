"""What a group that is not settled waits for."""

from __future__ import annotations

from penstock.groups.waiting import Waiting
from tests.groups.group_shell import Shell, assignment_blob, subscription


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
    assert wait.client_id == "client"
    assert wait.since_ms is not None
    assert wait.until_ms is not None
    assert (shell.now_ms - wait.since_ms, wait.until_ms - shell.now_ms) == (2_000, 3_000)
    pending = shell.new_member_id(session_timeout_ms=7_000)
    assert shell.shard.waits_of("group")[1] == Waiting(
        pending, "", "", "to join with its member id", None, shell.now_ms + 7_000
    )


def test_after_the_joins_it_waits_for_the_leaders_assignment() -> None:
    shell = Shell()
    leader, follower = shell.new_member_id(), shell.new_member_id()
    shell.join_round(leader, follower, rebalance_timeout_ms=5_000)
    began_ms = shell.now_ms
    shell.sync(follower, 1)
    shell.pass_time(2_000)
    (wait,) = shell.shard.waits_of("group")
    what = "to compute the assignment (it is the leader)"
    assert wait == Waiting(leader, "client", "/127.0.0.1", what, began_ms, began_ms + 5_000)


def test_a_consumer_group_waits_for_partitions_to_be_given_up() -> None:
    shell = Shell(foo=4)
    shell.consumer_join("A", "foo")
    shell.consumer_join("B", "foo")
    what, session_ms = "to ask for its new assignment", shell.settings.group_consumer_session_timeout_ms
    assert shell.shard.waits_of("group") == [
        Waiting("A", "client", "/127.0.0.1", what, None, shell.now_ms + session_ms)
    ]
    shell.consumer_heartbeat("A", 2)
    shell.pass_time(1_000)
    (wait,) = shell.shard.waits_of("group")
    began_ms = shell.now_ms - 1_000
    assert wait == Waiting("A", "client", "/127.0.0.1", "to give up 2 partitions", began_ms, began_ms + 60_000)


def test_one_partition_is_one_partition() -> None:
    shell = Shell(foo=2)
    shell.consumer_join("A", "foo")
    shell.consumer_join("B", "foo")
    shell.consumer_heartbeat("A", 2)
    assert waits(shell) == [("A", "to give up 1 partition")]


def test_a_group_of_classic_and_new_members_waits_for_the_classic_one_to_rejoin() -> None:
    shell = Shell(foo=2)
    classic = shell.new_member_id(protocols=[("range", subscription("foo"))])
    shell.join_round(classic, protocols=[("range", subscription("foo"))], rebalance_timeout_ms=5_000)
    shell.sync(classic, 1, {classic: assignment_blob(foo=[0, 1])})
    shell.consumer_join("A", "foo")
    shell.heartbeat(classic, 1)
    owned = subscription("foo", owned={"foo": [0, 1]})
    shell.join(classic, protocols=[("range", owned)], rebalance_timeout_ms=5_000)
    shell.sync(classic, 1)
    shell.heartbeat(classic, 1)
    began_ms = shell.now_ms
    shell.pass_time(1_000)
    assert shell.shard.waits_of("group") == [
        Waiting(classic, "client", "/127.0.0.1", "to give up 1 partition", began_ms, began_ms + 5_000)
    ]


def test_a_share_group_waits_for_nobody() -> None:
    shell = Shell(foo=2)
    shell.share_heartbeat("A", 0, ["foo"])
    assert waits(shell) == []


def test_it_waits_for_a_static_member_that_is_away() -> None:
    shell = Shell(foo=4)
    shell.consumer_join("A", "foo", instance_id="i")
    shell.consumer_join("B", "foo")
    shell.consumer_heartbeat("A", -2, instance_id="i")
    assert ("A", "to come back (a static member)") in waits(shell)
