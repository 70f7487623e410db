"""Arrow columns: the same records as decoding them one by one, in RecordBatches of bounded size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.batch import CorruptBatch, patch_append, write_crc
from penstock.records.builder import NewRecord, build_batch
from penstock.records.codecs import Codec, DecompressionLimit
from penstock.records.control import ControlType, end_marker_batch
from penstock.records.record import Record, iter_batches_records
from tests.records.strategies import NOW_MS, new_records

pa = pytest.importorskip("pyarrow")
arrow = pytest.importorskip("penstock.records.arrow")

try:
    import numba  # noqa: F401

    WAYS = [True, False]
except ModuleNotFoundError:
    WAYS = [False]

both_ways = pytest.mark.parametrize("compiled", WAYS, ids=["compiled" if way else "plain" for way in WAYS])
sets_of_batches = st.lists(st.tuples(new_records, st.sampled_from(list(Codec)), st.integers(0, 5)), max_size=6)


def _log(batches: Iterable[tuple[list[NewRecord], Codec, int]]) -> bytes:
    """Batches one after the other; the number is a gap in front of each, as compaction leaves it."""
    parts, offset = [], 0
    for records, codec, gap in batches:
        batch = build_batch(records, codec=codec)
        patch_append(batch, 0, offset + gap, 0)
        offset += gap + len(records)
        parts.append(bytes(batch))
    return b"".join(parts)


def _decoded(data: bytes, **options: Any) -> list[Record]:
    decoder = arrow.ArrowDecoder(columns=["key", "value", "offset", "timestamp", "headers"], **options)
    filled = [*decoder.feed(data), decoder.flush()]
    return [record for batch in filled if batch is not None for record in _records(batch)]


def _records(batch: Any) -> list[Record]:
    batch.validate(full=True)
    timestamps = batch["timestamp"].cast(pa.int64()).to_pylist()
    return [
        Record(
            row["offset"],
            timestamp,
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"] or []],
        )
        for row, timestamp in zip(batch.drop_columns(["timestamp"]).to_pylist(), timestamps, strict=True)
    ]


@both_ways
@given(batches=sets_of_batches, max_rows=st.integers(1, 40), max_bytes=st.sampled_from([1, 100, 10_000]))
@settings(max_examples=80, deadline=None)
def test_the_same_records_come_out_as_from_decoding_them_one_by_one(
    compiled: bool, batches: list[tuple[list[NewRecord], Codec, int]], max_rows: int, max_bytes: int
) -> None:
    data = _log(batches)
    decoded = _decoded(data, compiled=compiled, max_rows=max_rows, max_bytes=max_bytes)
    assert decoded == list(iter_batches_records(data))


@both_ways
@given(batches=sets_of_batches, first=st.integers(0, 60), length=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_only_records_of_the_range_come_out(
    compiled: bool, batches: list[tuple[list[NewRecord], Codec, int]], first: int, length: int
) -> None:
    data = _log(batches)
    expected = [record for record in iter_batches_records(data) if first <= record.offset < first + length]
    assert _decoded(data, compiled=compiled, first_offset=first, end_offset=first + length) == expected


@both_ways
def test_record_batches_are_bounded_by_rows_and_by_bytes(compiled: bool) -> None:
    data = _log([([(0, None, b"v" * 100, ())] * 50, Codec.NONE, 0), ([(0, None, b"v" * 100, ())] * 50, Codec.ZSTD, 0)])
    by_rows = arrow.ArrowDecoder(max_rows=30, compiled=compiled)
    assert [batch.num_rows for batch in by_rows.feed(data)] == [30, 30, 30]
    assert by_rows.flush().num_rows == 10
    by_bytes = arrow.ArrowDecoder(max_bytes=1000, compiled=compiled)
    assert {batch.num_rows for batch in by_bytes.feed(data)} == {10}
    assert by_bytes.flush().num_rows == 10
    assert by_bytes.flush() is None


@both_ways
def test_a_record_larger_than_the_bound_still_comes(compiled: bool) -> None:
    data = _log([([(0, b"k", b"v" * 9000, ()), (0, b"k", b"w", ())], Codec.NONE, 0)])
    decoder = arrow.ArrowDecoder(max_bytes=1000, compiled=compiled)
    assert [len(batch["value"][0].as_py()) for batch in [*decoder.feed(data), decoder.flush()]] == [9000, 1]


@both_ways
def test_rows_are_gathered_over_several_fetches(compiled: bool) -> None:
    decoder = arrow.ArrowDecoder(columns=["offset", "headers", "value"], max_rows=7, compiled=compiled)
    offsets: list[int] = []
    for i in range(10):
        batch = build_batch([(0, None, b"v%d" % j, [("h", b"%d" % j)]) for j in range(3)], base_offset=i * 3)
        for filled in decoder.feed(batch):
            assert filled.num_rows == 7
            offsets += filled["offset"].to_pylist()
    rest = decoder.flush()
    assert rest["headers"].to_pylist()[-1] == [{"key": "h", "value": b"2"}]
    assert offsets + rest["offset"].to_pylist() == list(range(30))


@both_ways
def test_only_the_columns_asked_for_are_there(compiled: bool) -> None:
    data = _log([([(NOW_MS, b"k", b"v", ())], Codec.NONE, 0)])
    for columns in (["offset"], ["value", "key"], ["timestampType", "timestamp"], ["headers"]):
        decoder = arrow.ArrowDecoder(columns=columns, compiled=compiled)
        assert not list(decoder.feed(data))
        assert decoder.flush().schema.names == columns
    with pytest.raises(ValueError, match="there is no column topic"):
        arrow.ArrowDecoder(columns=["topic"])


@both_ways
def test_timestamps_are_the_producers_or_the_brokers(compiled: bool) -> None:
    log_append = build_batch([(5, None, b"a", ()), (6, None, b"b", ())], log_append_time=NOW_MS)
    decoder = arrow.ArrowDecoder(columns=["timestamp", "timestampType"], compiled=compiled)
    assert not list(decoder.feed(build_batch([(5, None, b"a", ())]) + log_append))
    batch = decoder.flush()
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [5, NOW_MS, NOW_MS]
    assert batch["timestampType"].to_pylist() == [0, 1, 1]
    assert batch.schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")


@both_ways
def test_control_batches_and_aborted_transactions_are_skipped_and_passed_by(compiled: bool) -> None:
    aborted = build_batch([(0, None, b"no", ())], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    marker = end_marker_batch(ControlType.ABORT, 7, 0, 0, 0)
    patch_append(marker, 0, 1, 0)
    shown = build_batch([(0, None, b"yes", ())], base_offset=2)
    last = end_marker_batch(ControlType.COMMIT, 8, 0, 0, 0)
    patch_append(last, 0, 3, 0)
    decoder = arrow.ArrowDecoder(compiled=compiled)
    assert not list(decoder.feed(aborted + marker + shown + last, aborted=[(0, 7)]))
    assert decoder.flush()["value"].to_pylist() == [b"yes"]
    assert decoder.next_offset == 4


@both_ways
def test_it_knows_when_the_range_is_done(compiled: bool) -> None:
    data = _log([([(0, None, b"v", ())] * 5, Codec.NONE, 0), ([(0, None, b"v", ())] * 5, Codec.NONE, 3)])
    decoder = arrow.ArrowDecoder(end_offset=7, compiled=compiled)
    assert not decoder.is_done
    assert not list(decoder.feed(data))
    assert decoder.is_done
    assert decoder.flush().num_rows == 5


@both_ways
def test_a_batch_with_a_wrong_checksum_is_named_by_its_offset(compiled: bool) -> None:
    data = bytearray(_log([([(0, None, b"v", ())], Codec.NONE, 4)]))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch, match="the batch at offset 4 fails its checksum"):
        list(arrow.ArrowDecoder(compiled=compiled).feed(data))


@both_ways
def test_a_bomb_is_refused(compiled: bool) -> None:
    bomb = build_batch([(0, None, bytes(10**6), ())], codec=Codec.ZSTD)
    with pytest.raises(DecompressionLimit):
        list(arrow.ArrowDecoder(compiled=compiled, limit=10_000).feed(bomb))


@both_ways
def test_a_timestamp_past_all_time_is_corrupt_or_wraps(compiled: bool) -> None:
    batch = build_batch([(2**62, None, b"v", ())] * 2)
    batch[27:35] = (2**63 - 1).to_bytes(8, "big")
    batch[63:64] = b"\x02"
    decoder = arrow.ArrowDecoder(compiled=compiled, check_crcs=False)
    try:
        assert [*decoder.feed(batch), decoder.flush()]
    except CorruptBatch:
        pass


@both_ways
@pytest.mark.parametrize("count", [-1, 3, 2**31 - 1])
def test_a_wrong_count_is_corrupt(compiled: bool, count: int) -> None:
    batch = build_batch([(0, None, b"v", ())] * 2)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch):
        list(arrow.ArrowDecoder(compiled=compiled, check_crcs=False).feed(batch))


@both_ways
def test_a_header_that_is_no_text_is_corrupt(compiled: bool) -> None:
    batch = build_batch([(0, None, b"v", [("ab", b"x")])])
    batch[batch.index(b"ab")] = 0xFF
    write_crc(batch, 0, len(batch))
    decoder = arrow.ArrowDecoder(columns=["headers"], compiled=compiled)
    with pytest.raises(CorruptBatch):
        _ = [*decoder.feed(batch), decoder.flush()]


@both_ways
@given(batch=st.builds(build_batch, new_records), data=st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_records_are_corrupt_and_nothing_worse(compiled: bool, batch: bytearray, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 5))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoder = arrow.ArrowDecoder(columns=arrow.ALL_COLUMNS, compiled=compiled, check_crcs=False)
        list(decoder.feed(batch))
        decoder.flush()
    except CorruptBatch:
        pass


def test_one_batch_becomes_one_record_batch() -> None:
    raw = build_batch([(NOW_MS, b"k%d" % i, b"v", [("h", None)] if i % 2 else ()) for i in range(6)], codec=Codec.LZ4)
    batch = arrow.batch_to_arrow(memoryview(raw), first_offset=2)
    assert batch["offset"].to_pylist() == [2, 3, 4, 5]
    assert batch["headers"].to_pylist() == [None, [{"key": "h", "value": None}]] * 2
    assert arrow.batch_to_arrow(end_marker_batch(ControlType.COMMIT, 1, 0, 0, 0)).num_rows == 0
