"""Reading just enough of each record to decide its fate: offset, key, and whether there is a value.

This is the inner loop of compaction. A record's numbers are zig-zag varints that nearly always take one or two bytes;
those cases are written out, because a call per number would cost more than the rest of the loop. For the same reason
the two functions here each read the numbers by themselves: one reader for both makes either a tenth slower.
"""

from __future__ import annotations

from hashlib import blake2b

from penstock.records.batch import CorruptBatch
from penstock.records.record import read_varint

_RAW_KEY_MAX = 32
# One byte longer than any key that is kept as it is, so that a digest can never be mistaken for such a key.
_DIGEST_SIZE = _RAW_KEY_MAX + 1


def long_key(key: bytes) -> bytes:
    """What stands for a key of any length in the offset map."""
    return blake2b(key, digest_size=_DIGEST_SIZE).digest()


def map_keys(section: bytes, count: int, base_offset: int, first_offset: int, offsets: dict[bytes, int]) -> bool:
    """Note the offset of each record at or after `first_offset` under its key; records without a key are left out.

    Returns whether there was a tombstone among them.
    """
    pos = 0
    tombstones = False
    try:
        for _ in range(count):
            n = section[pos]
            if n < 0x80:
                pos += 1
                end = pos + (n >> 1)
            elif (m := section[pos + 1]) < 0x80:
                pos += 2
                end = pos + ((n & 0x7F | m << 7) >> 1)
            else:
                n, pos = read_varint(section, pos)
                end = pos + n
            pos += 1
            while section[pos] >= 0x80:
                pos += 1
            n = section[pos + 1]
            if n < 0x80:
                offset = base_offset + (n >> 1)
                pos += 2
            elif (m := section[pos + 2]) < 0x80:
                offset = base_offset + ((n & 0x7F | m << 7) >> 1)
                pos += 3
            else:
                n, pos = read_varint(section, pos + 1)
                offset = base_offset + n
            n = section[pos]
            if n < 0x80:
                size = n >> 1
                pos += 1
                if n & 1:
                    pos = end
                    continue
            else:
                size, pos = read_varint(section, pos)
            if pos + size >= end:
                raise CorruptBatch("a key reaches beyond its record")
            if offset >= first_offset:
                key = section[pos : pos + size]
                offsets[key if size <= _RAW_KEY_MAX else long_key(key)] = offset
                if section[pos + size] == 1:
                    tombstones = True
            pos = end
    except IndexError:
        raise CorruptBatch("the records end in the middle of one") from None
    if pos != len(section):
        raise CorruptBatch(f"{count} records do not fill the {len(section)} bytes of the batch")
    return tombstones


def surviving_records(
    section: bytes,
    count: int,
    base_offset: int,
    offsets: dict[bytes, int],
    latest_offset: int,
    keep_tombstones: bool,
) -> tuple[list[tuple[int, int]], bool]:
    """(start, end) of the records that stay, and whether a tombstone is among them.

    A record stays if the map knows no later one of its key; a tombstone stays only while it is protected. Behind
    `latest_offset` the map knows nothing, so everything stays.
    """
    kept: list[tuple[int, int]] = []
    tombstones = False
    pos = 0
    latest_of = offsets.get
    try:
        for _ in range(count):
            start = pos
            n = section[pos]
            if n < 0x80:
                pos += 1
                end = pos + (n >> 1)
            elif (m := section[pos + 1]) < 0x80:
                pos += 2
                end = pos + ((n & 0x7F | m << 7) >> 1)
            else:
                n, pos = read_varint(section, pos)
                end = pos + n
            pos += 1
            while section[pos] >= 0x80:
                pos += 1
            n = section[pos + 1]
            if n < 0x80:
                offset = base_offset + (n >> 1)
                pos += 2
            elif (m := section[pos + 2]) < 0x80:
                offset = base_offset + ((n & 0x7F | m << 7) >> 1)
                pos += 3
            else:
                n, pos = read_varint(section, pos + 1)
                offset = base_offset + n
            n = section[pos]
            if n < 0x80:
                size = -1 if n & 1 else n >> 1
                pos += 1
            else:
                size, pos = read_varint(section, pos)
            if size >= 0:
                if pos + size >= end:
                    raise CorruptBatch("a key reaches beyond its record")
                key = section[pos : pos + size]
                pos += size
                # A value's length is -1, an odd byte, only if there is none: it is a tombstone.
                tombstone = section[pos] == 1
                if offset > latest_offset:
                    stays = True
                else:
                    stays = offset >= latest_of(key if size <= _RAW_KEY_MAX else long_key(key), -1) and (
                        keep_tombstones or not tombstone
                    )
            else:
                tombstone = section[pos] == 1
                stays = offset > latest_offset
            if stays:
                kept.append((start, end))
                if tombstone:
                    tombstones = True
            pos = end
    except IndexError:
        raise CorruptBatch("the records end in the middle of one") from None
    if pos != len(section):
        raise CorruptBatch(f"{count} records do not fill the {len(section)} bytes of the batch")
    return kept, tombstones
