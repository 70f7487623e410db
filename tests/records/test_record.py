"""Decoding records: the same as other clients see, and no damaged batch does worse than be called corrupt."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from penstock.records.batch import CorruptBatch, parse_header, patch_append, write_crc
from penstock.records.builder import NewRecord, build_batch, varint
from penstock.records.codecs import Codec, DecompressionLimit
from penstock.records.control import ControlType, end_marker_batch
from penstock.records.record import Record, iter_batches_records, iter_records, read_varint
from tests.records.strategies import NOW_MS, new_records

PLAIN_BATCH = bytes.fromhex(
    "00000000000000000000003affffffff02e99b8dd80000000000000000018bcfe568000000018bcfe568"
    "00ffffffffffffffffffffffffffff0000000110000000026b027600"
)
COUNT_AT = 57


def _as_tuple(record: Any) -> tuple[object, ...]:
    headers = [tuple(header) for header in record.headers]
    return (record.offset, record.timestamp, record.key, record.value, headers)


def test_a_known_batch_is_decoded() -> None:
    assert list(iter_records(PLAIN_BATCH)) == [Record(0, NOW_MS, b"k", b"v", [])]


@pytest.mark.parametrize("codec", list(Codec))
@given(records=new_records, base_offset=st.integers(0, 2**62))
@settings(max_examples=60, deadline=None)
def test_built_records_come_back_under_their_offsets(codec: Codec, records: list[NewRecord], base_offset: int) -> None:
    batch = build_batch(records, codec=codec)
    patch_append(batch, 0, base_offset, 3)
    assert list(iter_records(memoryview(b"__" + batch), 2)) == [
        Record(base_offset + i, timestamp, key, value, list(headers))
        for i, (timestamp, key, value, headers) in enumerate(records)
    ]


@pytest.mark.parametrize("codec", list(Codec))
@given(records=new_records)
@settings(max_examples=40, deadline=None)
def test_aiokafka_reads_the_same_records(codec: Codec, records: list[NewRecord]) -> None:
    batch = bytes(build_batch(records, codec=codec))
    theirs = AiokafkaBatch(batch)
    assert theirs.validate_crc()
    assert [_as_tuple(record) for record in theirs] == [_as_tuple(record) for record in iter_records(batch)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@given(records=new_records)
@settings(max_examples=40, deadline=None)
def test_kafka_python_reads_the_same_records(codec: Codec, records: list[NewRecord]) -> None:
    batch = bytes(build_batch(records, codec=codec))
    theirs = KafkaPythonBatch(batch)
    assert theirs.validate_crc()
    assert [_as_tuple(record) for record in theirs] == [_as_tuple(record) for record in iter_records(batch)]


def test_log_append_time_is_every_records_timestamp() -> None:
    batch = build_batch([(1, None, b"a", ()), (2, None, b"b", ())], log_append_time=NOW_MS)
    assert [record.timestamp for record in iter_records(batch)] == [NOW_MS, NOW_MS]


def test_offsets_of_a_compacted_batch_keep_their_gaps() -> None:
    batch = build_batch([(1, b"a", b"1", ()), (2, b"b", b"2", ())], base_offset=100, offset_deltas=[3, 7])
    assert parse_header(batch).last_offset == 107
    assert [record.offset for record in iter_records(batch)] == [103, 107]


def test_long_keys_values_and_far_apart_timestamps_need_long_varints() -> None:
    records: list[NewRecord] = [
        (0, b"k" * 100_000, b"v" * 3_000_000, [("h" * 70, b"x" * 9000)]),
        (2**60, b"", b"", [("", None)]),
        (5, None, None, []),
    ]
    assert [(r.timestamp, r.key, r.value, r.headers) for r in iter_records(build_batch(records))] == records


def test_control_batches_are_left_out_of_what_a_consumer_sees() -> None:
    marker = end_marker_batch(ControlType.COMMIT, 1, 0, 0, NOW_MS)
    data = build_batch([(1, None, b"a", ())]) + marker + build_batch([(2, None, b"b", ())], codec=Codec.ZSTD)
    assert [record.value for record in iter_batches_records(data + data[:30])] == [b"a", b"b"]


def test_a_batch_emptied_by_compaction_has_no_records() -> None:
    for codec in (Codec.NONE, Codec.ZSTD):
        empty = bytearray(PLAIN_BATCH[:61])
        empty[8:12] = (49).to_bytes(4, "big")
        empty[22] = codec
        empty[COUNT_AT:61] = bytes(4)
        assert list(iter_records(empty)) == []


@pytest.mark.parametrize("count", [-1, 0, 2, 2**31 - 1])
def test_a_count_that_is_not_true_is_corrupt(count: int) -> None:
    batch = bytearray(PLAIN_BATCH)
    batch[COUNT_AT:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch):
        list(iter_records(batch))


def test_a_batch_that_is_not_there_whole_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        list(iter_records(PLAIN_BATCH[:-1]))


def test_records_that_expand_past_the_limit_are_refused() -> None:
    bomb = build_batch([(0, None, bytes(1_000_000), ())], codec=Codec.ZSTD)
    with pytest.raises(DecompressionLimit):
        iter_records(bomb, limit=100_000)


@given(batch=st.builds(build_batch, new_records), data=st.data())
@settings(max_examples=400, deadline=None)
def test_damaged_records_are_corrupt_and_nothing_worse(batch: bytearray, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 5))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    write_crc(batch, 0, len(batch))
    try:
        for record in iter_records(batch):
            assert record.key is None or isinstance(record.key, bytes)
    except CorruptBatch:
        pass


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back(value: int) -> None:
    encoded = varint(value)
    assert read_varint(encoded, 0) == (value, len(encoded))


def test_an_endless_varint_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        read_varint(b"\xff" * 20, 0)
