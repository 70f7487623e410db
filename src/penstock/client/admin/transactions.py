"""Transactions and producers, as the brokers see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.client.admin.base import AdminPart
from penstock.client.cluster import TRANSACTION
from penstock.client.errors import check, kafka_error
from penstock.client.partitions import AnyPartition, partition_of, partitions_of
from penstock.client.types import TopicPartition, by_topic
from penstock.client.versions import INIT_PRODUCER_ID_LAST_KNOWN
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int  # -1 when none is open
    partitions: list[TopicPartition]


class ProducerState(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int  # -1 when none is open


class Transactions(AdminPart):
    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of the cluster, with their states."""
        filters = m.ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=running_longer_than_ms,
            transactional_id_pattern=pattern,
        )
        at_least = 2 if pattern is not None else 1 if running_longer_than_ms >= 0 else 0
        found: dict[str, TransactionListing] = {}
        for answer in await self._everywhere(filters, m.ListTransactionsResponse, at_least):
            check(answer.error_code, about="transactions")
            for state in answer.transaction_states:
                found[state.transactional_id] = TransactionListing(
                    state.transactional_id, state.producer_id, state.transaction_state
                )
        return sorted(found.values())

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """State, producer and partitions of a transactional id."""
        coordinator = await self.cluster.retrying(lambda: self.cluster.coordinator(TRANSACTION, transactional_id))
        answer = await self.cluster.call_coordinator(
            TRANSACTION,
            transactional_id,
            m.DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            m.DescribeTransactionsResponse,
            check_answer=lambda answer: check(
                answer.transaction_states[0].error_code, about=f"transactional id {transactional_id!r}"
            ),
        )
        state = answer.transaction_states[0]
        return TransactionDescription(
            transactional_id,
            coordinator,
            state.transaction_state,
            state.producer_id,
            state.producer_epoch,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms,
            sorted(TopicPartition(t.topic, number) for t in state.topics for number in t.partitions),
        )

    async def describe_producers(self, partitions: Iterable[AnyPartition]) -> dict[TopicPartition, list[ProducerState]]:
        """The producers that have written to these partitions recently, and their open transactions."""
        found: dict[TopicPartition, list[ProducerState]] = {}
        requested = partitions_of(partitions)

        async def attempt() -> None:
            missing = [tp for tp in requested if tp not in found]
            for node, tps in (await self.cluster.by_leader(missing)).items():
                entry = m.DescribeProducersRequest.TopicRequest
                request = m.DescribeProducersRequest(
                    topics=[entry(name=name, partition_indexes=numbers) for name, numbers in by_topic(tps).items()]
                )
                answer = await self.cluster.request(request, m.DescribeProducersResponse, node=node)
                for topic in answer.topics:
                    for p in topic.partitions:
                        check(p.error_code, p.error_message, f"{topic.name}-{p.partition_index}")
                        found[TopicPartition(topic.name, p.partition_index)] = [
                            ProducerState(
                                s.producer_id,
                                s.producer_epoch,
                                s.last_sequence,
                                s.last_timestamp,
                                s.coordinator_epoch,
                                s.current_txn_start_offset,
                            )
                            for s in p.active_producers
                        ]

        await self.cluster.retrying(attempt)
        return found

    async def abort_transaction(self, tp: AnyPartition, start_offset: int) -> None:
        """Abort a hanging transaction: the one that began in partition `tp` at `start_offset` (see
        describe_producers).
        """
        topic_partition = partition_of(tp)
        states = (await self.describe_producers([topic_partition]))[topic_partition]
        hanging = [s for s in states if s.current_transaction_start_offset == start_offset]
        if not hanging:
            raise kafka_error(
                ErrorCode.INVALID_TXN_STATE,
                f"no transaction that began at offset {start_offset} is open",
                str(topic_partition),
            )
        state = hanging[0]
        marker = m.WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            transaction_result=False,
            topics=[
                m.WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                    name=topic_partition.topic, partition_indexes=[topic_partition.partition]
                )
            ],
            coordinator_epoch=max(state.coordinator_epoch, 0),
        )

        async def attempt() -> None:
            node = await self.cluster.leader(topic_partition)
            answer = await self.cluster.request(
                m.WriteTxnMarkersRequest(markers=[marker]), m.WriteTxnMarkersResponse, node=node
            )
            for written in answer.markers:
                for topic in written.topics:
                    for p in topic.partitions:
                        check(p.error_code, about=f"{topic.name}-{p.partition_index}")

        await self.cluster.retrying(attempt)

    async def fence_producers(self, transactional_id: str) -> None:
        """Fence the producers of a transactional id; their open transaction is aborted."""
        await self.cluster.call_coordinator(
            TRANSACTION,
            transactional_id,
            m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1),
            m.InitProducerIdResponse,
            check_answer=lambda answer: check(answer.error_code, about=f"transactional id {transactional_id!r}"),
            at_most=INIT_PRODUCER_ID_LAST_KNOWN,
        )
