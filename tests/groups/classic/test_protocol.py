"""The classic protocol: joins, syncs, heartbeats and leaves as Kafka's coordinator answers them."""

from __future__ import annotations

import pytest

from penstock.groups.classic.states import TRANSITIONS, ClassicState
from penstock.groups.settings import GroupSettings
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.groups.group_shell import Shell, subscription


@pytest.fixture
def shell() -> Shell:
    return Shell()


def state_of(shell: Shell, group_id: str = "group") -> str:
    return shell.shard.describe_group(group_id, 6).group_state


class TestJoining:
    def test_a_dynamic_member_is_given_an_id_first(self, shell: Shell) -> None:
        response = shell.joined(shell.join())
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert response.member_id == "client-uuid-0001"
        assert state_of(shell) == "Empty"

    def test_a_member_id_that_was_given_to_a_dynamic_member_is_no_static_members(self, shell: Shell) -> None:
        given = shell.joined(shell.join()).member_id
        response = shell.joined(shell.join(given, instance_id="i-1"))
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    def test_versions_before_four_join_directly(self, shell: Shell) -> None:
        (response,) = shell.join_round("", version=3)
        assert response.error_code == ErrorCode.NONE
        assert response.generation_id == 1
        assert response.leader == response.member_id

    def test_an_unknown_group_refuses_a_known_member_id(self, shell: Shell) -> None:
        response = shell.joined(shell.join("who"))
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert response.member_id == "who"
        assert not shell.log

    def test_the_leader_alone_gets_the_members(self, shell: Shell) -> None:
        one, two = shell.new_member_id(), shell.new_member_id()
        first, second = shell.join_round(one, two)
        assert first.generation_id == second.generation_id == 1
        assert {member.member_id for member in first.members} == {one, two}
        assert second.members == []
        assert second.leader == one
        assert first.protocol_name == "range"
        assert first.protocol_type == "consumer"

    def test_the_first_rebalance_waits_for_more_members_while_they_come(self) -> None:
        shell = Shell(GroupSettings(group_initial_rebalance_delay_ms=3_000))
        one = shell.join(shell.new_member_id())
        shell.pass_time(2_900)
        two = shell.join(shell.new_member_id())
        shell.pass_time(200)
        assert shell.is_parked(one)
        shell.pass_time(3_000)
        assert len(shell.joined(one).members) == 2
        assert shell.joined(two).generation_id == 1

    def test_a_session_timeout_out_of_range_is_refused(self, shell: Shell) -> None:
        for timeout_ms in (5_999, 1_800_001):
            response = shell.joined(shell.join(session_timeout_ms=timeout_ms))
            assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT

    def test_an_empty_group_id_is_refused(self, shell: Shell) -> None:
        assert shell.joined(shell.join(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID

    def test_members_must_share_a_protocol(self, shell: Shell) -> None:
        shell.stable_group(1)
        response = shell.joined(shell.join(protocols=[("sticky", b"")]))
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        response = shell.joined(shell.join(protocol_type="connect"))
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_the_protocol_with_most_votes_wins(self, shell: Shell) -> None:
        preferences = [("a", "b"), ("b", "a"), ("b", "a")]
        ids = [shell.new_member_id() for _ in preferences]
        tokens = [
            shell.join(member, protocols=[(name, name.encode()) for name in names])
            for member, names in zip(ids, preferences, strict=True)
        ]
        shell.pass_time(200)
        leader = shell.joined(tokens[0])
        assert leader.protocol_name == "b"
        assert {member.metadata for member in leader.members} == {b"b"}

    def test_a_full_group_takes_no_more(self) -> None:
        shell = Shell(GroupSettings(group_initial_rebalance_delay_ms=100, group_max_size=2))
        shell.stable_group(2)
        response = shell.joined(shell.join())
        assert response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

    def test_a_pending_member_that_never_joins_is_forgotten(self, shell: Shell) -> None:
        (leader,), _ = shell.stable_group(1)
        late = shell.new_member_id()
        token = shell.join(leader)
        assert shell.is_parked(token)  # the round waits for the pending member
        shell.pass_time(10_001)
        assert shell.joined(token).generation_id == 2
        assert shell.joined(shell.join(late)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestRejoining:
    def test_a_follower_with_the_same_protocols_changes_nothing(self, shell: Shell) -> None:
        (_, follower), generation = shell.stable_group(2)
        response = shell.joined(shell.join(follower))
        assert response.generation_id == generation
        assert state_of(shell) == "Stable"

    def test_the_leader_always_starts_a_rebalance(self, shell: Shell) -> None:
        (leader, follower), generation = shell.stable_group(2)
        token = shell.join(leader)
        assert shell.is_parked(token)
        assert shell.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        shell.join(follower)
        assert shell.joined(token).generation_id == generation + 1

    def test_changed_metadata_starts_a_rebalance(self, shell: Shell) -> None:
        (_, follower), _ = shell.stable_group(2)
        assert shell.is_parked(shell.join(follower, protocols=[("range", b"new topics")]))

    def test_a_lost_join_answer_is_given_again(self, shell: Shell) -> None:
        member = shell.new_member_id()
        (first,) = shell.join_round(member)
        again = shell.joined(shell.join(member))
        assert again == first
        assert state_of(shell) == "CompletingRebalance"

    def test_a_second_join_replaces_the_parked_one(self, shell: Shell) -> None:
        (leader, follower), _ = shell.stable_group(2)
        first = shell.join(leader)
        second = shell.join(leader)
        assert shell.joined(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        shell.join(follower)
        assert shell.joined(second).error_code == ErrorCode.NONE

    def test_who_does_not_rejoin_in_time_is_out(self, shell: Shell) -> None:
        (leader, follower), generation = shell.stable_group(2, rebalance_timeout_ms=5_000)
        token = shell.join(leader, rebalance_timeout_ms=5_000)
        shell.pass_time(5_000)
        assert [member.member_id for member in shell.joined(token).members] == [leader]
        assert shell.heartbeat(follower, generation) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_another_member_leads_when_the_leader_is_late(self, shell: Shell) -> None:
        (_, follower), _ = shell.stable_group(2, rebalance_timeout_ms=5_000)
        token = shell.join(follower, rebalance_timeout_ms=5_000, protocols=[("range", b"new")])
        shell.pass_time(5_000)
        assert shell.joined(token).leader == follower


class TestSyncing:
    def test_followers_wait_for_the_leaders_assignment(self, shell: Shell) -> None:
        leader, follower = shell.new_member_id(), shell.new_member_id()
        shell.join_round(leader, follower)
        waiting = shell.sync(follower, 1)
        assert shell.is_parked(waiting)
        assert state_of(shell) == "CompletingRebalance"
        answered = shell.sync(leader, 1, {leader: b"L", follower: b"F"})
        assert shell.synced(waiting).assignment == b"F"
        assert shell.synced(answered).assignment == b"L"
        assert shell.synced(answered).protocol_name == "range"
        assert state_of(shell) == "Stable"

    def test_a_member_that_the_leader_forgot_gets_nothing(self, shell: Shell) -> None:
        leader, follower = shell.new_member_id(), shell.new_member_id()
        shell.join_round(leader, follower)
        waiting = shell.sync(follower, 1)
        shell.sync(leader, 1, {leader: b"L"})
        assert shell.synced(waiting).assignment == b""
        assert shell.synced(waiting).error_code == ErrorCode.NONE

    def test_a_stable_group_answers_at_once(self, shell: Shell) -> None:
        (leader, _), generation = shell.stable_group(2)
        assert shell.synced(shell.sync(leader, generation)).assignment == f"to {leader}".encode()

    def test_wrong_generation_member_and_protocol_are_refused(self, shell: Shell) -> None:
        (leader,), generation = shell.stable_group(1)
        assert shell.synced(shell.sync(leader, generation + 1)).error_code == ErrorCode.ILLEGAL_GENERATION
        assert shell.synced(shell.sync("who", generation)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        wrong = shell.sync(leader, generation, protocol_name="sticky")
        assert shell.synced(wrong).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        unknown = shell.sync(leader, generation, group_id="other")
        assert shell.synced(unknown).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_new_rebalance_sends_parked_syncs_back(self, shell: Shell) -> None:
        leader, follower = shell.new_member_id(), shell.new_member_id()
        shell.join_round(leader, follower)
        waiting = shell.sync(follower, 1)
        shell.join(shell.new_member_id())
        assert shell.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_who_joins_and_never_syncs_is_out(self, shell: Shell) -> None:
        leader, silent = shell.new_member_id(), shell.new_member_id()
        shell.join_round(leader, silent, session_timeout_ms=600_000, rebalance_timeout_ms=5_000)
        shell.sync(leader, 1, {leader: b"L"})
        shell.pass_time(5_000)
        assert state_of(shell) == "PreparingRebalance"
        assert shell.heartbeat(silent, 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_disk_that_is_full_sends_everybody_back(self, shell: Shell) -> None:
        leader, follower = shell.new_member_id(), shell.new_member_id()
        shell.join_round(leader, follower)
        waiting = shell.sync(follower, 1)
        shell.disk_full = True
        failed = shell.sync(leader, 1, {leader: b"L", follower: b"F"})
        assert shell.synced(waiting).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert shell.synced(failed).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert state_of(shell) == "PreparingRebalance"
        shell.disk_full = False
        tokens = [shell.join(leader), shell.join(follower)]
        assert {shell.joined(token).generation_id for token in tokens} == {2}


class TestHeartbeats:
    def test_a_silent_member_is_removed_after_its_session(self, shell: Shell) -> None:
        (leader, follower), generation = shell.stable_group(2, session_timeout_ms=10_000)
        shell.pass_time(9_000)
        assert shell.heartbeat(leader, generation) == ErrorCode.NONE
        shell.pass_time(1_001)
        assert shell.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert shell.heartbeat(follower, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert [member.member_id for member in shell.joined(shell.join(leader)).members] == [leader]

    def test_a_parked_member_is_alive(self, shell: Shell) -> None:
        (leader, follower), generation = shell.stable_group(2, rebalance_timeout_ms=300_000)
        token = shell.join(leader, rebalance_timeout_ms=300_000)
        for _ in range(10):
            shell.pass_time(9_000)
            assert shell.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert shell.is_parked(token)
        shell.join(follower, rebalance_timeout_ms=300_000)
        assert len(shell.joined(token).members) == 2

    def test_the_last_member_to_go_leaves_an_empty_group(self, shell: Shell) -> None:
        shell.stable_group(1)
        shell.pass_time(10_001)
        assert state_of(shell) == "Empty"
        shell.restart()
        assert state_of(shell) == "Empty"


class TestLeaving:
    def test_leaving_starts_a_rebalance_for_the_rest(self, shell: Shell) -> None:
        (leader, follower), generation = shell.stable_group(2)
        assert shell.leave((follower, None)) == [ErrorCode.NONE]
        assert shell.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_errors_are_per_member(self, shell: Shell) -> None:
        (leader,), _ = shell.stable_group(1)
        assert shell.leave(("who", None), (leader, None)) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
        assert shell.leave(("who", None), group_id="other") == [ErrorCode.UNKNOWN_MEMBER_ID]

    def test_a_pending_member_may_leave(self, shell: Shell) -> None:
        (leader,), _ = shell.stable_group(1)
        late = shell.new_member_id()
        token = shell.join(leader)
        assert shell.leave((late, None)) == [ErrorCode.NONE]
        assert shell.joined(token).generation_id == 2

    def test_a_parked_member_that_is_removed_is_told(self, shell: Shell) -> None:
        (leader, _), _ = shell.stable_group(2)
        token = shell.join(leader)
        shell.leave((leader, None))
        assert shell.joined(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestStaticMembers:
    def static_pair(self, shell: Shell) -> tuple[str, str, int]:
        tokens = [shell.join(instance_id=name) for name in ("i1", "i2")]
        shell.pass_time(200)
        first, second = (shell.joined(token) for token in tokens)
        generation = first.generation_id
        assignments = {first.member_id: b"one", second.member_id: b"two"}
        shell.sync(first.member_id, generation, assignments, instance_id="i1")
        shell.sync(second.member_id, generation, instance_id="i2")
        return first.member_id, second.member_id, generation

    def test_a_restart_within_the_session_moves_nothing(self, shell: Shell) -> None:
        leader, old, generation = self.static_pair(shell)
        response = shell.joined(shell.join(instance_id="i2"))
        assert response.error_code == ErrorCode.NONE
        assert response.generation_id == generation
        assert response.member_id != old
        assert shell.heartbeat(leader, generation, instance_id="i1") == ErrorCode.NONE
        synced = shell.synced(shell.sync(response.member_id, generation, instance_id="i2"))
        assert synced.assignment == b"two"
        assert shell.heartbeat(old, generation, instance_id="i2") == ErrorCode.FENCED_INSTANCE_ID

    def test_a_restarted_leader_need_not_assign_again(self, shell: Shell) -> None:
        self.static_pair(shell)
        response = shell.joined(shell.join(instance_id="i1"))
        assert response.leader == response.member_id
        assert response.skip_assignment
        assert len(response.members) == 2

    def test_an_older_client_is_not_told_that_it_leads(self, shell: Shell) -> None:
        old_leader, _, _ = self.static_pair(shell)
        response = shell.joined(shell.join(instance_id="i1", version=8))
        assert response.leader == old_leader
        assert response.member_id != old_leader
        assert response.members == []

    def test_a_changed_protocol_rebalances(self, shell: Shell) -> None:
        token = shell.join(instance_id="i1", protocols=[("a", b""), ("b", b"")])
        shell.pass_time(200)
        member = shell.joined(token).member_id
        shell.sync(member, 1, {member: b""}, instance_id="i1")
        response = shell.joined(shell.join(instance_id="i1", protocols=[("b", b"")]))
        assert response.generation_id == 2
        assert response.protocol_name == "b"

    def test_a_duplicate_instance_fences_the_parked_one(self, shell: Shell) -> None:
        _, old, _ = self.static_pair(shell)
        parked = shell.join(old, instance_id="i2", protocols=[("range", b"x")])
        assert shell.is_parked(parked)
        shell.join(instance_id="i2")
        assert shell.joined(parked).error_code == ErrorCode.FENCED_INSTANCE_ID

    def test_static_members_outlive_a_missed_rebalance_but_not_their_session(self, shell: Shell) -> None:
        leader, silent, generation = self.static_pair(shell)
        shell.pass_time(5_000)
        token = shell.join(leader, instance_id="i1", rebalance_timeout_ms=2_000, session_timeout_ms=60_000)
        shell.pass_time(4_000)
        assert shell.is_parked(token)  # the silent one's rebalance timeout still counts
        assert shell.heartbeat(silent, generation, instance_id="i2") == ErrorCode.REBALANCE_IN_PROGRESS
        shell.pass_time(10_001)
        assert [member.group_instance_id for member in shell.joined(token).members] == ["i1"]

    def test_an_administrator_removes_by_instance_id(self, shell: Shell) -> None:
        leader, _, generation = self.static_pair(shell)
        assert shell.leave(("", "i2"), ("", "i3")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        assert shell.heartbeat(leader, generation, instance_id="i1") == ErrorCode.REBALANCE_IN_PROGRESS

    def test_an_unknown_instance_is_an_unknown_member(self, shell: Shell) -> None:
        leader, _, generation = self.static_pair(shell)
        assert shell.heartbeat(leader, generation, instance_id="i9") == ErrorCode.UNKNOWN_MEMBER_ID
        assert shell.leave(("wrong", "i1")) == [ErrorCode.FENCED_INSTANCE_ID]


class TestRestarts:
    def test_a_stable_group_survives(self, shell: Shell) -> None:
        (leader, follower), generation = shell.stable_group(2)
        shell.restart()
        assert state_of(shell) == "Stable"
        for member in (leader, follower):
            assert shell.heartbeat(member, generation) == ErrorCode.NONE
            assert shell.synced(shell.sync(member, generation)).assignment == f"to {member}".encode()

    def test_a_member_lost_with_the_broker_expires(self, shell: Shell) -> None:
        shell.stable_group(1)
        shell.restart()
        shell.pass_time(10_001)
        assert state_of(shell) == "Empty"

    def test_an_unfinished_generation_is_forgotten(self, shell: Shell) -> None:
        (leader,), generation = shell.stable_group(1)
        assert shell.joined(shell.join(leader)).generation_id == generation + 1
        shell.restart()
        assert shell.heartbeat(leader, generation + 1) == ErrorCode.ILLEGAL_GENERATION
        assert shell.joined(shell.join(leader)).generation_id == generation + 1

    def test_subscribed_topics_are_known_again(self, shell: Shell) -> None:
        member = shell.new_member_id()
        shell.join_round(member, protocols=[("range", subscription("a", "b"))])
        shell.sync(member, 1, {member: b""})
        shell.restart()
        group = shell.shard.state.classic("group")
        assert group.subscribed_topics == frozenset({"a", "b"})


def test_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS) == set(ClassicState)
    reachable = {ClassicState.EMPTY}
    while True:
        more = {state for state, sources in TRANSITIONS.items() if sources & reachable} | reachable
        if more == reachable:
            break
        reachable = more
    assert reachable == set(ClassicState)


def test_a_shard_that_is_given_up_sends_everybody_who_waits_elsewhere() -> None:
    shell = Shell(foo=2)
    (first, _), _ = shell.stable_group(2)
    shell.join(first)
    joining: list[m.JoinGroupResponse] = []
    request = m.JoinGroupRequest(
        group_id="joining",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=shell.new_member_id(group_id="joining"),
        protocol_type="consumer",
        protocols=[m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"meta")],
    )
    leader, follower = shell.new_member_id(group_id="syncing"), shell.new_member_id(group_id="syncing")
    shell.join_round(leader, follower, group_id="syncing")
    syncing: list[m.SyncGroupResponse] = []
    sync = m.SyncGroupRequest(group_id="syncing", generation_id=1, member_id=follower)
    shell.apply(shell.shard.sync_group(syncing.append, shell.context(5), sync))
    shell.apply(shell.shard.join_group(joining.append, shell.context(9), request))
    assert (joining, syncing) == ([], [])
    effects = shell.shard.unload(ErrorCode.NOT_COORDINATOR)
    assert effects.records == []
    effects.send()
    assert [(answer.member_id, answer.error_code) for answer in joining] == [
        (request.member_id, ErrorCode.NOT_COORDINATOR)
    ]
    assert [answer.error_code for answer in syncing] == [ErrorCode.NOT_COORDINATOR]
