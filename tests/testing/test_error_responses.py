from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing.error_responses import error_response
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiInfo, ApiKey
from penstock.wire.codec import decode, encode
from tests.wire.samples import filled

CODE = 41


def codes(item: object) -> Iterator[int]:
    """All error codes in a message."""
    if isinstance(item, list):
        for element in item:
            yield from codes(element)
    elif isinstance(item, m.Struct):
        for name in vars(type(item))["__slots__"]:
            value = getattr(item, name)
            if name.endswith("error_code"):
                yield value
            else:
                yield from codes(value)


@pytest.mark.parametrize("info", API_TABLE.values(), ids=lambda info: str(info.name))
def test_every_api_and_version_can_say_an_error(info: ApiInfo) -> None:
    for version in range(info.request.SCHEMA.versions.low, info.max_version + 1):
        response = error_response(info.key, version, filled(info.request, version), CODE)
        decoded = decode(info.response, encode(response, version), version)
        assert CODE in list(codes(decoded)), f"version {version}: {decoded}"


def test_produce_fails_each_partition() -> None:
    partitions = [m.ProduceRequest.PartitionProduceData(index=index) for index in (0, 4)]
    request = m.ProduceRequest(topic_data=[m.ProduceRequest.TopicProduceData(name="t", partition_data=partitions)])
    response = error_response(ApiKey.PRODUCE, 9, request, CODE)
    assert isinstance(response, m.ProduceResponse)
    [topic] = response.responses
    assert topic.name == "t"
    assert [(p.index, p.error_code) for p in topic.partition_responses] == [(0, CODE), (4, CODE)]


def test_produce_by_topic_id_answers_with_the_id() -> None:
    topic = m.ProduceRequest.TopicProduceData(
        topic_id=bytes(range(16)), partition_data=[m.ProduceRequest.PartitionProduceData()]
    )
    response = error_response(ApiKey.PRODUCE, 13, m.ProduceRequest(topic_data=[topic]), CODE)
    assert isinstance(response, m.ProduceResponse)
    assert response.responses[0].topic_id == bytes(range(16))


def fetch_request() -> m.FetchRequest:
    partition = m.FetchRequest.FetchPartition(partition=7)
    return m.FetchRequest(topics=[m.FetchRequest.FetchTopic(topic="t", partitions=[partition])])


def test_fetch_fails_its_partitions_and_not_the_session() -> None:
    response = error_response(ApiKey.FETCH, 12, fetch_request(), CODE)
    assert isinstance(response, m.FetchResponse)
    assert response.error_code == 0
    [partition] = response.responses[0].partitions
    assert (partition.partition_index, partition.error_code) == (7, CODE)


def test_a_whole_response_can_fail() -> None:
    response = error_response(ApiKey.FETCH, 12, fetch_request(), CODE, whole=True)
    assert isinstance(response, m.FetchResponse)
    assert (response.error_code, response.responses) == (CODE, [])


def test_a_fetch_that_names_nothing_fails_as_a_whole() -> None:
    response = error_response(ApiKey.FETCH, 12, m.FetchRequest(), CODE)
    assert isinstance(response, m.FetchResponse)
    assert response.error_code == CODE


def test_offset_commit_fails_each_partition() -> None:
    topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(
        name="t", partitions=[m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=2)]
    )
    response = error_response(ApiKey.OFFSET_COMMIT, 8, m.OffsetCommitRequest(group_id="g", topics=[topic]), CODE)
    assert isinstance(response, m.OffsetCommitResponse)
    assert response.topics[0].name == "t"
    assert response.topics[0].partitions[0].partition_index == 2
    assert response.topics[0].partitions[0].error_code == CODE


@pytest.mark.parametrize("version", [3, 4])
def test_find_coordinator_fails_in_its_old_and_its_new_form(version: int) -> None:
    request = m.FindCoordinatorRequest(key="g") if version == 3 else m.FindCoordinatorRequest(coordinator_keys=["g"])
    response = error_response(ApiKey.FIND_COORDINATOR, version, request, CODE)
    assert isinstance(response, m.FindCoordinatorResponse)
    if version == 3:
        assert response.error_code == CODE
    else:
        assert [(c.key, c.error_code) for c in response.coordinators] == [("g", CODE)]


def test_names_in_plain_arrays_are_mirrored() -> None:
    deleted = error_response(ApiKey.DELETE_GROUPS, 2, m.DeleteGroupsRequest(groups_names=["a", "b"]), CODE)
    assert isinstance(deleted, m.DeleteGroupsResponse)
    assert [(r.group_id, r.error_code) for r in deleted.results] == [("a", CODE), ("b", CODE)]


def test_metadata_fails_each_topic() -> None:
    request = m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name="t")])
    response = error_response(ApiKey.METADATA, 12, request, CODE)
    assert isinstance(response, m.MetadataResponse)
    assert [(t.name, t.error_code) for t in response.topics] == [("t", CODE)]


def test_a_heartbeat_fails_as_a_whole() -> None:
    response = error_response(ApiKey.HEARTBEAT, 4, m.HeartbeatRequest(group_id="g"), CODE)
    assert response == m.HeartbeatResponse(error_code=CODE)
