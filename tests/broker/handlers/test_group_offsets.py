"""OffsetCommit, OffsetFetch and OffsetDelete over the wire."""

from __future__ import annotations

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.handlers.records import find_group_coordinator, topic_id
from tests.transactions.wire_client import RETRIABLE, Producer, Wire, eventually

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NEWEST = 10
Commit, Fetch, Delete = m.OffsetCommitRequest, m.OffsetFetchRequest, m.OffsetDeleteRequest
NOWHERE = bytes(range(16))


@pytest.fixture
def group(wire: Wire, name: str) -> str:
    """The id of a group whose coordinator has loaded."""
    find_group_coordinator(wire, name)
    eventually(lambda: fetch(wire, name).error_code, lambda code: ErrorCode(code) not in RETRIABLE)
    return name


def to_commit(topic: str | bytes, *offsets: tuple[int, int]) -> m.OffsetCommitRequest.OffsetCommitRequestTopic:
    topics = Commit.OffsetCommitRequestTopic(
        partitions=[
            Commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=at, committed_metadata="note")
            for index, at in offsets
        ]
    )
    if isinstance(topic, bytes):
        topics.topic_id = topic
    else:
        topics.name = topic
    return topics


def commit(
    wire: Wire, group: str, *topics: m.OffsetCommitRequest.OffsetCommitRequestTopic, version: int = 9
) -> m.OffsetCommitResponse:
    return wire.ask(Commit(group_id=group, topics=list(topics)), m.OffsetCommitResponse, version)


def commit_codes(answer: m.OffsetCommitResponse) -> list[tuple[str, dict[int, int]]]:
    return [(each.name, {p.partition_index: p.error_code for p in each.partitions}) for each in answer.topics]


def fetch(
    wire: Wire,
    group: str,
    *topics: m.OffsetFetchRequest.OffsetFetchRequestTopics,
    version: int = 9,
    stable: bool = False,
) -> m.OffsetFetchResponse.OffsetFetchResponseGroup:
    requested = Fetch.OffsetFetchRequestGroup(group_id=group, topics=list(topics) or None)
    return wire.ask(Fetch(groups=[requested], require_stable=stable), m.OffsetFetchResponse, version).groups[0]


def committed(wire: Wire, group: str, topic: str, index: int = 0) -> tuple[int, str | None]:
    (found,) = fetch(wire, group, Fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=[index])).topics
    assert found.partitions[0].error_code == NONE
    return found.partitions[0].committed_offset, found.partitions[0].metadata


class TestCommitting:
    def test_what_is_committed_is_fetched(self, wire: Wire, group: str, topic: str) -> None:
        assert commit_codes(commit(wire, group, to_commit(topic, (0, 5), (1, 6)))) == [(topic, {0: NONE, 1: NONE})]
        assert [committed(wire, group, topic, index) for index in (0, 1)] == [(5, "note"), (6, "note")]

    def test_what_does_not_exist_is_refused_and_the_rest_committed(self, wire: Wire, group: str, topic: str) -> None:
        answer = commit(wire, group, to_commit(topic, (0, 5), (9, 5)), to_commit("nowhere", (0, 5)))
        assert dict(commit_codes(answer)) == {topic: {0: NONE, 9: UNKNOWN}, "nowhere": {0: UNKNOWN}}
        assert len(answer.topics) == 2, "each topic is answered once"
        assert committed(wire, group, topic) == (5, "note")

    def test_a_commit_of_nothing_that_exists_does_not_make_a_group(self, wire: Wire, group: str) -> None:
        assert commit_codes(commit(wire, group, to_commit("nowhere", (0, 5)))) == [("nowhere", {0: UNKNOWN})]
        listed = wire.ask(m.ListGroupsRequest(), m.ListGroupsResponse, 5).groups
        assert group not in {each.group_id for each in listed}

    def test_from_version_10_on_topics_are_named_by_id(self, wire: Wire, group: str, topic: str) -> None:
        known = topic_id(wire, topic)
        answer = commit(wire, group, to_commit(known, (0, 7), (9, 7)), to_commit(NOWHERE, (0, 7)), version=NEWEST)
        codes = {each.topic_id: {p.partition_index: p.error_code for p in each.partitions} for each in answer.topics}
        assert codes == {known: {0: NONE, 9: UNKNOWN}, NOWHERE: {0: ErrorCode.UNKNOWN_TOPIC_ID}}
        assert committed(wire, group, topic) == (7, "note")

    @pytest.mark.parametrize(
        ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_a_member_of_no_group_is_refused_for_each_partition(
        self, wire: Wire, group: str, topic: str, version: int, error: ErrorCode
    ) -> None:
        request = Commit(group_id=group, member_id="stranger", generation_id_or_member_epoch=3)
        request.topics = [to_commit(topic, (0, 5), (9, 5))]
        answer = wire.ask(request, m.OffsetCommitResponse, version)
        assert commit_codes(answer) == [(topic, {9: UNKNOWN, 0: error})]


class TestFetching:
    def test_what_was_never_committed_is_minus_one_without_an_error(self, wire: Wire, group: str, topic: str) -> None:
        assert committed(wire, group, topic) == (-1, "")
        assert committed(wire, group, "nowhere", 9) == (-1, "")

    def test_without_topics_everything_that_was_committed_comes(self, wire: Wire, group: str, topic: str) -> None:
        commit(wire, group, to_commit(topic, (1, 6)))
        (found,) = fetch(wire, group).topics
        assert (found.name, [p.partition_index for p in found.partitions]) == (topic, [1])

    def test_many_groups_at_once(self, wire: Wire, group: str, topic: str) -> None:
        commit(wire, group, to_commit(topic, (0, 5)))
        requested = [Fetch.OffsetFetchRequestGroup(group_id=each, topics=None) for each in (group, f"{group}-other")]
        answer = wire.ask(Fetch(groups=requested), m.OffsetFetchResponse, 9)
        assert [(each.group_id, len(each.topics)) for each in answer.groups] == [(group, 1), (f"{group}-other", 0)]

    def test_from_version_10_on_topics_are_named_by_id(self, wire: Wire, group: str, topic: str) -> None:
        known = topic_id(wire, topic)
        commit(wire, group, to_commit(topic, (0, 5)))
        requested = [Fetch.OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in (known, NOWHERE)]
        found = {each.topic_id: each.partitions[0] for each in fetch(wire, group, *requested, version=NEWEST).topics}
        assert (found[known].committed_offset, found[known].error_code) == (5, NONE)
        assert (found[NOWHERE].committed_offset, found[NOWHERE].error_code) == (-1, ErrorCode.UNKNOWN_TOPIC_ID)
        assert [each.topic_id for each in fetch(wire, group, version=NEWEST).topics] == [known]

    def test_before_version_8_there_is_one_group(self, wire: Wire, group: str, topic: str) -> None:
        commit(wire, group, to_commit(topic, (0, 5)))
        requested = Fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])
        answer = wire.ask(Fetch(group_id=group, topics=[requested]), m.OffsetFetchResponse, 7)
        assert [(p.partition_index, p.committed_offset) for p in answer.topics[0].partitions] == [(0, 5), (1, -1)]

    def test_offsets_of_an_open_transaction_are_unstable_for_who_wants_them_stable(
        self, wire: Wire, group: str, topic: str, name: str
    ) -> None:
        producer = Producer(wire, f"{name}-producer").start()
        assert producer.commit_offset(group, topic, 0, 8) == NONE
        requested = Fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
        (unstable,) = fetch(wire, group, requested, stable=True).topics[0].partitions
        assert unstable.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert committed(wire, group, topic) == (-1, "")
        assert producer.end(commit=True) == NONE
        (stable,) = fetch(wire, group, requested, stable=True).topics[0].partitions
        assert (stable.error_code, stable.committed_offset) == (NONE, 8)


class TestDeleting:
    def delete(self, wire: Wire, group: str, *topics: tuple[str, list[int]]) -> tuple[int, dict[str, dict[int, int]]]:
        requested = [
            Delete.OffsetDeleteRequestTopic(
                name=topic, partitions=[Delete.OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for topic, indexes in topics
        ]
        answer = wire.ask(Delete(group_id=group, topics=requested), m.OffsetDeleteResponse, 0)
        codes = {each.name: {p.partition_index: p.error_code for p in each.partitions} for each in answer.topics}
        return answer.error_code, codes

    def test_deleted_offsets_are_gone_and_the_others_stay(self, wire: Wire, group: str, topic: str) -> None:
        commit(wire, group, to_commit(topic, (0, 5), (1, 6)))
        code, codes = self.delete(wire, group, (topic, [0, 9]), ("nowhere", [0]))
        assert (code, codes) == (NONE, {topic: {0: NONE, 9: UNKNOWN}, "nowhere": {0: UNKNOWN}})
        assert [committed(wire, group, topic, index)[0] for index in (0, 1)] == [-1, 6]

    def test_a_group_that_does_not_exist(self, wire: Wire, group: str, topic: str) -> None:
        code, _ = self.delete(wire, f"{group}-nobody", (topic, [0]))
        assert code == ErrorCode.GROUP_ID_NOT_FOUND
        assert self.delete(wire, "", (topic, [0]))[0] == ErrorCode.INVALID_GROUP_ID
