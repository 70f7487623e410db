"""Runs the transaction coordinator: its log, and the markers it asks for.

**Ending.** Before a commit is decided, all that the transaction has written is brought to the disk: until then nothing
of it has waited for that (see `transactions.shard`). When the Prepare record is on disk the producer is answered and,
before anybody's next request, the marker is written to every partition of the transaction, which makes the outcome
visible. When all markers are on disk too, the coordinator completes the transaction. A marker that cannot be written is
tried again; a partition that exists no more needs none.

**After a power cut** everybody who was in the middle of something is sent back to the beginning: the coordinators abort
what is open and fence all producers. And it may have kept a batch and lost the coordinator's record of the partition.
Nothing would ever end that transaction, and `read_committed` readers would wait before it for ever. So after a start
each open transaction in a log that no coordinator knows (an orphan) is aborted. Its marker has the next epoch, so that
a producer that repeats the batch is not told that it is there already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.features import TRANSACTION_VERSION
from penstock.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Partition
from penstock.coordination.runtime import CoordinatorRuntime, ShardHandle
from penstock.records.batch import parse_header
from penstock.records.control import ControlType, end_marker_batch
from penstock.storage.contract import Appended, AppendOrigin, Log, StorageError
from penstock.storage.contract import Callback as FlushCallback
from penstock.transactions.metadata import MAX_PRODUCER_EPOCH, TopicPartition, TransactionMetadata, TransactionVersion
from penstock.transactions.shard import AddPartitions, TransactionSettings, TransactionShard, WriteMarkers
from penstock.transactions.states import TransactionState
from penstock.wire.errors import (
    CoordinatorLoadInProgress,
    ErrorCode,
    InvalidProducerEpoch,
    KafkaError,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.broker.server import Broker

log = logging.getLogger("penstock.transactions")

_RETRY_SECONDS = 0.1

Handle = ShardHandle[TransactionShard]


class Transactions:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        self._settings = TransactionSettings(
            transaction_max_timeout_ms=config.transaction_max_timeout_ms,
            transactional_id_expiration_ms=config.transactional_id_expiration_ms,
            remove_expired_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            concurrent_wait_ms=config.add_partitions_to_txn_retry_backoff_max_ms,
            server_version=TransactionVersion(broker.features.level(TRANSACTION_VERSION)),
        )
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            broker.world,
            broker.internal_topics.topic(
                TRANSACTIONS_TOPIC,
                config.transaction_state_log_num_partitions,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                },
            ),
            self._make_shard,
            self._on_action,
            actions_wait=True,
        )

        self._is_stopped = False
        self._is_settled = False

    def _make_shard(self, index: int) -> TransactionShard:
        topic = self._broker.topics.get(TRANSACTIONS_TOPIC)
        return TransactionShard(
            coordinator_epoch=topic.partitions[index].leader_epoch,
            settings=self._settings,
            new_producer_id=self._broker.producer_ids.next,
            ends_sessions=self._broker.storage.may_have_lost_writes,
        )

    def _features_changed(self) -> None:
        version = TransactionVersion(self._broker.features.level(TRANSACTION_VERSION))
        self._settings = replace(self._settings, server_version=version)
        for handle in self.runtime.loaded_handles():
            handle.shard.use(self._settings)

    def start(self) -> None:
        self._broker.features.listeners.append(self._features_changed)
        if self._broker.storage.may_have_lost_writes and self._broker.topics.find(TRANSACTIONS_TOPIC) is not None:
            log.warning(
                "the machine went down, or the disk failed, while the broker ran: open transactions are aborted, and "
                "transactional producers are fenced and have to be started again"
            )
        self.runtime.start()
        self._settling = self._broker.world.call_soon(self._settle_when_loaded)

    async def stop(self) -> None:
        """Markers that are not written by now are written after the next start."""
        self._is_stopped = True
        self._settling.cancel()
        self.runtime.stop()

    def find(self, transactional_id: str) -> Handle:
        return self.runtime.find(transactional_id)

    def verify(self, add: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Whether these partitions are part of the producer's open transaction."""
        try:
            return self.find(add.transactional_id).shard.verify(add)
        except KafkaError as error:
            return dict.fromkeys(add.partitions, error.code)

    # -- the order on disk -----------------------------------------------------------------------------------------

    def add_partitions(self, add: AddPartitions, done: Callable[[ErrorCode], None]) -> None:
        """Add partitions to a transaction; `done` is called with the result, mostly at once."""

        def add_now(failure: Exception | None = None) -> None:
            if failure is not None:
                done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                handle.run(handle.shard.add_partitions(done, self._broker.now_ms(), add))

        try:
            handle = self.find(add.transactional_id)
        except KafkaError as error:
            done(error.code)
            return
        if not handle.log.is_durable and self._begins_classic(handle, add):
            handle.log.when_durable(handle.log.log_end_offset, add_now)
        else:
            add_now()

    def _begins_classic(self, handle: Handle, add: AddPartitions) -> bool:
        """Whether this begins a transaction that a repeated end of the last one could end."""
        meta = handle.shard.metadata(add.transactional_id)
        return not add.version.bumps_epoch and meta is not None and meta.state != TransactionState.ONGOING

    def when_on_disk(self, handle: Handle, transactional_id: str, then: FlushCallback) -> None:
        """Call back when all that a transaction has written so far is on disk: at once, if it is."""
        meta = handle.shard.metadata(transactional_id)
        behind = self._not_on_disk(meta) if meta is not None and self._broker.flush_acks_all else []
        if not behind:
            then(None)
            return
        missing = len(behind)

        def flushed(failure: StorageError | None) -> None:
            nonlocal missing
            missing -= 1
            if missing:
                return
            if failure is not None:
                then(failure)
            else:
                self.when_on_disk(handle, transactional_id, then)  # more may have come in the meantime

        for partition_log, end_offset in behind:
            self._broker.flush(partition_log, end_offset, flushed)

    def _not_on_disk(self, meta: TransactionMetadata) -> list[tuple[Log, int]]:
        """The logs, each with the offset to which it has to come to the disk."""
        behind = []
        for name, index in meta.partitions:
            try:
                partition_log = self._broker.topics.partition(name, index).log
            except UnknownTopicOrPartition:
                continue
            end_offset = partition_log.undurable_end(meta.producer_id)
            if end_offset is not None:
                behind.append((partition_log, end_offset))
        return behind

    # -- markers ---------------------------------------------------------------------------------------------------

    def _on_action(self, handle: Handle, action: object) -> None:
        assert isinstance(action, WriteMarkers)
        self._write_markers(handle, action, action.partitions)

    def _write_markers(self, handle: Handle, markers: WriteMarkers, partitions: Iterable[TopicPartition]) -> None:
        if self._is_stopped:
            return
        gone: list[TopicPartition] = []
        failed: list[TopicPartition] = []
        for name, index in partitions:
            try:
                partition = self._broker.topics.partition(name, index)
                appended = self.append_marker(partition, markers)
            except UnknownTopicOrPartition:
                gone.append((name, index))
            except (InvalidProducerEpoch, TransactionCoordinatorFenced) as error:
                # The partition has seen a newer epoch: whatever was open there has been ended by somebody else.
                log.warning("marker of %s for %s-%d not written: %s", markers.transactional_id, name, index, error)
                gone.append((name, index))
            except (CoordinatorLoadInProgress, StorageError) as error:
                log.warning("marker of %s for %s-%d is tried again: %s", markers.transactional_id, name, index, error)
                failed.append((name, index))
            else:
                self._when_durable(partition, appended.position, partial(self._marked, handle, markers, (name, index)))
        if failed:
            self._broker.loop.call_later(_RETRY_SECONDS, self._write_markers, handle, markers, failed)
        for where in gone:
            self._marked(handle, markers, where)

    def _when_durable(self, partition: Partition, position: int, then: Callable[[], None]) -> None:
        def flushed(failure: StorageError | None) -> None:
            if failure is None and not self._is_stopped:  # a failure stops the broker
                then()

        if self._broker.flush_acks_all:
            self._broker.flush(partition.log, position, flushed)
        else:
            then()

    def _marked(self, handle: Handle, markers: WriteMarkers, where: TopicPartition) -> None:
        if handle.run(handle.shard.markers_written(markers, [where], self._broker.now_ms())):
            # So that the next transaction finds the end of this one on disk (`add_partitions`).
            handle.log.make_durable_soon()
            if not self._is_settled:
                self._settle_if_possible()

    def append_marker(self, partition: Partition, markers: WriteMarkers) -> Appended:
        """Write the outcome of a transaction to one partition, and show it to those who wait for it."""
        is_offsets = partition.topic.name == OFFSETS_TOPIC
        groups = self._broker.groups.runtime.handle(partition.index) if is_offsets else None
        now_ms = self._broker.now_ms()
        batch = end_marker_batch(
            ControlType.COMMIT if markers.commit else ControlType.ABORT,
            markers.producer_id,
            markers.producer_epoch,
            markers.coordinator_epoch,
            now_ms,
        )
        appended = partition.log.append(
            memoryview(batch),
            parse_header(batch),
            now_ms=now_ms,
            origin=AppendOrigin.MARKER,
            transaction_version=markers.transaction_version,
        )
        if groups is not None:
            groups.shard.replay_end_marker(markers.producer_id, markers.commit)
        partition.wake()
        return appended

    # -- the start -------------------------------------------------------------------------------------------------

    def _settle_when_loaded(self) -> None:
        groups = self._broker.groups.runtime
        self.runtime.when_loaded(lambda: groups.when_loaded(self._settle))

    def _settle(self) -> None:
        if self._is_stopped:
            return
        self._abort_orphans()
        self._settle_if_possible()

    def _settle_if_possible(self) -> None:
        """When nobody is left who could go on after a power cut, it is over: the next start need not think of it."""
        if not self.runtime.is_loading and not any(
            handle.shard.has_sessions_to_end for handle in self.runtime.loaded_handles()
        ):
            self._is_settled = True
            self._broker.storage.lost_writes_settled()

    def _abort_orphans(self) -> None:
        """Abort the open transactions in the logs that no coordinator will end."""
        shards = [handle.shard for handle in self.runtime.loaded_handles()]
        for topic in self._broker.topics.all():
            for partition in topic.partitions:
                where = (topic.name, partition.index)
                for producer in partition.log.active_producers():
                    producer_id, epoch = producer.producer_id, producer.producer_epoch
                    if producer.has_open_transaction and not any(
                        shard.holds(producer_id, epoch, where) for shard in shards
                    ):
                        self._abort_orphan(partition, producer_id, epoch, producer.coordinator_epoch)

    def _abort_orphan(self, partition: Partition, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        log.warning(
            "%s-%d holds a transaction of producer %d that no coordinator knows; aborted",
            partition.topic.name,
            partition.index,
            producer_id,
        )
        self.append_marker(
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
