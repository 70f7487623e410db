from __future__ import annotations

import random
import tracemalloc

import pytest

from penstock.wire import messages as m
from penstock.wire.codec import (
    MalformedMessage,
    UnsupportedField,
    decode,
    decode_key,
    decode_prefix,
    decode_versioned,
    encode,
    encode_key,
    encode_parts,
    encode_versioned,
)
from tests.wire.kio_oracle import Pairs, kio_decode, kio_encode, kio_knows, message_names, versions_of
from tests.wire.samples import all_message_names, filled


@pytest.mark.parametrize("name", message_names())
def test_every_version_agrees_with_kio_on_bytes_and_values(name: str) -> None:
    for version in versions_of(name):
        assert kio_knows(name, version)
        pairs = Pairs(name, version, seed=1)
        for ours, theirs in [pairs.draw_with_a_long_array(), pairs.draw(), pairs.draw(), pairs.draw()]:
            data = encode(ours, version)
            assert data == kio_encode(theirs), f"version {version}: {ours}"
            assert kio_decode(pairs.kio, data) == theirs
            assert decode(type(ours), data, version) == ours


@pytest.mark.parametrize("name", [name for name in message_names() if not name.startswith("ConsumerProtocol")])
def test_versions_below_our_lowest_are_gone_from_kafka(name: str) -> None:
    assert not kio_knows(name, versions_of(name).start - 1)


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


class TestRecordBytes:
    def test_produced_records_are_a_view_into_the_request(self) -> None:
        data = bytearray(encode(produce_request(b"batch"), 9))
        request = decode(m.ProduceRequest, data, 9)
        records = request.topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        assert records.obj is data
        assert records == b"batch"

    def test_encode_parts_hands_record_bytes_through_uncopied(self) -> None:
        batch = bytearray(b"batch")
        assert any(part is batch for part in encode_parts(produce_request(batch), 9))

    def test_bytes_fields_are_copies(self) -> None:
        data = bytearray(encode(m.SaslAuthenticateRequest(auth_bytes=b"secret"), 2))
        decoded = decode(m.SaslAuthenticateRequest, data, 2)
        data[:] = bytes(len(data))
        assert decoded.auth_bytes == b"secret"


class TestInternalTopics:
    """Byte vectors of `__consumer_offsets`, `__transaction_state` and `__share_group_state`."""

    topic_id = bytes(range(16))

    def test_offset_commit_key(self) -> None:
        key = m.OffsetCommitKey(group="g1", topic="t1", partition=0)
        assert encode_key(key).hex() == "0001000267310002743100000000"
        types = {m.OffsetCommitKey.RECORD_TYPE: m.OffsetCommitKey}
        assert decode_key(bytes.fromhex("0001000267310002743100000000"), types) == key

    @pytest.mark.parametrize(
        ("version", "topic_id", "vector"),
        [
            (3, bytes(16), "0003000000000000002a0000000000000000018bcfe56800"),
            (4, bytes(16), "0004000000000000002a00000000010000018bcfe5680000"),
            (4, topic_id, "0004000000000000002a00000000010000018bcfe56800010010000102030405060708090a0b0c0d0e0f"),
        ],
    )
    def test_offset_commit_value(self, version: int, topic_id: bytes, vector: str) -> None:
        value = m.OffsetCommitValue(
            offset=42, leader_epoch=0, metadata="", commit_timestamp=1700000000000, topic_id=topic_id
        )
        assert encode_versioned(value, version).hex() == vector
        assert decode_versioned(m.OffsetCommitValue, bytes.fromhex(vector)) == value

    def test_group_metadata_value(self) -> None:
        member = m.GroupMetadataValue.MemberMetadata(
            member_id="m", client_id="c", client_host="/h", rebalance_timeout=1, session_timeout=2,
            subscription=b"s", assignment=b"a",
        )  # fmt: skip
        value = m.GroupMetadataValue(
            protocol_type="consumer", generation=1, protocol="range", leader="m", current_state_timestamp=3,
            members=[member],
        )  # fmt: skip
        vector = (
            "0003" "0008636f6e73756d6572" "00000001" "000572616e6765" "00016d" "0000000000000003" "00000001"
            "00016d" "ffff" "000163" "00022f68" "00000001" "00000002" "0000000173" "0000000161"
        )  # fmt: skip
        assert encode_versioned(value, 3).hex() == vector
        assert decode_versioned(m.GroupMetadataValue, bytes.fromhex(vector)) == value

    def test_consumer_group_member_with_a_classic_member_inside(self) -> None:
        protocol = m.ConsumerGroupMemberMetadataValue.ClassicProtocol(name="range", metadata=b"\x01")
        classic = m.ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(
            session_timeout_ms=5, supported_protocols=[protocol]
        )
        value = m.ConsumerGroupMemberMetadataValue(
            instance_id=None, rack_id=None, client_id="c", client_host="h", subscribed_topic_names=["t"],
            subscribed_topic_regex=None, rebalance_timeout_ms=7, server_assignor=None,
            classic_member_metadata=classic,
        )  # fmt: skip
        # A nullable struct starts with a byte that says whether it is there (KIP-893), also inside a tag.
        vector = "0000" "00" "00" "0263" "0268" "020274" "00" "00000007" "00" "01" "0010" "01" "00000005" "02" "0672616e6765" "0201" "00" "00"  # fmt: skip # noqa: E501
        assert encode_versioned(value, 0).hex() == vector
        assert decode_versioned(m.ConsumerGroupMemberMetadataValue, bytes.fromhex(vector)) == value

    @pytest.mark.parametrize(
        ("name", "record_type"),
        [
            ("OffsetCommitKey", 1),
            ("GroupMetadataKey", 2),
            ("ConsumerGroupMetadataKey", 3),
            ("ConsumerGroupPartitionMetadataKey", 4),
            ("ConsumerGroupMemberMetadataKey", 5),
            ("ConsumerGroupTargetAssignmentMetadataKey", 6),
            ("ConsumerGroupTargetAssignmentMemberKey", 7),
            ("ConsumerGroupCurrentMemberAssignmentKey", 8),
            ("ShareGroupMemberMetadataKey", 10),
            ("ShareGroupMetadataKey", 11),
            ("ShareGroupTargetAssignmentMetadataKey", 12),
            ("ShareGroupTargetAssignmentMemberKey", 13),
            ("ShareGroupCurrentMemberAssignmentKey", 14),
            ("ShareGroupStatePartitionMetadataKey", 15),
            ("ConsumerGroupRegularExpressionKey", 16),
            ("TransactionLogKey", 0),
            ("ShareSnapshotKey", 0),
            ("ShareUpdateKey", 1),
        ],
    )
    def test_record_types(self, name: str, record_type: int) -> None:
        assert record_type == m.message_class(name).RECORD_TYPE

    def test_transaction_log_value(self) -> None:
        topic = m.TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[0, 1])
        value = m.TransactionLogValue(
            producer_id=1000, producer_epoch=5, transaction_timeout_ms=60000, transaction_status=1,
            transaction_partitions=[topic], transaction_last_update_timestamp_ms=2, transaction_start_timestamp_ms=1,
        )  # fmt: skip
        v0 = "0000" "00000000000003e8" "0005" "0000ea60" "01" "00000001" "000174" "00000002" "00000000" "00000001" "0000000000000002" "0000000000000001"  # fmt: skip # noqa: E501
        v1 = "0001" "00000000000003e8" "0005" "0000ea60" "01" "02" "0274" "03" "00000000" "00000001" "00" "0000000000000002" "0000000000000001" "00"  # fmt: skip # noqa: E501
        assert encode_versioned(value, 0).hex() == v0
        assert encode_versioned(value, 1).hex() == v1

    def test_transaction_without_partitions_writes_null(self) -> None:
        value = m.TransactionLogValue(producer_id=1, transaction_partitions=None)
        assert decode_versioned(m.TransactionLogValue, encode_versioned(value, 1)).transaction_partitions is None
        value.transaction_partitions = []
        assert decode_versioned(m.TransactionLogValue, encode_versioned(value, 1)).transaction_partitions == []

    def test_share_snapshot(self) -> None:
        key = m.ShareSnapshotKey(group_id="g", topic_id=self.topic_id, partition=2)
        assert encode_key(key).hex() == "0000" "000167" "000102030405060708090a0b0c0d0e0f" "00000002"  # fmt: skip
        batch = m.ShareSnapshotValue.StateBatch(first_offset=1, last_offset=2, delivery_state=2, delivery_count=1)
        value = m.ShareSnapshotValue(
            snapshot_epoch=1, state_epoch=2, leader_epoch=3, start_offset=4, create_timestamp=5, write_timestamp=6,
            delivery_complete_count=7, state_batches=[batch],
        )  # fmt: skip
        vector = "0000" "00000001" "00000002" "00000003" "0000000000000004" "0000000000000005" "0000000000000006" "02" "0000000000000001" "0000000000000002" "02" "0001" "00" "01" "0004" "00000007"  # fmt: skip # noqa: E501
        assert encode_versioned(value, 0).hex() == vector
        assert decode_versioned(m.ShareSnapshotValue, bytes.fromhex(vector)) == value

    def test_a_value_of_a_newer_version_is_read_as_the_newest_known_one(self) -> None:
        data = encode_versioned(m.ConsumerProtocolAssignment(user_data=None), 3)
        assert decode_versioned(m.ConsumerProtocolAssignment, b"\0\x09" + data[2:] + b"newer").user_data is None

    @pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\x01"])
    def test_broken_values_are_malformed(self, data: bytes) -> None:
        with pytest.raises(MalformedMessage):
            decode_versioned(m.OffsetCommitValue, data)

    @pytest.mark.parametrize("data", [b"", b"\0", b"\0\x63", b"\0\x01\0\x05g"])
    def test_broken_and_unknown_keys_are_malformed(self, data: bytes) -> None:
        with pytest.raises(MalformedMessage):
            decode_key(data, {1: m.OffsetCommitKey})


def test_decode_prefix_says_where_the_message_ends() -> None:
    data = b"xx" + encode(m.HeartbeatResponse(error_code=1), 0) + b"rest"
    assert decode_prefix(m.HeartbeatResponse, data, 0, 2) == (m.HeartbeatResponse(error_code=1), 4)


def produce_request(records: bytes | bytearray) -> m.ProduceRequest:
    partition = m.ProduceRequest.PartitionProduceData(index=0, records=records)
    return m.ProduceRequest(
        acks=1, topic_data=[m.ProduceRequest.TopicProduceData(name="t", partition_data=[partition])]
    )


def decode_or_malformed(cls: type[m.Message], data: bytes, version: int) -> None:
    """Compiles the decoder, so that a later measure of memory does not see the compiler."""
    try:
        decode(cls, data, version)
    except MalformedMessage:
        pass
