"""The consumer protocol (KIP-848), heartbeat by heartbeat."""

from __future__ import annotations

import pytest

from penstock.coordination.context import TopicView
from penstock.groups import records
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.settings import GroupSettings
from penstock.groups.timers import TimerKey, TimerKind
from penstock.wire import messages as m
from penstock.wire.codec import encode_versioned
from penstock.wire.errors import ErrorCode
from tests.groups.group_shell import Shell, assigned


@pytest.fixture
def shell() -> Shell:
    return Shell(foo=4, bar=2)


@pytest.fixture
def foo(shell: Shell) -> bytes:
    topic_id = shell.topics.topic_id("foo")
    assert topic_id is not None
    return topic_id


def state_of(shell: Shell) -> str:
    return shell.shard.consumer_group_describe("group").group_state


class TestJoining:
    def test_the_first_member_gets_everything_at_once(self, shell: Shell, foo: bytes) -> None:
        response = shell.consumer_join("A", "foo")
        assert response.member_epoch == 2
        assert assigned(response) == {foo: {0, 1, 2, 3}}
        assert state_of(shell) == "Stable"

    def test_a_topic_that_does_not_exist_is_no_error(self, shell: Shell) -> None:
        response = shell.consumer_join("A", "nothing")
        assert assigned(response) == {}
        assert response.member_epoch == 2
        assert response.heartbeat_interval_ms == 5_000

    def test_the_topic_is_assigned_when_it_is_created(self, shell: Shell) -> None:
        shell.consumer_join("A", "new")
        topic_id = shell.topics.create("new", 2)
        response = shell.consumer_heartbeat("A", 2)
        assert response.member_epoch == 3
        assert assigned(response) == {topic_id: {0, 1}}

    def test_new_partitions_are_assigned_at_the_next_heartbeat(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo")
        shell.topics.grow("foo", 6)
        assert assigned(shell.consumer_heartbeat("A", 2)) == {foo: {0, 1, 2, 3, 4, 5}}

    def test_version_zero_may_leave_the_member_id_to_the_coordinator(self, shell: Shell) -> None:
        request = {"subscribed_topic_names": ["foo"], "rebalance_timeout_ms": 1, "owned": {}}
        assert shell.consumer_heartbeat("", 0, **request).error_code == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
            ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
            ({"owned": None}, ErrorCode.INVALID_REQUEST),
            ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
            ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
            ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
            ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
            ({"subscribed_topic_regex": "a("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ],
    )
    def test_a_malformed_join_is_refused(self, shell: Shell, fields: dict[str, object], error: ErrorCode) -> None:
        request = {"subscribed_topic_names": ["foo"], "rebalance_timeout_ms": 1_000, "owned": {}, **fields}
        response = shell.consumer_heartbeat("A", 0, **request)
        assert response.error_code == error
        assert response.error_message
        assert not shell.log

    def test_a_full_group_takes_no_more(self) -> None:
        shell = Shell(GroupSettings(group_consumer_max_size=1), foo=1)
        shell.consumer_join("A", "foo")
        assert shell.consumer_join("B", "foo").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert shell.consumer_join("A", "foo").error_code == ErrorCode.NONE


class TestReconciliation:
    def test_a_partition_changes_hands_only_after_it_was_given_up(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo")
        second = shell.consumer_join("B", "foo")
        assert (second.member_epoch, assigned(second)) == (3, {})
        requested = shell.consumer_heartbeat("A", 2, owned={foo: {0, 1, 2, 3}})
        assert requested.member_epoch == 2
        kept = assigned(requested)
        assert len(kept[foo]) == 2
        assert shell.consumer_heartbeat("B", 3).assignment is None
        released = shell.consumer_heartbeat("A", 2, owned=kept)
        assert released.member_epoch == 3
        taken = assigned(shell.consumer_heartbeat("B", 3))
        assert taken[foo] | kept[foo] == {0, 1, 2, 3}
        assert not taken[foo] & kept[foo]
        assert state_of(shell) == "Stable"

    def test_a_heartbeat_that_says_nothing_about_partitions_gives_up_nothing(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo")
        shell.consumer_join("B", "foo")
        shell.consumer_heartbeat("A", 2)
        assert shell.consumer_heartbeat("A", 2).member_epoch == 2
        assert shell.consumer_heartbeat("B", 3).assignment is None

    def test_who_does_not_give_up_in_time_is_fenced(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo")
        shell.consumer_join("B", "foo")
        shell.consumer_heartbeat("A", 2)
        for _ in range(3):
            shell.pass_time(19_000)
            assert shell.consumer_heartbeat("A", 2, owned={foo: {0, 1, 2, 3}}).error_code == ErrorCode.NONE
            assert shell.consumer_heartbeat("B", 3).assignment is None
        shell.pass_time(3_001)
        assert assigned(shell.consumer_heartbeat("B", 3)) == {foo: {0, 1, 2, 3}}
        assert shell.consumer_heartbeat("A", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_member_that_unsubscribes_gives_up_first(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo", "bar")
        response = shell.consumer_heartbeat("A", 2, subscribed_topic_names=["bar"])
        assert foo not in assigned(response)
        bar = shell.topics.topic_id("bar")
        done = shell.consumer_heartbeat("A", response.member_epoch, owned={bar: {0, 1}})
        assert done.member_epoch == 3
        assert shell.shard.state.consumer("group").is_settled


class TestEpochs:
    def test_a_lost_answer_may_be_asked_for_again(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo")
        shell.topics.grow("foo", 5)
        assert shell.consumer_heartbeat("A", 2).member_epoch == 3
        again = shell.consumer_heartbeat("A", 2, owned={foo: {0, 1, 2, 3}})
        assert again.member_epoch == 3

    @pytest.mark.parametrize("epoch", [1, 9])
    def test_a_wrong_epoch_is_fenced(self, shell: Shell, epoch: int) -> None:
        shell.consumer_join("A", "foo")
        shell.topics.grow("foo", 5)
        shell.consumer_heartbeat("A", 2)
        assert shell.consumer_heartbeat("A", epoch).error_code == ErrorCode.FENCED_MEMBER_EPOCH

    def test_an_old_epoch_with_foreign_partitions_is_fenced(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo")
        shell.topics.grow("foo", 5)
        shell.consumer_heartbeat("A", 2)
        response = shell.consumer_heartbeat("A", 2, owned={foo: {7}})
        assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH

    def test_a_fenced_member_rejoins_with_epoch_zero(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo")
        response = shell.consumer_join("A", "foo")
        assert response.member_epoch == 2
        assert assigned(response) == {foo: {0, 1, 2, 3}}

    def test_unknown_group_and_member(self, shell: Shell) -> None:
        assert shell.consumer_heartbeat("A", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        shell.consumer_join("A", "foo")
        assert shell.consumer_heartbeat("B", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestLeaving:
    def test_the_partitions_of_who_leaves_go_to_the_rest(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo")
        assert shell.consumer_heartbeat("A", -1).member_epoch == -1
        assert state_of(shell) == "Empty"
        assert assigned(shell.consumer_join("B", "foo")) == {foo: {0, 1, 2, 3}}

    def test_a_silent_member_is_removed_after_its_session(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        shell.pass_time(44_000)
        shell.consumer_heartbeat("A", 2)
        shell.pass_time(44_999)
        assert state_of(shell) == "Stable"
        shell.pass_time(1)
        assert state_of(shell) == "Empty"

    def test_two_sessions_that_end_together_are_two_steps(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        shell.consumer_join("B", "foo")
        epoch = shell.shard.state.consumer("group").epoch
        shell.pass_time(45_000)
        assert state_of(shell) == "Empty"
        assert shell.shard.state.consumer("group").epoch == epoch + 2


class TestStaticMembers:
    def test_a_restart_keeps_the_partitions(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A1", "foo", instance_id="a")
        shell.consumer_heartbeat("A1", -2, instance_id="a")
        assert assigned(shell.consumer_join("B", "foo")) == {}
        back = shell.consumer_join("A2", "foo", instance_id="a")
        assert set(assigned(back)) == {foo}
        assert shell.consumer_heartbeat("A1", 2, instance_id="a").error_code == ErrorCode.FENCED_INSTANCE_ID

    def test_a_restart_without_changes_needs_no_new_epoch(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A1", "foo", instance_id="a")
        shell.consumer_heartbeat("A1", -2, instance_id="a")
        back = shell.consumer_join("A2", "foo", instance_id="a")
        assert back.member_epoch == 2
        assert assigned(back) == {foo: {0, 1, 2, 3}}

    def test_an_instance_in_use_is_not_given_away(self, shell: Shell) -> None:
        shell.consumer_join("A1", "foo", instance_id="a")
        response = shell.consumer_join("A2", "foo", instance_id="a")
        assert response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID

    def test_who_does_not_come_back_in_time_is_removed(self, shell: Shell) -> None:
        shell.consumer_join("A1", "foo", instance_id="a")
        shell.consumer_heartbeat("A1", -2, instance_id="a")
        shell.pass_time(45_001)
        assert state_of(shell) == "Empty"

    def test_leaving_for_good_with_an_instance_id(self, shell: Shell) -> None:
        shell.consumer_join("A1", "foo", instance_id="a")
        assert shell.consumer_heartbeat("A1", -1, instance_id="a").member_epoch == -1
        assert state_of(shell) == "Empty"

    def test_a_member_that_changes_its_instance_gives_the_old_one_up(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo", instance_id="a")
        shell.consumer_join("A", "foo", instance_id="b")
        assert shell.consumer_join("B", "foo", instance_id="a").error_code == ErrorCode.NONE
        shell.consumer_heartbeat("A", -1, instance_id="b")
        assert [member.instance_id for member in shell.shard.consumer_group_describe("group").members] == ["a"]

    def test_an_unknown_instance(self, shell: Shell) -> None:
        shell.consumer_join("A1", "foo", instance_id="a")
        assert shell.consumer_heartbeat("A1", 2, instance_id="b").error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestRegularExpressions:
    def join(self, shell: Shell, member: str, regex: str) -> int:
        response = shell.consumer_heartbeat(
            member, 0, subscribed_topic_regex=regex, rebalance_timeout_ms=1_000, owned={}
        )
        assert response.error_code == ErrorCode.NONE
        return response.member_epoch

    def test_matching_topics_are_assigned_right_after_the_join(self, shell: Shell, foo: bytes) -> None:
        epoch = self.join(shell, "A", "fo+")
        assert epoch == 1
        assert assigned(shell.consumer_heartbeat("A", epoch)) == {foo: {0, 1, 2, 3}}

    def test_topics_that_appear_later_are_found(self, shell: Shell, foo: bytes) -> None:
        epoch = self.join(shell, "A", "foo.*")
        epoch = shell.consumer_heartbeat("A", epoch).member_epoch
        more = shell.topics.create("foo2", 1)
        shell.consumer_heartbeat("A", epoch)
        response = shell.consumer_heartbeat("A", epoch)
        assert assigned(response) == {foo: {0, 1, 2, 3}, more: {0}}

    def test_topics_that_the_first_member_may_not_describe_are_not_found(self, shell: Shell, foo: bytes) -> None:
        shell.topics.create("foo2", 1)
        shell.view = TopicView(lambda name: name == "foo")
        epoch = self.join(shell, "A", "foo.*")
        assert assigned(shell.consumer_heartbeat("A", epoch)) == {foo: {0, 1, 2, 3}}

    def test_an_empty_expression_takes_the_subscription_back(self, shell: Shell) -> None:
        epoch = self.join(shell, "A", "foo")
        epoch = shell.consumer_heartbeat("A", epoch).member_epoch
        response = shell.consumer_heartbeat("A", epoch, subscribed_topic_regex="")
        assert assigned(response) == {}
        assert not shell.shard.state.consumer("group").regexes

    def test_the_resolution_survives_a_restart(self, shell: Shell) -> None:
        self.join(shell, "A", "fo+")
        shell.restart()
        assert shell.shard.state.consumer("group").regexes["fo+"].topics == {"foo"}


class TestPace:
    def test_the_interval_is_short_while_partitions_move_and_long_when_they_rest(
        self, shell: Shell, foo: bytes
    ) -> None:
        assert shell.consumer_join("A", "foo").heartbeat_interval_ms < 500
        assert shell.consumer_join("B", "foo").heartbeat_interval_ms < 500
        kept = assigned(shell.consumer_heartbeat("A", 2))
        assert shell.consumer_heartbeat("B", 3).heartbeat_interval_ms < 500
        shell.consumer_heartbeat("A", 2, owned=kept)
        shell.consumer_heartbeat("B", 3)
        for _ in range(30):
            shell.pass_time(2_000)
            answers = [shell.consumer_heartbeat(member, 3) for member in "AB"]
        assert [answer.heartbeat_interval_ms for answer in answers] == [5_000, 5_000]

    def test_a_group_override_is_obeyed(self, shell: Shell) -> None:
        shell.settings.overrides = lambda group_id: {"consumer.heartbeat.interval.ms": "10000"}
        assert shell.consumer_join("A", "nothing").heartbeat_interval_ms == 10_000

    def test_twenty_members_settle_within_a_second_of_virtual_time(self) -> None:
        """As librdkafka does it: heartbeat when due, and at once when an assignment was carried out."""
        shell = Shell(GroupSettings(), topic=100)
        owned: dict[str, dict[bytes, set[int]]] = {}
        epochs: dict[str, int] = {}
        due: dict[str, int] = {}
        for index in range(20):
            member = f"m{index:02d}"
            response = shell.consumer_join(member, "topic")
            owned[member], epochs[member] = assigned(response), response.member_epoch
            due[member] = shell.now_ms + response.heartbeat_interval_ms
            shell.pass_time(5)
        start_ms = shell.now_ms
        while shell.shard.state.consumer("group").state.value != "Stable":
            member = min(due, key=lambda name: due[name])
            shell.pass_time(max(0, due[member] - shell.now_ms))
            assert shell.now_ms - start_ms < 1_000
            response = shell.consumer_heartbeat(member, epochs[member], owned=owned[member])
            epochs[member] = response.member_epoch
            due[member] = shell.now_ms + response.heartbeat_interval_ms
            if response.assignment is not None:
                owned[member] = assigned(response)
                due[member] = shell.now_ms + 10
        sizes = [sum(map(len, partitions.values())) for partitions in owned.values()]
        assert sizes == [5] * 20


class TestBatching:
    def test_a_burst_of_joins_costs_one_assignment(self, foo: bytes) -> None:
        shell = Shell(GroupSettings(), foo=4)
        assert shell.consumer_join("A", "foo").member_epoch == 2
        for member in "BCD":
            late = shell.consumer_join(member, "foo")
            assert (late.member_epoch, assigned(late)) == (2, {})
        assert state_of(shell) == "Assigning"
        shell.pass_time(50)
        described = shell.shard.consumer_group_describe("group")
        assert (described.group_epoch, described.assignment_epoch) == (5, 5)
        assert shell.consumer_heartbeat("B", 2).member_epoch == 5

    def test_a_change_in_a_quiet_group_is_assigned_at_once(self) -> None:
        shell = Shell(GroupSettings(), foo=4)
        shell.consumer_join("A", "foo")
        shell.pass_time(1_000)
        assert shell.consumer_join("B", "foo").member_epoch == 3

    def test_a_restart_before_the_assignment_loses_nothing(self) -> None:
        shell = Shell(GroupSettings(), foo=4)
        shell.consumer_join("A", "foo")
        shell.consumer_join("B", "foo")
        shell.restart()
        shell.consumer_heartbeat("A", 2)
        shell.pass_time(50)
        assert shell.consumer_heartbeat("B", 2).member_epoch == 3


class TestRestarts:
    def test_everything_is_there_again(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo", rack_id="r", server_assignor="range")
        shell.consumer_join("B", "foo")
        shell.consumer_heartbeat("A", 2)
        before = shell.shard.consumer_group_describe("group")
        shell.restart()
        assert shell.shard.consumer_group_describe("group") == before

    def test_a_full_disk_changes_nothing(self, shell: Shell) -> None:
        shell.disk_full = True
        assert shell.consumer_join("A", "foo").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not shell.shard.state.groups
        shell.disk_full = False
        assert shell.consumer_join("A", "foo").error_code == ErrorCode.NONE


def test_each_record_of_a_group_has_its_tombstone() -> None:
    shell = Shell(foo=3)
    shell.consumer_join("A", "foo")
    shell.consumer_heartbeat("B", 0, subscribed_topic_regex="f.*", rebalance_timeout_ms=60_000, owned={})
    shell.pass_time(1_000)
    group = shell.shard.state.consumer("group")
    assert list(group.regexes) == ["f.*"]
    tombstones = {record.key for record in group.tombstones()}
    assert {record.key for record, _ in shell.log} - tombstones == set()


def test_the_topics_that_kafka_before_4_1_kept_in_a_record_are_deleted_when_they_change() -> None:
    shell = Shell(foo=3)
    shell.consumer_join("A", "foo")
    key = records.consumer_group_partition_metadata_tombstone("group").key
    value = m.ConsumerGroupPartitionMetadataValue()
    shell.shard.replay(key, encode_versioned(value, 0))
    shell.topics.grow("foo", 4)
    shell.consumer_heartbeat("A", 2)
    assert [record.value for record, _ in shell.log if record.key == key] == [None]
    shell.topics.grow("foo", 5)
    shell.consumer_heartbeat("A", 3)
    assert [record.value for record, _ in shell.log if record.key == key] == [None]


@pytest.mark.parametrize("returns_as", ["A", "B"])
def test_a_static_member_that_returns_has_all_it_had(returns_as: str) -> None:
    shell = Shell(foo=3)
    held = assigned(shell.consumer_join("A", "foo", instance_id="i"))
    shell.consumer_heartbeat("A", -2, instance_id="i")
    shell.pass_time(1_000)
    returned = shell.consumer_join(returns_as, "foo", instance_id="i")
    assert (assigned(returned), returned.member_epoch) == (held, 2)
    group = shell.shard.state.consumer("group")
    assert (list(group.members), list(group.target)) == ([returns_as], [returns_as])
    member = group.members[returns_as]
    assert (member.member_epoch, member.previous_member_epoch) == (2, 0)
    assert shell.shard.state.timeline.of("group")[-1].epoch == 2
    timers = shell.shard.state.timers
    known = {each: timers.deadline_ms(TimerKey(TimerKind.CONSUMER_SESSION, "group", each)) for each in ("A", "B")}
    assert known == {"A": None, "B": None} | {returns_as: shell.now_ms + 45_000}
    shell.restart()
    assert shell.shard.state.consumer("group").members[returns_as] == member


def test_a_member_waits_for_others_while_one_of_them_holds_a_part_of_its_target() -> None:
    topic = b"t" * 16
    group = ConsumerGroup("group")
    waiting = ConsumerMember("B", 2, assigned={topic: {1: 2}})
    group.put(waiting)
    group.put(ConsumerMember("A", 1, assigned={topic: {0: 1, 3: 1}}))
    group.target["A"] = {topic: frozenset({3})}
    group.target["B"] = {topic: frozenset({0, 1, 2})}
    assert group.waits_for_others(waiting)
    group.put(ConsumerMember("A", 2, assigned={topic: {3: 1}}, pending_revocation={topic: {0: 1}}))
    assert group.waits_for_others(waiting)
    group.put(ConsumerMember("A", 2, assigned={topic: {3: 1}}))
    assert not group.waits_for_others(waiting)
