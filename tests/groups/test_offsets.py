"""Committing, fetching, deleting and expiring offsets."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.groups import records
from penstock.groups.settings import GroupSettings
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage, encode_versioned
from penstock.wire.errors import ErrorCode
from tests.groups.group_shell import Shell, assigned, subscription

DAY_MS = 24 * 3_600_000


@pytest.fixture
def shell() -> Shell:
    return Shell(foo=4, bar=2)


class TestCommitting:
    def test_anybody_may_commit_to_a_group_without_members(self, shell: Shell) -> None:
        assert shell.commit("foo", 0, 42, metadata="note") == ErrorCode.NONE
        fetched = shell.fetch("foo", 0)
        assert (fetched.committed_offset, fetched.metadata, fetched.error_code) == (42, "note", 0)
        listed = shell.shard.list_groups()[0]
        assert (listed.protocol_type, listed.group_state, listed.group_type) == ("", "Empty", "classic")

    def test_a_generation_of_an_unknown_group_is_refused(self, shell: Shell) -> None:
        assert shell.commit("foo", 0, 1, generation=3, version=8) == ErrorCode.ILLEGAL_GENERATION
        assert shell.commit("foo", 0, 1, generation=3, version=9) == ErrorCode.GROUP_ID_NOT_FOUND

    def test_only_members_of_the_generation_commit_to_a_classic_group(self, shell: Shell) -> None:
        (member,), generation = shell.stable_group(1)
        commit: dict[str, Any] = {"member_id": member, "generation": generation}
        assert shell.commit("foo", 0, 1, **commit) == ErrorCode.NONE
        assert shell.commit("foo", 0, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert shell.commit("foo", 0, 1, member_id="who", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert shell.commit("foo", 0, 1, member_id=member, generation=9) == ErrorCode.ILLEGAL_GENERATION
        unknown_instance = shell.commit("foo", 0, 1, **commit, instance_id="i")
        assert unknown_instance == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_rebalance_takes_commits_until_the_new_generation_begins(self, shell: Shell) -> None:
        (leader, _), generation = shell.stable_group(2, rebalance_timeout_ms=5_000)
        shell.join(leader, rebalance_timeout_ms=5_000)
        assert shell.commit("foo", 0, 1, member_id=leader, generation=generation) == ErrorCode.NONE
        shell.pass_time(5_000)
        again = shell.commit("foo", 0, 1, member_id=leader, generation=generation + 1)
        assert again == ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_commit_shows_that_the_member_is_alive(self, shell: Shell) -> None:
        (member,), generation = shell.stable_group(1, session_timeout_ms=10_000)
        for _ in range(5):
            shell.pass_time(9_000)
            assert shell.commit("foo", 0, 1, member_id=member, generation=generation) == ErrorCode.NONE

    def test_long_metadata_is_refused_and_changes_nothing(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1, metadata="short")
        assert shell.commit("foo", 0, 2, metadata="x" * 4_097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert shell.commit("foo", 0, 2, metadata="😀" * 2_049) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert shell.fetch("foo", 0).committed_offset == 1
        assert shell.commit("foo", 0, 3, metadata="x" * 4_096) == ErrorCode.NONE

    def test_a_consumer_group_member_commits_with_its_epoch(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        assert shell.commit("foo", 0, 7, member_id="A", generation=2) == ErrorCode.NONE
        assert shell.commit("foo", 0, 7, member_id="A", generation=3) == ErrorCode.STALE_MEMBER_EPOCH
        assert shell.commit("foo", 0, 7, member_id="A", generation=1) == ErrorCode.STALE_MEMBER_EPOCH
        assert shell.commit("foo", 0, 7, member_id="A", generation=2, version=8) == ErrorCode.UNSUPPORTED_VERSION
        assert shell.commit("foo", 0, 7, member_id="B", generation=2) == ErrorCode.UNKNOWN_MEMBER_ID
        assert shell.commit("foo", 0, 7) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_older_epoch_may_commit_what_it_has_held_since(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        shell.topics.grow("foo", 5)
        assert shell.consumer_heartbeat("A", 2).member_epoch == 3
        assert shell.commit("foo", 0, 7, member_id="A", generation=2) == ErrorCode.NONE
        assert shell.commit("foo", 4, 7, member_id="A", generation=2) == ErrorCode.STALE_MEMBER_EPOCH

    def test_a_member_that_gives_up_a_partition_may_still_commit_it(self, shell: Shell) -> None:
        foo = shell.topics.topic_id("foo")
        assert foo is not None
        shell.consumer_join("A", "foo")
        shell.consumer_join("B", "foo")
        kept = assigned(shell.consumer_heartbeat("A", 2))
        gone = ({0, 1, 2, 3} - kept[foo]).pop()
        assert shell.commit("foo", gone, 7, member_id="A", generation=2) == ErrorCode.NONE

    def test_a_share_group_has_no_offsets(self, shell: Shell) -> None:
        shell.share_heartbeat("A", 0, ["foo"])
        assert shell.commit("foo", 0, 1) == ErrorCode.GROUP_ID_NOT_FOUND
        assert shell.fetch("foo", 0).committed_offset == -1

    def test_a_full_disk_is_an_error_and_changes_nothing(self, shell: Shell) -> None:
        shell.disk_full = True
        assert shell.commit("foo", 0, 1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not shell.shard.state.groups


class TestFetching:
    def test_what_was_never_committed_is_minus_one_and_no_error(self, shell: Shell) -> None:
        fetched = shell.fetch("foo", 0)
        assert (fetched.committed_offset, fetched.committed_leader_epoch, fetched.metadata) == (-1, -1, "")
        assert fetched.error_code == ErrorCode.NONE

    def test_all_offsets_of_a_group(self, shell: Shell) -> None:
        shell.commit("foo", 1, 10)
        shell.commit("bar", 0, 20)
        request = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="group", topics=None)
        group = shell.shard.offset_fetch(request)
        found = {(t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions}
        assert found == {("foo", 1): 10, ("bar", 0): 20}

    def test_offsets_of_a_deleted_topic_do_not_count_for_its_namesake(self, shell: Shell) -> None:
        shell.commit("foo", 0, 10)
        shell.topics.delete("foo")
        new_id = shell.topics.create("foo", 4)
        request = m.OffsetFetchRequest
        requested = request.OffsetFetchRequestGroup(
            group_id="group",
            topics=[request.OffsetFetchRequestTopics(name="foo", topic_id=new_id, partition_indexes=[0])],
        )
        assert shell.shard.offset_fetch(requested).topics[0].partitions[0].committed_offset == -1

    def test_the_epoch_of_a_consumer_group_member_is_checked(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        request = m.OffsetFetchRequest.OffsetFetchRequestGroup
        stale = request(group_id="group", member_id="A", member_epoch=1, topics=[])
        assert shell.shard.offset_fetch(stale).error_code == ErrorCode.STALE_MEMBER_EPOCH
        unknown = request(group_id="group", member_id="B", member_epoch=2, topics=[])
        assert shell.shard.offset_fetch(unknown).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        right = request(group_id="group", member_id="A", member_epoch=2, topics=[])
        assert shell.shard.offset_fetch(right).error_code == ErrorCode.NONE


class TestTransactions:
    def test_a_pending_offset_is_not_seen_until_the_commit(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1)
        assert shell.txn_commit("foo", 0, 5) == ErrorCode.NONE
        assert shell.fetch("foo", 0).committed_offset == 1
        unstable = shell.fetch("foo", 0, require_stable=True)
        assert (unstable.error_code, unstable.committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        shell.shard.replay_end_marker(1, commit=True)
        assert shell.fetch("foo", 0, require_stable=True).committed_offset == 5

    def test_an_aborted_offset_is_never_seen(self, shell: Shell) -> None:
        shell.txn_commit("foo", 0, 5)
        shell.shard.replay_end_marker(1, commit=False)
        assert shell.fetch("foo", 0, require_stable=True).committed_offset == -1

    def test_a_later_plain_commit_wins_over_an_earlier_transaction(self, shell: Shell) -> None:
        shell.txn_commit("foo", 0, 5)
        shell.commit("foo", 0, 9)
        shell.shard.replay_end_marker(1, commit=True)
        assert shell.fetch("foo", 0).committed_offset == 9

    def test_two_transactions_on_one_partition_end_one_by_one(self, shell: Shell) -> None:
        shell.txn_commit("foo", 0, 5, producer_id=1)
        shell.txn_commit("foo", 0, 6, producer_id=2)
        shell.shard.replay_end_marker(2, commit=True)
        assert shell.fetch("foo", 0, require_stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        shell.shard.replay_end_marker(1, commit=True)
        assert shell.fetch("foo", 0, require_stable=True).committed_offset == 6

    def test_pending_offsets_survive_a_restart(self, shell: Shell) -> None:
        shell.txn_commit("foo", 0, 5)
        shell.restart()
        assert shell.fetch("foo", 0, require_stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        shell.shard.replay_end_marker(1, commit=True)
        assert shell.fetch("foo", 0).committed_offset == 5

    def test_members_are_fenced_by_generation_and_id(self, shell: Shell) -> None:
        (member,), generation = shell.stable_group(1)
        assert shell.txn_commit("foo", 0, 5, member_id=member, generation=generation) == ErrorCode.NONE
        assert shell.txn_commit("foo", 0, 5, member_id=member, generation=9) == ErrorCode.ILLEGAL_GENERATION
        assert shell.txn_commit("foo", 0, 5, member_id="who", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert shell.txn_commit("foo", 0, 5) == ErrorCode.NONE  # clients before KIP-447 say nothing about the group

    def test_a_stale_member_epoch_is_an_illegal_generation(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        assert shell.txn_commit("foo", 0, 5, member_id="A", generation=2) == ErrorCode.NONE
        assert shell.txn_commit("foo", 0, 5, member_id="A", generation=1) == ErrorCode.ILLEGAL_GENERATION

    def test_an_unknown_group_needs_no_generation(self, shell: Shell) -> None:
        assert shell.txn_commit("foo", 0, 5, group_id="new") == ErrorCode.NONE
        assert shell.txn_commit("foo", 0, 5, group_id="newer", generation=1) == ErrorCode.ILLEGAL_GENERATION


class TestDeleting:
    def delete(self, shell: Shell, topic: str, partition: int) -> m.OffsetDeleteResponse:
        request_class = m.OffsetDeleteRequest
        request = request_class(
            group_id="group",
            topics=[
                request_class.OffsetDeleteRequestTopic(
                    name=topic, partitions=[request_class.OffsetDeleteRequestPartition(partition_index=partition)]
                )
            ],
        )
        response = shell.reply(shell.ask(shell.shard.offset_delete, 0, request))
        assert isinstance(response, m.OffsetDeleteResponse)
        return response

    def test_an_offset_goes(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1)
        assert self.delete(shell, "foo", 0).topics[0].partitions[0].error_code == ErrorCode.NONE
        assert shell.fetch("foo", 0).committed_offset == -1
        assert self.delete(shell, "foo", 0).error_code == ErrorCode.NONE

    def test_an_unknown_group_is_not_found(self, shell: Shell) -> None:
        assert self.delete(shell, "foo", 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    def test_topics_in_use_are_kept(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        subscribed = self.delete(shell, "foo", 0).topics[0].partitions[0]
        assert subscribed.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert self.delete(shell, "bar", 0).topics[0].partitions[0].error_code == ErrorCode.NONE

    def test_a_group_of_another_protocol_must_be_empty(self, shell: Shell) -> None:
        shell.stable_group(1, protocol_type="connect")
        assert self.delete(shell, "foo", 0).error_code == ErrorCode.NON_EMPTY_GROUP

    def test_a_deleted_group_takes_its_offsets_along(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1)
        shell.txn_commit("foo", 1, 1)
        assert shell.delete_groups("group", "other") == {
            "group": ErrorCode.NONE,
            "other": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        shell.restart()
        assert not shell.shard.state.groups
        assert len(shell.shard.state.offsets) == 0

    def test_a_group_with_members_stays(self, shell: Shell) -> None:
        shell.stable_group(1)
        assert shell.delete_groups("group") == {"group": ErrorCode.NON_EMPTY_GROUP}

    def test_offsets_of_a_deleted_topic_go_in_every_group(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1, group_id="one")
        shell.commit("foo", 0, 1, group_id="two")
        shell.txn_commit("foo", 1, 1, group_id="two")
        shell.commit("bar", 0, 1, group_id="two")
        topic_id = shell.topics.delete("foo")
        shell.apply(shell.shard.topics_deleted({"foo": topic_id}, shell.now_ms))
        assert shell.fetch("foo", 0, group_id="one").committed_offset == -1
        assert shell.fetch("bar", 0, group_id="two").committed_offset == 1
        assert not shell.shard.state.offsets.has_pending("two")


class TestExpiry:
    def test_a_simple_group_expires_with_its_offsets(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1)
        shell.pass_time(6 * DAY_MS)
        assert shell.fetch("foo", 0).committed_offset == 1
        shell.pass_time(DAY_MS + 600_000)
        assert shell.fetch("foo", 0).committed_offset == -1
        assert not shell.shard.state.groups

    def test_the_time_without_members_counts(self, shell: Shell) -> None:
        (member,), generation = shell.stable_group(1, protocols=[("range", subscription("foo"))])
        shell.commit("foo", 0, 1, member_id=member, generation=generation)
        for _ in range(10 * DAY_MS // 9_000_000):
            for _ in range(1_000):
                shell.pass_time(9_000)
                shell.heartbeat(member, generation)
        assert shell.fetch("foo", 0).committed_offset == 1
        shell.leave((member, None))
        shell.pass_time(6 * DAY_MS)
        assert shell.fetch("foo", 0).committed_offset == 1
        shell.pass_time(2 * DAY_MS)
        assert shell.fetch("foo", 0).committed_offset == -1

    def test_a_retention_of_its_own(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1, retention_ms=1_000, version=4)
        shell.pass_time(600_001)
        assert shell.fetch("foo", 0).committed_offset == -1

    def test_pending_transactions_hold_expiry_back(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1)
        shell.txn_commit("foo", 0, 2)
        shell.pass_time(9 * DAY_MS)
        assert shell.fetch("foo", 0).committed_offset == 1

    def test_topics_nobody_subscribes_to_expire_in_a_live_consumer_group(self) -> None:
        shell = Shell(
            GroupSettings(
                offsets_retention_minutes=1,
                offsets_retention_check_interval_ms=10_000,
                group_consumer_assignment_interval_ms=0,
            ),
            foo=1,
            bar=1,
        )
        shell.consumer_join("A", "foo", "bar")
        for topic in ("foo", "bar"):
            shell.commit(topic, 0, 1, member_id="A", generation=2)
        epoch = shell.consumer_heartbeat("A", 2, subscribed_topic_names=["foo"], owned={}).member_epoch
        for _ in range(20):
            shell.pass_time(5_000)
            shell.consumer_heartbeat("A", epoch)
        assert shell.fetch("foo", 0).committed_offset == 1
        assert shell.fetch("bar", 0).committed_offset == -1

    def test_thousands_of_expired_offsets_go_in_several_batches(self) -> None:
        shell = Shell(GroupSettings(offsets_retention_check_interval_ms=DAY_MS), foo=1)
        for index in range(2_500):
            shell.commit("foo", 0, index, group_id=f"g{index}")
        shell.pass_time(8 * DAY_MS)
        assert len(shell.shard.state.offsets) == 0


def test_a_broken_record_is_refused_and_changes_nothing(shell: Shell) -> None:
    shell.commit("foo", 0, 1)
    for key, value in ((b"\0\1broken", b"\0\4"), (b"", None), (b"\0\2\0\1g", b"\0\3")):
        with pytest.raises(MalformedMessage):
            shell.shard.replay(key, value)
    assert shell.fetch("foo", 0).committed_offset == 1


class TestDetails:
    def test_a_deletion_names_what_it_was_about(self, shell: Shell) -> None:
        shell.commit("foo", 1, 7)
        request = m.OffsetDeleteRequest
        topic = request.OffsetDeleteRequestTopic(
            name="foo", partitions=[request.OffsetDeleteRequestPartition(partition_index=index) for index in (1, 2)]
        )
        answers: list[m.OffsetDeleteResponse] = []
        effects = shell.shard.offset_delete(answers.append, shell.context(0), request(group_id="group", topics=[topic]))
        effects.fail(ErrorCode.NOT_COORDINATOR)
        shell.apply(effects)
        assert answers[0] == m.OffsetDeleteResponse(error_code=ErrorCode.NOT_COORDINATOR)
        (answered,) = answers[1].topics
        assert (answered.name, [each.partition_index for each in answered.partitions]) == ("foo", [1, 2])
        assert len(effects.records) == 1, "there was nothing at 2"
        assert shell.fetch("foo", 1).committed_offset == -1

    def test_offsets_of_an_open_transaction_are_deleted_too(self, shell: Shell) -> None:
        shell.txn_commit("foo", 1, 7)
        request = m.OffsetDeleteRequest
        partitions = [request.OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1)]
        topics = [request.OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("foo", "bar")]
        effects = shell.shard.offset_delete(
            shell.respond()[1], shell.context(0), request(group_id="group", topics=topics)
        )
        assert effects.records == [records.offset_commit_tombstone("group", "foo", 1)]
        other = shell.shard.offset_delete(shell.respond()[1], shell.context(0), request(group_id="", topics=topics))
        shell.apply(other)
        assert list(shell.replies.values())[-1] == m.OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)

    def test_a_deleted_group_takes_the_offsets_of_open_transactions_along(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1)
        shell.txn_commit("foo", 1, 7)
        assert shell.delete_groups("group") == {"group": ErrorCode.NONE}
        shell.shard.replay_end_marker(1, commit=True)
        assert len(shell.shard.state.offsets) == 0

    def test_the_end_of_a_transaction_without_offsets_changes_nothing(self, shell: Shell) -> None:
        shell.commit("foo", 0, 1)
        shell.shard.replay_end_marker(99, commit=True)
        assert shell.fetch("foo", 0).committed_offset == 1

    def test_a_group_that_cannot_be_fetched_is_named(self, shell: Shell) -> None:
        shell.consumer_join("A", "foo")
        request = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="group", member_id="B", member_epoch=2)
        answered = shell.shard.offset_fetch(request)
        assert (answered.group_id, answered.error_code) == ("group", ErrorCode.UNKNOWN_MEMBER_ID)

    def test_offsets_in_the_oldest_form_of_their_key_are_read(self, shell: Shell) -> None:
        key = encode_versioned(m.LegacyOffsetCommitKey(group="group", topic="foo", partition=3), 0)
        value = m.LegacyOffsetCommitValue(offset=42, metadata="note", commit_timestamp=1_000)
        shell.shard.replay(key, encode_versioned(value, 0))
        offset = shell.shard.state.offsets.get("group", "foo", 3)
        assert offset is not None
        assert (offset.offset, offset.metadata, offset.commit_timestamp_ms) == (42, "note", 1_000)
        shell.shard.replay(key, None)
        assert shell.shard.state.offsets.get("group", "foo", 3) is None
