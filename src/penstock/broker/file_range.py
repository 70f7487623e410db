"""A range of a segment file: a part of a response (sent by the kernel, not read by this process), or about to be read.

A range that is not in the page cache would block whoever touches it, and with it the event loop. So it is probed first
without blocking (`preadv` with `RWF_NOWAIT`), and brought into memory by a thread if need be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import ClassVar

from penstock import portable
from penstock.broker.world import World
from penstock.portable import CannotTell
from penstock.storage.contract import SegmentFile

log = logging.getLogger("penstock.broker")

_READ_BYTES = 1 << 20
_PROBE_STEP_BYTES = 512 << 10


class FileRange:
    """Stands where the bytes of a `records` field would; holding the file keeps it open until the range is sent."""

    __slots__ = ("file", "is_warm", "position", "size")

    HANDLE_BYTES: ClassVar[int] = 16 << 10
    """What a range that waits to be sent counts as: it takes little memory, but keeps a file open."""

    def __init__(self, file: SegmentFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.is_warm = False
        """Known to be in the page cache, or not worth asking."""

    def __len__(self) -> int:
        return self.size

    def is_cached(self) -> bool:
        """Whether the kernel has the range in memory, judged by a byte of every 512 KiB and the last one."""
        if self.is_warm:
            return True
        fd, end = self.file.fd, self.position + self.size
        byte = bytearray(1)
        try:
            for position in range(self.position, end, _PROBE_STEP_BYTES):
                portable.read_cached(fd, byte, position)
            portable.read_cached(fd, byte, end - 1)
        except BlockingIOError:
            return False
        except (CannotTell, OSError):
            pass  # use the range as it is
        self.is_warm = True
        return True

    def warm_up(self) -> None:
        """Read the range from disk, in a thread, so that sending it does not block."""
        position, end = self.position, self.position + self.size
        while position < end:
            got = len(portable.read_at(self.file.fd, min(_READ_BYTES, end - position), position))
            if not got:
                break
            position += got
        self.is_warm = True


def when_cached(world: World, span: FileRange, then: Callable[[], None]) -> bool:
    """Whether a range can be read without waiting for the disk. If not, a thread reads it and `then` is called after.

    It is called even if the thread could not read: the next attempt finds out what is wrong, or succeeds.
    """
    if span.is_cached():
        return True

    def warmed_up(reading: asyncio.Future[None]) -> None:
        span.is_warm = True
        if reading.cancelled():
            return
        if reading.exception() is not None:
            log.warning("a thread cannot read %d bytes ahead: %s", span.size, reading.exception())
        then()

    world.in_thread(span.warm_up).add_done_callback(warmed_up)
    return False


async def until_cached(world: World, span: FileRange) -> None:
    """Return when a range can be read without waiting for the disk, or cannot be read at all."""
    ready = asyncio.Event()
    if not when_cached(world, span, ready.set):
        await ready.wait()
