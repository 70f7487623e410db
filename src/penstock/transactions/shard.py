"""The transaction coordinator of one partition of `__transaction_state`.

A command looks at memory and returns `Effects`: the records to append, the replies to send once they are durable, and
`WriteMarkers` actions. Memory changes only in `replay`, with the very records that a restart would read.

**The order the shell must keep** (each line is durable before the next begins):

1. the records of the effects (the Prepare record);
2. the markers of `WriteMarkers`, in every partition it names. The replies may go out before this line: the outcome is
   fixed;
3. the records of the effects of `markers_written` (the Complete record, and whatever waited for it).

The markers must be durable before the Complete record is written: after it, nobody would write them again. A partition
that no longer exists counts as written.

**Waiting instead of CONCURRENT_TRANSACTIONS.** Between the Prepare record and the Complete record a producer may
already begin its next transaction. Apache Kafka answers with CONCURRENT_TRANSACTIONS and the producer asks again after
a pause many times longer than what is left to do. Here an addition of partitions waits for the Complete record, at
most `concurrent_wait_ms`, and is then served in the same batch of records.

**Only the end waits for the disk.** What belongs to an open transaction (its partitions here, its records and offsets
elsewhere) is answered when it is written. Before the Prepare record of a commit is written, the shell brings all of it
to the disk. A power cut before that may have lost any part of what the producer believes to be there, so after one
(`ends_sessions`) every open transaction is aborted and every producer is fenced: it must not go on as if nothing had
happened, and it begins again with InitProducerId. One addition is different: under the classic protocol, whose epochs
do not move, the one that begins a transaction is asked for when the Complete record before it is on disk (or answered
when it is, if it waited for that record). Were it lost, the coordinator would write the markers of the last transaction
again, into this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from penstock.coordination.context import RequestContext
from penstock.coordination.effects import CoordinatorRecord, Effects, Respond, answered
from penstock.transactions import adding, end_txn, expiry, init_producer, listing, records
from penstock.transactions.metadata import (
    MAX_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionMetadata,
    TransactionVersion,
    completed,
    session_over,
)
from penstock.transactions.states import ENDING, TransactionState
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, InvalidRequest, KafkaError

RETRY_MS = 100
MAX_WAITING = 100  # additions that wait for the end of one transaction; a producer has a handful in flight at most


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Kafka's configs of the coordinator, under Kafka's names."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    remove_expired_interval_ms: int = 3_600_000
    concurrent_wait_ms: int = 100
    server_version: TransactionVersion = TransactionVersion.TV_2


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Ask the shell to write the outcome into each of these partitions, then to call `markers_written`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: TransactionVersion
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Add partitions to the transaction that this producer has open, or begin one with them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    version: TransactionVersion
    waits: bool = False
    """Whether the reply waits until the addition is durable."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An addition that came while the previous transaction was ending."""

    respond: Respond[ErrorCode]
    add: AddPartitions
    deadline_ms: int


class TransactionShard:
    def __init__(
        self,
        *,
        coordinator_epoch: int,
        settings: TransactionSettings,
        new_producer_id: Callable[[], int],
        ends_sessions: bool = False,
    ) -> None:
        """`ends_sessions`: writes may have been lost since the producers of the loaded entries were last answered."""
        self._coordinator_epoch = coordinator_epoch
        self._settings = settings
        self._new_producer_id = new_producer_id
        self._ends_sessions = ends_sessions
        self._session_ends_on_completion: set[str] = set()
        self._entries: dict[str, TransactionMetadata] = {}
        # The entries behind records that were handed out but not replayed yet: spares decoding them again, and keeps
        # the one field that the record does not hold.
        self._handed_out: dict[bytes, TransactionMetadata] = {}
        self._abort_deadlines_ms: dict[str, int] = {}
        self._earliest_abort_ms: int | None = None
        self._unmarked: dict[str, set[TopicPartition]] = {}
        self._waiting: dict[str, list[_Waiting]] = {}
        self._next_removal_ms: int | None = None
        self._retry_completion_ms: int | None = None
        self._now_ms = 0  # of the last command that may be followed by `append_failed`

    def use(self, settings: TransactionSettings) -> None:
        """Follow other settings from now on."""
        self._settings = settings

    # --- commands ---

    def init_producer_id(
        self, respond: Respond[m.InitProducerIdResponse], ctx: RequestContext, request: m.InitProducerIdRequest
    ) -> Effects:
        """InitProducerId with a transactional id; without one no coordinator is needed."""
        try:
            meta = self._initialize(ctx.now_ms, request)
        except KafkaError as error:
            return answered(respond, init_producer_id_failure(error.code, ctx.api_version))
        effects = Effects()
        self._write(effects, meta)
        if meta.state == TransactionState.EMPTY:
            response = m.InitProducerIdResponse(producer_id=meta.producer_id, producer_epoch=meta.producer_epoch)
        else:
            self._begin_marking(effects, meta, ctx.now_ms)
            response = init_producer_id_failure(ErrorCode.CONCURRENT_TRANSACTIONS, ctx.api_version)
        effects.reply(respond, response, lambda error: init_producer_id_failure(error, ctx.api_version))
        return effects

    def add_partitions(self, respond: Respond[ErrorCode], now_ms: int, add: AddPartitions) -> Effects:
        """The reply is an `ErrorCode`: a client's request, a broker's batch of them and a write all end here."""
        effects = Effects(replies_wait=add.waits)
        meta = self._entries.get(add.transactional_id)
        if meta is not None and meta.state in ENDING and self._wait(respond, add, now_ms):
            return effects
        self._add(effects, respond, meta, add, now_ms)
        return effects

    def end_txn(self, respond: Respond[m.EndTxnResponse], ctx: RequestContext, request: m.EndTxnRequest) -> Effects:
        end_request = end_txn.EndRequest(
            producer_id=request.producer_id,
            epoch=request.producer_epoch,
            commit=request.committed,
            # Version 5 says that the client follows KIP-890.
            version=TransactionVersion.TV_2 if ctx.api_version > 4 else TransactionVersion.TV_0,
        )
        try:
            meta = self._entry(request.transactional_id)
            decision = end_txn.end(meta, end_request, new_producer_id=self._new_producer_id, now_ms=ctx.now_ms)
        except KafkaError as error:
            return answered(respond, m.EndTxnResponse(error_code=fenced_code(error.code, ctx.api_version, 2)))
        effects = Effects()
        if decision.meta is not None:
            self._write(effects, decision.meta)
            self._begin_marking(effects, decision.meta, ctx.now_ms)
        response = m.EndTxnResponse(producer_id=decision.producer_id, producer_epoch=decision.producer_epoch)
        effects.reply(respond, response, lambda error: m.EndTxnResponse(error_code=error))
        return effects

    def markers_written(self, markers: WriteMarkers, partitions: Iterable[TopicPartition], now_ms: int) -> Effects:
        """These partitions hold their marker durably (or exist no more). The last ones complete the transaction."""
        waiting = self._waiting.get(markers.transactional_id, ())
        effects = Effects(replies_wait=any(each.add.waits or not each.add.version.bumps_epoch for each in waiting))
        meta = self._entries.get(markers.transactional_id)
        unmarked = self._unmarked.get(markers.transactional_id)
        if meta is None or unmarked is None or meta.state not in ENDING or not _is_about(markers, meta):
            return effects
        unmarked.difference_update(partitions)
        if not unmarked:
            self._complete(effects, meta, now_ms)
        return effects

    # --- time ---

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do, or earlier."""
        earliest = self._earliest_abort_ms
        for deadline in (self._next_removal_ms, self._retry_completion_ms):
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        for waiting in self._waiting.values():
            if earliest is None or waiting[0].deadline_ms < earliest:
                earliest = waiting[0].deadline_ms
        return earliest

    def tick(self, now_ms: int) -> Effects:
        effects = Effects()
        if self._earliest_abort_ms is not None and self._earliest_abort_ms <= now_ms:
            self._abort_overdue(effects, now_ms)
        if self._next_removal_ms is not None and self._next_removal_ms <= now_ms:
            self._remove_expired(effects, now_ms)
        if self._retry_completion_ms is not None and self._retry_completion_ms <= now_ms:
            self._retry_completion_ms = None
            for transactional_id, unmarked in self._unmarked.items():
                if not unmarked:
                    self._complete(effects, self._entries[transactional_id], now_ms)
        self._give_up_waiting(effects, now_ms)
        return effects

    # --- the log ---

    def replay(self, key: bytes, value: bytes | None, producer_id: int = -1, *, written_ms: int = 0) -> None:
        meta = self._handed_out.pop(value, None) if value is not None else None
        if meta is None:
            transactional_id = records.transactional_id_of(key)
            if transactional_id is None:
                return
            if value is None:
                self._entries.pop(transactional_id, None)
                self._abort_deadlines_ms.pop(transactional_id, None)
                return
            meta = records.metadata_of(transactional_id, value)
            if meta is None:
                return
        self._entries[meta.transactional_id] = meta
        if meta.state not in ENDING:
            self._unmarked.pop(meta.transactional_id, None)
        if meta.state == TransactionState.EMPTY:
            self._session_ends_on_completion.discard(meta.transactional_id)
        self._note_deadline(meta)
        if self._next_removal_ms is None:
            self._next_removal_ms = meta.last_update_timestamp_ms + self._settings.remove_expired_interval_ms

    def loaded(self, now_ms: int) -> Effects:
        """The whole partition was replayed: go on with every transaction whose outcome is already fixed."""
        effects = Effects()
        for meta in self._entries.values():
            if meta.state in ENDING:
                if self._ends_sessions:
                    self._session_ends_on_completion.add(meta.transactional_id)
                self._begin_marking(effects, meta, now_ms)
            elif self._ends_sessions:
                self._end_session(effects, meta, now_ms)
        if self._entries:
            self._next_removal_ms = now_ms + self._settings.remove_expired_interval_ms
        return effects

    def replay_end_marker(self, producer_id: int, commit: bool) -> None:
        """`__transaction_state` itself is not written in transactions."""

    def append_failed(self, effects: Effects, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> Effects:
        """The records could not be appended: nothing has happened, and everybody may try again."""
        retry_ms = self._now_ms + RETRY_MS
        self._handed_out.clear()
        for transactional_id in list(self._unmarked):
            if self._entries[transactional_id].state not in ENDING:
                del self._unmarked[transactional_id]
        self._retry_completion_ms = retry_ms
        if self._abort_deadlines_ms:
            self._earliest_abort_ms = retry_ms
        return Effects()

    def unload(self, error: ErrorCode) -> Effects:
        """The shard is given up: those who wait for the end of a transaction are sent to whoever takes over."""
        effects = Effects()
        for queue in self._waiting.values():
            for waiting in queue:
                effects.reply(waiting.respond, error, _itself)
        self._waiting.clear()
        return effects

    # --- questions ---

    def verify(self, add: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Whether these partitions are part of the transaction that this producer has open."""
        try:
            meta = self._entry(add.transactional_id)
            return adding.verify(meta, producer_id=add.producer_id, epoch=add.producer_epoch, partitions=add.partitions)
        except KafkaError as error:
            return dict.fromkeys(add.partitions, error.code)

    def holds(self, producer_id: int, epoch: int, partition: TopicPartition) -> bool:
        """Whether this will end the transaction that a producer has open in a partition, with batches of this epoch."""
        return any(
            meta.producer_id == producer_id and partition in meta.partitions and not _is_before(meta, epoch)
            for meta in self._entries.values()
        )

    @property
    def has_sessions_to_end(self) -> bool:
        """Whether some producers of before a power cut can still go on: until their last transaction is complete."""
        return bool(self._session_ends_on_completion)

    def describe(self, transactional_id: str) -> m.DescribeTransactionsResponse.TransactionState:
        meta = self._entries.get(transactional_id)
        if meta is None:
            code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
            return m.DescribeTransactionsResponse.TransactionState(transactional_id=transactional_id, error_code=code)
        return listing.described(meta, self._unmarked.get(transactional_id, meta.partitions))

    def summary(self) -> tuple[Counter[TransactionState], int | None]:
        """How many transactional ids are in each state, and when the oldest transaction that is open began."""
        entries = self._entries.values()
        states = Counter(each.state for each in entries)
        began_ms = [each.start_timestamp_ms for each in entries if each.state == TransactionState.ONGOING]
        return states, min(began_ms, default=None)

    def list(
        self, list_filter: listing.ListFilter, now_ms: int
    ) -> Iterator[m.ListTransactionsResponse.TransactionState]:
        for meta in self._entries.values():
            if list_filter.lets_pass(meta, now_ms):
                yield listing.listed(meta)

    def metadata(self, transactional_id: str) -> TransactionMetadata | None:
        return self._entries.get(transactional_id)

    # --- inside ---

    def _entry(self, transactional_id: str | None) -> TransactionMetadata | None:
        if not transactional_id:
            raise InvalidRequest("the transactional id must not be empty")
        return self._entries.get(transactional_id)

    def _initialize(self, now_ms: int, request: m.InitProducerIdRequest) -> TransactionMetadata:
        expected = init_producer.expected_producer(request.producer_id, request.producer_epoch)
        meta = self._entry(request.transactional_id)
        assert request.transactional_id is not None
        init_producer.check_timeout(request.transaction_timeout_ms, self._settings.transaction_max_timeout_ms)
        return init_producer.initialize(
            meta,
            request.transactional_id,
            timeout_ms=request.transaction_timeout_ms,
            expected=expected,
            new_producer_id=self._new_producer_id,
            server_version=self._settings.server_version,
            now_ms=now_ms,
        )

    def _add(
        self,
        effects: Effects,
        respond: Respond[ErrorCode],
        meta: TransactionMetadata | None,
        add: AddPartitions,
        now_ms: int,
    ) -> TransactionMetadata | None:
        """Serve one addition against `meta`; gives the entry as it will be after the effects."""
        try:
            if not add.transactional_id:
                raise InvalidRequest("the transactional id must not be empty")
            added = adding.add(
                meta,
                producer_id=add.producer_id,
                epoch=add.producer_epoch,
                partitions=add.partitions,
                version=add.version,
                now_ms=now_ms,
            )
        except KafkaError as error:
            effects.reply(respond, error.code, _itself)
            return meta
        effects.reply(respond, ErrorCode.NONE, _itself)
        if added is None:
            return meta
        self._write(effects, added)
        return added

    def _end_session(self, effects: Effects, meta: TransactionMetadata, now_ms: int) -> None:
        """Abort what is open, and let nobody go on who was here before."""
        if meta.state != TransactionState.ONGOING:
            self._write(effects, session_over(meta, now_ms))
        else:
            self._abort(effects, meta, now_ms)

    def _abort(self, effects: Effects, meta: TransactionMetadata, now_ms: int) -> None:
        """Abort an open transaction over its producer's head. Raises KafkaError if no producer id is to be had."""
        aborted = end_txn.abort_over_the_producers_head(
            meta,
            new_producer_id=self._new_producer_id,
            server_version=self._settings.server_version,
            now_ms=now_ms,
        )
        self._write(effects, aborted)
        self._begin_marking(effects, aborted, now_ms)

    def _begin_marking(self, effects: Effects, meta: TransactionMetadata, now_ms: int) -> None:
        """The outcome is in these effects (or in the log): ask for the markers, or complete what needs none."""
        self._unmarked[meta.transactional_id] = set(meta.partitions)
        if not meta.partitions:
            self._complete(effects, meta, now_ms)
            return
        effects.actions.append(
            WriteMarkers(
                transactional_id=meta.transactional_id,
                producer_id=meta.producer_id,
                producer_epoch=meta.producer_epoch,
                commit=meta.state == TransactionState.PREPARE_COMMIT,
                coordinator_epoch=self._coordinator_epoch,
                transaction_version=meta.client_version,
                partitions=tuple(sorted(meta.partitions)),
            )
        )

    def _complete(self, effects: Effects, meta: TransactionMetadata, now_ms: int) -> None:
        """Write the Complete record, and serve in the same batch those who waited for it."""
        after: TransactionMetadata | None = completed(meta, now_ms)
        assert after is not None
        self._write(effects, after)
        if meta.transactional_id in self._session_ends_on_completion:
            after = session_over(after, now_ms)
            self._write(effects, after)
        for waiting in self._waiting.pop(meta.transactional_id, ()):
            after = self._add(effects, waiting.respond, after, waiting.add, now_ms)

    def _write(self, effects: Effects, meta: TransactionMetadata) -> None:
        self._now_ms = meta.last_update_timestamp_ms
        value = records.value_of(meta, self._settings.server_version)
        self._handed_out[value] = meta
        effects.records.append(CoordinatorRecord(records.key_of(meta.transactional_id), value))

    def _wait(self, respond: Respond[ErrorCode], add: AddPartitions, now_ms: int) -> bool:
        """Whether the addition may wait for the end of the transaction before it."""
        queue = self._waiting.get(add.transactional_id, [])
        if self._settings.concurrent_wait_ms <= 0 or len(queue) >= MAX_WAITING:
            return False
        queue.append(_Waiting(respond, add, now_ms + self._settings.concurrent_wait_ms))
        self._waiting[add.transactional_id] = queue
        return True

    def _note_deadline(self, meta: TransactionMetadata) -> None:
        deadline_ms = expiry.abort_deadline_ms(meta)
        if deadline_ms is None:
            self._abort_deadlines_ms.pop(meta.transactional_id, None)
            return
        self._abort_deadlines_ms[meta.transactional_id] = deadline_ms
        if self._earliest_abort_ms is None or deadline_ms < self._earliest_abort_ms:
            self._earliest_abort_ms = deadline_ms

    def _abort_overdue(self, effects: Effects, now_ms: int) -> None:
        retry_ms = None
        for transactional_id, deadline_ms in self._abort_deadlines_ms.items():
            if deadline_ms > now_ms:
                continue
            try:
                self._abort(effects, self._entries[transactional_id], now_ms)
            except KafkaError:
                retry_ms = now_ms + RETRY_MS
        # Those just aborted leave the table when their record is replayed.
        later = [deadline for deadline in self._abort_deadlines_ms.values() if deadline > now_ms]
        self._earliest_abort_ms = min([*later, retry_ms] if retry_ms is not None else later, default=None)

    def _remove_expired(self, effects: Effects, now_ms: int) -> None:
        for meta in self._entries.values():
            if expiry.is_expired(meta, self._settings.transactional_id_expiration_ms, now_ms):
                effects.records.append(CoordinatorRecord(records.key_of(meta.transactional_id), None))
        self._next_removal_ms = now_ms + self._settings.remove_expired_interval_ms

    def _give_up_waiting(self, effects: Effects, now_ms: int) -> None:
        for transactional_id, queue in list(self._waiting.items()):
            while queue and queue[0].deadline_ms <= now_ms:
                effects.reply(queue.pop(0).respond, ErrorCode.CONCURRENT_TRANSACTIONS, _itself)
            if not queue:
                del self._waiting[transactional_id]


def fenced_code(code: ErrorCode, api_version: int, first_version_that_knows: int) -> ErrorCode:
    """PRODUCER_FENCED came late to the protocol; older versions of a request know it as INVALID_PRODUCER_EPOCH."""
    if code == ErrorCode.PRODUCER_FENCED and api_version < first_version_that_knows:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def init_producer_id_failure(code: ErrorCode, api_version: int) -> m.InitProducerIdResponse:
    return m.InitProducerIdResponse(
        error_code=fenced_code(code, api_version, 4), producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


def _is_about(markers: WriteMarkers, meta: TransactionMetadata) -> bool:
    return markers.producer_id == meta.producer_id and markers.producer_epoch == meta.producer_epoch


def _is_before(meta: TransactionMetadata, epoch: int) -> bool:
    """Whether this is the end of a transaction before the one with this epoch: its marker would be refused there.

    With KIP-890 the next transaction has the very epoch of the marker.
    """
    is_next = meta.state in ENDING and meta.client_version.bumps_epoch and epoch >= meta.producer_epoch
    return is_next and epoch < MAX_PRODUCER_EPOCH


def _itself(error: ErrorCode) -> ErrorCode:
    """The reply to an addition whose record could not be written."""
    return error
