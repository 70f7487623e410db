"""Errors of the storage itself, as opposed to those that a peer caused (which are `penstock.wire.errors`)."""

from __future__ import annotations

from collections.abc import Callable

from penstock.guard import SelfExplanatory


class StorageError(SelfExplanatory):
    """The disk refused (full, read-only, broken). Nothing half-written is visible; nothing may be acknowledged."""


class ColdRead(Exception):
    """What is to be read is not in memory. Run each of `fetches` in a thread, where it may wait, and try again."""

    def __init__(self, *fetches: Callable[[], None]) -> None:
        super().__init__("not in memory")
        self.fetches = fetches


class FarFetch:
    """A fetch for `ColdRead` that waits for another machine, perhaps for long."""

    __slots__ = ("_fetch",)

    def __init__(self, fetch: Callable[[], None]) -> None:
        self._fetch = fetch

    def __call__(self) -> None:
        self._fetch()


class FolderInUse(Exception):
    """Another process holds the data folder's lock."""


class LeadershipLost(StorageError):
    """Another broker leads this partition now: what was appended here and is not durable will never be."""
