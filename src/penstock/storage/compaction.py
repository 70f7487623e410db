"""The contract of compaction: an engine's way to drop the records that a later one with the same key replaces.

It is apart from `contract` because a broker without compacted topics never imports it.
"""

from __future__ import annotations

from typing import Protocol

from penstock.log.cleaner.manager import CleanerConfig as CleanerConfig
from penstock.log.cleaner.manager import CleanerStatus as CleanerStatus
from penstock.log.cleaner.manager import LogStatus as LogStatus
from penstock.storage.contract import Log


class Compactor(Protocol):
    """Cleans the compacted logs one by one. Nothing here blocks."""

    def poll(self, now_ms: int) -> None:
        """Take whatever steps can be taken now. Call it every second or so, and when there is progress."""

    def forget(self, log: Log) -> None:
        """The log is about to be deleted: no result of a round that is under way will be put in place."""

    def status(self, now_ms: int) -> CleanerStatus: ...

    def waiting_ms(self, now_ms: int) -> int:
        """For how long there has been a log worth cleaning, since anything was last cleaned; 0 without one."""

    def update_config(self, config: CleanerConfig) -> None: ...

    def close(self) -> None: ...
