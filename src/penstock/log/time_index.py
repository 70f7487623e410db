"""The time index of a segment: from which offset on to look for a timestamp.

An entry (timestamp, offset) says: up to this offset no record of the segment is younger than this timestamp. Both
columns only grow. On disk (`.timeindex`) an entry is 12 bytes: int64 timestamp, int32 offset relative to the segment's
base. The entry written last, when the segment rolls, is the segment's largest timestamp, which retention and timestamp
lookups need for segments whose data they never touch.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left

from penstock.log.files import DiskReader, SegmentFile

ENTRY_SIZE = 12
_ENTRY = struct.Struct(">qi")


class TimeIndex:
    """Offsets here are relative to the segment's base offset."""

    __slots__ = ("_offsets", "_timestamps", "changed")

    def __init__(self) -> None:
        self._timestamps: array[int] = array("q")
        self._offsets: array[int] = array("i")
        self.changed = False

    @classmethod
    def loaded(cls, path: str, reader: DiskReader) -> TimeIndex | None:
        """A copy of the index in a file, or None if there is no usable file. Raises ColdRead."""
        try:
            data = reader.read_file(path)
        except OSError:
            return None
        if len(data) % ENTRY_SIZE:
            return None
        index = cls()
        for timestamp, offset in _ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        return index

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry if it says something new."""
        timestamps = self._timestamps
        if timestamp < 0 or (timestamps and timestamp <= timestamps[-1]):
            return
        timestamps.append(timestamp)
        self._offsets.append(relative_offset)
        self.changed = True

    def last(self) -> tuple[int, int]:
        """The largest timestamp and its offset, (-1, -1) if no record has one."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else (-1, -1)

    def offset_before(self, timestamp: int) -> int:
        """An offset up to which every record is older than `timestamp`; -1 if nothing is known."""
        slot = bisect_left(self._timestamps, timestamp) - 1
        return self._offsets[slot] if slot >= 0 else -1

    def to_bytes(self) -> bytes:
        data = bytearray(ENTRY_SIZE * len(self))
        for slot, (timestamp, offset) in enumerate(zip(self._timestamps, self._offsets, strict=True)):
            _ENTRY.pack_into(data, slot * ENTRY_SIZE, timestamp, offset)
        return bytes(data)


def read_last_entry(path: str, reader: DiskReader) -> tuple[int, int] | None:
    """The last entry in a file without reading the rest; (-1, -1) of an empty file, None of an unusable one."""
    try:
        file = SegmentFile(path, os.O_RDONLY)
        size = os.fstat(file.fd).st_size
        if size % ENTRY_SIZE:
            return None
        if not size:
            return -1, -1
        timestamp, offset = _ENTRY.unpack(reader.read(file, ENTRY_SIZE, size - ENTRY_SIZE))
        return timestamp, offset
    except (OSError, struct.error):
        return None


def stored_offset_before(path: str, timestamp: int, reader: DiskReader) -> int:
    """`TimeIndex.offset_before` of the index in a file; -1 if there is no usable file. Raises ColdRead."""
    try:
        data = reader.read_file(path)
    except OSError:
        return -1
    if len(data) % ENTRY_SIZE:
        return -1
    entries = range(len(data) // ENTRY_SIZE)
    slot = bisect_left(entries, timestamp, key=lambda slot: _ENTRY.unpack_from(data, slot * ENTRY_SIZE)[0]) - 1
    return int(_ENTRY.unpack_from(data, slot * ENTRY_SIZE)[1]) if slot >= 0 else -1
