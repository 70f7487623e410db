from __future__ import annotations

import pytest

from penstock.wire import messages as m
from penstock.wire.codec import (
    MalformedMessage,
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


class TestRecordBytes:
    def test_produced_records_are_a_view_into_the_request(self) -> None:
        data = bytearray(encode(produce_request(b"batch"), 9))
        request = decode(m.ProduceRequest, data, 9)
        records = request.topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        assert records.obj is data
        assert bytes(records) == b"batch"

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
