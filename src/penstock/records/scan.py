"""Walking over the records of a batch without decoding them: where each begins, and the numbers in front of its key.

Cutting a batch needs only the places where records begin; checking a produced batch needs timestamps, offsets and
whether there is a key. Neither needs keys, values or headers, so they are jumped over by the record's own length.
"""

from __future__ import annotations

from penstock.records.batch import CorruptBatch
from penstock.records.record import read_varint


def record_starts(section: bytes, count: int) -> list[int]:
    """Positions of the records in an uncompressed records section, and as last entry the end of the section."""
    starts = [0]
    append = starts.append
    pos = 0
    try:
        for _ in range(count):
            n = section[pos]
            if n & 1:
                raise CorruptBatch("a record has a negative length")
            if n < 0x80:
                pos += 1 + (n >> 1)
            elif (m := section[pos + 1]) < 0x80:
                pos += 2 + ((n & 0x7F | m << 7) >> 1)
            else:
                n, pos = read_varint(section, pos)
                pos += n
            append(pos)
    except IndexError:
        raise CorruptBatch("the records end in the middle of one") from None
    if count < 0 or pos != len(section):
        raise CorruptBatch(f"{count} records do not fill the {len(section)} bytes of the batch")
    return starts


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
