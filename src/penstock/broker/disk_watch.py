"""Says in the log, early and not too often, that the disk is nearly full.

A warning comes when the space becomes low, whenever half of what was left then is gone too, and once an hour as long
as it stays low. One more says that there is room again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.portable import Space
from penstock.storage.contract import Volume

LOOK_SECONDS = 10.0
REPEAT_SECONDS = 3600.0

log = logging.getLogger(__name__)


class DiskWatch:
    def __init__(self, volume: Callable[[], Volume], monotonic: Callable[[], float]) -> None:
        self._volume = volume
        self._monotonic = monotonic
        self._looks_at = monotonic()
        self._warned_bytes: int | None = None
        """What was left at the last warning; None while there is enough."""
        self._warned_at = 0.0

    def sweep(self) -> None:
        """Called every second."""
        now = self._monotonic()
        if now < self._looks_at:
            return
        self._looks_at = now + LOOK_SECONDS
        volume = self._volume()
        if not Space(volume.total_bytes, volume.usable_bytes).is_low:
            if self._warned_bytes is not None:
                log.warning("the disk of %s has room again: %s are left", volume.path, _shown(volume.usable_bytes))
            self._warned_bytes = None
        elif self._is_due(volume.usable_bytes, now):
            self._warned_bytes, self._warned_at = volume.usable_bytes, now
            log.warning(
                "the disk of %s is nearly full: %s of %s are left. When it is full, nothing is stored until there is"
                " space again. Enlarge it, or keep less: penstock config set topic NAME retention.bytes=...",
                volume.path,
                _shown(volume.usable_bytes),
                _shown(volume.total_bytes),
            )

    def _is_due(self, usable_bytes: int, now: float) -> bool:
        warned = self._warned_bytes
        return warned is None or usable_bytes < warned / 2 or now - self._warned_at >= REPEAT_SECONDS


def _shown(number: int) -> str:
    size, unit = float(number), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.3g} {unit}"
