"""Error codes are found wherever a response carries them."""

from __future__ import annotations

import pytest

from penstock.broker.error_codes import finder
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE
from penstock.wire.codec import response_encoder
from penstock.wire.errors import ErrorCode
from penstock.wire.messages import Message


def errors_in(response: Message) -> list[int] | None:
    """What is found by a search, which is what the encoder of the broker's responses finds on its way."""
    found = finder(type(response))(response)
    versions = type(response).SCHEMA.versions
    written = [response_encoder(type(response), each)(response, []) for each in range(versions.low, versions.high + 1)]
    assert found in written  # not every version can carry each of them
    assert all(set(each or ()) <= set(found or ()) for each in written)
    return found


def test_a_response_without_errors_has_none() -> None:
    partition = m.ProduceResponse.PartitionProduceResponse(0, 0, 7)
    topic = m.ProduceResponse.TopicProduceResponse("t", partition_responses=[partition])
    assert errors_in(m.ProduceResponse(responses=[topic])) is None


def test_the_errors_of_all_partitions_are_found() -> None:
    partitions = [m.FetchResponse.PartitionData(index, error_code=code) for index, code in enumerate((3, 0, 6))]
    topics = [m.FetchResponse.FetchableTopicResponse("t", partitions=partitions)]
    assert errors_in(m.FetchResponse(responses=topics, error_code=70)) == [70, 3, 6]


def test_an_array_that_is_null_holds_no_errors() -> None:
    topic = m.CreateTopicsResponse.CreatableTopicResult("t", configs=None)
    assert errors_in(m.CreateTopicsResponse(topics=[topic])) is None


@pytest.mark.parametrize("key", API_TABLE)
def test_the_responses_of_every_api_can_be_looked_at(key: int) -> None:
    response = API_TABLE[key].response()
    if "error_code" in vars(type(response))["__slots__"]:
        response.error_code = ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[attr-defined]
        assert errors_in(response) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    else:
        assert errors_in(response) is None
