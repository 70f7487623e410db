"""A log for what strangers can cause: so many lines in a while, then only their number."""

from __future__ import annotations

import logging
from collections.abc import Callable

_LINES_PER_WINDOW = 20
_WINDOW_SECONDS = 10.0


class BoundedLog:
    def __init__(self, log: logging.Logger, monotonic: Callable[[], float], what: str) -> None:
        """`what` names that of which there were more, in the plural."""
        self._log = log
        self._monotonic = monotonic
        self._what = what
        self._window_ends = 0.0
        self._logged = 0
        self._left_out = 0

    def warning(self, text: str, *args: object) -> None:
        now = self._monotonic()
        if now >= self._window_ends:
            if self._left_out:
                self._log.warning("%d more %s", self._left_out, self._what)
            self._window_ends = now + _WINDOW_SECONDS
            self._logged = self._left_out = 0
        if self._logged >= _LINES_PER_WINDOW:
            self._left_out += 1
            return
        self._logged += 1
        self._log.warning(text, *args)
