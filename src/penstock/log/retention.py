"""Which segments have outlived their retention (`retention.ms`, `retention.bytes`).

Both rules look at whole segments, oldest first, and stop at the first one that stays: a log never has holes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def expired_by_time(segments: Sequence[Callable[[], int]], now_ms: int, retention_ms: int) -> int:
    """How many of the oldest segments are too old. Each is given by a function that tells its largest timestamp."""
    if retention_ms < 0:
        return 0
    count = 0
    for largest_timestamp in segments:
        if now_ms - largest_timestamp() <= retention_ms:
            break
        count += 1
    return count


def expired_by_size(sizes: Sequence[int], retention_bytes: int) -> int:
    """How many of the oldest segments can go while at least `retention_bytes` stay."""
    if retention_bytes < 0:
        return 0
    excess = sum(sizes) - retention_bytes
    count = 0
    for size in sizes:
        if excess < size or excess <= 0:
            break
        excess -= size
        count += 1
    return count


def below_log_start(base_offsets: Sequence[int], log_start_offset: int) -> int:
    """How many of the oldest segments lie wholly below the log start offset; the last segment never does."""
    count = 0
    for following in base_offsets[1:]:
        if following > log_start_offset:
            break
        count += 1
    return count
