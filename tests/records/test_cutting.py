"""Cutting batches: the chosen records under their own offsets, readable by any client."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.batch import CorruptBatch, crc_is_valid, parse_header, patch_append, write_crc
from penstock.records.builder import NewRecord, build_batch
from penstock.records.codecs import Codec, DecompressionLimit
from penstock.records.cutting import OpenedBatch, cut_batch
from penstock.records.record import iter_records
from tests.records.strategies import NOW_MS, new_records

TEN: list[NewRecord] = [(NOW_MS + i, b"k%d" % i, b"v%d" % i, ()) for i in range(10)]


def _batch(codec: Codec = Codec.NONE, records: list[NewRecord] = TEN, base_offset: int = 100) -> bytearray:
    batch = build_batch(records, codec=codec, producer_id=9, producer_epoch=1, base_sequence=50, transactional=True)
    patch_append(batch, 0, base_offset, 4)
    return batch


@pytest.mark.parametrize("codec", list(Codec))
@given(records=new_records, data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_cut_holds_exactly_the_records_of_its_range(
    codec: Codec, records: list[NewRecord], data: st.DataObject
) -> None:
    batch = _batch(codec, records)
    first = data.draw(st.integers(90, 110 + len(records)))
    last = data.draw(st.integers(first, 120 + len(records)))
    cut = cut_batch(b"__" + batch, 2, first, last)
    expected = [record for record in iter_records(batch) if first <= record.offset <= last]
    assert (list(iter_records(cut)) if cut else []) == expected


@pytest.mark.parametrize("codec", list(Codec))
def test_other_clients_read_a_cut_batch(codec: Codec) -> None:
    theirs = AiokafkaBatch(cut_batch(_batch(codec), 0, 103, 106))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [
        (100 + i, NOW_MS + i, b"k%d" % i, b"v%d" % i) for i in range(3, 7)
    ]


def test_the_cut_batchs_header_fits_its_records_and_keeps_its_producer() -> None:
    cut = cut_batch(_batch(Codec.ZSTD), 0, 103, 106)
    header = parse_header(cut)
    assert crc_is_valid(cut, 0, len(cut))
    assert (header.base_offset, header.last_offset, header.records_count, header.size) == (100, 106, 4, len(cut))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 50)
    assert header.partition_leader_epoch == 4
    assert header.is_transactional
    assert not header.is_compressed


def test_log_append_time_stays_with_the_records() -> None:
    cut = cut_batch(build_batch(TEN, log_append_time=NOW_MS + 99), 0, 2, 3)
    assert [record.timestamp for record in iter_records(cut)] == [NOW_MS + 99] * 2


def test_the_whole_range_gives_the_batch_as_it_is() -> None:
    batch = _batch(Codec.ZSTD)
    assert cut_batch(batch, 0, 100, 109) == batch
    assert cut_batch(batch, 0, 0, 1000) == batch


def test_a_range_without_records_gives_nothing() -> None:
    compacted = build_batch(TEN[:2], base_offset=100, offset_deltas=[2, 8])
    assert cut_batch(compacted, 0, 103, 107) == b""
    assert cut_batch(compacted, 0, 200, 300) == b""


def test_gaps_of_a_compacted_batch_are_kept() -> None:
    compacted = build_batch(TEN[:4], base_offset=100, offset_deltas=[2, 5, 6, 9])
    assert [record.offset for record in iter_records(cut_batch(compacted, 0, 103, 108))] == [105, 106]


def test_an_opened_batch_is_cut_again_and_again() -> None:
    opened = OpenedBatch(_batch(Codec.LZ4))
    assert opened.size > 0
    for first in range(100, 110):
        assert [record.offset for record in iter_records(opened.cut(first, first + 2))] == list(
            range(first, min(first + 3, 110))
        )


def test_a_bomb_is_not_opened() -> None:
    with pytest.raises(DecompressionLimit):
        cut_batch(build_batch([(0, None, bytes(10**6), ()), (0, None, b"", ())], codec=Codec.GZIP), 0, 1, 1, limit=1000)


def test_offsets_that_do_not_increase_are_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        OpenedBatch(build_batch(TEN[:3], offset_deltas=[5, 5, 9]))


def test_bytes_that_rotted_are_not_cut_and_sealed_anew() -> None:
    batch = _batch()
    batch[batch.index(b"v5")] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        OpenedBatch(batch)


def test_an_opened_batch_names_the_offsets_that_compaction_emptied() -> None:
    batch = build_batch(TEN[:3], offset_deltas=[1, 3, 6])
    patch_append(batch, 0, 100, 4)
    assert OpenedBatch(batch).holes() == [(100, 100), (102, 102), (104, 105)]
    assert OpenedBatch(_batch()).holes() == []


def test_holes_reach_to_the_last_offset_of_the_batch() -> None:
    batch = build_batch([(0, None, b"a", ()), (0, None, b"b", ())], base_offset=10, offset_deltas=[1, 3])
    assert OpenedBatch(batch).holes() == [(10, 10), (12, 12)]
    batch[23:27] = (6).to_bytes(4, "big")
    write_crc(batch, 0, len(batch))
    assert OpenedBatch(batch).holes() == [(10, 10), (12, 12), (14, 16)]
