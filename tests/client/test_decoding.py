from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.decoding import decode_batch, decode_values, visible_batches
from penstock.records.batch import CorruptBatch, iter_headers, parse_header
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec
from penstock.records.control import ControlType, end_marker_batch
from penstock.records.record import decode_records

_binary = st.none() | st.binary(max_size=200)
_headers = st.lists(st.tuples(st.text(max_size=5), _binary), max_size=3)
_records = st.lists(
    st.tuples(st.integers(-1, 2**41), _binary, _binary, _headers),
    min_size=1,
    max_size=100,
)


@settings(max_examples=60, deadline=None)
@given(_records, st.sampled_from(list(Codec)), st.none() | st.integers(0, 2**41), st.booleans())
def test_it_reads_what_the_records_room_reads(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    codec: Codec,
    append_time: int | None,
    with_holes: bool,
) -> None:
    deltas = [3 * index for index in range(len(records))] if with_holes else None
    data = memoryview(
        build_batch(records, base_offset=1000, codec=codec, log_append_time=append_time, offset_deltas=deltas)
    )
    header = parse_header(data)
    ours = decode_batch("t", 3, data, 0, header, 0)
    theirs = decode_records(data, 0, header)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in ours] == [
        (r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs
    ]
    assert decode_values(data, 0, header) == [r.value for r in theirs]
    assert {(r.topic, r.partition, r.timestamp_type) for r in ours} == {("t", 3, int(append_time is not None))}


# Runs of records that look alike, and records between them that do not.
_alike = st.tuples(
    st.sampled_from([0, 0, 0, 1, 63, 64, 70, 9000]),  # steps of the timestamp
    st.sampled_from([None, None, b"", b"key", b"k" * 70]),
    st.sampled_from([None, b"", b"v" * 5, b"v" * 100, b"v" * 9000]),
    st.sampled_from([[], [], [], [("h", b"x")]]),
    st.integers(1, 90),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_alike, min_size=1, max_size=4), st.booleans(), st.integers(0, 9000), st.integers(1, 2), st.booleans())
def test_runs_of_records_that_look_alike_are_read_like_any_others(
    kinds: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int]],
    has_steps: bool,
    first_delta: int,
    delta_step: int,
    is_log_append_time: bool,
) -> None:
    records = [
        (1000 + step * (number if has_steps else 1), key, value, headers)
        for step, key, value, headers, count in kinds
        for number in range(count)
    ]
    deltas = [first_delta + delta_step * index for index in range(len(records))]
    append_time = 77 if is_log_append_time else None
    data = memoryview(build_batch(records, base_offset=5, offset_deltas=deltas, log_append_time=append_time))
    header = parse_header(data)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in decode_batch("t", 3, data, 0, header, 0)] == [
        (r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in decode_records(data, 0, header)
    ]
    assert decode_values(data, 0, header) == [r.value for r in decode_records(data, 0, header)]


@given(st.integers(0, 30 * 12 - 1), st.integers(1, 255))
def test_a_broken_run_is_read_as_its_bytes_say_or_refused(at: int, flip: int) -> None:
    batch = build_batch([(1, None, b"value", [])] * 30)
    batch[61 + at] ^= flip
    data = memoryview(batch)
    header = parse_header(data)
    try:
        theirs = [(r.offset, r.key, r.value) for r in decode_records(data, 0, header)]
    except CorruptBatch:
        return
    if any(offset != number for number, (offset, _, _) in enumerate(theirs)):
        return  # offset deltas of a whole batch are stepped over, not read
    try:
        ours = [(r.offset, r.key, r.value) for r in decode_batch("t", 0, data, 0, header, 0)]
    except CorruptBatch:
        return
    assert ours == theirs


def test_long_batches_are_read_although_their_offset_deltas_are_stepped_over() -> None:
    data = memoryview(build_batch([(1, None, b"%d" % n, []) for n in range(20_000)]))
    records = decode_batch("t", 0, data, 0, parse_header(data), 0)
    assert [(r.offset, r.value) for r in records] == [(n, b"%d" % n) for n in range(20_000)]


def test_records_before_the_position_are_left_out() -> None:
    data = memoryview(build_batch([(1, None, None, []) for _ in range(5)], base_offset=10))
    assert [r.offset for r in decode_batch("t", 0, data, 0, parse_header(data), 13)] == [13, 14]


def test_records_that_end_early_are_corrupt() -> None:
    batch = build_batch([(1, None, b"v", [])])
    batch[57:61] = (5).to_bytes(4, "big")
    with pytest.raises(CorruptBatch):
        decode_batch("t", 0, memoryview(batch), 0, parse_header(batch), 0)


def _log(*batches: bytes | bytearray) -> memoryview:
    return memoryview(b"".join(batches))


def _data(offset: int, producer: int, value: bytes, transactional: bool = True) -> bytearray:
    return build_batch(
        [(1, None, value, [])],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def _marker(offset: int, producer: int, kind: ControlType) -> bytearray:
    batch = end_marker_batch(kind, producer, 0, 0, 1)
    batch[:8] = offset.to_bytes(8, "big")
    return batch


def _values(data: memoryview, aborted: list[tuple[int, int]] | None) -> list[bytes | None]:
    found = []
    for pos, header in visible_batches(data, iter_headers(data), aborted):
        found += [record.value for record in decode_batch("t", 0, data, pos, header, 0)]
    return found


def test_batches_of_an_aborted_transaction_are_hidden_until_its_marker() -> None:
    data = _log(
        _data(0, 1, b"aborted"),
        _data(1, 2, b"committed"),
        _data(2, 9, b"plain", transactional=False),
        _marker(3, 1, ControlType.ABORT),
        _marker(4, 2, ControlType.COMMIT),
        _data(5, 1, b"next transaction"),
        _marker(6, 1, ControlType.COMMIT),
    )
    assert _values(data, [(0, 1)]) == [b"committed", b"plain", b"next transaction"]
    assert _values(data, None) == [b"aborted", b"committed", b"plain", b"next transaction"]


def test_two_aborted_transactions_of_one_producer_are_both_hidden() -> None:
    data = _log(
        _data(0, 1, b"a"),
        _marker(1, 1, ControlType.ABORT),
        _data(2, 1, b"b"),
        _marker(3, 1, ControlType.COMMIT),
        _data(4, 1, b"c"),
        _marker(5, 1, ControlType.ABORT),
    )
    assert _values(data, [(0, 1), (4, 1)]) == [b"b"]
