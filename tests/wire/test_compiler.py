"""Compiled encoders and decoders: what they refuse, and what they let pass."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage, UnsupportedField, decode, encode, response_encoder
from tests.wire.kio_oracle import message_names
from tests.wire.samples import all_message_names, filled


class TestMalformedInput:
    @pytest.mark.parametrize("name", all_message_names())
    def test_a_message_cut_short_at_any_byte_is_malformed(self, name: str) -> None:
        cls = m.message_class(name)
        version = cls.SCHEMA.versions.high
        data = encode(filled(cls), version)
        for size in range(len(data)):
            with pytest.raises(MalformedMessage):
                decode(cls, data[:size], version)

    @pytest.mark.parametrize("name", message_names())
    def test_random_bytes_decode_or_are_malformed(self, name: str) -> None:
        cls = m.message_class(name)
        source = random.Random(name)
        for version in {cls.SCHEMA.versions.low, cls.SCHEMA.versions.high}:
            for _ in range(50):
                try:
                    decode(cls, source.randbytes(source.randrange(200)), version)
                except MalformedMessage:
                    pass

    @pytest.mark.parametrize("name", message_names())
    def test_changed_bytes_decode_or_are_malformed(self, name: str) -> None:
        cls = m.message_class(name)
        source = random.Random(name)
        version = cls.SCHEMA.versions.high
        data = encode(filled(cls), version)
        for _ in range(100 if data else 0):
            changed = bytearray(data)
            for _ in range(source.randrange(1, 4)):
                changed[source.randrange(len(changed))] = source.choice([0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)])
            try:
                decode(cls, changed, version)
            except MalformedMessage:
                pass

    @pytest.mark.parametrize(
        ("cls", "version", "data"),
        [
            (m.MetadataRequest, 1, b"\x7f\xff\xff\xff"),
            (m.MetadataRequest, 9, b"\xff\xff\xff\xff\x07" + bytes(8)),
            (m.LeaveGroupRequest, 4, b"\xff\xff\xff\xff\x07" + bytes(8)),
            (m.CreateTopicsRequest, 4, bytes(4) + b"\x7f\xff\xff\xff"),
            (m.DescribeTopicPartitionsRequest, 0, b"\xff\xff\xff\xff\x07" + bytes(8)),
            (
                m.ConsumerGroupHeartbeatRequest,
                0,
                b"\x01\x01" + bytes(4) + b"\x00\x00" + bytes(4) + b"\xff\xff\xff\xff\x07",
            ),
        ],
    )
    def test_a_huge_claimed_length_is_refused_before_memory_is_taken(
        self, cls: type[m.Message], version: int, data: bytes
    ) -> None:
        decode_or_malformed(cls, data, version)
        tracemalloc.start()
        with pytest.raises(MalformedMessage):
            decode(cls, data, version)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 100_000

    def test_elements_beyond_reason_are_refused_before_they_are_made(self) -> None:
        many = 1_000_001
        with pytest.raises(MalformedMessage, match="more than 1000000 elements"):
            decode(m.MetadataRequest, many.to_bytes(4, "big") + bytes(2 * many), 1)

    def test_elements_are_counted_over_all_arrays_of_a_message(self) -> None:
        topic = b"\0\0" + (100_000).to_bytes(4, "big") + bytes(400_000)
        data = (11).to_bytes(4, "big") + topic * 11 + bytes(4)
        with pytest.raises(MalformedMessage, match="more than 1000000 elements"):
            decode(m.ElectLeadersRequest, data, 0)

    def test_a_billion_claimed_tagged_fields_end_at_the_end_of_the_message(self) -> None:
        with pytest.raises(MalformedMessage):
            decode(m.HeartbeatRequest, b"\x01\0\0\0\0\x01\0" + b"\xff\xff\xff\xff\x07", 4)

    def test_a_varint_of_more_than_five_bytes_is_malformed(self) -> None:
        with pytest.raises(MalformedMessage, match="five bytes"):
            decode(m.MetadataRequest, b"\x80\x80\x80\x80\x80\x01", 9)

    @pytest.mark.parametrize("length", [b"\xff\xfe", b"\x80\x00"])
    def test_a_negative_length_other_than_null_is_malformed(self, length: bytes) -> None:
        with pytest.raises(MalformedMessage):
            decode(m.FindCoordinatorRequest, length, 0)

    def test_null_where_null_is_not_allowed_is_malformed(self) -> None:
        with pytest.raises(MalformedMessage):
            decode(m.FindCoordinatorRequest, b"\xff\xff", 0)

    def test_a_text_over_32767_bytes_is_malformed(self) -> None:
        text = b"k" * 32768
        with pytest.raises(MalformedMessage):
            decode(m.FindCoordinatorRequest, b"\x81\x80\x02" + text + b"\0\0", 3)

    def test_text_that_is_not_utf8_is_malformed(self) -> None:
        with pytest.raises(MalformedMessage):
            decode(m.FindCoordinatorRequest, b"\x00\x02\xff\xff", 0)

    def test_bytes_behind_the_message_are_malformed(self) -> None:
        with pytest.raises(MalformedMessage, match="1 bytes follow"):
            decode(m.HeartbeatResponse, bytes(7), 1)

    def test_a_tagged_field_that_does_not_fill_its_size_is_malformed(self) -> None:
        data = encode(m.FetchRequest(cluster_id="abc"), 12)
        at = data.index(b"\x04abc")
        with pytest.raises(MalformedMessage):
            decode(m.FetchRequest, data[: at - 1] + b"\x05\x04abcx", 12)

    def test_a_tagged_field_does_not_read_behind_its_own_end(self) -> None:
        # The claimed size holds the text's length only; the text itself would come from what follows.
        data = encode(m.FetchRequest(cluster_id="abc"), 12)
        at = data.index(b"\x04abc")
        with pytest.raises(MalformedMessage):
            decode(m.FetchRequest, data[: at - 1] + b"\x01" + data[at:], 12)


class TestTaggedFields:
    def test_unknown_tagged_fields_are_skipped(self) -> None:
        data = encode(m.HeartbeatResponse(error_code=27), 4)
        assert data[-1:] == b"\0"
        newer = data[:-1] + b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00"
        assert decode(m.HeartbeatResponse, newer, 4) == m.HeartbeatResponse(error_code=27)

    def test_defaults_are_not_written(self) -> None:
        assert encode(m.FetchRequest(), 18) == encode(m.FetchRequest(cluster_id=None), 18)
        assert len(encode(m.FetchRequest(cluster_id="c"), 18)) > len(encode(m.FetchRequest(), 18))

    def test_absent_ones_decode_to_their_defaults_and_are_not_shared(self) -> None:
        data = encode(m.ApiVersionsResponse(), 3)
        first, second = decode(m.ApiVersionsResponse, data, 3), decode(m.ApiVersionsResponse, data, 3)
        first.supported_features.append(m.ApiVersionsResponse.SupportedFeatureKey(name="x"))
        assert second.supported_features == []


class TestFieldsThatAVersionCannotCarry:
    def test_a_value_is_refused(self) -> None:
        with pytest.raises(UnsupportedField, match=r"JoinGroupRequest\.group_instance_id"):
            encode(m.JoinGroupRequest(group_instance_id="i-1"), 4)

    def test_the_default_is_left_out(self) -> None:
        assert decode(m.JoinGroupRequest, encode(m.JoinGroupRequest(group_id="g"), 4), 4).group_instance_id is None

    def test_an_ignorable_field_is_dropped(self) -> None:
        encoded = encode(m.FetchRequest(max_bytes=5, rack_id="r1"), 10)
        assert decode(m.FetchRequest, encoded, 10) == m.FetchRequest(max_bytes=5)

    def test_a_non_empty_array_is_refused(self) -> None:
        topic = m.FetchRequest.ForgottenTopic(topic="t")
        with pytest.raises(UnsupportedField, match="forgotten_topics_data"):
            encode(m.FetchRequest(forgotten_topics_data=[topic]), 6)

    def test_null_is_refused_where_the_version_has_no_null(self) -> None:
        with pytest.raises(UnsupportedField, match="null"):
            encode(m.MetadataRequest(topics=None), 0)
        assert encode(m.MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"

    def test_a_version_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(UnsupportedField, match="versions 4 to 18, not 19"):
            encode(m.FetchRequest(), 19)
        with pytest.raises(UnsupportedField, match="not 3"):
            decode(m.FetchRequest, b"", 3)

    def test_a_number_out_of_range_is_refused(self) -> None:
        with pytest.raises(UnsupportedField):
            encode(m.HeartbeatResponse(error_code=40_000), 0)

    def test_a_string_over_32767_bytes_is_refused(self) -> None:
        with pytest.raises(UnsupportedField, match="32767"):
            encode(m.FindCoordinatorRequest(key="k" * 32768), 3)


class TestResponses:
    def test_the_encoder_of_responses_tells_the_errors_that_it_writes(self) -> None:
        partitions = [m.FetchResponse.PartitionData(index, error_code=code) for index, code in enumerate((3, 0, 6))]
        topics = [m.FetchResponse.FetchableTopicResponse("t", partitions=partitions)]
        response = m.FetchResponse(responses=topics, error_code=70)
        out: list[object] = []
        assert response_encoder(m.FetchResponse, 12)(response, out) == [70, 3, 6]
        assert b"".join(out) == encode(response, 12)  # type: ignore[arg-type]

    def test_an_error_that_the_version_cannot_carry_is_not_told(self) -> None:
        response = m.FetchResponse(error_code=70)
        assert response_encoder(m.FetchResponse, 4)(response, []) is None

    def test_a_response_without_errors_has_none(self) -> None:
        partition = m.ProduceResponse.PartitionProduceResponse(0, 0, 7)
        topic = m.ProduceResponse.TopicProduceResponse("t", partition_responses=[partition])
        assert response_encoder(m.ProduceResponse, 9)(m.ProduceResponse(responses=[topic]), []) is None


def decode_or_malformed(cls: type[m.Message], data: bytes, version: int) -> None:
    """Compiles the decoder, so that a later measure of memory does not see the compiler."""
    try:
        decode(cls, data, version)
    except MalformedMessage:
        pass
