"""A range of a segment file inside a response: sent by the kernel, never read by this process."""

from __future__ import annotations

import os

from penstock.log.files import SegmentFile

_READ_BYTES = 1 << 20


class FileRange:
    """Stands where the bytes of a `records` field would; holding the file keeps it open until the range is sent."""

    __slots__ = ("file", "is_warm", "position", "size")

    def __init__(self, file: SegmentFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.is_warm = False
        """Known to be in the page cache, or not worth asking."""

    def __len__(self) -> int:
        return self.size

    def warm_up(self) -> None:
        """Read the range from disk, in a thread, so that sending it does not block."""
        position, end = self.position, self.position + self.size
        while position < end:
            got = len(os.pread(self.file.fd, min(_READ_BYTES, end - position), position))
            if not got:
                break
            position += got
        self.is_warm = True
