"""A share consumer reduced to its requests, so that a test can say exactly what is asked and when."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self, TypeVar

from penstock.records.batch import HEADER_SIZE, write_crc
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec
from penstock.records.record import Record, iter_batches_records
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.messages import Message
from tests.broker.raw import RawClient
from tests.wire.records_field import records_of

ACCEPT, RELEASE = [1], [2]

R = TypeVar("R", bound=Message)
Batch = tuple[int, int, list[int]]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Wire:
    """One connection, one request after the other."""

    def __init__(self, broker: Broker) -> None:
        self._client = RawClient(broker.port, "test")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def send(self, key: ApiKey, version: int, body: Message) -> None:
        self._client.post(body, version)

    def receive(self, response: type[R], key: ApiKey, version: int) -> R:
        return self._client.take(response)

    def ask(self, key: ApiKey, version: int, body: Message, response: type[R]) -> R:
        return self._client.ask(body, response, version)

    def is_readable(self, seconds: float) -> bool:
        """Whether something has come, or comes within this time."""
        return self._client.is_readable(seconds)


def topic_id(wire: Wire, name: str) -> bytes:
    request = m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name=name)])
    return wire.ask(ApiKey.METADATA, 12, request, m.MetadataResponse).topics[0].topic_id


def produce(wire: Wire, topic: str, values: list[bytes], partition: int = 0, *, batch_size: int = 1_000_000) -> None:
    for first in range(0, len(values), batch_size):
        batch = build_batch([(0, None, value, ()) for value in values[first : first + batch_size]])
        produce_batch(wire, topic, batch, partition)


def produce_batch(wire: Wire, topic: str, batch: bytes | bytearray, partition: int = 0) -> None:
    data = m.ProduceRequest.PartitionProduceData(index=partition, records=bytes(batch))
    body = m.ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[m.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )
    response = wire.ask(ApiKey.PRODUCE, 9, body, m.ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == 0


def initialize(wire: Wire, group: str, topic: bytes, partitions: int = 1, start: int = 0, epoch: int = 1) -> list[int]:
    """Begin the state of share-partitions, as the group coordinator does for a new member."""
    request = m.InitializeShareGroupStateRequest
    body = request(
        group_id=group,
        topics=[
            request.InitializeStateData(
                topic_id=topic,
                partitions=[
                    request.PartitionData(partition=index, state_epoch=epoch, start_offset=start)
                    for index in range(partitions)
                ],
            )
        ],
    )
    response = wire.ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, body, m.InitializeShareGroupStateResponse)
    return [result.error_code for result in response.results[0].partitions]


class ShareMember:
    """A member with its session: knows its epoch, remembers nothing else."""

    def __init__(self, wire: Wire, group: str, member_id: str, topic: bytes, version: int = 2) -> None:
        self.wire = wire
        self.group = group
        self.member_id = member_id
        self.topic = topic
        self.version = version
        self.epoch = 0

    def fetch_request(
        self,
        *,
        partitions: tuple[int, ...] = (0,),
        acks: dict[int, list[Batch]] | None = None,
        epoch: int | None = None,
        max_records: int = 500,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 25,
        batch_size: int = 0,
        mode: int = 0,
        renew: bool = False,
        forgotten: tuple[int, ...] = (),
    ) -> m.ShareFetchRequest:
        request = m.ShareFetchRequest
        acks = acks or {}
        body = request(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            max_records=max_records,
            batch_size=batch_size,
            share_acquire_mode=mode if self.version > 1 else 0,
            is_renew_ack=renew,
            topics=[
                request.FetchTopic(
                    topic_id=self.topic,
                    partitions=[
                        request.FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                request.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in acks.get(index, [])
                            ],
                        )
                        for index in sorted({*(partitions if self.epoch == 0 else ()), *acks})
                    ],
                )
            ],
        )
        if forgotten:
            body.forgotten_topics_data = [request.ForgottenTopic(topic_id=self.topic, partitions=list(forgotten))]
        return body

    def fetch(self, **options: object) -> m.ShareFetchResponse:
        self.send_fetch(**options)
        return self.receive_fetch()

    def send_fetch(self, **options: object) -> None:
        self.wire.send(ApiKey.SHARE_FETCH, self.version, self.fetch_request(**options))  # type: ignore[arg-type]

    def receive_fetch(self) -> m.ShareFetchResponse:
        response = self.wire.receive(m.ShareFetchResponse, ApiKey.SHARE_FETCH, self.version)
        if response.error_code == 0:
            self.epoch += 1
        return response

    def acknowledge(
        self, acks: dict[int, list[Batch]], *, epoch: int | None = None, renew: bool = False
    ) -> m.ShareAcknowledgeResponse:
        request = m.ShareAcknowledgeRequest
        body = request(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=renew,
            topics=[
                request.AcknowledgeTopic(
                    topic_id=self.topic,
                    partitions=[
                        request.AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                request.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in batches
                            ],
                        )
                        for index, batches in acks.items()
                    ],
                )
            ],
        )
        response = self.wire.ask(ApiKey.SHARE_ACKNOWLEDGE, self.version, body, m.ShareAcknowledgeResponse)
        if response.error_code == 0:
            self.epoch += 1
        return response


def acquired(response: m.ShareFetchResponse, partition: int = 0) -> list[tuple[int, int, int]]:
    assert response.error_code == 0, response.error_message
    return [
        (entry.first_offset, entry.last_offset, entry.delivery_count)
        for topic in response.responses
        for data in topic.partitions
        if data.partition_index == partition
        for entry in data.acquired_records
    ]


def values(response: m.ShareFetchResponse) -> list[bytes]:
    return [
        record.value or b""
        for topic in response.responses
        for data in topic.partitions
        for record in iter_batches_records(records_of(data))
    ]


def ack_errors(response: m.ShareFetchResponse | m.ShareAcknowledgeResponse) -> list[int]:
    if isinstance(response, m.ShareFetchResponse):
        return [data.acknowledge_error_code for topic in response.responses for data in topic.partitions]
    return [data.error_code for topic in response.responses for data in topic.partitions]


def set_group_configs(wire: Wire, group: str, **configs: object) -> None:
    """GROUP configs with underscores for dots."""
    request = m.IncrementalAlterConfigsRequest
    body = request(
        resources=[
            request.AlterConfigsResource(
                resource_type=32,
                resource_name=group,
                configs=[
                    request.AlterableConfig(name=name.replace("_", "."), value=str(value))
                    for name, value in configs.items()
                ],
            )
        ]
    )
    response = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body, m.IncrementalAlterConfigsResponse)
    assert response.responses[0].error_code == 0, response.responses[0].error_message


def delete_records(wire: Wire, topic: str, offset: int) -> None:
    request = m.DeleteRecordsRequest
    body = request(
        topics=[
            request.DeleteRecordsTopic(
                name=topic, partitions=[request.DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
        ],
        timeout_ms=10_000,
    )
    response = wire.ask(ApiKey.DELETE_RECORDS, 2, body, m.DeleteRecordsResponse)
    assert response.topics[0].partitions[0].error_code == 0


def fetch_all(wire: Wire, topic: bytes, partition: int = 0) -> list[Record]:
    """The records of a partition by an ordinary fetch."""
    request = m.FetchRequest
    body = request(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 25,
        topics=[
            request.FetchTopic(
                topic_id=topic,
                partitions=[request.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 25)],
            )
        ],
    )
    body.session_epoch = -1
    response = wire.ask(ApiKey.FETCH, 13, body, m.FetchResponse)
    return list(iter_batches_records(records_of(response.responses[0].partitions[0])))


def write_archiving(wire: Wire, topic: bytes) -> None:
    """What a crash leaves of a record whose dead letter was about to be written, or had just been."""
    request = m.WriteShareGroupStateRequest
    body = request(
        group_id="g",
        topics=[
            request.WriteStateData(
                topic_id=topic,
                partitions=[
                    request.PartitionData(
                        partition=0,
                        state_epoch=2,
                        leader_epoch=10,
                        start_offset=0,
                        state_batches=[
                            request.StateBatch(first_offset=0, last_offset=0, delivery_state=3, delivery_count=1)
                        ],
                    )
                ],
            )
        ],
    )
    response = wire.ask(ApiKey.WRITE_SHARE_GROUP_STATE, 1, body, m.WriteShareGroupStateResponse)
    assert response.results[0].partitions[0].error_code == 0


def broken_batch(number: int, header: tuple[str, bytes] | None = None) -> bytearray:
    """A gzip batch whose checksum is right and whose compressed part is not."""
    headers = [header] if header is not None else []
    batch = build_batch([(0, None, b"lost" * 50, headers) for _ in range(number)], codec=Codec.GZIP)
    middle = (HEADER_SIZE + len(batch)) // 2
    batch[middle : middle + 20] = bytes(20)
    write_crc(batch, 0, len(batch))
    return batch


def member(wire: Wire, group: str = "g", member_id: str = "m1") -> ShareMember:
    return ShareMember(wire, group, member_id, topic_id(wire, "jobs"))
