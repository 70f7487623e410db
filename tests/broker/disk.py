"""A disk that works when the test lets it."""

from __future__ import annotations

import threading

import pytest

from penstock.log.partition import PartitionLog

WAIT_S = 15.0


class SlowDisk:
    """Between `stall` and `go_on` nothing of one topic comes to the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
        self._works = threading.Event()
        self._works.set()
        self.has_synced = threading.Event()
        """Set when something of the topic has come to the disk by a sync that began after `stall`."""
        self._stalls = 0
        sync = PartitionLog.sync

        def slow_sync(log: PartitionLog) -> None:
            is_slow = log.folder.name.startswith(topic)
            stalls = self._stalls
            if is_slow:
                assert self._works.wait(WAIT_S)
            sync(log)
            if is_slow and stalls == self._stalls:
                self.has_synced.set()

        monkeypatch.setattr(PartitionLog, "sync", slow_sync)

    def stall(self) -> None:
        self._works.clear()
        self._stalls += 1
        self.has_synced.clear()

    def go_on(self) -> None:
        self._works.set()
