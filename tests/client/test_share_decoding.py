from __future__ import annotations

from typing import cast

from penstock.client.share_decoding import Delivered, decode_share_partition
from penstock.client.share_session import SharePartition, ShareSession
from penstock.client.types import TopicPartition
from penstock.records.builder import build_batch

TP = TopicPartition("t", 0)


def _decode(data: bytes | bytearray, acquired: list[tuple[int, int, int]]) -> Delivered:
    fetched = SharePartition((bytes(16), 0), memoryview(data), acquired, 0, None)
    return decode_share_partition(cast(ShareSession, None), TP, fetched, check_crcs=True)


def _batch(first: int, count: int, deltas: list[int] | None = None) -> bytearray:
    return build_batch([(1, None, b"%d" % n, []) for n in range(count)], base_offset=first, offset_deltas=deltas)


def test_only_acquired_records_are_delivered_with_their_count() -> None:
    found = _decode(_batch(0, 10), [(2, 3, 1), (7, 8, 4)])
    assert [(r.offset, r.delivery_count) for r in found.records] == [(2, 1), (3, 1), (7, 4), (8, 4)]
    assert found.gaps == []
    assert found.runs() == [(2, 3), (7, 8)]


def test_offsets_without_a_record_are_gaps() -> None:
    found = _decode(_batch(0, 3, [0, 2, 5]), [(0, 6, 1)])
    assert [r.offset for r in found.records] == [0, 2, 5]
    assert found.gaps == [(1, 1), (3, 4), (6, 6)]


def test_a_batch_with_a_wrong_checksum_is_set_apart_and_the_others_are_delivered() -> None:
    broken = _batch(3, 3)
    broken[-1] ^= 0xFF
    found = _decode(_batch(0, 3) + broken + _batch(6, 2), [(0, 7, 1)])
    assert [r.offset for r in found.records] == [0, 1, 2, 6, 7]
    assert found.corrupt == [(3, 5)]
    assert found.gaps == []
