"""Requests of scripted producers and readers, and what a reader is shown of an answer."""

from __future__ import annotations

from collections.abc import Callable

from penstock.records.batch import iter_headers
from penstock.records.builder import build_batch
from penstock.records.record import Record, decode_records
from penstock.wire import messages as m
from tests.wire.records_field import records_of

TOPIC = "t"
PARTITIONS = 2


def produce_request(partition: int, value: str, acks: int) -> m.ProduceRequest:
    return request_of(partition, build_batch([(0, None, value.encode(), ())]), acks)


def request_of(partition: int, records: bytearray, acks: int = -1) -> m.ProduceRequest:
    data = m.ProduceRequest.PartitionProduceData(index=partition, records=records)
    topic_data = m.ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
    return m.ProduceRequest(acks=acks, timeout_ms=2_000, topic_data=[topic_data])


def fetch_request(positions: dict[int, int], isolation: int, wait_ms: int, topic: str = TOPIC) -> m.FetchRequest:
    partitions = [
        m.FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in positions.items()
    ]
    requested = m.FetchRequest.FetchTopic(topic=topic, partitions=partitions)
    return m.FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, isolation_level=isolation, topics=[requested]
    )


def value_of(record: Record) -> str:
    return bytes(record.value or b"").decode()


def visible(
    partition: m.FetchResponse.PartitionData, position: int, known_by: Callable[[Record], str] = value_of
) -> list[tuple[int, str | None]]:
    """Offset and value of each record from a position on, as a consumer shows them; None for what it passes over."""
    data = records_of(partition)
    aborted = sorted(partition.aborted_transactions or [], key=lambda each: each.first_offset)
    skipping: set[int] = set()
    found: list[tuple[int, str | None]] = []
    for pos, header in iter_headers(data):
        while aborted and aborted[0].first_offset <= header.base_offset:
            skipping.add(aborted.pop(0).producer_id)
        if header.is_control:
            skipping.discard(header.producer_id)
            found.append((header.base_offset, None))
            continue
        for record in decode_records(data, pos, header):
            hidden = header.producer_id in skipping and header.is_transactional
            found.append((record.offset, None if hidden else known_by(record)))
        if not found or found[-1][0] < header.next_offset - 1:
            found.append((header.next_offset - 1, None))  # compaction has taken what the batch ended with
    return [each for each in found if each[0] >= position]
