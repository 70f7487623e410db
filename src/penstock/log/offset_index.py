"""The offset index of a segment: where in the file to start looking for an offset.

A sparse list of (offset, position) pairs: the last offset of a batch and where that batch begins. One is added when
`index.interval.bytes` have been appended since the one before, so a lookup is a binary search and a short walk over
batch headers. On disk (`.index`) an entry is 8 bytes: int32 offset relative to the segment's base, int32 position.

The index can always be rebuilt from the segment, so it is kept in memory while the segment grows and is written when
the segment rolls or the log closes. The index of an older segment stays in its file (`StoredIndex`): in memory are
every 512th entry and the page that was used last.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right

from penstock.log.files import DiskReader, SegmentFile

ENTRY_SIZE = 8
_PAGE_ENTRIES = 512

Columns = tuple["array[int]", "array[int]"]
"""Offsets and positions."""


class OffsetIndex:
    """Offsets here are relative to the segment's base offset."""

    __slots__ = ("_offsets", "_positions", "changed")

    def __init__(self) -> None:
        self._offsets: array[int] = array("i")
        self._positions: array[int] = array("i")
        self.changed = False

    @classmethod
    def loaded(cls, path: str, reader: DiskReader) -> OffsetIndex | None:
        """A growable copy of the index in a file, or None if there is no usable file. Raises ColdRead."""
        try:
            data = reader.read_file(path)
        except OSError:
            return None
        if len(data) % ENTRY_SIZE:
            return None
        index = cls()
        index._offsets, index._positions = _columns(data)
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)
        self.changed = True

    def entry(self, slot: int) -> tuple[int, int]:
        return self._offsets[slot], self._positions[slot]

    def lookup(self, relative_offset: int) -> tuple[int, int]:
        """The last entry at or below an offset as (offset, position); (-1, 0) if there is none."""
        slot = bisect_right(self._offsets, relative_offset) - 1
        return (self._offsets[slot], self._positions[slot]) if slot >= 0 else (-1, 0)

    def before_position(self, position: int) -> tuple[int, int]:
        """The last entry whose batch does not start beyond `position` as (offset, position); (-1, 0) if none."""
        slot = bisect_right(self._positions, position) - 1
        return (self._offsets[slot], self._positions[slot]) if slot >= 0 else (-1, 0)

    def offset_at_or_after(self, position: int) -> int:
        """The last offset of the first indexed batch that starts at or after `position`; -1 if there is none."""
        slot = bisect_left(self._positions, position)
        return self._offsets[slot] if slot < len(self._positions) else -1

    def is_plausible(self, segment_size: int) -> bool:
        """Whether the last entry can be right. Whether each one is, is checked when it is used."""
        return len(self) == 0 or (self._offsets[-1] >= 0 and 0 <= self._positions[-1] < segment_size)

    def to_bytes(self) -> bytes:
        both = array("i", bytes(ENTRY_SIZE * len(self)))
        both[0::2] = self._offsets
        both[1::2] = self._positions
        both.byteswap()
        return both.tobytes()


class StoredIndex:
    """The index in a file, read page by page. Its methods raise ColdRead, and OSError if the file has gone."""

    __slots__ = ("_first_offsets", "_first_positions", "_last", "_length", "_page", "_page_number", "_path", "_reader")

    def __init__(self, path: str, reader: DiskReader, data: bytes) -> None:
        whole = memoryview(data).cast("i")
        self._path = path
        self._reader = reader
        self._length = len(data) // ENTRY_SIZE
        self._first_offsets = array("i", whole[0 :: 2 * _PAGE_ENTRIES].tolist())
        self._first_positions = array("i", whole[1 :: 2 * _PAGE_ENTRIES].tolist())
        self._first_offsets.byteswap()
        self._first_positions.byteswap()
        self._page: Columns = _columns(data[: _PAGE_ENTRIES * ENTRY_SIZE])
        self._page_number = 0
        offsets, positions = _columns(data[-ENTRY_SIZE:])
        self._last = (offsets[0], positions[0]) if offsets else (-1, 0)

    @classmethod
    def opened(cls, path: str, reader: DiskReader) -> StoredIndex | None:
        """The index in a file, or None if there is no usable file."""
        try:
            data = reader.read_file(path)
        except OSError:
            return None
        return None if len(data) % ENTRY_SIZE else cls(path, reader, data)

    def __len__(self) -> int:
        return self._length

    def lookup(self, relative_offset: int) -> tuple[int, int]:
        """See `OffsetIndex`, as for the others."""
        number = bisect_right(self._first_offsets, relative_offset) - 1
        if number < 0:
            return -1, 0
        offsets, positions = self._load(number)
        slot = bisect_right(offsets, relative_offset) - 1
        return (offsets[slot], positions[slot]) if slot >= 0 else (-1, 0)

    def before_position(self, position: int) -> tuple[int, int]:
        number = bisect_right(self._first_positions, position) - 1
        if number < 0:
            return -1, 0
        offsets, positions = self._load(number)
        slot = bisect_right(positions, position) - 1
        return (offsets[slot], positions[slot]) if slot >= 0 else (-1, 0)

    def offset_at_or_after(self, position: int) -> int:
        following = bisect_left(self._first_positions, position)
        if following > 0:
            offsets, positions = self._load(following - 1)
            slot = bisect_left(positions, position)
            if slot < len(positions):
                return offsets[slot]
        return self._first_offsets[following] if following < len(self._first_offsets) else -1

    def is_plausible(self, segment_size: int) -> bool:
        offset, position = self._last
        return not self._length or (offset >= 0 and 0 <= position < segment_size)

    def _load(self, number: int) -> Columns:
        if number != self._page_number:
            file = SegmentFile(self._path, os.O_RDONLY)
            size = _PAGE_ENTRIES * ENTRY_SIZE
            self._page = _columns(self._reader.read(file, size, number * size))
            self._page_number = number
        return self._page


def _columns(data: bytes) -> Columns:
    both = array("i", data)
    both.byteswap()
    return both[0::2], both[1::2]
