"""Long fuzzing of everything in this package that reads bytes from strangers: `pytest -m long`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.records.batch import CorruptBatch, parse_header, write_crc
from penstock.records.builder import NewRecord, build_batch
from penstock.records.codecs import Codec
from penstock.records.cutting import OpenedBatch
from penstock.records.record import iter_batches_records
from penstock.records.validation import ProduceRules, sole_batch, validate_produced
from penstock.wire.errors import KafkaError
from tests.records.strategies import new_records

LIMIT = 1 << 20
damages = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8)
thorough = settings(max_examples=3_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _damaged(batch: bytearray, damage: list[tuple[float, int]], with_crc: bool) -> bytearray:
    for position, value in damage:
        batch[int(position * len(batch))] = value
    if with_crc:
        write_crc(batch, 0, len(batch))
    return batch


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("codec", list(Codec))
@given(records=new_records, damage=damages)
@thorough
def test_no_damaged_batch_does_worse_than_be_called_corrupt(
    codec: Codec, records: list[NewRecord], damage: list[tuple[float, int]]
) -> None:
    batch = _damaged(build_batch(records, codec=codec), damage, with_crc=True)
    for read in (
        lambda: list(iter_batches_records(batch, LIMIT)),
        lambda: OpenedBatch(batch, 0, LIMIT).cut(2, 5),
        lambda: parse_header(batch),
    ):
        try:
            read()
        except CorruptBatch:
            pass


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "rules",
    [ProduceRules(), ProduceRules(compacted=True), ProduceRules(log_append_time=True), ProduceRules(codec=Codec.ZSTD)],
    ids=["plain", "compacted", "log append time", "recompressed"],
)
@given(records=new_records, codec=st.sampled_from(list(Codec)), damage=damages, with_crc=st.booleans())
@thorough
def test_no_damaged_batch_gets_a_producer_anything_but_a_kafka_error(
    rules: ProduceRules, records: list[NewRecord], codec: Codec, damage: list[tuple[float, int]], with_crc: bool
) -> None:
    batch = _damaged(build_batch(records, codec=codec), damage, with_crc)
    try:
        header = sole_batch(batch, 12)
        validate_produced(batch[: header.size], header, rules, now_ms=2**44, topic="t", partition=0)
    except KafkaError:
        pass
