"""The client's half of transactions (KIP-98, KIP-447, KIP-890).

States, and the calls that move them:

=================  ============================================================================================
UNINITIALIZED      `prepare` fences every older producer with the same transactional id → READY READY
`begin` → IN_TRANSACTION IN_TRANSACTION     `commit` → COMMITTING → READY; `abort` → ABORTING → READY; a lost record →
ABORTABLE_ERROR ABORTABLE_ERROR    only `abort` is allowed FATAL_ERROR        nothing: another producer has taken over,
or the broker no longer knows this one
=================  ============================================================================================

Two versions of the protocol exist. In the older one, the coordinator must learn of every partition before it is written
(AddPartitionsToTxn). With the feature `transaction.version` 2 the first write itself adds the partition, and every
transaction ends with a new epoch, so that a delayed request of an earlier transaction can never touch a later one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

from penstock.client.cluster import GROUP, TRANSACTION, Cluster
from penstock.client.errors import IllegalState, check, kafka_error
from penstock.client.identity import ProducerIdentity
from penstock.client.types import OffsetAndMetadata, TopicPartition
from penstock.client.versions import (
    ADD_PARTITIONS_LAST_FOR_CLIENTS,
    END_TXN_LAST_OF_OLD_TRANSACTIONS,
    INIT_PRODUCER_ID_LAST_KNOWN,
    TXN_OFFSET_COMMIT_LAST_OF_OLD_TRANSACTIONS,
)
from penstock.wire import messages as m
from penstock.wire.conversation import NEWEST
from penstock.wire.errors import ErrorCode, KafkaError, ProducerFenced

T = TypeVar("T")

_FATAL = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}


class State(Enum):
    UNINITIALIZED = "uninitialized"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that can only be aborted"
    FATAL_ERROR = "unusable after a fatal error"


_ALLOWED: dict[str, tuple[State, ...]] = {
    "begin a transaction": (State.READY,),
    "send": (State.IN_TRANSACTION,),
    "send offsets": (State.IN_TRANSACTION,),
    "commit": (State.IN_TRANSACTION, State.COMMITTING),
    "abort": (State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING),
}


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The member that commits offsets in a transaction, from `Consumer.group_metadata`. A group id alone is enough."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class GroupMember(Protocol):
    """Whoever can say which group member it is: a `Consumer` can."""

    def group_metadata(self) -> ConsumerGroupMetadata: ...


class TransactionalIdentity(ProducerIdentity):
    """A producer id that belongs to a transactional id, and the transaction that is open under it."""

    is_transactional = True

    def __init__(self, cluster: Cluster, transactional_id: str, transaction_timeout_ms: int, timeout_ms: int) -> None:
        super().__init__(cluster, timeout_ms)
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.error: Exception | None = None
        self._transaction_timeout_ms = transaction_timeout_ms
        self._partitions: set[TopicPartition] = set()
        self._started = False  # whether the coordinator knows of this transaction

    def require(self, action: str) -> None:
        """Raise unless the state allows `action`."""
        if self.state in _ALLOWED[action]:
            return
        if self.failure is not None:
            raise self.failure
        hint = ""
        if self.state is State.READY:
            hint = "; open one first: async with producer.transaction(): …"
        raise IllegalState(f"cannot {action}: this producer is {self.state.value}{hint}")

    def fail(self, error: Exception) -> None:
        is_fatal = isinstance(error, KafkaError) and error.code in _FATAL
        if self.state is State.FATAL_ERROR or (self.state is State.ABORTABLE_ERROR and not is_fatal):
            return  # what went wrong first explains what followed
        self.error = error
        self.state = State.FATAL_ERROR if is_fatal else State.ABORTABLE_ERROR

    @property
    def failure(self) -> Exception | None:
        return self.error if self.state in (State.FATAL_ERROR, State.ABORTABLE_ERROR) else None

    def _checked(self, code: int, about: str) -> None:
        """Raise the error of `code`; an epoch that the coordinator no longer accepts means that we were fenced."""
        if code == ErrorCode.INVALID_PRODUCER_EPOCH:
            code = ErrorCode.PRODUCER_FENCED
        if code == ErrorCode.PRODUCER_FENCED:
            raise ProducerFenced(
                f"another producer with transactional_id {self.transactional_id!r} has taken over; "
                "close this one, or give each running producer a transactional_id of its own"
            )
        check(code, about=about)

    async def _guarded(self, work: Awaitable[T]) -> T:
        """Await `work`; an error makes the transaction one that can only be aborted, or worse."""
        try:
            return await work
        except KafkaError as error:
            self.fail(error)
            raise

    # Life

    async def prepare(self) -> None:
        """Register the transactional id: older producers with it are fenced, their open transaction is aborted."""
        if self.state is State.FATAL_ERROR and self.error is not None:
            raise self.error
        if self.is_ready:
            return
        await self._init_producer_id()
        node = await self._cluster.coordinator(TRANSACTION, self.transactional_id)
        features = (await self._cluster.connection(node, "coordinator")).features
        self.writing_adds_partitions = (
            features.finalized_epoch >= 0 and features.finalized.get("transaction.version", 0) >= 2
        )
        self.state = State.READY

    async def _init_producer_id(self) -> None:
        def build(version: int) -> m.Message:
            known = version >= 3 and self.producer_id >= 0
            return m.InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._transaction_timeout_ms,
                producer_id=self.producer_id if known else -1,
                producer_epoch=self.epoch if known else -1,
            )

        answer = await self._cluster.call_coordinator(
            TRANSACTION,
            self.transactional_id,
            build,
            m.InitProducerIdResponse,
            check_answer=lambda answer: self._checked(answer.error_code, "InitProducerId"),
            timeout_ms=self._timeout_ms,
            at_most=INIT_PRODUCER_ID_LAST_KNOWN,
        )
        self.producer_id = answer.producer_id
        self.epoch = answer.producer_epoch

    def begin(self) -> None:
        self.require("begin a transaction")
        self.state = State.IN_TRANSACTION
        self.error = None
        self._partitions.clear()
        self._started = False

    def may_write(self, tp: TopicPartition) -> bool:
        if self.writing_adds_partitions:
            self._started = True
            return True
        return tp in self._partitions

    async def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        new = [tp for tp in partitions if tp not in self._partitions]
        topics: dict[str, list[int]] = {}
        for tp in new:
            topics.setdefault(tp.topic, []).append(tp.partition)
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in topics.items()
            ],
        )

        def check_answer(answer: m.AddPartitionsToTxnResponse) -> None:
            for topic in answer.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    about = f"partition {topic.name}-{result.partition_index} in the transaction"
                    if result.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                        self._checked(result.partition_error_code, about)

        await self._guarded(
            self._cluster.call_coordinator(
                TRANSACTION,
                self.transactional_id,
                request,
                m.AddPartitionsToTxnResponse,
                check_answer=check_answer,
                timeout_ms=self._timeout_ms,
                at_most=ADD_PARTITIONS_LAST_FOR_CLIENTS,
            ),
        )
        self._partitions.update(new)
        self._started = True

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets as part of the transaction."""
        self.require("send offsets")
        if not offsets:
            return
        await self._guarded(self._send_offsets(offsets, group))

    async def _send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        if not self.writing_adds_partitions:
            await self._cluster.call_coordinator(
                TRANSACTION,
                self.transactional_id,
                m.AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=group.group_id,
                ),
                m.AddOffsetsToTxnResponse,
                check_answer=lambda answer: self._checked(answer.error_code, f"group {group.group_id!r}"),
                timeout_ms=self._timeout_ms,
            )
        self._started = True

        def check_answer(answer: m.TxnOffsetCommitResponse) -> None:
            for topic in answer.topics:
                for partition in topic.partitions:
                    if partition.error_code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
                        raise kafka_error(
                            partition.error_code,
                            "the consumer is no longer a member of its group; abort the transaction",
                            about=f"offsets of group {group.group_id!r}",
                        )
                    self._checked(partition.error_code, f"offset of {topic.name}-{partition.partition_index}")

        def build(version: int) -> m.Message:
            known = version >= 3
            return m.TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=group.group_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                generation_id=group.generation_id if known else -1,
                member_id=group.member_id if known else "",
                group_instance_id=group.group_instance_id if known else None,
                topics=_offset_topics(offsets),
            )

        await self._cluster.call_coordinator(
            GROUP,
            group.group_id,
            build,
            m.TxnOffsetCommitResponse,
            check_answer=check_answer,
            timeout_ms=self._timeout_ms,
            at_most=NEWEST if self.writing_adds_partitions else TXN_OFFSET_COMMIT_LAST_OF_OLD_TRANSACTIONS,
        )

    async def end(self, commit: bool) -> bool:
        """Commit or abort at the coordinator. Returns whether sequence numbers start over."""
        self.require("commit" if commit else "abort")
        self.state = State.COMMITTING if commit else State.ABORTING
        renewed = False
        if self._started:
            try:
                renewed = await self._end(commit)
            except KafkaError as error:
                self.error = error
                self.state = State.FATAL_ERROR if error.code in _FATAL else self.state
                raise
        self.state = State.READY
        self.error = None
        return renewed

    async def _end(self, commit: bool) -> bool:
        request = m.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = await self._cluster.call_coordinator(
            TRANSACTION,
            self.transactional_id,
            request,
            m.EndTxnResponse,
            check_answer=lambda answer: self._checked(answer.error_code, "EndTxn"),
            timeout_ms=self._timeout_ms,
            at_most=NEWEST if self.writing_adds_partitions else END_TXN_LAST_OF_OLD_TRANSACTIONS,
        )
        if answer.producer_id >= 0:
            self.producer_id = answer.producer_id
            self.epoch = answer.producer_epoch
            return True
        if not commit:
            # Batches of the aborted transaction may be lost with their numbers; a new epoch makes the gap harmless.
            await self._init_producer_id()
            return True
        return False


def _offset_topics(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> list[m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic]:
    topics: dict[str, m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = {}
    for tp, offset in offsets.items():
        topic = topics.setdefault(
            tp.topic, m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=tp.topic, partitions=[])
        )
        topic.partitions.append(
            m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return list(topics.values())
