"""What becomes of the source's batches: through as they are, cut at gaps, or joined."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.mirror.pieces import CorruptSource, Piece, cut, empty, records_of
from penstock.records.batch import crc_is_valid, parse_header
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec
from penstock.records.control import ControlType, end_marker_batch
from penstock.records.record import Record, decode_records


def batch(base: int, count: int, *, deltas: Sequence[int] | None = None, **more: object) -> bytes:
    records = [(1000 + n, b"k%d" % n, None if n == 1 else b"v%d" % n, [("h", None)]) for n in range(count)]
    return bytes(build_batch(records, base_offset=base, offset_deltas=deltas, **more))  # type: ignore[arg-type]


def taken(pieces: list[Piece]) -> list[Record]:
    """What a target that appends the pieces holds."""
    found = []
    for piece in pieces:
        piece.sign(7, 0, 3)
        header = parse_header(piece.data)
        assert crc_is_valid(piece.data, 0, header.size)
        assert (header.base_offset, header.producer_id, header.base_sequence) == (0, 7, 3)
        assert (header.records_count, header.last_offset_delta) == (piece.count, piece.count - 1)
        assert header.attributes & ~0x07 == 0
        for record in decode_records(piece.data, 0, header):
            record.offset += piece.first
            found.append(record)
    return found


def test_a_large_batch_goes_through_still_compressed() -> None:
    data = batch(50, 100, codec=Codec.GZIP)
    pieces, after = cut(memoryview(data), 50)
    assert (len(pieces), after) == (1, 150)
    assert bytes(pieces[0].data[61:]) == data[61:]
    assert taken(pieces) == records_of(memoryview(data), 50, [])[0]


def test_small_batches_without_a_gap_become_one() -> None:
    data = batch(0, 2) + batch(2, 3) + batch(6, 1)
    pieces, after = cut(memoryview(data), 0)
    assert [(piece.first, piece.count) for piece in pieces] == [(0, 5), (6, 1)]
    assert after == 7
    assert taken(pieces) == records_of(memoryview(data), 0, [])[0]


def test_batches_of_different_codecs_are_not_joined() -> None:
    pieces, _ = cut(memoryview(batch(0, 2) + batch(2, 2, codec=Codec.GZIP)), 0)
    assert [parse_header(piece.data).codec for piece in pieces] == [Codec.NONE, Codec.GZIP]


def test_compacted_batches_are_cut_where_records_are_missing() -> None:
    data = batch(10, 20, deltas=[*range(3, 13), *range(20, 30)])
    pieces, after = cut(memoryview(data), 10)
    assert [(piece.first, piece.count) for piece in pieces] == [(13, 10), (30, 10)]
    assert after == 40


def test_a_batch_of_which_the_target_has_the_beginning_is_cut() -> None:
    pieces, after = cut(memoryview(batch(0, 100)), 70)
    assert [(piece.first, piece.count) for piece in pieces] == [(70, 30)]
    assert after == 100


def test_timestamps_of_a_log_append_time_topic_become_those_of_the_records() -> None:
    data = batch(0, 30, log_append_time=5000)
    pieces, _ = cut(memoryview(data), 0)
    assert {record.timestamp for record in taken(pieces)} == {5000}


def test_aborted_transactions_and_markers_become_gaps() -> None:
    aborted = batch(0, 20, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    marker = bytearray(end_marker_batch(ControlType.ABORT, 5, 0, 0, 1000))
    marker[:8] = (20).to_bytes(8, "big")
    committed = batch(21, 20, producer_id=6, producer_epoch=0, base_sequence=0, transactional=True)
    data = memoryview(aborted + bytes(marker) + committed)
    pieces, after = cut(data, 0, [(0, 5)])
    assert [(piece.first, piece.count) for piece in pieces] == [(21, 20)]
    assert after == 41
    assert taken(pieces) == records_of(data, 0, [(0, 5)])[0]
    only_marker, after = cut(memoryview(bytes(marker)), 20)
    assert (only_marker, after) == ([], 21)


def test_a_damaged_batch_is_not_passed_on() -> None:
    data = bytearray(batch(0, 20))
    data[-1] ^= 1
    with pytest.raises(CorruptSource, match="offset 0"):
        cut(memoryview(data), 0)


def test_empty_records_take_offsets() -> None:
    piece = empty(100, 50, 0, Codec.GZIP)
    assert [record.offset for record in taken([piece])] == list(range(100, 150))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=12), st.integers(0, 60))
def test_nothing_is_lost_or_moved(shape: list[tuple[int, int]], position: int) -> None:
    data, at = b"", 0
    for gap, count in shape:
        data += batch(at + gap, count)
        at += gap + count
    pieces, after = cut(memoryview(data), position)
    assert after == max(at, position)
    assert taken(pieces) == records_of(memoryview(data), position, [])[0]
    ends = [position, *(piece.next for piece in pieces)]
    assert all(piece.first >= end for piece, end in zip(pieces, ends, strict=False))
