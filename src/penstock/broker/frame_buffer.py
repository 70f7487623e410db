"""A buffer for a frame that has not arrived whole."""

from __future__ import annotations

from penstock.portable import private_memory

SMALLEST_MAPPED = 64 << 10


def new_buffer(size: int) -> memoryview:
    """Space for a frame. A large one takes memory only as its bytes arrive: its size is only the client's claim."""
    if size < SMALLEST_MAPPED:
        return memoryview(bytearray(size))
    return private_memory(size)
