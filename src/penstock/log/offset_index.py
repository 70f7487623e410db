"""The offset index of a segment: where in the file to start looking for an offset.

A sparse list of (offset, position) pairs: the last offset of a batch and where that batch begins. One is added when
`index.interval.bytes` have been appended since the one before, so a lookup is a binary search and a short walk over
batch headers. On disk (`.index`) an entry is 8 bytes: int32 offset relative to the segment's base, int32 position.

The index can always be rebuilt from the segment, so it is kept in memory while the segment grows and is written when
the segment rolls or the log closes. The index of an older segment is mapped from its file, which costs no memory of
its own.
"""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import overload

ENTRY_SIZE = 8
_INT32 = struct.Struct(">i").unpack_from


class _Column(Sequence[int]):
    """One int32 column of a mapped index file, as a sequence that `bisect` can search."""

    __slots__ = ("_at", "_data", "_length")

    def __init__(self, data: mmap.mmap | bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._length = len(data) // ENTRY_SIZE

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._length))]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        value: int = _INT32(self._data, index * ENTRY_SIZE + self._at)[0]
        return value


class OffsetIndex:
    """Offsets here are relative to the segment's base offset."""

    __slots__ = ("_offsets", "_positions", "changed")

    def __init__(self) -> None:
        self._offsets: array[int] | _Column = array("i")
        self._positions: array[int] | _Column = array("i")
        self.changed = False

    @classmethod
    def mapped(cls, path: str) -> OffsetIndex | None:
        """A read-only index over its file, or None if there is no usable file."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            size = os.fstat(fd).st_size
            if size % ENTRY_SIZE:
                return None
            data: mmap.mmap | bytes = mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b""
        finally:
            os.close(fd)
        index = cls()
        index._offsets = _Column(data, 0)
        index._positions = _Column(data, 4)
        return index

    @classmethod
    def loaded(cls, path: str) -> OffsetIndex | None:
        """A growable copy of the index in a file, or None if there is no usable file."""
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.read()
        except OSError:
            return None
        if len(data) % ENTRY_SIZE:
            return None
        both = array("i", data)
        both.byteswap()
        index = cls()
        index._offsets = both[0::2]
        index._positions = both[1::2]
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, relative_offset: int, position: int) -> None:
        offsets, positions = self._offsets, self._positions
        assert isinstance(offsets, array), "a mapped index does not grow"
        assert isinstance(positions, array), "a mapped index does not grow"
        offsets.append(relative_offset)
        positions.append(position)
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
        both[0::2] = array("i", self._offsets)
        both[1::2] = array("i", self._positions)
        both.byteswap()
        return both.tobytes()
