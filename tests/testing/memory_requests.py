"""What tests ask a `MemoryBroker`, one request each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from penstock.records.builder import build_batch
from penstock.records.record import iter_batches_records
from penstock.testing.memory import WireClient
from penstock.wire import messages as m
from tests.wire.records_field import records_of

T = TypeVar("T")
WAIT_SECONDS = 30


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, WAIT_SECONDS)


def produce_request(topic: str, *values: bytes, acks: int = -1, **producer: object) -> m.ProduceRequest:
    """`producer`: the fields of an idempotent or transactional producer, as `build_batch` names them."""
    records = build_batch([(0, None, value, ()) for value in values], **producer)  # type: ignore[arg-type]
    data = m.ProduceRequest.PartitionProduceData(index=0, records=records)
    topic_data = m.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
    return m.ProduceRequest(acks=acks, timeout_ms=WAIT_SECONDS * 1000, topic_data=[topic_data])


def result_of(response: m.ProduceResponse) -> m.ProduceResponse.PartitionProduceResponse:
    return response.responses[0].partition_responses[0]


async def produce(client: WireClient, topic: str, *values: bytes, acks: int = -1) -> int:
    """The error code."""
    request = produce_request(topic, *values, acks=acks)
    return result_of(await soon(client.ask(request, m.ProduceResponse, 12))).error_code


async def append(client: WireClient, topic: str, *values: bytes) -> None:
    """Have records appended without waiting for an answer, which may come only when they are durable."""
    client.post(produce_request(topic, *values, acks=0), 12)
    await soon(client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse))  # answered after the request before it


def fetch_request(topic: str, offset: int = 0, *, isolation: int = 0, wait_ms: int = 0) -> m.FetchRequest:
    partition = m.FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    requested = m.FetchRequest.FetchTopic(topic=topic, partitions=[partition])
    return m.FetchRequest(max_wait_ms=wait_ms, min_bytes=1, isolation_level=isolation, topics=[requested])


async def fetch(client: WireClient, topic: str, offset: int = 0, *, isolation: int = 0) -> list[bytes]:
    request = fetch_request(topic, offset, isolation=isolation)
    response = await soon(client.ask(request, m.FetchResponse, 12))
    return values_of(response)


def values_of(response: m.FetchResponse) -> list[bytes]:
    [partition] = response.responses[0].partitions
    assert partition.error_code == 0
    records = iter_batches_records(records_of(partition))
    return [bytes(record.value or b"") for record in records]


async def topic_id(client: WireClient, name: str) -> bytes:
    requested = m.MetadataRequest.MetadataRequestTopic(name=name)
    request = m.MetadataRequest(topics=[requested], allow_auto_topic_creation=False)
    return (await soon(client.ask(request, m.MetadataResponse))).topics[0].topic_id


def commit_request(group: str, topic: str, offset: int) -> m.OffsetCommitRequest:
    partition = m.OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=offset)
    committed = m.OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    return m.OffsetCommitRequest(group_id=group, topics=[committed])


async def commit_offset(client: WireClient, group: str, topic: str, offset: int) -> int:
    """The error code."""
    response = await soon(client.ask(commit_request(group, topic, offset), m.OffsetCommitResponse, 9))
    return response.topics[0].partitions[0].error_code


async def committed_offset(client: WireClient, group: str, topic: str) -> int:
    topics = [m.OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    requested = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=topics)
    response = await soon(client.ask(m.OffsetFetchRequest(groups=[requested]), m.OffsetFetchResponse, 9))
    return response.groups[0].topics[0].partitions[0].committed_offset


async def find_coordinator(client: WireClient, key: str, key_type: int = 0) -> m.FindCoordinatorResponse.Coordinator:
    """As every client of a group does first: it makes the broker create the internal topic."""
    request = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    return (await soon(client.ask(request, m.FindCoordinatorResponse))).coordinators[0]
