"""The records of __consumer_offsets, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.groups import records
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage

TOPIC_ID = bytes(range(16))
COMMIT: dict[str, Any] = {"offset": 42, "leader_epoch": 0, "metadata": "", "commit_timestamp_ms": 1_700_000_000_000}


def test_an_offset_commit_is_written_as_kafka_writes_it() -> None:
    key, value = records.offset_commit("g1", "t1", 0, **COMMIT)
    assert key.hex() == "0001000267310002743100000000"
    assert value is not None
    assert value.hex() == "0004000000000000002a00000000010000018bcfe5680000"


def test_an_offset_commit_carries_the_topic_id_in_a_tag() -> None:
    _, value = records.offset_commit("g1", "t1", 0, **COMMIT, topic_id=TOPIC_ID)
    assert value is not None
    assert value.hex() == ("0004000000000000002a00000000010000018bcfe56800010010000102030405060708090a0b0c0d0e0f")


def test_an_offset_with_its_own_retention_is_written_in_version_one() -> None:
    key, value = records.offset_commit("g1", "t1", 0, **COMMIT, expire_timestamp_ms=7)
    assert value is not None
    assert value[:2] == b"\0\1"
    parsed = records.parse(key, value)
    assert parsed is not None
    assert isinstance(parsed[1], m.OffsetCommitValue)
    assert parsed[1].expire_timestamp == 7


def test_version_three_as_older_brokers_wrote_it_is_read() -> None:
    key = bytes.fromhex("0001000267310002743100000000")
    parsed = records.parse(key, bytes.fromhex("0003000000000000002a0000000000000000018bcfe56800"))
    assert parsed is not None
    value = parsed[1]
    assert isinstance(value, m.OffsetCommitValue)
    assert (value.offset, value.leader_epoch, value.commit_timestamp) == (42, 0, 1_700_000_000_000)


def test_record_types_of_others_are_skipped() -> None:
    assert records.parse(b"\0\x11\0\1g", b"\0\0") is None  # StreamsGroupMetadata
    assert records.parse(b"\x7f\xff", None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", None), (b"\0", None), (b"\0\1\0\5ab", None), (b"\0\2\0\1g", b"\0"), (b"\0\2\0\1g", b"\0\3")],
)
def test_a_broken_record_is_recognised(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedMessage):
        records.parse(key, value)


def test_every_record_can_be_read_back() -> None:
    partitions = {TOPIC_ID: frozenset({2, 0})}
    built = [
        records.offset_commit_tombstone("g", "t", 3),
        records.group_metadata("g", m.GroupMetadataValue(protocol_type="consumer", generation=3)),
        records.group_metadata_tombstone("g"),
        records.consumer_group_epoch("g", 4, -5),
        records.consumer_group_epoch_tombstone("g"),
        records.consumer_group_partition_metadata_tombstone("g"),
        records.consumer_group_member_tombstone("g", "m"),
        records.consumer_group_target_epoch("g", 4, 99),
        records.consumer_group_target_epoch_tombstone("g"),
        records.consumer_group_target("g", "m", partitions),
        records.consumer_group_target_tombstone("g", "m"),
        records.consumer_group_current_assignment(
            "g",
            "m",
            member_epoch=3,
            previous_member_epoch=2,
            state=1,
            assigned={TOPIC_ID: {0: 3, 1: 2}},
            pending_revocation={},
        ),
        records.consumer_group_current_assignment_tombstone("g", "m"),
        records.consumer_group_regex("g", "a.*", {"ab", "aa"}, 1, 2),
        records.consumer_group_regex_tombstone("g", "a.*"),
        records.share_group_epoch("g", 1, 2),
        records.share_group_epoch_tombstone("g"),
        records.share_group_member_tombstone("g", "m"),
        records.share_group_target_epoch("g", 1, 2),
        records.share_group_target_epoch_tombstone("g"),
        records.share_group_target("g", "m", partitions),
        records.share_group_target_tombstone("g", "m"),
        records.share_group_current_assignment(
            "g", "m", member_epoch=1, previous_member_epoch=0, state=0, assigned=partitions
        ),
        records.share_group_current_assignment_tombstone("g", "m"),
        records.share_group_state_partitions_tombstone("g"),
    ]
    for key, value in built:
        parsed = records.parse(key, value)
        assert parsed is not None
        assert (parsed[1] is None) == (value is None)
    assert len({key[:2] for key, _ in built}) == 15


def test_assignments_are_sorted_so_that_equal_ones_have_equal_bytes() -> None:
    other = b"\xff" * 16
    one = records.consumer_group_target("g", "m", {TOPIC_ID: frozenset({1, 0}), other: frozenset({3})})
    two = records.consumer_group_target("g", "m", {other: frozenset({3}), TOPIC_ID: frozenset({0, 1})})
    assert one == two
