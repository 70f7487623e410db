"""Groups that change between the classic and the consumer protocol while they run."""

from __future__ import annotations

import pytest

from penstock.groups.consumer import migration
from penstock.groups.consumer.member import ClassicMemberMetadata, ConsumerMember
from penstock.groups.settings import GroupSettings, MigrationPolicy
from penstock.groups.timeline import Happened
from penstock.groups.timers import TimerKey, TimerKind
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage, decode_versioned, encode_versioned
from penstock.wire.errors import ErrorCode
from tests.groups.group_shell import Shell, assigned, assignment_blob, subscription


@pytest.fixture
def shell() -> Shell:
    return Shell(foo=3)


@pytest.fixture
def foo(shell: Shell) -> bytes:
    topic_id = shell.topics.topic_id("foo")
    assert topic_id is not None
    return topic_id


def protocols(owned: list[int] | None = None) -> list[tuple[str, bytes]]:
    return [("range", subscription("foo", owned={"foo": owned} if owned else None))]


def classic_group(shell: Shell, instance_id: str | None = None) -> str:
    """A classic group of one member that holds all of foo."""
    if instance_id is None:
        member = shell.new_member_id(protocols=protocols())
        shell.join_round(member, protocols=protocols())
    else:
        token = shell.join("", instance_id=instance_id, protocols=protocols())
        shell.pass_time(200)
        member = shell.joined(token).member_id
    shell.sync(member, 1, {member: assignment_blob(foo=[0, 1, 2])}, instance_id=instance_id)
    return member


def partitions_in(response: m.SyncGroupResponse) -> list[int]:
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)
    assignment = decode_versioned(m.ConsumerProtocolAssignment, bytes(response.assignment))
    return [p for topic in assignment.assigned_partitions for p in topic.partitions]


def group_type(shell: Shell) -> str:
    return shell.shard.list_groups()[0].group_type


class TestEmptyGroups:
    def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(self, shell: Shell) -> None:
        member = classic_group(shell)
        shell.commit("foo", 0, 5, member_id=member, generation=1)
        shell.leave((member, None))
        assert shell.consumer_join("A", "foo").error_code == ErrorCode.NONE
        assert group_type(shell) == "consumer"
        assert shell.fetch("foo", 0).committed_offset == 5
        shell.restart()
        assert group_type(shell) == "consumer"

    def test_an_empty_consumer_group_becomes_classic(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        shell.consumer_heartbeat("A", -1)
        classic_group(shell)
        assert group_type(shell) == "classic"
        shell.restart()
        assert shell.shard.describe_group("group", 6).group_state == "Stable"

    def test_a_group_that_only_has_offsets_becomes_a_consumer_group(self, shell: Shell) -> None:
        shell.commit("foo", 0, 5)
        shell.consumer_join("A", "foo")
        shell.restart()
        assert group_type(shell) == "consumer"
        assert shell.fetch("foo", 0).committed_offset == 5


class TestUpgrade:
    def test_partitions_move_without_a_stop(self, shell: Shell, foo: bytes) -> None:
        classic = classic_group(shell)
        joined = shell.consumer_join("A", "foo")
        assert (joined.member_epoch, assigned(joined)) == (2, {})
        assert joined.heartbeat_interval_ms == 5_000
        assert group_type(shell) == "consumer"
        assert shell.heartbeat(classic, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        # The classic member rejoins, is told to give up, and rejoins when it has.
        first = shell.joined(shell.join(classic, protocols=protocols([0, 1, 2])))
        assert first.generation_id == 1
        kept = partitions_in(shell.synced(shell.sync(classic, 1)))
        assert len(kept) == 2
        assert shell.heartbeat(classic, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        second = shell.joined(shell.join(classic, protocols=protocols(kept)))
        assert second.generation_id == 2
        assert partitions_in(shell.synced(shell.sync(classic, 2))) == kept
        assert shell.heartbeat(classic, 2) == ErrorCode.NONE
        taken = assigned(shell.consumer_heartbeat("A", 2))
        assert sorted(taken[foo] | set(kept)) == [0, 1, 2]
        assert shell.shard.consumer_group_describe("group").group_state == "Stable"

    def test_parked_members_are_sent_back(self, shell: Shell) -> None:
        classic = classic_group(shell)
        shell.new_member_id(protocols=protocols())
        parked = shell.join(classic, protocols=protocols())
        assert shell.is_parked(parked)
        shell.consumer_join("A", "foo")
        assert shell.joined(parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_it_survives_a_restart(self, shell: Shell) -> None:
        classic = classic_group(shell)
        shell.consumer_join("A", "foo")
        before = shell.shard.consumer_group_describe("group")
        shell.restart()
        assert shell.shard.consumer_group_describe("group") == before
        assert shell.heartbeat(classic, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        types = {member.member_id: member.member_type for member in before.members}
        assert types == {classic: 0, "A": 1}

    def test_a_classic_member_that_does_not_rejoin_is_removed(self, shell: Shell, foo: bytes) -> None:
        classic_group(shell)
        shell.consumer_join("A", "foo")
        shell.pass_time(10_001)
        assert assigned(shell.consumer_heartbeat("A", 2)) == {foo: {0, 1, 2}}

    def test_a_static_member_moves_from_one_protocol_to_the_other(self, shell: Shell, foo: bytes) -> None:
        classic_group(shell, instance_id="i")
        joined = shell.consumer_join("A", "foo", instance_id="i")
        assert assigned(joined) == {foo: {0, 1, 2}}
        assert len(shell.shard.consumer_group_describe("group").members) == 1

    def test_a_new_classic_member_joins_a_mixed_group(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        requested = shell.joined(shell.join(protocols=protocols()))
        assert requested.error_code == ErrorCode.MEMBER_ID_REQUIRED
        joined = shell.joined(shell.join(requested.member_id, protocols=protocols()))
        assert joined.error_code == ErrorCode.NONE
        assert (joined.leader, joined.members, joined.protocol_name) == ("", [], "range")
        assert partitions_in(shell.synced(shell.sync(requested.member_id, joined.generation_id))) == []

    def test_protocols_must_be_common_to_all_classic_members(self, shell: Shell) -> None:
        classic_group(shell)
        shell.consumer_join("A", "foo")
        other = shell.joined(shell.join(protocols=[("mine", subscription("foo"))]))
        assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_wrong_generations_are_refused(self, shell: Shell) -> None:
        classic = classic_group(shell)
        shell.consumer_join("A", "foo")
        assert shell.heartbeat(classic, 9) == ErrorCode.ILLEGAL_GENERATION
        assert shell.synced(shell.sync(classic, 9)).error_code == ErrorCode.ILLEGAL_GENERATION
        assert shell.synced(shell.sync(classic, 1)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert shell.heartbeat("A", 2) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_what_cannot_be_upgraded_is_refused(self) -> None:
        shell = Shell(foo=3)
        shell.stable_group(1, protocol_type="connect", group_id="connect")
        response = shell.consumer_join("A", "foo", group_id="connect")
        assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        shell.stable_group(1, group_id="odd")  # its metadata is no subscription
        assert shell.consumer_join("A", "foo", group_id="odd").error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert {listed.group_type for listed in shell.shard.list_groups()} == {"classic"}

    @pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
    def test_the_policy_forbids_it(self, policy: MigrationPolicy) -> None:
        settings = GroupSettings(group_initial_rebalance_delay_ms=100, group_consumer_migration_policy=policy)
        shell = Shell(settings, foo=3)
        member = classic_group(shell)
        assert shell.consumer_join("A", "foo").error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert shell.heartbeat(member, 1) == ErrorCode.NONE


class TestDowngrade:
    def mixed_group(self, shell: Shell) -> tuple[str, int]:
        """A consumer-protocol member A and a classic member; both settled."""
        classic = classic_group(shell)
        shell.consumer_join("A", "foo")
        generation = 1
        owned = [0, 1, 2]
        for _ in range(3):
            generation = shell.joined(shell.join(classic, protocols=protocols(owned))).generation_id
            owned = partitions_in(shell.synced(shell.sync(classic, generation)))
        shell.consumer_heartbeat("A", 2)
        return classic, generation

    def test_the_last_new_member_leaves(self, shell: Shell) -> None:
        classic, generation = self.mixed_group(shell)
        shell.consumer_heartbeat("A", -1)
        assert group_type(shell) == "classic"
        assert shell.heartbeat(classic, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        joined = shell.joined(shell.join(classic, protocols=protocols()))
        assert joined.generation_id > generation
        assert joined.leader == classic

    def test_the_last_new_member_expires(self, shell: Shell) -> None:
        classic, generation = self.mixed_group(shell)
        for _ in range(6):
            shell.pass_time(8_000)
            shell.heartbeat(classic, generation)
        assert group_type(shell) == "classic"

    def test_the_classic_group_survives_a_restart(self, shell: Shell) -> None:
        classic, _ = self.mixed_group(shell)
        shell.consumer_heartbeat("A", -1)
        shell.restart()
        group = shell.shard.state.classic("group")
        assert list(group.members) == [classic]

    def test_a_static_member_comes_back_as_a_classic_one(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo", instance_id="i")
        shell.consumer_heartbeat("A", -2, instance_id="i")
        joined = shell.joined(shell.join(instance_id="i", protocols=protocols()))
        assert joined.error_code == ErrorCode.NONE
        assert group_type(shell) == "classic"
        kept = partitions_in(shell.synced(shell.sync(joined.member_id, joined.generation_id, instance_id="i")))
        assert kept == [0, 1, 2]

    @pytest.mark.parametrize(("subscribed", "answer"), [("foo", "NONE"), ("bar", "REBALANCE_IN_PROGRESS")])
    def test_one_that_comes_back_for_other_topics_begins_a_rebalance(
        self, shell: Shell, subscribed: str, answer: str
    ) -> None:
        shell.topics.create("bar", 1)
        shell.consumer_join("A", "foo", instance_id="i")
        shell.consumer_heartbeat("A", -2, instance_id="i")
        blob = [("range", subscription(subscribed))]
        joined = shell.joined(shell.join(instance_id="i", protocols=blob))
        timers = shell.shard.state.timers
        for kind in (TimerKind.CONSUMER_SESSION, TimerKind.CONSUMER_JOIN, TimerKind.CONSUMER_SYNC):
            for member_id in ("A", joined.member_id):
                assert timers.deadline_ms(TimerKey(kind, "group", member_id)) is None
        assert shell.heartbeat(joined.member_id, joined.generation_id, instance_id="i").name == answer

    def test_it_is_not_downgraded_while_another_new_member_is_there(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo", instance_id="i")
        shell.consumer_join("B", "foo")
        shell.consumer_heartbeat("A", -2, instance_id="i")
        assert shell.joined(shell.join(instance_id="i", protocols=protocols())).error_code == ErrorCode.NONE
        assert group_type(shell) == "consumer"

    @pytest.mark.parametrize(("size", "becomes"), [(1, "classic"), (0, "consumer")])
    def test_a_group_that_is_too_large_for_a_classic_one_stays(self, size: int, becomes: str) -> None:
        shell = Shell(GroupSettings(group_max_size=size, group_consumer_assignment_interval_ms=0), foo=3)
        shell.consumer_join("A", "foo", instance_id="i")
        shell.consumer_heartbeat("A", -2, instance_id="i")
        shell.join(instance_id="i", protocols=protocols())
        assert group_type(shell) == becomes

    def test_the_policy_forbids_it_for_one_that_comes_back_too(self) -> None:
        policy = MigrationPolicy.UPGRADE
        shell = Shell(GroupSettings(group_consumer_migration_policy=policy), foo=3)
        shell.consumer_join("A", "foo", instance_id="i")
        shell.consumer_heartbeat("A", -2, instance_id="i")
        shell.join(instance_id="i", protocols=protocols())
        assert group_type(shell) == "consumer"

    def test_the_policy_forbids_it(self) -> None:
        settings = GroupSettings(
            group_initial_rebalance_delay_ms=100, group_consumer_migration_policy=MigrationPolicy.UPGRADE
        )
        shell = Shell(settings, foo=3)
        self.mixed_group(shell)
        shell.consumer_heartbeat("A", -1)
        assert group_type(shell) == "consumer"

    def test_classic_members_stay_out_when_migration_is_disabled(self) -> None:
        settings = GroupSettings(group_consumer_migration_policy=MigrationPolicy.DISABLED)
        shell = Shell(settings, foo=3)
        shell.consumer_join("A", "foo")
        refused = shell.joined(shell.join(protocols=protocols()))
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_leaving_by_the_classic_protocol(self, shell: Shell) -> None:
        classic, _ = self.mixed_group(shell)
        assert shell.leave((classic, None), ("who", None)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        assert [m.member_id for m in shell.shard.consumer_group_describe("group").members] == ["A"]


class TestWhatIsTakenOver:
    def test_the_subscription_of_a_classic_member(self, shell: Shell, foo: bytes) -> None:
        metadata = encode_versioned(m.ConsumerProtocolSubscription(topics=["foo"], rack_id="r"), 3)
        member = shell.new_member_id(protocols=[("range", metadata), ("sticky", metadata)])
        shell.join_round(member, protocols=[("range", metadata), ("sticky", metadata)])
        shell.sync(member, 1, {member: assignment_blob(foo=[0, 1, 2])})
        shell.consumer_join("A", "foo")
        for _ in range(2):
            upgraded = shell.shard.state.consumer("group").members[member]
            assert upgraded == ConsumerMember(
                member,
                member_epoch=1,
                previous_member_epoch=1,
                rack_id="r",
                client_id="client",
                client_host="/127.0.0.1",
                subscribed_topic_names=frozenset({"foo"}),
                rebalance_timeout_ms=60_000,
                classic=ClassicMemberMetadata(10_000, (("range", metadata), ("sticky", metadata))),
                assigned={foo: {0: 1, 1: 1, 2: 1}},
            )
            shell.restart()

    def test_a_rack_that_is_not_named_is_none(self, shell: Shell) -> None:
        member = classic_group(shell)
        shell.consumer_join("A", "foo")
        assert shell.shard.state.consumer("group").members[member].rack_id is None

    def test_a_classic_group_as_large_as_a_consumer_group_may_be(self) -> None:
        for limit, error in ((2, ErrorCode.GROUP_MAX_SIZE_REACHED), (1, ErrorCode.GROUP_ID_NOT_FOUND)):
            settings = GroupSettings(group_initial_rebalance_delay_ms=100, group_consumer_max_size=limit)
            shell = Shell(settings, foo=3)
            members = [shell.new_member_id(protocols=protocols()) for _ in range(2)]
            shell.join_round(*members, protocols=protocols())
            shell.sync(members[0], 1, {members[0]: assignment_blob(foo=[0, 1]), members[1]: assignment_blob(foo=[2])})
            assert shell.consumer_join("A", "foo").error_code == error

    def test_members_that_wait_for_their_assignment_are_sent_back(self, shell: Shell) -> None:
        leader, follower = shell.new_member_id(protocols=protocols()), shell.new_member_id(protocols=protocols())
        shell.join_round(leader, follower, protocols=protocols())
        parked = shell.sync(follower, 1)
        assert shell.is_parked(parked)
        assert shell.consumer_join("A", "foo").error_code == ErrorCode.NONE
        assert shell.synced(parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_group_that_has_not_chosen_a_protocol_yet(self, shell: Shell) -> None:
        classic = shell.new_member_id(protocols=protocols())
        parked = shell.join(classic, protocols=protocols())
        assert shell.is_parked(parked)
        assert shell.consumer_join("A", "foo").error_code == ErrorCode.NONE
        assert shell.joined(parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert shell.shard.state.consumer("group").members[classic].subscribed_topic_names == {"foo"}

    def test_nothing_if_it_cannot_be_written(self, shell: Shell) -> None:
        classic = classic_group(shell)
        pending = shell.new_member_id(protocols=protocols())
        parked = shell.join(classic, protocols=protocols())
        shell.disk_full = True
        assert shell.consumer_join("A", "foo").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        shell.disk_full = False
        assert shell.joined(parked).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        again = shell.join(classic, protocols=protocols())
        shell.join(pending, protocols=protocols())
        assert shell.joined(again).generation_id == 2
        assert group_type(shell) == "classic"

    def test_those_who_wait_for_a_rebalance_keep_their_member_id(self, shell: Shell) -> None:
        classic = classic_group(shell)
        shell.new_member_id(protocols=protocols())
        parked = shell.join(classic, protocols=protocols())
        shell.consumer_join("A", "foo")
        assert shell.joined(parked).member_id == classic

    def test_an_assignment_names_its_topics(self, shell: Shell, foo: bytes) -> None:
        bar = shell.topics.create("bar", 2)
        blob = migration.assignment_blob({foo: frozenset({2, 0}), bar: frozenset({1})}, 1, shell.topics)
        assert blob == assignment_blob(bar=[1], foo=[0, 2])

    def test_a_subscription_is_as_long_as_its_version_at_least(self) -> None:
        assert migration.embedded_version(b"\0\0") == 0
        assert migration.embedded_version(b"\0\1\xff") == 1
        assert migration.embedded_version(b"\0\x7f") == 3
        for broken in (b"", b"\0", b"\xff\xff"):
            with pytest.raises(MalformedMessage):
                migration.embedded_version(broken)

    def test_the_classic_group_after_a_downgrade(self, shell: Shell, foo: bytes) -> None:
        classic, generation = TestDowngrade().mixed_group(shell)
        held = shell.shard.state.consumer("group").members[classic].assigned
        shell.pass_time(500)
        shell.consumer_heartbeat("A", -1)
        group = shell.shard.state.classic("group")
        assert (group.group_id, group.protocol_type, group.protocol_name) == ("group", "consumer", "range")
        assert (group.generation, group.subscribed_topics) == (generation, frozenset({"foo"}))
        assert group.members[classic].assignment == assignment_blob(foo=sorted(held[foo]))
        assert group.state_since_ms == shell.now_ms
        events = [(each.happened, each.epoch, each.detail) for each in shell.shard.state.timeline.of("group")]
        assert (Happened.PROTOCOL_CHANGED, generation, "from consumer to classic") in events
