"""Walking over records by their lengths."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.batch import CorruptBatch, parse_header
from penstock.records.builder import NewRecord, build_batch, varint
from penstock.records.record import read_varint, records_section
from penstock.records.scan import record_heads, record_starts
from tests.records.strategies import new_records


def _section(records: list[NewRecord]) -> bytes:
    batch = build_batch(records)
    return records_section(batch, 0, parse_header(batch))


@given(records=new_records)
def test_heads_are_what_the_records_were_built_from(records: list[NewRecord]) -> None:
    assert record_heads(_section(records), len(records)) == [
        (timestamp - records[0][0], i, key is not None) for i, (timestamp, key, _, _) in enumerate(records)
    ]


@given(records=new_records, big=st.sampled_from([60, 63, 64, 8_000, 9_000, 3_000_000]))
@settings(deadline=None, max_examples=50)
def test_starts_cut_the_section_into_its_records(records: list[NewRecord], big: int) -> None:
    records = [*records, (5, b"k", bytes(big), ())]
    section = _section(records)
    starts = record_starts(section, len(records))
    assert starts[-1] == len(section)
    assert starts[-2] == len(_section(records[:-1]))


@pytest.mark.parametrize("count", [-1, 0, 1, 3])
def test_a_wrong_count_is_corrupt(count: int) -> None:
    with pytest.raises(CorruptBatch):
        record_starts(_section([(0, None, b"a", ()), (0, None, b"b", ())]), count)


@given(noise=st.binary(max_size=60), count=st.integers(0, 10))
@settings(max_examples=300)
def test_noise_is_corrupt_and_nothing_worse(noise: bytes, count: int) -> None:
    try:
        record_heads(noise, count)
    except CorruptBatch:
        pass


def test_runs_of_records_of_one_length_begin_where_a_walk_finds_them() -> None:
    lengths = [5] * 3 + [40] * 9000 + [70] * 20 + [5, 70] * 30 + [20_000] * 12 + [1] + [70] * 9
    section = b"".join(varint(length) + b"\x0a" * length for length in lengths)
    walked, pos = [0], 0
    for _ in lengths:
        length, pos = read_varint(section, pos)
        pos += length
        walked.append(pos)
    assert record_starts(section, len(lengths)) == walked
    with pytest.raises(CorruptBatch, match="do not fill"):
        record_starts(section, len(lengths) - 1)
    with pytest.raises(CorruptBatch):
        record_starts(section, len(lengths) + 1)
    with pytest.raises(CorruptBatch):
        record_starts(section[:-1], len(lengths))
