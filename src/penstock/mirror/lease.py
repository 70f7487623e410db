"""Who may write to the target: one mirror at a time, held by a transactional id.

Every mirror of a pair of clusters uses the same transactional id at the target. `take` raises its epoch: the
transaction that an earlier mirror had open is ended, with all its markers written, and whatever that mirror sends to
the coordinator from now on is refused. So everything that must not be done twice, or late, is done in a transaction of
this id: the offsets of groups, the notes of the mirror, and the markers that fill gaps.

A transaction without records writes one marker into each of its partitions, and nobody sees a marker: that is how a gap
in the offsets of the source becomes a gap for the readers of the target. It works with every broker since 0.11, as the
older form of the protocol is used, in which a client adds partitions itself.

After an error nobody knows how far a transaction got. `_recover` raises the epoch by the rules of KIP-360 and KIP-588,
which fail if somebody else has taken the id, and which leave no marker on its way. Then the caller looks.

They also fail if the answer to an earlier attempt was lost and the coordinator has been started again since: it forgets
what the epoch was before. So a second transactional id tells who holds the lease. A mirror raises its epoch once, when
it takes the lease, before that of the first. If it stands where this mirror has left it, the lease is still its own,
and is taken anew; `generation` counts that, and whoever has looked at a partition before has to look again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from penstock.client.cluster import GROUP, TRANSACTION, Cluster
from penstock.client.errors import check
from penstock.client.types import OffsetAndMetadata, TopicPartition, by_topic
from penstock.client.versions import (
    ADD_PARTITIONS_LAST_FOR_CLIENTS,
    END_TXN_LAST_OF_OLD_TRANSACTIONS,
    INIT_PRODUCER_ID_LAST_KNOWN,
    TXN_OFFSET_COMMIT_LAST_OF_OLD_TRANSACTIONS,
)
from penstock.mirror.failures import TakenOver, Unsettled
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

R = TypeVar("R", bound=m.Message)

TRANSACTION_TIMEOUT_MS = 60_000
_HOLDER = "-holder"
_ADD_OFFSETS_LAST_OF_OLD_TRANSACTIONS = 3
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Lease:
    """The right to write to the target, and the transactions that are made with it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.producer_id = -1
        self.epoch = -1
        self.generation = 0
        self._holder = (-1, -1)
        self._cluster = cluster
        self._lock = asyncio.Lock()
        self._waiting: dict[TopicPartition, asyncio.Future[None]] = {}
        self._marking: asyncio.Task[None] | None = None

    async def take(self) -> None:
        """Become the one mirror of this pair; the one before is fenced, and nothing of it is on its way any more."""
        self._holder = await self._init(self.name + _HOLDER, -1, -1)
        await self._take()

    async def close(self) -> None:
        if self._marking is not None:
            self._marking.cancel()
            await asyncio.gather(self._marking, return_exceptions=True)

    async def commit(self, groups: Mapping[str, Offsets]) -> None:
        """Commit offsets of groups, all or none."""

        async def work() -> None:
            for group, offsets in groups.items():
                await self._add_group(group)
                await self._commit_group(group, offsets)

        await self._transaction(work)

    async def mark(self, tp: TopicPartition, generation: int) -> None:
        """Write one marker into a partition that was looked at in this generation of the lease.

        What is asked for at the same time becomes one transaction.
        """
        if generation != self.generation:
            raise Unsettled(f"the lease was renewed after the end of {tp} was looked up")
        future = self._waiting.get(tp)
        if future is None:
            future = self._waiting[tp] = asyncio.get_running_loop().create_future()
            if self._marking is None:
                self._marking = asyncio.create_task(self._mark_all(), name="penstock-mirror-markers")
        await asyncio.shield(future)

    async def renew(self) -> None:
        """Raise the epoch: markers of the present one that are still on their way come too late (see `filling`)."""
        async with self._lock:
            await self._recover()

    async def _mark_all(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, {}
                generation = self.generation

                async def work(wanted: tuple[TopicPartition, ...] = tuple(waiting), since: int = generation) -> None:
                    if since != self.generation:
                        raise Unsettled("the lease was renewed meanwhile")
                    await self._add_partitions(wanted)

                try:
                    await self._transaction(work)
                except Exception as error:
                    for future in waiting.values():
                        future.set_exception(error)
                        future.exception()  # whoever waits has it
                else:
                    for future in waiting.values():
                        future.set_result(None)
        finally:
            self._marking = None

    async def _transaction(self, work: Callable[[], Awaitable[None]]) -> None:
        async with self._lock:
            try:
                await work()
                await self._end()
            except KafkaError as error:
                await self._recover()
                if error.code in _FENCED or error.retriable:
                    raise Unsettled(str(error)) from error
                raise

    # Requests

    async def _recover(self) -> None:
        try:
            self.producer_id, self.epoch = await self._init(self.name, self.producer_id, self.epoch)
        except KafkaError as error:
            if error.code not in _FENCED:
                raise
            if await self._described_holder() != self._holder:
                raise TakenOver from error
            await self._take()

    async def _take(self) -> None:
        self.producer_id, self.epoch = await self._init(self.name, -1, -1)
        self.generation += 1

    async def _described_holder(self) -> tuple[int, int]:
        name = self.name + _HOLDER
        answer = await self._cluster.call_coordinator(
            TRANSACTION,
            name,
            m.DescribeTransactionsRequest(transactional_ids=[name]),
            m.DescribeTransactionsResponse,
            check_answer=lambda answer: check(answer.transaction_states[0].error_code, about="the mirror's lease"),
        )
        state = answer.transaction_states[0]
        return state.producer_id, state.producer_epoch

    async def _init(self, name: str, producer_id: int, epoch: int) -> tuple[int, int]:
        def build(version: int) -> m.Message:
            known = version >= 3
            return m.InitProducerIdRequest(
                transactional_id=name,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
                producer_id=producer_id if known else -1,
                producer_epoch=epoch if known else -1,
            )

        answer = await self._cluster.call_coordinator(
            TRANSACTION,
            name,
            build,
            m.InitProducerIdResponse,
            check_answer=lambda answer: check(answer.error_code, about="the mirror's transactional id"),
            at_most=INIT_PRODUCER_ID_LAST_KNOWN,
        )
        return answer.producer_id, answer.producer_epoch

    async def _add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in by_topic(partitions).items()
            ],
        )

        def check_answer(answer: m.AddPartitionsToTxnResponse) -> None:
            for topic in answer.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    if result.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                        check(result.partition_error_code, about=f"a marker in {topic.name}-{result.partition_index}")

        await self._call(request, m.AddPartitionsToTxnResponse, check_answer, ADD_PARTITIONS_LAST_FOR_CLIENTS)

    async def _add_group(self, group: str) -> None:
        await self._call(
            m.AddOffsetsToTxnRequest(
                transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
            ),
            m.AddOffsetsToTxnResponse,
            lambda answer: check(answer.error_code, about=f"offsets of group {group!r}"),
            _ADD_OFFSETS_LAST_OF_OLD_TRANSACTIONS,
        )

    async def _commit_group(self, group: str, offsets: Offsets) -> None:
        shape = m.TxnOffsetCommitRequest
        topics: dict[str, m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = {}
        for tp, offset in offsets.items():
            topic = topics.setdefault(tp.topic, shape.TxnOffsetCommitRequestTopic(name=tp.topic, partitions=[]))
            topic.partitions.append(
                shape.TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=-1,
                    committed_metadata=offset.metadata,
                )
            )

        def check_answer(answer: m.TxnOffsetCommitResponse) -> None:
            for topic in answer.topics:
                for p in topic.partitions:
                    check(p.error_code, about=f"offset of group {group!r} in {topic.name}-{p.partition_index}")

        await self._cluster.call_coordinator(
            GROUP,
            group,
            shape(
                transactional_id=self.name,
                group_id=group,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                topics=list(topics.values()),
            ),
            m.TxnOffsetCommitResponse,
            check_answer=check_answer,
            at_most=TXN_OFFSET_COMMIT_LAST_OF_OLD_TRANSACTIONS,
        )

    async def _end(self) -> None:
        await self._call(
            m.EndTxnRequest(
                transactional_id=self.name,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=True,
            ),
            m.EndTxnResponse,
            lambda answer: check(answer.error_code, about="the end of a transaction"),
            END_TXN_LAST_OF_OLD_TRANSACTIONS,
        )

    async def _call(
        self,
        message: m.Message,
        response: type[R],
        check_answer: Callable[[R], None],
        at_most: int,
    ) -> R:
        return await self._cluster.call_coordinator(
            TRANSACTION, self.name, message, response, check_answer=check_answer, at_most=at_most
        )
