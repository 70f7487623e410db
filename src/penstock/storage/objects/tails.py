"""Keeps short what a take-over has to read: decides which logs begin a new segment.

The *tail* of a partition is what has been committed and is in no stored segment yet. Whoever takes over reads it, from
objects and from PostgreSQL, before it leads. So a log begins a new segment, and the one before is stored, when its tail
is large, in many pieces or old, and those with the largest tails do when all of a broker's tails together are large.
`segment.bytes` and `segment.ms` of a topic still hold; they only come second.

A tail that nobody appends to is stored once and then is none, so an idle cluster stores nothing.

Pure bookkeeping: it is handed the time, and whoever owns it rolls the logs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.storage.objects.commit_log import Extent, Tail
from penstock.storage.objects.log import ObjectLog

INLINE_EXTENTS = 16
"""So many extents in PostgreSQL are read as fast as one in the store is requested."""
_PART_OF_ALL = 128
"""A tail that is smaller than this part of what all may have is not worth an object of its own."""
_CHOOSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TailSettings:
    bytes: int = 64 << 20
    """Of one partition."""
    extents: int = 512
    """Of one partition in the store; in PostgreSQL it may have INLINE_EXTENTS times as many."""
    seconds: float = 3600.0
    """How old the first records of a tail may be."""
    all_bytes: int = 512 << 20
    """Of all partitions that a broker leads, as far as few of them have most of it."""
    inline_bytes: int = 1 << 30
    """What may be in PostgreSQL of all of them, if segments cannot be stored."""


@dataclass(slots=True)
class _Piece:
    """What is committed of one segment that is not stored."""

    end_offset: int | None = None
    """Where the segment ends; None of the active one."""
    bytes: int = 0
    inline_bytes: int = 0
    weight: int = 0
    """Extents, as INLINE_EXTENTS counts them."""
    since: float = 0.0


class Tails:
    def __init__(self, settings: TailSettings) -> None:
        self._settings = settings
        self._tails: dict[ObjectLog, deque[_Piece]] = {}
        """Oldest first; the last one is that of the active segment."""
        self._active_bytes = 0
        self._chosen_at = -_CHOOSE_SECONDS
        self.bytes = 0
        """Of all tails, with segments that wait to be stored."""
        self.inline_bytes = 0

    @property
    def may_go_inline(self) -> bool:
        return self.inline_bytes < self._settings.inline_bytes

    def begin(self, log: ObjectLog, extents: Iterable[Extent], now: float) -> None:
        """The log is led from here on, and was loaded from these extents."""
        self.end(log)
        piece = _Piece()
        self._tails[log] = deque([piece])
        for extent in extents:
            self._add(piece, extent.size, extent.object_key is None, now)

    def end(self, log: ObjectLog) -> None:
        for piece in self._tails.pop(log, ()):
            self._forget(piece)

    def committed(self, log: ObjectLog, committed: Tail, now: float) -> None:
        pieces = self._tails.get(log, ())
        for piece in pieces:
            if piece.end_offset is None or committed.end_offset <= piece.end_offset:
                self._add(piece, committed.size, committed.data is not None, now)
                break

    def is_due(self, log: ObjectLog) -> bool:
        """Whether the log is to begin a new segment now."""
        settings, pieces = self._settings, self._tails.get(log)
        if not pieces:
            return False
        active = pieces[-1]
        return active.bytes >= settings.bytes or active.weight >= settings.extents * INLINE_EXTENTS

    def rolled(self, log: ObjectLog) -> None:
        """The log has begun a new segment."""
        pieces = self._tails.get(log)
        if pieces is not None:
            pieces[-1].end_offset = log.log_end_offset
            self._active_bytes -= pieces[-1].bytes
            pieces.append(_Piece())

    def stored(self, log: ObjectLog, end_offset: int) -> None:
        """What lies below is in stored segments, or deleted."""
        pieces = self._tails.get(log)
        while pieces and (end := pieces[0].end_offset) is not None and end <= end_offset:
            self._forget(pieces.popleft())

    def excess(self, now: float) -> list[ObjectLog]:
        """The largest tails, if all of them together are too large. Looked for now and then."""
        settings = self._settings
        if self._active_bytes <= settings.all_bytes or now - self._chosen_at < _CHOOSE_SECONDS:
            return []
        self._chosen_at = now
        worth = settings.all_bytes // _PART_OF_ALL
        large = [(pieces[-1].bytes, log) for log, pieces in self._tails.items() if pieces[-1].bytes >= worth]
        chosen, left = [], self._active_bytes
        for size, log in sorted(large, key=lambda each: -each[0]):
            if left <= settings.all_bytes:
                break
            chosen.append(log)
            left -= size
        return chosen

    def old(self, now: float) -> Iterator[ObjectLog]:
        """Those whose time is up."""
        until = now - self._settings.seconds
        return (log for log, pieces in list(self._tails.items()) if pieces[-1].weight and pieces[-1].since <= until)

    def _add(self, piece: _Piece, size: int, is_inline: bool, now: float) -> None:
        if not piece.weight:
            piece.since = now
        piece.bytes += size
        piece.weight += 1 if is_inline else INLINE_EXTENTS
        self.bytes += size
        if is_inline:
            piece.inline_bytes += size
            self.inline_bytes += size
        if piece.end_offset is None:
            self._active_bytes += size

    def _forget(self, piece: _Piece) -> None:
        self.bytes -= piece.bytes
        self.inline_bytes -= piece.inline_bytes
        if piece.end_offset is None:
            self._active_bytes -= piece.bytes
