"""`__consumer_offsets` that a real Apache Kafka left behind (see data/make.py) means here what it means there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.groups import records
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.records.batch import iter_headers
from penstock.records.control import ControlType, parse_control
from penstock.records.record import iter_records
from penstock.wire import messages as m
from penstock.wire.codec import encode_key, encode_versioned
from penstock.wire.errors import ErrorCode
from tests.groups.data.make import plain
from tests.groups.group_shell import Topics

DATA = Path(__file__).parent / "data"
EXPECTED = json.loads((DATA / "expected.json").read_text())
SEGMENTS = sorted((DATA / "kafka-4.3.1").glob("__consumer_offsets-*/*.log"))


def kafka_topics() -> Topics:
    topics = Topics()
    for name, (topic_id, partitions) in EXPECTED["topics"].items():
        topics.topics[name] = (bytes.fromhex(topic_id), partitions)
    return topics


def kafka_records() -> Iterator[tuple[bytes, bytes | None]]:
    for segment in SEGMENTS:
        data = segment.read_bytes()
        for position, header in iter_headers(data):
            if not header.is_control:
                for record in iter_records(data, position):
                    assert record.key is not None
                    yield bytes(record.key), None if record.value is None else bytes(record.value)


@pytest.fixture(scope="module")
def shards() -> list[GroupShard]:
    """One shard per partition, as the broker would have them after a start on Kafka's files."""
    made = []
    for segment in SEGMENTS:
        shard = GroupShard(GroupSettings(), kafka_topics(), lambda: "uuid")
        data = segment.read_bytes()
        for position, header in iter_headers(data):
            for record in iter_records(data, position):
                if header.is_control:
                    commit = parse_control(record).kind == ControlType.COMMIT
                    shard.replay_end_marker(header.producer_id, commit)
                else:
                    value = None if record.value is None else bytes(record.value)
                    producer_id = header.producer_id if header.is_transactional else -1
                    assert record.key is not None
                    shard.replay(bytes(record.key), value, producer_id)
        assert not shard.loaded(1_800_000_000_000).records
        made.append(shard)
    return made


def shard_of(shards: list[GroupShard], group_id: str) -> GroupShard:
    (shard,) = [shard for shard in shards if group_id in shard.state.groups]
    return shard


def test_the_same_groups_are_there_in_the_same_states(shards: list[GroupShard]) -> None:
    listed = {
        group.group_id: [group.group_type, group.protocol_type, group.group_state]
        for shard in shards
        for group in shard.list_groups()
    }
    assert listed == EXPECTED["groups"]


@pytest.mark.parametrize("expected", EXPECTED["classic"], ids=lambda group: str(group["group_id"]))
def test_classic_groups_are_described_alike(shards: list[GroupShard], expected: dict[str, object]) -> None:
    group_id = str(expected["group_id"])
    assert plain(shard_of(shards, group_id).describe_group(group_id, 6)) == expected


@pytest.mark.parametrize("expected", EXPECTED["consumer"], ids=lambda group: str(group["group_id"]))
def test_consumer_groups_are_described_alike(shards: list[GroupShard], expected: dict[str, object]) -> None:
    group_id = str(expected["group_id"])
    assert plain(shard_of(shards, group_id).consumer_group_describe(group_id)) == expected


@pytest.mark.parametrize("expected", EXPECTED["share"], ids=lambda group: str(group["group_id"]))
def test_share_groups_are_described_alike(shards: list[GroupShard], expected: dict[str, object]) -> None:
    group_id = str(expected["group_id"])
    shard = shard_of(shards, group_id)
    assert plain(shard.share_group_describe(group_id)) == expected
    orders, partitions = kafka_topics().topics["orders"]
    assert shard.share_state_partitions(group_id) == {orders: frozenset(range(partitions))}


@pytest.mark.parametrize("group_id", [name for name, (kind, _, _) in EXPECTED["groups"].items() if kind != "share"])
def test_offsets_are_the_same(shards: list[GroupShard], group_id: str) -> None:
    request = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=None)
    fetched = shard_of(shards, group_id).offset_fetch(request)
    offsets = [
        [topic.name, p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata]
        for topic in fetched.topics
        for p in topic.partitions
    ]
    assert sorted(offsets) == EXPECTED["offsets"][group_id]


def test_an_offset_in_an_open_transaction_is_unstable(shards: list[GroupShard]) -> None:
    request = m.OffsetFetchRequest
    requested = request.OffsetFetchRequestGroup(
        group_id="txn", topics=[request.OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1, 2])]
    )
    fetched = shard_of(shards, "txn").offset_fetch(requested, require_stable=True)
    assert [p.error_code for p in fetched.topics[0].partitions] == EXPECTED["unstable"]
    assert EXPECTED["unstable"][2] == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_every_record_is_written_back_byte_for_byte_in_the_version_that_we_write() -> None:
    kinds = set()
    for key, value in kafka_records():
        parsed = records.parse(key, value)
        assert parsed is not None
        parsed_key, parsed_value = parsed
        kinds.add(type(parsed_key).__name__)
        assert encode_key(parsed_key) == key
        version = 0
        if isinstance(parsed_key, m.OffsetCommitKey):
            version = records.OFFSET_COMMIT_VERSION
        elif isinstance(parsed_key, m.GroupMetadataKey):
            version = records.GROUP_METADATA_VERSION
        if parsed_value is not None:
            assert encode_versioned(parsed_value, version) == value
    assert len(kinds) >= 14
