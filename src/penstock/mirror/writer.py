"""Writes one partition of the target, each record once and at its own offset.

The batches carry the mirror's producer id, whose epoch never changes, and sequence numbers that go on from where the
partition stands, whichever mirror wrote last. That makes each append conditional: a broker takes the batch with
sequence number n only behind the one before it. So if the outcome of a request is unknown, or an earlier mirror that
was killed still has a request on its way, both may be sent: one is taken, the other is a duplicate or out of order.

`look` finds out where a partition stands: the sequence number first, then the log end. If something lands in between,
the sequence number is too old and what is sent with it is refused, never written at the wrong place. The log end is
the leader's (OffsetForLeaderEpoch), not the high watermark, behind which there may be more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from penstock.client.errors import check
from penstock.client.types import OffsetSpec, TopicPartition
from penstock.client.versions import PRODUCE_LAST_NAMED, PRODUCE_LAST_OF_OLD_TRANSACTIONS
from penstock.mirror.failures import TopicStopped, Unsettled
from penstock.mirror.pieces import Piece
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError, MessageTooLarge

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.admin.transactions import ProducerState

IN_FLIGHT_MAX = 4
"""Requests of a partition on their way at a time; a broker remembers the last five batches of a producer."""

CHANNELS = 4
"""Connections to each broker of the target. A partition keeps to one, which keeps its batches in order."""

_SEQUENCE_MAX = 2**31 - 1
_TO_BE_LOOKED_AT = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class Writer:
    """The end of one partition of the target."""

    def __init__(self, target: Admin, tp: TopicPartition, producer_id: int, producer_epoch: int) -> None:
        self.tp = tp
        self.end = 0
        """Everything below is acknowledged."""
        self.planned = 0
        """Where the next piece belongs: `end` and what is on its way."""
        self.reserved = 0
        """Up to where markers are being written."""
        self._target = target
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._sequence = 0
        self._in_flight: deque[tuple[Piece, asyncio.Task[m.ProduceResponse]]] = deque()

    async def look(self) -> None:
        """Learn where the partition stands. What was on its way is settled first, or given up."""
        await self.drop()
        states = (await self._target.describe_producers([self.tp]))[self.tp]
        own = [state for state in states if state.producer_id == self._producer_id]
        self._sequence = (own[0].last_sequence + 1) & _SEQUENCE_MAX if own else 0
        self.end = self.planned = await log_end(self._target, self.tp)

    async def look_at_end(self) -> None:
        """Learn where the partition ends, when nothing is on its way and only a marker can have been added."""
        self.end = self.planned = await log_end(self._target, self.tp)

    async def coordinator_epoch(self, producer_id: int) -> int:
        """The epoch of the coordinator whose marker for a producer was the last one here; -1 if there is none."""
        states: list[ProducerState] = (await self._target.describe_producers([self.tp]))[self.tp]
        return next((s.coordinator_epoch for s in states if s.producer_id == producer_id), -1)

    async def send(self, piece: Piece) -> None:
        """Send a piece that belongs at `planned`; waits while enough is on its way."""
        if piece.first != self.planned:
            raise Unsettled(f"a piece for offset {piece.first} of {self.tp} came when {self.planned} was due")
        while len(self._in_flight) >= IN_FLIGHT_MAX:
            await self._settle_first()
        piece.sign(self._producer_id, self._producer_epoch, self._sequence)
        self._sequence = (self._sequence + piece.count) & _SEQUENCE_MAX
        self.planned = piece.next
        self._in_flight.append((piece, asyncio.create_task(self._request(piece))))

    async def flush(self) -> None:
        """Wait until all that was sent is acknowledged."""
        while self._in_flight:
            await self._settle_first()

    async def drop(self) -> None:
        """Forget what is on its way."""
        tasks = [task for _, task in self._in_flight]
        self._in_flight.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _settle_first(self) -> None:
        piece, task = self._in_flight[0]
        try:
            answer = await asyncio.shield(task)
            result = answer.responses[0].partition_responses[0]
            check(result.error_code, result.error_message, about=str(self.tp))
        except MessageTooLarge as error:
            raise TopicStopped(
                f"the target refuses {len(piece.data):,} bytes at offset {piece.first} of {self.tp}: {error}. Raise "
                "message.max.bytes and socket.request.max.bytes of its brokers, and run the mirror again"
            ) from error
        except KafkaError as error:
            if error.retriable or error.code in _TO_BE_LOOKED_AT:
                raise Unsettled(str(error)) from error
            raise TopicStopped(
                f"the target refuses what belongs at offset {piece.first} of {self.tp}: {error}"
            ) from error
        self._in_flight.popleft()
        if result.base_offset != piece.first:
            raise Unsettled(f"{self.tp} took at offset {result.base_offset} what belongs at {piece.first}")
        self.end = piece.next

    async def _request(self, piece: Piece) -> m.ProduceResponse:
        cluster = self._target.cluster
        node = await cluster.leader(self.tp)
        connection = await cluster.connection(node, f"mirror-{hash(self.tp) % CHANNELS}")
        shape = m.ProduceRequest
        request = shape(
            transactional_id=None,
            acks=-1,
            timeout_ms=cluster.config.request_timeout_ms,
            topic_data=[
                shape.TopicProduceData(
                    name=self.tp.topic,
                    partition_data=[shape.PartitionProduceData(self.tp.partition, piece.data)],
                )
            ],
        )
        at_most = min(PRODUCE_LAST_NAMED, PRODUCE_LAST_OF_OLD_TRANSACTIONS)
        return await connection.request(
            request, m.ProduceResponse, timeout_ms=cluster.config.request_timeout_ms, at_least=3, at_most=at_most
        )


async def log_end(target: Admin, tp: TopicPartition) -> int:
    """Where the leader's log ends, replicated or not."""
    cluster = target.cluster

    async def attempt() -> int:
        node = await cluster.leader(tp)
        epoch = cluster.metadata.leader_epoch(tp)
        shape = m.OffsetForLeaderEpochRequest
        asked = shape.OffsetForLeaderPartition(partition=tp.partition, current_leader_epoch=epoch, leader_epoch=epoch)
        answer = await cluster.request(
            shape(replica_id=-1, topics=[shape.OffsetForLeaderTopic(topic=tp.topic, partitions=[asked])]),
            m.OffsetForLeaderEpochResponse,
            node=node,
            at_least=3,
        )
        found = answer.topics[0].partitions[0]
        check(found.error_code, about=f"the end of {tp}")
        return found.end_offset

    if cluster.metadata.leader_epoch(tp) >= 0:
        end = await cluster.retrying(attempt)
        if end >= 0:
            return end
    return (await target.list_offsets({tp: OffsetSpec.LATEST}))[tp].offset  # nothing was ever written here
