"""The batch header: read, checked and patched without touching the records."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from penstock.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    crc_is_valid,
    iter_headers,
    parse_header,
    patch_append,
    patch_max_timestamp,
)

PLAIN_BATCH = bytes.fromhex(
    "00000000000000000000003affffffff02e99b8dd80000000000000000018bcfe568000000018bcfe568"
    "00ffffffffffffffffffffffffffff0000000110000000026b027600"
)
COMMIT_MARKER = bytes.fromhex(
    "000000000000000000000042ffffffff020e5f75350030000000000000018bcfe568000000018bcfe568"
    "0000000000000003e80005ffffffff000000012000000008000000010c00000000000300"
)
NOW_MS = 1_700_000_000_000


def test_crc32c_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_plain_batch_is_read_field_by_field() -> None:
    assert parse_header(PLAIN_BATCH) == BatchHeader(0, 58, -1, 2, 0xE99B8DD8, 0, 0, NOW_MS, NOW_MS, -1, -1, -1, 1)


def test_a_commit_marker_says_what_it_is() -> None:
    header = parse_header(memoryview(b"xx" + COMMIT_MARKER), 2)
    assert header.is_control
    assert header.is_transactional
    assert header.has_producer_id
    assert not header.is_compressed
    assert not header.is_log_append_time
    assert not header.has_delete_horizon
    assert (header.producer_id, header.producer_epoch, header.size) == (1000, 5, 78)
    assert header.last_sequence == -1


def test_offsets_follow_from_the_base_offset_and_the_delta() -> None:
    header = BatchHeader(100, 58, 0, 2, 0, 0, 9, 0, 0, -1, -1, -1, 10)
    assert (header.last_offset, header.next_offset) == (109, 110)


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(0, 9, 9), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 7, 4)]
)
def test_sequence_numbers_wrap_to_zero(base: int, delta: int, last: int) -> None:
    assert BatchHeader(0, 58, 0, 2, 0, 0, delta, 0, 0, 1, 0, base, delta + 1).last_sequence == last


@pytest.mark.parametrize("batch", [PLAIN_BATCH, COMMIT_MARKER])
def test_the_crc_of_a_batch_is_checked_over_everything_behind_it(batch: bytes) -> None:
    assert crc_is_valid(batch, 0, len(batch))
    for at in range(17, len(batch)):
        broken = bytearray(batch)
        broken[at] ^= 1
        assert not crc_is_valid(broken, 0, len(batch))


def test_a_batch_that_is_not_there_whole_has_no_valid_crc() -> None:
    assert not crc_is_valid(PLAIN_BATCH[:-1], 0, len(PLAIN_BATCH))
    assert not crc_is_valid(PLAIN_BATCH, 0, HEADER_SIZE - 1)


def test_the_leader_writes_offset_and_epoch_without_touching_the_crc() -> None:
    batch = bytearray(b"--" + PLAIN_BATCH)
    patch_append(batch, 2, 123_456_789_012, 7)
    header = parse_header(batch, 2)
    assert (header.base_offset, header.partition_leader_epoch) == (123_456_789_012, 7)
    assert crc_is_valid(batch, 2, len(PLAIN_BATCH))
    assert batch[18:] == PLAIN_BATCH[16:]


def test_log_append_time_is_written_with_a_new_crc_and_can_be_taken_back() -> None:
    batch = bytearray(b"--" + PLAIN_BATCH)
    patch_max_timestamp(batch, 2, NOW_MS + 5, True)
    header = parse_header(batch, 2)
    assert header.is_log_append_time
    assert header.max_timestamp == NOW_MS + 5
    assert crc_is_valid(batch, 2, len(PLAIN_BATCH))
    patch_max_timestamp(batch, 2, NOW_MS, False)
    assert batch[2:] == PLAIN_BATCH


def test_batches_in_a_row_are_found_and_a_cut_off_last_one_is_left_out() -> None:
    whole = PLAIN_BATCH + COMMIT_MARKER
    assert [(pos, header.size) for pos, header in iter_headers(whole)] == [(0, 70), (70, 78)]
    assert [pos for pos, _ in iter_headers(memoryview(whole)[:-1])] == [0]
    assert [pos for pos, _ in iter_headers(whole + PLAIN_BATCH[:20])] == [0, 70]
    assert list(iter_headers(b"")) == []


def test_too_few_bytes_are_a_corrupt_batch() -> None:
    for size in range(HEADER_SIZE):
        with pytest.raises(CorruptBatch):
            parse_header(PLAIN_BATCH[:size])


def test_a_length_that_cannot_hold_a_header_is_a_corrupt_batch() -> None:
    for length in (-1, 0, 48, -(2**31)):
        with pytest.raises(CorruptBatch):
            list(iter_headers(PLAIN_BATCH[:8] + length.to_bytes(4, "big", signed=True) + PLAIN_BATCH[12:]))


@pytest.mark.parametrize("magic", [0, 1])
def test_formats_from_before_magic_2_are_told_apart_even_when_shorter_than_a_header(magic: int) -> None:
    old = bytes(8) + (22).to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(17)
    with pytest.raises(UnsupportedMagic) as raised:
        parse_header(old)
    assert raised.value.magic == magic


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_a_magic_that_never_was_is_a_corrupt_batch(magic: int) -> None:
    with pytest.raises(CorruptBatch) as raised:
        parse_header(PLAIN_BATCH[:16] + magic.to_bytes(1, "big", signed=True) + PLAIN_BATCH[17:])
    assert not isinstance(raised.value, UnsupportedMagic)


def test_a_header_is_shown_with_its_fields() -> None:
    shown = repr(parse_header(PLAIN_BATCH))
    assert shown.startswith("BatchHeader(")
    assert f"base_offset=0, base_sequence=-1, base_timestamp={NOW_MS}, batch_length=58, " in shown


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [26, 60, 70])
@pytest.mark.parametrize("pos", [0, 5])
def test_a_batch_of_an_old_format_is_named_as_such_however_short(magic: int, size: int, pos: int) -> None:
    old = b"\x07" * 16 + bytes((magic,)) + b"\x07" * (size - 17)
    with pytest.raises(UnsupportedMagic, match=f"magic {magic}; only magic 2"):
        parse_header(b"\x07" * pos + old, pos)


@pytest.mark.parametrize(("size", "pos", "left"), [(25, 0, 25), (30, 5, 25), (3, 5, 0), (0, 0, 0)])
def test_what_is_too_short_for_any_format_is_corrupt(size: int, pos: int, left: int) -> None:
    with pytest.raises(CorruptBatch, match=f"^{left} bytes are too few for a batch header of 61$") as raised:
        parse_header(bytes(size), pos)
    assert not isinstance(raised.value, UnsupportedMagic)


def test_a_format_that_nobody_knows_is_corrupt() -> None:
    changed = bytearray(PLAIN_BATCH)
    changed[16] = 3
    with pytest.raises(CorruptBatch, match="invalid magic 3") as raised:
        parse_header(changed)
    assert not isinstance(raised.value, UnsupportedMagic)


def test_a_max_timestamp_is_written_into_one_batch_of_several() -> None:
    batches = bytearray(PLAIN_BATCH * 3)
    patch_max_timestamp(batches, len(PLAIN_BATCH), NOW_MS + 7, True)
    assert [header.max_timestamp for _, header in iter_headers(batches)] == [NOW_MS, NOW_MS + 7, NOW_MS]
    assert all(crc_is_valid(batches, position, header.size) for position, header in iter_headers(batches))
