"""Why a group rebalanced: what the coordinator notes of members that come, go and are given up."""

from __future__ import annotations

from types import SimpleNamespace

from penstock.groups.timeline import Happened, Timeline
from tests.groups.group_shell import Shell


def story(shell: Shell, group_id: str = "group") -> list[tuple[str, str, str]]:
    return [(event.happened, event.member_id, event.detail) for event in shell.shard.state.timeline.of(group_id)]


def test_a_classic_group_tells_who_joined_and_who_left_and_when_it_was_assigned() -> None:
    shell = Shell()
    (leader, follower), _ = shell.stable_group(2)
    assert story(shell)[0] == ("joined", leader, "")
    assert ("joined", follower, "") in story(shell)
    assert story(shell)[-1][0] == "assigned"
    shell.leave((follower, None))
    assert story(shell)[-2:] == [("left", follower, ""), ("rebalance began", "", "")]
    event = shell.shard.state.timeline.of("group")[-2]
    assert (event.at_ms, event.client_id, event.client_host) == (shell.now_ms, "client", "/127.0.0.1")


def test_a_classic_member_whose_heartbeats_stop_is_told_from_one_that_does_not_rejoin() -> None:
    shell = Shell()
    (leader, follower), _ = shell.stable_group(2, rebalance_timeout_ms=5_000, session_timeout_ms=60_000)
    shell.join(leader, rebalance_timeout_ms=5_000, session_timeout_ms=60_000)
    assert story(shell)[-2:] == [("rejoined", leader, ""), ("rebalance began", "", "")]
    shell.pass_time(5_000)
    assert ("rebalance timed out", follower, "did not rejoin") in story(shell)
    shell.pass_time(5_000)
    assert ("rebalance timed out", leader, "did not sync") in story(shell)
    silent = Shell()
    (only,), _ = silent.stable_group(1, session_timeout_ms=10_000)
    silent.pass_time(10_000)
    assert ("session timed out", only, "") in story(silent)


def test_a_static_member_returns() -> None:
    shell = Shell(foo=2)
    shell.consumer_join("A", "foo", instance_id="i")
    shell.consumer_heartbeat("A", -2, instance_id="i")
    shell.consumer_join("B", "foo", instance_id="i")
    assert [each[:2] for each in story(shell)] == [("joined", "A"), ("assigned", ""), ("away", "A"), ("returned", "B")]
    assert shell.shard.state.timeline.of("group")[-1].instance_id == "i"


def test_a_consumer_group_tells_what_each_epoch_is_due_to() -> None:
    shell = Shell(foo=4, bar=1)
    shell.consumer_join("A", "foo")
    epoch = shell.shard.state.consumer("group").epoch
    shell.consumer_heartbeat("A", epoch, subscribed_topic_names=["foo", "bar"])
    shell.topics.grow("foo", 5)
    shell.consumer_heartbeat("A", epoch + 1)
    shell.consumer_heartbeat("A", -1)
    events = [event for event in shell.shard.state.timeline.of("group") if event.happened is not Happened.ASSIGNED]
    assert [(event.happened, event.epoch) for event in events] == [
        (Happened.JOINED, epoch),
        (Happened.RESUBSCRIBED, epoch + 1),
        (Happened.TOPICS_CHANGED, epoch + 2),
        (Happened.LEFT, epoch + 3),
    ]


def test_a_consumer_that_keeps_its_partitions_is_told_from_one_that_is_silent() -> None:
    shell = Shell(foo=4)
    shell.consumer_join("A", "foo")
    shell.consumer_join("B", "foo")
    group = shell.shard.state.consumer("group")
    for _ in range(7):
        for member in list(group.members.values()):
            shell.consumer_heartbeat(member.member_id, member.member_epoch)
        shell.pass_time(10_000)
    assert ("rebalance timed out", "A", "did not give up partitions") in story(shell)
    shell.pass_time(60_000)
    assert story(shell)[-1] == ("session timed out", "B", "")


def test_a_member_that_subscribes_to_a_pattern_joins_before_its_topics_are_found() -> None:
    shell = Shell(foo=1)
    shell.consumer_join("A", subscribed_topic_regex="f.*")
    assert [each[0] for each in story(shell)][:2] == ["joined", "topics changed"]


def test_a_share_group_tells_who_joined_left_and_was_silent() -> None:
    shell = Shell(foo=1)
    for member in ("A", "B"):
        shell.share_heartbeat(member, 0, ["foo"])
    shell.share_heartbeat("A", -1)
    shell.pass_time(60_000)
    listed = [each[:2] for each in story(shell) if each[0] != "assigned"]
    assert listed == [("joined", "A"), ("joined", "B"), ("left", "A"), ("session timed out", "B")]


def test_a_start_notes_nothing_of_what_it_reads() -> None:
    shell = Shell(foo=1)
    shell.consumer_join("A", "foo")
    shell.restart()
    assert story(shell) == []


def test_the_latest_events_of_a_group_are_kept_and_of_all_groups_so_many() -> None:
    timeline = Timeline(events_per_group=3, events_max=5)
    for at_ms in range(4):
        timeline.note("busy", at_ms, Happened.JOINED, 1)
    assert [event.at_ms for event in timeline.of("busy")] == [1, 2, 3]
    for at_ms in range(4, 8):
        timeline.note(f"group-{at_ms}", at_ms, Happened.JOINED, 1)
    assert [event.at_ms for event in timeline.of("busy")] == [3]
    timeline.note("busy", 8, Happened.LEFT, 2)
    assert timeline.of("group-4") == []
    assert [event.at_ms for event in timeline.of("busy")] == [3, 8]
    assert sum(len(timeline.of(group_id)) for group_id in timeline.group_ids()) == 5


def test_a_reason_of_any_length_is_kept_short() -> None:
    timeline = Timeline()
    member = SimpleNamespace(member_id="A", client_id="c", client_host="h")
    timeline.note("g", 1, Happened.LEFT, 1, member, "x" * 10_000)
    assert len(timeline.of("g")[0].detail) == 200
