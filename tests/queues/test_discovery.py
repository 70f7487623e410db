"""Which offsets of the log hold a record that can be delivered."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from penstock.queues.discovery import delivery_times, discover
from penstock.queues.transitions import Unreadable
from penstock.records.batch import CorruptBatch
from penstock.records.builder import build_batch
from penstock.records.control import ControlType, end_marker_batch


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


def batch(base_offset: int, number: int, producer_id: int = -1, deltas: list[int] | None = None) -> bytes:
    return bytes(
        build_batch(
            [(0, b"k", b"v", ()) for _ in range(number)],
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            transactional=producer_id >= 0,
            offset_deltas=deltas,
        )
    )


def marker(offset: int, kind: ControlType, producer_id: int) -> bytes:
    data = end_marker_batch(kind, producer_id, 0, 0, 0)
    data[0:8] = offset.to_bytes(8, "big")
    return bytes(data)


def test_dense_batches_hold_a_record_at_each_offset() -> None:
    found = discover(batch(0, 5) + batch(5, 3), 0)
    assert (found.end_offset, found.absent) == (8, [])
    assert [(batch.header.base_offset, batch.position, batch.holes) for batch in found.batches] == [
        (0, 0, ()),
        (5, len(batch(0, 5)), ()),
    ]


def test_a_look_ends_at_the_stop_offset() -> None:
    found = discover(batch(0, 5) + batch(5, 3), 0, stop_offset=5)
    assert (found.end_offset, len(found.batches)) == (5, 1)


def test_a_read_from_the_last_offset_of_a_batch_finds_the_batch() -> None:
    found = discover(batch(0, 5) + batch(5, 3), 4)
    assert [batch.header.base_offset for batch in found.batches] == [0, 5]


def test_a_batch_without_holes_is_not_opened() -> None:
    rotten = bytearray(batch(0, 5))
    rotten[-1] ^= 1
    assert discover(bytes(rotten), 0).unreadable == []


def test_offsets_between_and_inside_batches_may_be_lost_to_compaction() -> None:
    found = discover(batch(2, 2) + batch(10, 3, deltas=[0, 3, 5]), 0)
    assert found.absent == [(0, 1), (4, 9), (11, 12), (14, 14)]
    assert found.end_offset == 16
    assert [batch.holes for batch in found.batches] == [(), [(11, 12), (14, 14)]]
    assert discover(batch(0, 3, deltas=[0, 3, 4]), 0).absent == [(1, 2)]


def test_control_records_are_handed_out_for_the_client_to_skip() -> None:
    found = discover(batch(0, 2, producer_id=7) + marker(2, ControlType.COMMIT, 7) + batch(3, 1), 0)
    assert found.absent == []
    assert [batch.header.base_offset for batch in found.batches] == [0, 2, 3]


def test_records_of_aborted_transactions_are_not_delivered_under_read_committed() -> None:
    data = batch(0, 2, producer_id=7) + batch(2, 2, producer_id=8) + marker(4, ControlType.ABORT, 7)
    found = discover(data + batch(5, 1, producer_id=7), 0, [Aborted(7, 0, 4)])
    assert found.absent == [(0, 1)]
    assert discover(data, 0).absent == []


def test_a_read_that_begins_inside_a_batch_tells_nothing_of_what_came_before() -> None:
    found = discover(batch(0, 10) + batch(12, 1), 6)
    assert (found.end_offset, found.absent) == (13, [(10, 11)])


def test_a_header_names_the_earliest_delivery() -> None:
    records = [
        (0, None, b"a", ()),
        (0, None, b"b", [("deliver.at", b"12345")]),
        (0, None, b"c", [("deliver.at", b"soon"), ("other", None)]),
    ]
    assert delivery_times(bytes(build_batch(records, base_offset=4)), "deliver.at") == [(5, 12345)]


def test_a_batch_with_holes_that_cannot_be_opened_is_unreadable() -> None:
    rotten = bytearray(batch(10, 3, deltas=[0, 3, 5]))
    rotten[-1] ^= 1
    found = discover(batch(0, 10) + bytes(rotten), 0)
    assert found.unreadable == [Unreadable(10, 15, "the stored checksum does not match the batch")]
    assert (found.end_offset, found.absent) == (16, [])


def test_a_delivery_time_is_not_read_from_a_batch_that_rotted() -> None:
    data = build_batch([(0, None, b"a", [("deliver.at", b"12345")])])
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        delivery_times(data, "deliver.at")
