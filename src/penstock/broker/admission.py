"""Transactional writes need the coordinator's word before a transaction's first batch enters a partition (KIP-890).

A classic producer (Produce up to version 11) has named the partition before, and the coordinator only confirms it: a
batch that belongs to no open transaction would never get a marker. For a producer of `transaction.version=2` (version
12 and later) the broker adds the partition on its behalf: the coordinator's record first, the batch right after it in
the same step.

If the producer's previous transaction is still ending, the write waits for that, and all later writes of the same
transactional id wait behind it: their order is what the sequence numbers of the batches are checked against.

A classic producer may have several first batches in flight. Where one was refused, those after it are out of order
until it has come again: the log knows nothing of the producer yet and would take any sequence number for the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock import guard
from penstock.broker.requests import NO_RESPONSE, Answer, Pending, Request
from penstock.records.batch import TRANSACTIONAL, BatchHeader, CorruptBatch, parse_header
from penstock.transactions.metadata import TopicPartition, TransactionVersion
from penstock.transactions.shard import AddPartitions
from penstock.wire import messages as m
from penstock.wire.errors import (
    ConcurrentTransactions,
    ErrorCode,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    error_class,
)
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig

MAX_REFUSED = 1000  # refused first batches that are remembered
MAX_BEHIND = 100  # writes of one transactional id that wait; a producer has five in flight
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS = 12


Codes = dict[TopicPartition, ErrorCode]


class Coordinator(Protocol):
    """The transaction coordinator, as writes see it."""

    def is_elsewhere(self, transactional_id: str) -> bool:
        """Whether the coordinator of a transactional id is on another broker."""

    def verify(self, add: AddPartitions, done: Callable[[Codes], None]) -> None:
        """Whether these partitions are part of the producer's open transaction; `done` is called, mostly at once."""

    def add_partitions(self, add: AddPartitions, done: Callable[[ErrorCode], None]) -> None:
        """Add partitions to a transaction; `done` is called with the result, mostly at once."""


class MixedProducers(InvalidProducerIdMapping):
    """One request with transactional batches of two producers."""


class Admission:
    """What the coordinator says to one write: which partitions it refuses.

    It is called with the coordinator's reply to an addition.
    """

    __slots__ = ("code", "errors", "on_reply", "waits")

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        """Whether the write is answered when it is durable, because a coordinator elsewhere cannot see to it."""
        self.errors: dict[TopicPartition, KafkaError] = {}
        self.code: ErrorCode | None = None
        self.on_reply: Callable[[ErrorCode], None] | None = None

    def refuse(self, partitions: frozenset[TopicPartition], error: KafkaError) -> None:
        self.errors = dict.fromkeys(partitions, error)

    def __call__(self, code: ErrorCode) -> None:
        self.code = code
        if self.on_reply is not None:
            self.on_reply(code)


class _Verdict:
    """What the coordinator says to a verification, at once or later."""

    __slots__ = ("codes", "on_reply")

    def __init__(self) -> None:
        self.codes: Codes | None = None
        self.on_reply: Callable[[Codes], None] | None = None

    def __call__(self, codes: Codes) -> None:
        self.codes = codes
        if self.on_reply is not None:
            self.on_reply(codes)


Append = Callable[[Admission], Answer]
"""Appends the batches of a request that the coordinator does not refuse, and answers it."""


class _Write:
    """One produce request of a transactional producer."""

    __slots__ = ("append", "body", "pending", "request")

    def __init__(self, request: Request[m.ProduceRequest], body: m.ProduceRequest, append: Append) -> None:
        self.request = request
        self.body = body
        self.append = append
        self.pending: Pending | None = None

    def defer(self) -> Pending:
        """Copy the batches out of the connection's buffer, which is used again when the handler returns."""
        for topic in self.body.topic_data:
            for data in topic.partition_data:
                if isinstance(data.records, memoryview):
                    data.records = memoryview(bytearray(data.records))
        self.pending = self.request.defer()
        return self.pending

    def finish(self, admission: Admission) -> None:
        assert self.pending is not None
        if self.request.connection.closed:
            return
        if not guard.attempt("a transactional write", self._append, admission):
            self.pending.close_connection()

    def _append(self, admission: Admission) -> None:
        assert self.pending is not None
        answer = self.append(admission)
        if isinstance(answer, Message):
            self.pending.complete(answer)
        elif answer is NO_RESPONSE:
            self.request.connection.drop_slot(self.request.slot)


class TransactionalWrites:
    def __init__(self, cluster: ClusterView, coordinator: Coordinator, config: BrokerConfig) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._config = config
        # Those who wait behind the write that waits for the coordinator, by transactional id.
        self._behind: dict[str, deque[_Write]] = {}
        # The lowest sequence number of refused first batches, by partition, producer id and epoch.
        self._refused: dict[tuple[TopicPartition, int, int], int] = {}

    def admit(self, request: Request[m.ProduceRequest], body: m.ProduceRequest, append: Append) -> Answer:
        """Have `append` called as soon as the coordinator has spoken: mostly at once."""
        write = _Write(request, body, append)
        transactional_id = body.transactional_id or ""
        behind = self._behind.get(transactional_id)
        if behind is not None and len(behind) < MAX_BEHIND:
            behind.append(write)
            return write.defer()
        if behind is not None:
            admission = Admission(waits=True)
            admission.refuse(frozenset(self._first_batches(body)), ConcurrentTransactions())
            return append(admission)
        spoken = self._confirm(write)
        if spoken is not None:
            return append(spoken)
        self._behind[transactional_id] = deque()
        return write.defer()

    def _confirm(self, write: _Write) -> Admission | None:
        """The coordinator's word, or None if the write has to wait for it."""
        admission = Admission(waits=self._coordinator.is_elsewhere(write.body.transactional_id or ""))
        first = self._first_batches(write.body)
        if not first:
            return admission
        partitions = frozenset(first)
        producers = {(header.producer_id, header.producer_epoch) for header in first.values()}
        if len(producers) > 1:
            error = MixedProducers("Transactional records contained more than one producer ID")
            admission.refuse(partitions, error)
            return admission
        ((producer_id, epoch),) = producers
        adds = write.request.api_version >= FIRST_VERSION_THAT_ADDS
        version = TransactionVersion.TV_2 if adds else TransactionVersion.TV_0
        add = AddPartitions(write.body.transactional_id or "", producer_id, epoch, partitions, version)
        if adds:
            return self._add(write, add, admission)
        if self._config.transaction_partition_verification_enable:
            return self._verify(write, add, first, admission)
        return admission

    def _verify(
        self, write: _Write, add: AddPartitions, first: dict[TopicPartition, BatchHeader], admission: Admission
    ) -> Admission | None:
        abortable = write.request.api_version >= FIRST_VERSION_WITH_ABORTABLE
        verdict = _Verdict()
        self._coordinator.verify(add, verdict)
        if verdict.codes is None:

            def waited(codes: Codes) -> None:
                self._judge(codes, first, admission, abortable)
                self._go_on(add.transactional_id, write, admission)

            verdict.on_reply = waited
            return None
        self._judge(verdict.codes, first, admission, abortable)
        return admission

    def _judge(
        self, codes: Codes, first: dict[TopicPartition, BatchHeader], admission: Admission, abortable: bool
    ) -> None:
        for tp, code in codes.items():
            if code != ErrorCode.NONE:
                admission.errors[tp] = write_error(code, adds=False, abortable=abortable)
                self._remember(tp, first[tp])
            elif self._refused and self._overtakes(tp, first[tp]):
                admission.errors[tp] = OutOfOrderSequenceNumber()

    def _remember(self, tp: TopicPartition, header: BatchHeader) -> None:
        key = (tp, header.producer_id, header.producer_epoch)
        lowest = min(header.base_sequence, self._refused.pop(key, header.base_sequence))
        if len(self._refused) >= MAX_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = lowest

    def _overtakes(self, tp: TopicPartition, header: BatchHeader) -> bool:
        """Whether a batch before this one was refused and has not come again."""
        key = (tp, header.producer_id, header.producer_epoch)
        lowest = self._refused.get(key)
        if lowest is None:
            return False
        try:
            knows_producer = self._cluster.hosted(*tp).log.knows_producer(header.producer_id)
        except KafkaError:
            return False  # the partition moved away while the coordinator was asked: the write is refused for it
        if knows_producer:
            del self._refused[key]  # from now on the log knows what comes next
            return False
        return header.base_sequence > lowest

    def _add(self, write: _Write, add: AddPartitions, admission: Admission) -> Admission | None:
        self._coordinator.add_partitions(add, admission)
        if admission.code is None:
            admission.on_reply = lambda code: self._waited(write, add, admission, code)
            return None
        if admission.code != ErrorCode.NONE:
            admission.refuse(add.partitions, write_error(admission.code, adds=True))
        return admission

    def _waited(self, write: _Write, add: AddPartitions, admission: Admission, code: ErrorCode) -> None:
        """The transaction before has ended, or it took too long: the write goes on, and those behind it."""
        if code != ErrorCode.NONE:
            admission.refuse(add.partitions, write_error(code, adds=True))
        self._go_on(add.transactional_id, write, admission)

    def _go_on(self, transactional_id: str, write: _Write, admission: Admission) -> None:
        behind = self._behind.pop(transactional_id)
        write.finish(admission)
        while behind:
            following = behind.popleft()
            spoken = self._confirm(following)
            if spoken is None:
                self._behind[transactional_id] = behind
                return
            following.finish(spoken)

    def _first_batches(self, body: m.ProduceRequest) -> dict[TopicPartition, BatchHeader]:
        """The transactional batches that would be the first of their transaction in their partition."""
        found: dict[TopicPartition, BatchHeader] = {}
        cluster = self._cluster
        for topic_data in body.topic_data:
            topic = cluster.find_topic(topic_data.name) if topic_data.name else cluster.topic_by_id(topic_data.topic_id)
            if topic is None:
                continue
            for data in topic_data.partition_data:
                header = _transactional_header(data.records)
                if header is None:
                    continue
                try:
                    partition_log = topic.hosted(data.index).log
                except KafkaError:
                    continue  # the write is refused for it
                if not partition_log.has_open_transaction(header.producer_id, header.producer_epoch):
                    found[(topic.name, data.index)] = header
        return found


def _transactional_header(records: object) -> BatchHeader | None:
    """The header of a transactional batch; a malformed one is left to the validation that follows."""
    if not isinstance(records, memoryview):
        return None
    try:
        header = parse_header(records)
    except CorruptBatch:
        return None
    return header if header.attributes & TRANSACTIONAL and header.producer_id >= 0 else None


def write_error(code: ErrorCode, *, adds: bool, abortable: bool = True) -> KafkaError:
    """The coordinator's error in the words that a producer of this version understands."""
    if code == ErrorCode.PRODUCER_FENCED:
        return InvalidProducerEpoch()
    if code == ErrorCode.TRANSACTION_ABORTABLE and not abortable:
        return InvalidTxnState("Partition was not added to the transaction")
    not_now = {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
    if code in not_now or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        # Clients retry a write after this one, and do not look for a new leader.
        return NotEnoughReplicas(
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        )
    return error_class(code)()
