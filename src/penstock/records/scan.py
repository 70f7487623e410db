"""Walking over the records of a batch without decoding them: where each begins, and the numbers in front of its key.

Cutting a batch needs only the places where records begin; checking a produced batch needs timestamps, offsets and
whether there is a key. Neither needs keys, values or headers, so they are jumped over by the record's own length, and a
run of records of one length in one go.
"""

from __future__ import annotations

from penstock.records.batch import CorruptBatch
from penstock.records.record import read_varint

_FEWEST_ALIKE = 8  # records that must be left for looking for a run to pay
_MOST_ALIKE = 4096  # of one run, so that a run which ends early costs little


def record_starts(section: bytes, count: int) -> list[int]:
    """Positions of the records in an uncompressed records section, and as last entry the end of the section."""
    starts = [0]
    append = starts.append
    pos = 0
    left = count
    try:
        while left > 0:
            n = section[pos]
            if n & 1:
                raise CorruptBatch("a record has a negative length")
            width = 1
            if n < 0x80:
                stride = 1 + (n >> 1)
            elif (m := section[pos + 1]) < 0x80:
                width = 2
                stride = 2 + ((n & 0x7F | m << 7) >> 1)
            else:
                length, body = read_varint(section, pos)
                width = body - pos
                stride = width + length
            if left > _FEWEST_ALIKE and section[pos + stride] == n == section[pos + 2 * stride]:
                alike = _count_alike(section, pos, stride, width, left)
                starts.extend(range(pos + stride, pos + alike * stride + 1, stride))
                pos += alike * stride
                left -= alike
            else:
                pos += stride
                left -= 1
                append(pos)
    except IndexError:
        raise CorruptBatch("the records end in the middle of one") from None
    if count < 0 or pos != len(section):
        raise CorruptBatch(f"{count} records do not fill the {len(section)} bytes of the batch")
    return starts


def _count_alike(section: bytes, pos: int, stride: int, width: int, left: int) -> int:
    """How many records from here on say the same length: a column of equal bytes for each byte of it.

    A record that says the same length ends where the next one begins, so the first difference ends the run for sure.
    """
    end = pos + min(left, _MOST_ALIKE) * stride
    alike = left
    for at in range(pos, pos + width):
        column = section[at:end:stride]
        alike = min(alike, len(column) - len(column.lstrip(section[at : at + 1])))
    return alike


def record_heads(section: bytes, count: int) -> list[tuple[int, int, bool]]:
    """(timestamp delta, offset delta, has a key) of each record in an uncompressed records section."""
    heads = []
    try:
        for start in record_starts(section, count)[:-1]:
            _, pos = read_varint(section, start)
            timestamp_delta, pos = read_varint(section, pos + 1)
            offset_delta, pos = read_varint(section, pos)
            heads.append((timestamp_delta, offset_delta, not section[pos] & 1))
    except IndexError:
        raise CorruptBatch("the records end in the middle of one") from None
    return heads
