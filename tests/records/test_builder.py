"""Building batches: byte for byte what other producers build."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from penstock.records.batch import crc_is_valid, parse_header
from penstock.records.builder import NewRecord, build_batch, varint
from penstock.records.codecs import Codec
from tests.records.strategies import NOW_MS, new_records

PLAIN_BATCH = (
    "00000000000000000000003affffffff02e99b8dd80000000000000000018bcfe568000000018bcfe568"
    "00ffffffffffffffffffffffffffff0000000110000000026b027600"
)


def test_a_plain_batch_is_the_known_one() -> None:
    assert build_batch([(NOW_MS, b"k", b"v", ())]).hex() == PLAIN_BATCH


@pytest.mark.parametrize("builder_class", [AiokafkaBuilder, KafkaPythonBuilder])
@given(records=new_records)
@settings(max_examples=80, deadline=None)
def test_other_clients_build_the_same_bytes(builder_class: type, records: list[NewRecord]) -> None:
    # aiokafka takes a first timestamp of -1 for none at all.
    records = [(max(timestamp, 0), key, value, headers) for timestamp, key, value, headers in records]
    builder = builder_class(2, 0, True, 7, 2, 31, 10_000_000)
    for i, (timestamp, key, value, headers) in enumerate(records):
        builder.append(i, timestamp, key, value, list(headers))
    theirs = bytearray(builder.build())
    theirs[12:16] = b"\xff\xff\xff\xff"  # aiokafka leaves epoch 0 where Java leaves -1; it is outside the CRC
    assert theirs == build_batch(records, transactional=True, producer_id=7, producer_epoch=2, base_sequence=31)


def test_the_header_says_what_was_asked_for() -> None:
    records: list[NewRecord] = [(NOW_MS + 5, None, b"a", ()), (NOW_MS + 9, None, b"b", ()), (NOW_MS, None, b"c", ())]
    batch = build_batch(records, base_offset=40, codec=Codec.LZ4, leader_epoch=6, producer_id=1, producer_epoch=2)
    header = parse_header(batch)
    assert crc_is_valid(batch, 0, len(batch))
    assert header.codec == Codec.LZ4
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS + 5, NOW_MS + 9)
    assert (header.base_offset, header.last_offset, header.records_count) == (40, 42, 3)
    assert (header.partition_leader_epoch, header.producer_id, header.producer_epoch) == (6, 1, 2)
    assert header.size == len(batch)


def test_log_append_time_marks_the_batch() -> None:
    header = parse_header(build_batch([(5, None, b"a", ())], log_append_time=NOW_MS))
    assert header.is_log_append_time
    assert (header.base_timestamp, header.max_timestamp) == (5, NOW_MS)


def test_a_level_makes_a_difference() -> None:
    records: list[NewRecord] = [(0, None, b'{"number": %d}' % (i * i), ()) for i in range(2000)]
    for codec, fast, dense in ((Codec.GZIP, 1, 9), (Codec.LZ4, 9, 17), (Codec.ZSTD, 1, 19)):
        assert len(build_batch(records, codec=codec, level=dense)) < len(build_batch(records, codec=codec, level=fast))


def test_a_batch_without_records_cannot_be_built() -> None:
    with pytest.raises(ValueError):
        build_batch([])


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (300, "d804")]
)
def test_varints_are_zigzag(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
