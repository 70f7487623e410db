"""The order in which a transaction comes to the disk, from its beginning to what follows from a power cut.

Why it is so: docs/explanation/decisions/only-the-end-of-a-transaction-waits.md. The steps, in the order of this module:

1. *While a transaction is open* nothing waits. Its partitions, records and offsets are answered when they are written;
   Produce and TxnOffsetCommit begin to make their log durable (`Durability.begin`, `StateLog.make_durable_soon`), so
   that the end has less to wait for. One addition is different: see `when_it_may_begin`.
2. *Before a commit is decided*, all that the transaction has written is durable (`when_it_may_commit`). An abort does
   not wait for what it throws away.
3. *The decision*, the Prepare record, is durable before the producer is answered and before the first marker is
   written: the coordinator's runtime holds back actions until then (`actions_wait`).
4. *The markers* make the outcome visible, before anybody's next request (`write_markers`).
5. *When all markers are durable*, the Complete record is written and made durable at once (`_marked`).
6. *After a power cut* nobody goes on who was in the middle of something (`AfterPowerCut`).

With `penstock.acks.all.flush=false` the order is the same, and nothing waits for the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from penstock.guard import attempt
from penstock.storage.contract import StorageError
from penstock.transactions.metadata import MAX_PRODUCER_EPOCH, TopicPartition, TransactionMetadata, TransactionVersion
from penstock.transactions.shard import AddPartitions, TransactionShard, WriteMarkers
from penstock.transactions.states import TransactionState
from penstock.wire.errors import (
    CoordinatorLoadInProgress,
    ErrorCode,
    InvalidProducerEpoch,
    NotCoordinator,
    NotLeaderOrFollower,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.durability import Durability
    from penstock.broker.marker_requests import MarkerRequests
    from penstock.broker.topics import Partition
    from penstock.broker.transaction_markers import TransactionMarkers
    from penstock.broker.world import SteadyTime
    from penstock.coordination.runtime import CoordinatorRuntime, ShardHandle
    from penstock.groups.shard import GroupShard
    from penstock.storage.contract import Log

    Handle = ShardHandle[TransactionShard]

log = logging.getLogger("penstock.transactions")

_RETRY_SECONDS = 0.1

Then = Callable[[Exception | None], None]


class TransactionDurability:
    def __init__(
        self,
        cluster: ClusterView,
        durability: Durability,
        time: SteadyTime,
        markers: TransactionMarkers,
        marker_requests: MarkerRequests,
        is_deleted: Callable[[str, int], bool],
        on_completed: Callable[[], None],
    ) -> None:
        """`is_deleted` confirms that a partition of which this broker knows nothing (any more) does not exist."""
        self._marker_requests = marker_requests
        self._is_deleted = is_deleted
        self._cluster = cluster
        self._durability = durability
        self._time = time
        self._markers = markers
        self._on_completed = on_completed
        self._is_stopped = False

    # -- 1. before a transaction begins ----------------------------------------------------------------------------

    def when_it_may_begin(self, handle: Handle, add: AddPartitions, then: Then) -> None:
        """Call back when an addition may be asked of the coordinator: at once, except at the begin of a classic one.

        Under the classic protocol, whose epochs do not move, the Complete record of the last transaction must not get
        lost after the next one has begun: its markers would be written again, into the next.
        """
        if handle.log.is_durable or not self._durability.is_awaited or not self._begins_classic(handle, add):
            then(None)
            return

        def durable(failure: Exception | None) -> None:
            if failure is not None:
                then(failure)
            else:
                self.when_it_may_begin(handle, add, then)  # the Complete record may have been written in the meantime

        handle.log.when_durable(handle.log.log_end_offset, durable)

    def _begins_classic(self, handle: Handle, add: AddPartitions) -> bool:
        """Whether this begins a transaction that a repeated end of the last one could end."""
        meta = handle.shard.metadata(add.transactional_id)
        return not add.version.bumps_epoch and meta is not None and meta.state != TransactionState.ONGOING

    # -- 2. before a commit is decided -----------------------------------------------------------------------------

    def when_it_may_commit(self, handle: Handle, transactional_id: str, then: Then) -> None:
        """Call back when all that a transaction has written so far is durable: at once, if it is."""
        meta = handle.shard.metadata(transactional_id)
        behind = self._not_durable(meta) if meta is not None and self._durability.is_awaited else []
        if not behind:
            then(None)
            return

        def durable(failure: StorageError | None) -> None:
            if failure is not None:
                then(failure)
            else:
                self.when_it_may_commit(handle, transactional_id, then)  # more may have come in the meantime

        self._durability.when_durable(behind, durable)

    def _not_durable(self, meta: TransactionMetadata) -> list[tuple[Log, int]]:
        """The logs, each with the offset up to which it has to become durable."""
        behind = []
        for name, index in meta.partitions:
            try:
                partition_log = self._cluster.hosted(name, index).log
            except (UnknownTopicOrPartition, NotLeaderOrFollower):
                continue  # what was answered before another broker took it over is durable there
            end_offset = partition_log.undurable_end(meta.producer_id)
            if end_offset is not None:
                behind.append((partition_log, end_offset))
        return behind

    # -- 4. when the decision is durable: the markers --------------------------------------------------------------

    def write_markers(self, handle: Handle, markers: WriteMarkers) -> None:
        self._write_markers(handle, markers, markers.partitions)

    def _write_markers(self, handle: Handle, markers: WriteMarkers, partitions: Iterable[TopicPartition]) -> None:
        """A marker that cannot be written is tried again; a partition that exists no more needs none.

        Where another broker leads, it is requested to write the marker, until it has.
        """
        if self._is_stopped or handle.is_given_up:
            return
        gone: list[TopicPartition] = []
        failed: list[TopicPartition] = []
        elsewhere: dict[int, list[TopicPartition]] = {}
        for name, index in partitions:
            leader = self._cluster.leader_elsewhere(name, index) if self._cluster.is_shared else None
            if leader is not None:
                elsewhere.setdefault(leader, []).append((name, index))
                continue
            try:
                partition = self._cluster.hosted(name, index)
                appended = self._markers.append(partition, markers)
            except UnknownTopicOrPartition:
                (gone if self._is_deleted(name, index) else failed).append((name, index))
            except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
                # The partition has seen a newer epoch: whatever was open there has been ended by somebody else.
                log.warning("marker of %r for %s-%d not written: %s", markers.transactional_id, name, index, error)
                gone.append((name, index))
            except (CoordinatorLoadInProgress, NotCoordinator, NotLeaderOrFollower, StorageError) as error:
                log.warning("marker of %r for %s-%d is tried again: %s", markers.transactional_id, name, index, error)
                failed.append((name, index))
            else:
                durable = partial(self._marker_is_durable, handle, markers, (name, index))
                self._durability.when_durable([(partition.log, appended.position)], durable)
        for node_id, there in elsewhere.items():
            self._marker_requests.send(node_id, markers, there, partial(self._answered, handle, markers, node_id))
        if failed:
            self._try_again(handle, markers, failed)
        for tp in gone:
            self._marked(handle, markers, tp)

    def _answered(
        self, handle: Handle, markers: WriteMarkers, node_id: int, tp: TopicPartition, code: ErrorCode | None
    ) -> None:
        """What another broker says of a marker; None if it says nothing."""
        if self._is_stopped or handle.is_given_up:
            return
        if code == ErrorCode.NONE or (code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._is_deleted(*tp)):
            self._marked(handle, markers, tp)
            return
        what = "no answer" if code is None else code.name
        if code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED):
            log.warning("marker of %r for %s-%d not written: %s", markers.transactional_id, *tp, what)
            self._marked(handle, markers, tp)
            return
        log.info("marker of %r for %s-%d is tried again: %s of %d", markers.transactional_id, *tp, what, node_id)
        self._try_again(handle, markers, [tp])

    def _try_again(self, handle: Handle, markers: WriteMarkers, partitions: list[TopicPartition]) -> None:
        self._time.call_later(_RETRY_SECONDS, self._write_markers, handle, markers, partitions)

    def _marker_is_durable(
        self, handle: Handle, markers: WriteMarkers, tp: TopicPartition, failure: StorageError | None
    ) -> None:
        if self._is_stopped or handle.is_given_up:
            return
        if failure is None:
            self._marked(handle, markers, tp)
        elif self._durability.can_lose_appends:  # elsewhere a failure stops the broker
            self._try_again(handle, markers, [tp])

    # -- 5. when the markers are durable: the completion -----------------------------------------------------------

    def _marked(self, handle: Handle, markers: WriteMarkers, tp: TopicPartition) -> None:
        if handle.run(handle.shard.markers_written(markers, [tp], self._time.now_ms())):
            # So that the next transaction finds the end of this one on disk (`when_it_may_begin`).
            handle.log.make_durable_soon()
            self._on_completed()

    def stop(self) -> None:
        """Markers that are not written by now are written after the next start."""
        self._is_stopped = True


class AfterPowerCut:
    """6. What follows from writes that were lost.

    Everybody who was in the middle of something is sent back to the beginning: the shards of the coordinator abort what
    is open and fence all producers as soon as they are loaded (`TransactionShard`, `ends_sessions`). A transaction that
    is already decided completes first, and its producer is fenced then.

    A power cut may also have kept a batch and lost the coordinator's record of its partition. Nothing would ever end
    that transaction, and `read_committed` readers would wait before it for ever. So after every start each open
    transaction in a log that no coordinator knows (an orphan) is aborted. Its marker has the next epoch, so that a
    producer that repeats the batch is not told that it is there already.

    Among several brokers there are no orphans, because additions wait for the disk there; and nobody looks for them,
    because one broker does not know what the coordinators of the others know, and would abort their transactions.

    When nobody is left who could go on, the lost writes are settled, and the next start need not know of them.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionShard],
        groups: Callable[[], CoordinatorRuntime[GroupShard]],
        cluster: ClusterView,
        markers: TransactionMarkers,
        lost_writes_settled: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._groups = groups
        self._cluster = cluster
        self._markers = markers
        self._lost_writes_settled = lost_writes_settled
        self._is_settled = False
        self._is_stopped = False

    def settle_when_loaded(self) -> None:
        """Begin: the logs are searched for orphans when all coordinators have read what they know."""
        groups = self._groups()
        self._runtime.when_loaded(lambda: groups.when_loaded(self._settle))

    def _settle(self) -> None:
        if self._is_stopped:
            return
        if not self._cluster.is_shared and not attempt("aborting orphaned transactions", self._abort_orphans):
            self._runtime.scheduler.call_later(_RETRY_SECONDS, self._settle)
            return
        self.settle_if_possible()

    def _abort_orphans(self) -> None:
        shards = [handle.shard for handle in self._runtime.loaded_handles()]
        for partition in self._cluster.hosted_partitions():
            tp = (partition.topic.name, partition.index)
            for producer in partition.log.active_producers():
                producer_id, epoch = producer.producer_id, producer.producer_epoch
                if producer.has_open_transaction and not any(shard.holds(producer_id, epoch, tp) for shard in shards):
                    self._abort_orphan(partition, producer_id, epoch, producer.coordinator_epoch)

    def _abort_orphan(self, partition: Partition, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        log.warning(
            "%s-%d holds a transaction of producer %d that no coordinator knows; aborted",
            partition.topic.name,
            partition.index,
            producer_id,
        )
        self._markers.append(
            partition,
            WriteMarkers(
                transactional_id="",
                producer_id=producer_id,
                producer_epoch=min(epoch + 1, MAX_PRODUCER_EPOCH),
                commit=False,
                coordinator_epoch=max(coordinator_epoch, 0),
                transaction_version=TransactionVersion.TV_2,
                partitions=((partition.topic.name, partition.index),),
            ),
        )

    def settle_if_possible(self) -> None:
        """Called after each completion too: the last producers are fenced when their transactions are complete."""
        if self._is_settled or self._runtime.is_loading:
            return
        if not any(handle.shard.has_sessions_to_end for handle in self._runtime.loaded_handles()):
            self._is_settled = attempt("noting that lost writes are settled", self._lost_writes_settled)

    def stop(self) -> None:
        self._is_stopped = True
