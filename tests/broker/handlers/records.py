"""Writes and reads records with single requests, so that a test decides each of their fields."""

from __future__ import annotations

import time

from penstock.records.builder import build_batch
from penstock.wire import messages as m
from tests.transactions.wire_client import Wire

Written = m.ProduceResponse.PartitionProduceResponse


def batch(*values: bytes, timestamp: int | None = None, key: bytes | None = None) -> bytearray:
    now_ms = int(time.time() * 1000) if timestamp is None else timestamp
    return build_batch([(now_ms, key, value, ()) for value in values])


def sequenced(*values: bytes, producer_id: int, sequence: int, epoch: int = 0) -> bytearray:
    """A batch of an idempotent producer."""
    now_ms = int(time.time() * 1000)
    records = [(now_ms, None, value, ()) for value in values]
    return build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def to_topic(name: str, *batches: tuple[int, bytearray]) -> m.ProduceRequest.TopicProduceData:
    data = m.ProduceRequest.PartitionProduceData
    return m.ProduceRequest.TopicProduceData(
        name=name, partition_data=[data(index=index, records=records) for index, records in batches]
    )


def produce(wire: Wire, topic: str, records: bytearray, *, partition: int = 0, acks: int = 1) -> Written:
    request = m.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[to_topic(topic, (partition, records))])
    return wire.ask(request, m.ProduceResponse, 9).responses[0].partition_responses[0]


def topic_id(wire: Wire, name: str) -> bytes:
    request = m.MetadataRequest(
        topics=[m.MetadataRequest.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    return wire.ask(request, m.MetadataResponse, 12).topics[0].topic_id


def create_topic(wire: Wire, name: str, partitions: int = 1, **configs: str) -> None:
    topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    topic.configs = [
        m.CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    response = wire.ask(m.CreateTopicsRequest(topics=[topic], timeout_ms=5000), m.CreateTopicsResponse, 7)
    assert [each.error_code for each in response.topics] == [0]


def find_group_coordinator(wire: Wire, group: str = "group") -> None:
    """As every client of a group does first: it makes the broker create the internal topic."""
    request = m.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    assert wire.ask(request, m.FindCoordinatorResponse, 4).coordinators[0].error_code == 0
