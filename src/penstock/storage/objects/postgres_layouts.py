"""Writes where the records of whole partitions are, for a cluster that is made from a data folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.storage.objects.commit_log import Layout, PartitionKey
from penstock.storage.objects.postgres_commit_log import SEGMENT_COLUMNS

_ROWS_AT_A_TIME = 1000


def write_layouts(connection: Any, layouts: Mapping[PartitionKey, Layout]) -> None:
    """In the transaction that the connection is in. Partitions have segments only, and nobody leads them."""
    partitions, epochs, objects, segments = [], [], [], []
    for (topic_id, index), layout in sorted(layouts.items()):
        assert not layout.extents
        state = layout.state
        partitions.append((topic_id, index, state.leader, state.leader_epoch, state.log_start_offset, state.end_offset))
        epochs += [(topic_id, index, epoch, start) for epoch, start in layout.epochs]
        for each in layout.segments:
            objects.append((each.object_key, each.size))
            values = [getattr(each, name.strip()) for name in SEGMENT_COLUMNS.split(",")]
            segments.append((topic_id, index, *values))
    _insert(
        connection,
        "partition",
        "topic_id, partition_index, leader, leader_epoch, log_start_offset, end_offset",
        partitions,
    )
    _insert(connection, "epoch_start", "topic_id, partition_index, leader_epoch, start_offset", epochs)
    _insert(connection, "stored_object", "object_key, size", objects)
    _insert(connection, "segment", f"topic_id, partition_index, {SEGMENT_COLUMNS}", segments)


def _insert(connection: Any, table: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Some at a time: the wait for an answer is bounded."""
    marks = ", ".join(["%s"] * len(columns.split(",")))
    for at in range(0, len(rows), _ROWS_AT_A_TIME):
        statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"
        connection.cursor().executemany(statement, rows[at : at + _ROWS_AT_A_TIME])
