"""Membership of share groups, heartbeat by heartbeat."""

from __future__ import annotations

import pytest

from penstock.groups.settings import GroupSettings
from penstock.groups.share.group import StatePartitions, StateTopic
from penstock.groups.share.protocol import DeleteShareState, InitializeShareState
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError, NonEmptyGroup
from tests.groups.group_shell import Shell, assigned


@pytest.fixture
def shell() -> Shell:
    return Shell(foo=3, bar=1)


@pytest.fixture
def foo(shell: Shell) -> bytes:
    topic_id = shell.topics.topic_id("foo")
    assert topic_id is not None
    return topic_id


class TestJoining:
    def test_a_new_group_has_its_partitions_with_the_first_answer(self, shell: Shell, foo: bytes) -> None:
        response = shell.share_heartbeat("A", 0, ["foo"])
        assert response.member_epoch == 2
        assert assigned(response) == {foo: {0, 1, 2}}
        assert shell.share_state == {("group", foo, index): -1 for index in range(3)}

    def test_the_answer_waits_for_the_share_coordinator(self, shell: Shell, foo: bytes) -> None:
        request = m.ShareGroupHeartbeatRequest(
            group_id="group", member_id="A", member_epoch=0, subscribed_topic_names=["foo"]
        )
        effects = shell.shard.share_group_heartbeat(shell.respond()[1], shell.context(1), request)
        assert effects.actions == [InitializeShareState("group", 2, {foo: {0: -1, 1: -1, 2: -1}})]
        assert not effects.replies

    def test_it_does_not_wait_for_ever(self, shell: Shell) -> None:
        request = m.ShareGroupHeartbeatRequest(
            group_id="group", member_id="A", member_epoch=0, subscribed_topic_names=["foo"]
        )
        token, respond = shell.respond()
        effects = shell.shard.share_group_heartbeat(respond, shell.context(1), request)
        effects.actions.clear()
        shell.apply(effects)
        assert shell.is_parked(token)
        shell.pass_time(2_000)
        response = shell.reply(1)
        assert isinstance(response, m.ShareGroupHeartbeatResponse)
        assert assigned(response) == {}

    def test_a_topic_that_does_not_exist_is_no_error(self, shell: Shell) -> None:
        response = shell.share_heartbeat("A", 0, ["nothing"])
        assert (response.member_epoch, assigned(response)) == (2, {})
        topic_id = shell.topics.create("nothing", 1)
        later = shell.share_heartbeat("A", 2)
        assert (later.member_epoch, assigned(later)) == (3, {topic_id: {0}})

    def test_partitions_added_later_start_at_their_beginning(self, shell: Shell, foo: bytes) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.topics.grow("foo", 4)
        assert assigned(shell.share_heartbeat("A", 2)) == {foo: {0, 1, 2, 3}}
        assert shell.share_state["group", foo, 3] == 0

    def test_members_share_without_waiting_for_each_other(self, shell: Shell, foo: bytes) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        second = shell.share_heartbeat("B", 0, ["foo"])
        assert second.member_epoch == 3
        first = shell.share_heartbeat("A", 2)
        assert assigned(first)[foo] | assigned(second)[foo] == {0, 1, 2}

    @pytest.mark.parametrize(
        ("member_id", "epoch", "topics"),
        [("", 0, ["foo"]), ("A" * 37, 0, ["foo"]), ("A", 0, None), ("A", 0, []), ("A", -2, ["foo"])],
    )
    def test_a_malformed_heartbeat_is_refused(
        self, shell: Shell, member_id: str, epoch: int, topics: list[str] | None
    ) -> None:
        assert shell.share_heartbeat(member_id, epoch, topics).error_code == ErrorCode.INVALID_REQUEST
        assert not shell.log

    def test_a_full_group_takes_no_more(self) -> None:
        shell = Shell(GroupSettings(group_share_max_size=1), foo=1)
        shell.share_heartbeat("A", 0, ["foo"])
        assert shell.share_heartbeat("B", 0, ["foo"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


class TestFullDisk:
    def test_nobody_waits_for_a_share_coordinator_that_was_not_asked(self, shell: Shell) -> None:
        shell.disk_full = True
        assert shell.share_heartbeat("A", 0, ["foo"]).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        shell.disk_full = False
        assert shell.share_heartbeat("A", 0, ["foo"]).error_code == ErrorCode.NONE

    def test_a_group_that_cannot_be_deleted_stays(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.share_heartbeat("A", -1)
        shell.disk_full = True
        assert shell.delete_groups("group") == {"group": ErrorCode.COORDINATOR_NOT_AVAILABLE}
        shell.disk_full = False
        assert shell.delete_groups("group") == {"group": ErrorCode.NONE}


class TestEpochs:
    def test_the_epoch_before_is_taken_for_a_lost_answer(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.share_heartbeat("B", 0, ["foo"])
        assert shell.share_heartbeat("A", 2).member_epoch == 3
        assert shell.share_heartbeat("A", 2).member_epoch == 3
        assert shell.share_heartbeat("A", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert shell.share_heartbeat("A", 4).error_code == ErrorCode.FENCED_MEMBER_EPOCH

    def test_unknown_group_and_member(self, shell: Shell) -> None:
        assert shell.share_heartbeat("A", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert shell.share_heartbeat("A", -1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        shell.share_heartbeat("A", 0, ["foo"])
        assert shell.share_heartbeat("B", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert shell.share_heartbeat("B", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestLeaving:
    def test_the_rest_takes_over(self, shell: Shell, foo: bytes) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.share_heartbeat("B", 0, ["foo"])
        assert shell.share_heartbeat("A", -1).member_epoch == -1
        assert assigned(shell.share_heartbeat("B", 3)) == {foo: {0, 1, 2}}

    def test_a_silent_member_is_removed(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.pass_time(45_000)
        assert shell.shard.share_group_describe("group").group_state == "Empty"
        assert shell.shard.list_groups(types=["share"])[0].protocol_type == "share"

    def test_share_groups_never_expire(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.share_heartbeat("A", -1)
        shell.pass_time(30 * 24 * 3_600_000)
        assert "group" in shell.shard.state.groups


class TestTypes:
    def test_a_group_id_has_one_type(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        assert shell.joined(shell.join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert shell.consumer_join("B", "foo").error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert shell.shard.consumer_group_describe("group").error_code == ErrorCode.GROUP_ID_NOT_FOUND
        shell.consumer_join("B", "foo", group_id="consumers")
        refused = shell.share_heartbeat("A", 0, ["foo"], group_id="consumers")
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert shell.shard.share_group_describe("consumers").error_code == ErrorCode.GROUP_ID_NOT_FOUND


class TestState:
    def test_everything_is_there_after_a_restart(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo", "bar"])
        before = shell.shard.share_group_describe("group")
        partitions = shell.shard.share_state_partitions("group")
        shell.restart()
        assert shell.shard.share_group_describe("group") == before
        assert shell.shard.share_state_partitions("group") == partitions

    def test_deleting_the_group_deletes_its_state_first(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        assert shell.delete_groups("group") == {"group": ErrorCode.NON_EMPTY_GROUP}
        shell.share_heartbeat("A", -1)
        assert shell.delete_groups("group", "none") == {
            "group": ErrorCode.NONE,
            "none": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert not shell.share_state
        shell.restart()
        assert not shell.shard.state.groups

    def test_a_deleted_topic_is_forgotten(self, shell: Shell, foo: bytes) -> None:
        shell.share_heartbeat("A", 0, ["foo", "bar"])
        shell.topics.delete("foo")
        shell.apply(shell.shard.topics_deleted({"foo": foo}, shell.now_ms))
        assert foo not in shell.shard.share_state_partitions("group")
        assert foo not in assigned(shell.share_heartbeat("A", 2))

    def test_offsets_are_altered_while_nobody_is_there(self, shell: Shell, foo: bytes) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        with pytest.raises(NonEmptyGroup):
            shell.shard.begin_alter_share_offsets("group", {foo: {0: 5}})
        shell.share_heartbeat("A", -1)
        shell.apply(shell.shard.begin_alter_share_offsets("group", {foo: {0: 5}}))
        assert shell.share_state["group", foo, 0] == 5

    def test_altering_offsets_makes_the_group(self, shell: Shell, foo: bytes) -> None:
        shell.apply(shell.shard.begin_alter_share_offsets("new", {foo: {0: 5}}))
        assert shell.shard.share_state_partitions("new") == {foo: frozenset({0})}

    def test_offsets_of_a_topic_are_deleted(self, shell: Shell, foo: bytes) -> None:
        shell.share_heartbeat("A", 0, ["foo", "bar"])
        shell.share_heartbeat("A", -1)
        shell.apply(shell.shard.begin_delete_share_offsets("group", frozenset({foo})))
        assert foo not in shell.shard.share_state_partitions("group")
        assert not [key for key in shell.share_state if key[1] == foo]
        assert not shell.shard.begin_delete_share_offsets("group", frozenset({foo})).actions
        with pytest.raises(KafkaError):
            shell.shard.begin_delete_share_offsets("none", frozenset({foo}))


class TestAFullDisk:
    def test_a_member_that_could_not_be_removed_is_removed_later(self, shell: Shell, foo: bytes) -> None:
        """It had left, or its session had run out; neither could be written, and its partitions stayed with it."""
        shell.share_heartbeat("A", 0, ["foo"])
        shell.share_heartbeat("B", 0, ["foo"])
        shell.disk_full = True
        shell.share_heartbeat("A", -1)
        shell.pass_time(46_000)
        shell.disk_full = False
        shell.pass_time(2_000)
        assert not shell.shard.state.share("group").members


class TestStatePartitions:
    def test_what_could_not_be_initialized_is_taken_off_the_list(self) -> None:
        known = StatePartitions(
            {b"a": StateTopic("a", frozenset({0, 1}), 5), b"b": StateTopic("b", frozenset({0}))},
            {b"a": StateTopic("a", frozenset({2}))},
            {b"c": "c"},
        )
        assert known.without_initializing(
            {b"a": StateTopic("a", frozenset({1})), b"b": StateTopic("b", frozenset({0}))}
        ) == (
            StatePartitions({b"a": StateTopic("a", frozenset({0}), 5)}, dict(known.initialized), dict(known.deleting))
        )

    def test_each_record_of_a_group_has_its_tombstone(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.share_heartbeat("B", 0, ["bar"])
        written = {record.key for record, _ in shell.log}
        tombstones = shell.shard.state.share("group").tombstones()
        assert {record.key for record in tombstones} == written
        assert all(record.value is None for record in tombstones)

    def test_a_deleted_topic_is_taken_off_each_list(self, shell: Shell, foo: bytes) -> None:
        bar = shell.topics.topic_id("bar")
        assert bar is not None
        shell.share_heartbeat("A", 0, ["foo", "bar"])
        shell.share_heartbeat("A", -1)
        state = shell.shard.state.share("group")
        for known in (
            StatePartitions({foo: StateTopic("foo", frozenset({0})), bar: StateTopic("bar", frozenset({0}))}),
            StatePartitions({}, {foo: StateTopic("foo", frozenset({0})), bar: StateTopic("bar", frozenset({0}))}),
            StatePartitions({}, {}, {foo: "foo", bar: "bar"}),
        ):
            state.state_partitions = known
            (record,) = shell.shard.topics_deleted({"foo": foo}, shell.now_ms).records
            shell.shard.replay(*record)
            left = shell.shard.state.share("group").state_partitions
            assert (foo in left.all_partitions(), foo in left.deleting) == (False, False)
            assert (bar in left.all_partitions() or bar in left.deleting) is True

    def test_groups_without_the_deleted_topic_are_passed_over(self, shell: Shell, foo: bytes) -> None:
        shell.consumer_join("A", "foo", group_id="consumers")
        shell.share_heartbeat("A", 0, ["bar"], group_id="other")
        shell.share_heartbeat("A", 0, ["foo"])
        effects = shell.shard.topics_deleted({"foo": foo}, shell.now_ms)
        assert len(effects.records) == 1

    def test_altered_offsets_are_asked_for_with_what_the_group_is(self, shell: Shell, foo: bytes) -> None:
        effects = shell.shard.begin_alter_share_offsets("new", {foo: {1: 5}})
        assert effects.actions == [InitializeShareState("new", 1, {foo: {1: 5}}, frozenset({foo}))]
        shell.apply(effects)
        new = shell.shard.state.share("new").state_partitions
        assert {topic.name for topic in (*new.initializing.values(), *new.initialized.values())} == {"foo"}

    def test_a_group_is_deleted_with_the_state_of_every_partition_that_may_have_some(
        self, shell: Shell, foo: bytes
    ) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.share_heartbeat("A", -1)
        for known, partitions in ((3, 3), (5, 5)):
            shell.topics.grow("foo", known)
            effects = shell.shard.begin_delete_share_offsets("group", frozenset({foo}))
            assert effects.actions == [DeleteShareState("group", {foo: frozenset(range(partitions))})]
            shell.shard.replay(*effects.records[0])  # and the broker ends before the state is deleted
            assert shell.shard.state.share("group").state_partitions == StatePartitions({}, {}, {foo: "foo"})
        token, respond = shell.respond()
        deletion = shell.shard.delete_groups(respond, shell.context(2), ["group"])
        assert deletion.actions == [DeleteShareState("group", {foo: frozenset(range(5))})]
        shell.shard.replay(*deletion.records[0])
        assert shell.shard.state.share("group").state_partitions == StatePartitions({}, {}, {foo: "foo"})
        shell.apply(deletion)
        assert not shell.is_parked(token)

    def test_a_group_that_is_being_deleted_has_no_other_state(self, shell: Shell, foo: bytes) -> None:
        bar = shell.topics.topic_id("bar")
        assert bar is not None
        shell.share_heartbeat("A", 0, ["foo"])
        shell.share_heartbeat("A", -1)
        group = shell.shard.state.share("group")
        group.state_partitions = StatePartitions(
            {bar: StateTopic("bar", frozenset({0}))}, {foo: StateTopic("foo", frozenset({1}))}, {b"gone": "gone"}
        )
        deletion = shell.shard.delete_groups(shell.respond()[1], shell.context(2), ["group"])
        assert deletion.actions == [DeleteShareState("group", {foo: frozenset({1}), bar: frozenset({0})})]
        shell.shard.replay(*deletion.records[0])
        assert group.state_partitions == StatePartitions({}, {}, {foo: "foo", bar: "bar"})

    def test_those_who_wait_for_the_share_coordinator_are_told_when_the_shard_is_given_up(self, shell: Shell) -> None:
        request = m.ShareGroupHeartbeatRequest(
            group_id="group", member_id="A", member_epoch=0, subscribed_topic_names=["foo"]
        )
        answers: list[m.ShareGroupHeartbeatResponse] = []
        effects = shell.shard.share_group_heartbeat(answers.append, shell.context(1), request)
        effects.actions.clear()
        shell.apply(effects)
        given_up = shell.shard.unload(ErrorCode.NOT_COORDINATOR)
        given_up.send()
        given_up.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert [answer.error_code for answer in answers] == [
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ]
        assert shell.shard.unload(ErrorCode.NOT_COORDINATOR).replies == []


class TestDeletions:
    def test_a_group_whose_state_could_not_be_deleted_stays(self, shell: Shell, foo: bytes) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.share_heartbeat("A", -1)
        token, respond = shell.respond()
        effects = shell.shard.delete_groups(respond, shell.context(2), ["group"])
        effects.actions.clear()
        shell.apply(effects)
        failed = ErrorCode.COORDINATOR_NOT_AVAILABLE
        done = shell.shard.share_state_deleted("group", frozenset({foo}), shell.now_ms, failed)
        assert done.records == []
        shell.apply(done)
        results = shell.reply(token)
        assert isinstance(results, list)
        assert [result.error_code for result in results] == [failed]
        assert "group" in shell.shard.state.groups
        assert shell.shard.share_state_deleted("group", frozenset({foo}), shell.now_ms, failed).records == []

    def test_state_that_is_deleted_for_a_group_that_is_gone_is_fine(self, shell: Shell, foo: bytes) -> None:
        assert shell.shard.share_state_deleted("none", frozenset({foo}), shell.now_ms).records == []

    def test_the_share_groups_are_those_with_their_partitions(self, shell: Shell, foo: bytes) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        shell.consumer_join("A", "foo", group_id="consumers")
        assert shell.shard.share_groups() == [("group", {foo: frozenset({0, 1, 2})})]


class TestListing:
    def test_groups_are_listed_by_state_and_type_in_any_case(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo"], group_id="shared")
        shell.consumer_join("A", "foo", group_id="consumed")
        shell.commit("foo", 0, 1, group_id="stored")

        def listed(**filters: list[str]) -> list[str]:
            return [group.group_id for group in shell.shard.list_groups(**filters)]

        assert listed() == ["stored", "consumed", "shared"]
        assert listed(states=[" STABLE "]) == ["consumed", "shared"]
        assert listed(types=[" Share", "classic"]) == ["stored", "shared"]
        assert listed(states=["stable"], types=["Share"]) == ["shared"]
        assert listed(states=["empty"], types=["share"]) == []

    def test_a_member_is_described_with_its_rack(self, shell: Shell) -> None:
        request = m.ShareGroupHeartbeatRequest(
            group_id="group", member_id="A", member_epoch=0, subscribed_topic_names=["foo"], rack_id="r"
        )
        shell.ask(shell.shard.share_group_heartbeat, 1, request)
        assert [member.rack_id for member in shell.shard.share_group_describe("group").members] == ["r"]
