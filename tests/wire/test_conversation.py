"""Who answers whom, in which version, and what is no answer; without a socket."""

from __future__ import annotations

import pytest

from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiKey
from penstock.wire.codec import MalformedMessage, encode, encode_parts
from penstock.wire.conversation import Conversation
from penstock.wire.errors import ClusterAuthorizationFailed, ErrorCode, UnsupportedVersion
from penstock.wire.frames import ProtocolViolation, parse_request_header, response_frame

NEWEST_HELLO = API_TABLE[ApiKey.API_VERSIONS].max_version


def answer(message: m.Message, key: ApiKey, version: int, correlation_id: int) -> memoryview:
    """The frame of a response, without its size."""
    parts = response_frame(encode_parts(message, version), key, version, correlation_id)
    return memoryview(b"".join(parts)[4:])  # type: ignore[arg-type]


def api_versions(*ranges: tuple[int, int, int], error_code: int = 0) -> m.ApiVersionsResponse:
    keys = [m.ApiVersionsResponse.ApiVersion(*entry) for entry in ranges]
    return m.ApiVersionsResponse(error_code=error_code, api_keys=keys)


@pytest.fixture
def conversation() -> Conversation:
    return Conversation("localhost:9092", "me")


def test_a_request_carries_the_client_id_and_a_correlation_id_of_its_own(conversation: Conversation) -> None:
    headers = []
    for _ in range(2):
        frame = b"".join(conversation.send(m.MetadataRequest(), m.MetadataResponse, 9))
        headers.append(parse_request_header(memoryview(frame)[4:])[0])
    assert [header[:2] for header in headers] == [(ApiKey.METADATA, 9)] * 2
    assert headers[0].client_id == "me"
    assert headers[0].correlation_id != headers[1].correlation_id


@pytest.mark.parametrize("version", [8, 9, 13])
def test_answers_belong_to_requests_in_order(conversation: Conversation, version: int) -> None:
    conversation.send(m.MetadataRequest(), m.MetadataResponse, version)
    conversation.send(m.HeartbeatRequest(), m.HeartbeatResponse, 3)
    first = answer(m.MetadataResponse(cluster_id="c"), ApiKey.METADATA, version, 1)
    second = answer(m.HeartbeatResponse(error_code=25), ApiKey.HEARTBEAT, 3, 2)
    metadata = conversation.answered(first).decode(first)
    heartbeat = conversation.answered(second).decode(second)
    assert isinstance(metadata, m.MetadataResponse)
    assert metadata.cluster_id == "c"
    assert isinstance(heartbeat, m.HeartbeatResponse)
    assert heartbeat.error_code == 25
    assert not conversation.expected


def test_an_answer_out_of_order_is_a_violation(conversation: Conversation) -> None:
    conversation.send(m.HeartbeatRequest(), m.HeartbeatResponse, 3)
    conversation.send(m.HeartbeatRequest(), m.HeartbeatResponse, 3)
    with pytest.raises(ProtocolViolation, match="out of order"):
        conversation.answered(answer(m.HeartbeatResponse(), ApiKey.HEARTBEAT, 3, 2))


def test_an_answer_that_nothing_asked_for_is_a_violation(conversation: Conversation) -> None:
    conversation.send(m.ProduceRequest(acks=0), None, 9)
    with pytest.raises(ProtocolViolation, match="nothing asked for"):
        conversation.answered(answer(m.ProduceResponse(), ApiKey.PRODUCE, 9, 1))


def test_an_answer_that_cannot_be_read_leaves_the_next_one_readable(conversation: Conversation) -> None:
    conversation.send(m.HeartbeatRequest(), m.HeartbeatResponse, 3)
    conversation.send(m.HeartbeatRequest(), m.HeartbeatResponse, 3)
    good = answer(m.HeartbeatResponse(), ApiKey.HEARTBEAT, 3, 1)
    with pytest.raises(MalformedMessage):
        conversation.answered(good).decode(good[:-1])
    next_one = answer(m.HeartbeatResponse(), ApiKey.HEARTBEAT, 3, 2)
    assert conversation.answered(next_one).decode(next_one) == m.HeartbeatResponse()


def test_a_request_that_cannot_be_encoded_expects_no_answer(conversation: Conversation) -> None:
    with pytest.raises(Exception, match="versions"):
        conversation.send(m.HeartbeatRequest(), m.HeartbeatResponse, 99)
    assert not conversation.expected
    assert conversation.correlation_id == 0


def test_correlation_ids_begin_anew_at_the_end(conversation: Conversation) -> None:
    conversation.correlation_id = 2**31 - 1
    conversation.send(m.HeartbeatRequest(), m.HeartbeatResponse, 3)
    assert conversation.correlation_id == 0


def test_the_broker_says_what_it_speaks(conversation: Conversation) -> None:
    versions = api_versions((ApiKey.METADATA, 1, 11), (ApiKey.FETCH, 19, 20))
    versions.finalized_features = [m.ApiVersionsResponse.FinalizedFeatureKey("share.version", 1, 1)]
    assert conversation.learn(versions)
    assert conversation.version_for(m.MetadataResponse) == 11
    assert conversation.version_for(m.MetadataResponse, at_most=5) == 5
    assert conversation.offers(m.MetadataResponse, 11)
    assert not conversation.offers(m.MetadataResponse, 12)
    assert not conversation.offers(m.ProduceResponse)
    assert conversation.features.finalized == {"share.version": 1}


def test_a_version_that_the_two_do_not_share_is_named(conversation: Conversation) -> None:
    conversation.learn(api_versions((ApiKey.METADATA, 1, 11), (ApiKey.FETCH, 19, 20)))
    with pytest.raises(UnsupportedVersion, match="localhost:9092 speaks Fetch versions 19 to 20; needed is 4 to 18"):
        conversation.version_for(m.FetchResponse)
    with pytest.raises(UnsupportedVersion, match="needed is 12 to 13"):
        conversation.version_for(m.MetadataResponse, at_least=12)
    with pytest.raises(UnsupportedVersion, match="does not offer ShareFetch"):
        conversation.version_for(m.ShareFetchResponse)


def test_a_broker_that_does_not_know_our_hello_is_asked_in_a_version_that_it_knows(conversation: Conversation) -> None:
    assert conversation.hello_version == NEWEST_HELLO
    conversation.send(m.ApiVersionsRequest(), m.ApiVersionsResponse, conversation.hello_version)
    refusal = api_versions((ApiKey.API_VERSIONS, 0, 2), error_code=ErrorCode.UNSUPPORTED_VERSION)
    frame = memoryview(b"\0\0\0\x01" + encode(refusal, 0))
    versions = conversation.answered(frame).decode(frame)
    assert isinstance(versions, m.ApiVersionsResponse)
    assert not conversation.learn(versions)
    assert conversation.hello_version == 2
    assert conversation.learn(api_versions((ApiKey.METADATA, 0, 5)))


def test_a_broker_that_refuses_every_hello_is_given_up(conversation: Conversation) -> None:
    refusal = api_versions((ApiKey.API_VERSIONS, 0, 99), error_code=ErrorCode.UNSUPPORTED_VERSION)
    for _ in range(NEWEST_HELLO):
        assert not conversation.learn(refusal)
    with pytest.raises(UnsupportedVersion, match="localhost:9092"):
        conversation.learn(refusal)


def test_any_other_refusal_is_raised(conversation: Conversation) -> None:
    with pytest.raises(ClusterAuthorizationFailed, match="localhost:9092"):
        conversation.learn(api_versions(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
