"""End-of-transaction markers: the bytes Kafka writes, read back."""

from __future__ import annotations

import pytest

from penstock.records.batch import CorruptBatch, crc_is_valid
from penstock.records.control import ControlRecord, ControlType, end_marker_batch, parse_control
from penstock.records.record import Record, iter_records

NOW_MS = 1_700_000_000_000
COMMIT_MARKER = (
    "000000000000000000000042ffffffff020e5f75350030000000000000018bcfe568000000018bcfe568"
    "0000000000000003e80005ffffffff000000012000000008000000010c00000000000300"
)


def test_a_commit_marker_is_the_known_one() -> None:
    assert end_marker_batch(ControlType.COMMIT, 1000, 5, 3, NOW_MS).hex() == COMMIT_MARKER


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_is_read_back(kind: ControlType) -> None:
    batch = end_marker_batch(kind, 2**40, 32767, 77, NOW_MS)
    assert len(batch) == 78
    assert crc_is_valid(batch, 0, 78)
    assert [parse_control(record) for record in iter_records(batch)] == [ControlRecord(kind, 77)]


def test_only_commit_and_abort_end_a_transaction() -> None:
    with pytest.raises(ValueError):
        end_marker_batch(ControlType.LEADER_CHANGE, 1, 0, 0, NOW_MS)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (2, ControlType.LEADER_CHANGE),
        (6, ControlType.KRAFT_VOTERS),
        (99, ControlType.UNKNOWN),
        (-1, ControlType.UNKNOWN),
    ],
)
def test_other_control_records_are_only_recognised(number: int, kind: ControlType) -> None:
    key = b"\x00\x00" + number.to_bytes(2, "big", signed=True)
    assert parse_control(Record(0, 0, key, None, [])) == ControlRecord(kind, -1)


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"\x00\x00", b""), (b"\xff\xff\x00\x00", bytes(6)), (bytes(4), None), (bytes(4), bytes(5))],
)
def test_a_malformed_control_record_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        parse_control(Record(0, 0, key, value, []))
