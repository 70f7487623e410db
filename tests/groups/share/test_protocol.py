"""Membership of share groups, heartbeat by heartbeat."""

from __future__ import annotations

import pytest

from penstock.groups.settings import GroupSettings
from penstock.groups.share.protocol import InitializeShareState
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
