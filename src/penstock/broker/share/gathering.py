"""Gathers results of which some are at hand, and others come from other brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Gathering(Generic[K, V]):
    """`done` is called once, with all results: at once if none are missing."""

    def __init__(self, found: dict[K, V], missing: int, done: Callable[[dict[K, V]], None]) -> None:
        self._found = found
        self._missing = missing
        self._done = done
        if not missing:
            done(found)

    def add(self, found: Mapping[K, V]) -> None:
        """One of the answers that were missing."""
        self._found.update(found)
        self._missing -= 1
        if not self._missing:
            self._done(self._found)
