"""Writes the outcome of a transaction into one partition, where readers see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.topics import OFFSETS_TOPIC, Partition
from penstock.records.batch import parse_header
from penstock.records.control import ControlType, end_marker_batch
from penstock.storage.contract import AppendOrigin

if TYPE_CHECKING:
    from penstock.broker.world import World
    from penstock.coordination.runtime import CoordinatorRuntime
    from penstock.groups.shard import GroupShard
    from penstock.storage.contract import Appended
    from penstock.transactions.metadata import TopicPartition
    from penstock.transactions.shard import WriteMarkers


class TransactionMarkers:
    def __init__(self, groups: Callable[[], CoordinatorRuntime[GroupShard]], world: World) -> None:
        """`groups`: offsets that were committed inside a transaction take effect with its marker."""
        self._groups = groups
        self._world = world
        self.on_written: list[Callable[[TopicPartition, int], None]] = []
        """Called with the partition and the producer id of each marker."""

    def append(self, partition: Partition, markers: WriteMarkers) -> Appended:
        """Write the marker, and show the outcome to those who wait for it. Raises KafkaError or StorageError."""
        is_offsets = partition.topic.name == OFFSETS_TOPIC
        groups = self._groups().handle(partition.index) if is_offsets else None
        now_ms = self._world.now_ms()
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
        for callback in self.on_written:
            callback((partition.topic.name, partition.index), markers.producer_id)
        partition.wake()
        return appended
