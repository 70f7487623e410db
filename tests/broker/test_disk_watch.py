from __future__ import annotations

import logging

import pytest

from penstock.broker.disk_watch import DiskWatch
from penstock.storage.contract import Volume

GB = 10**9
NEARLY_FULL = "the disk of /data is nearly full: {} of 100 GB are left."


class Rig:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 1000.0
        self.usable = 50 * GB
        self.watch = DiskWatch(lambda: Volume("/data", 100 * GB, self.usable), lambda: self.now)
        self._caplog = caplog

    def said(self, seconds: int = 10) -> list[str]:
        """What is logged meanwhile."""
        self._caplog.clear()
        for _ in range(seconds):
            self.now += 1
            self.watch.sweep()
        assert all(record.levelno == logging.WARNING for record in self._caplog.records)
        return [record.getMessage() for record in self._caplog.records]


@pytest.fixture
def rig(caplog: pytest.LogCaptureFixture) -> Rig:
    return Rig(caplog)


def test_a_disk_with_room_is_not_mentioned(rig: Rig) -> None:
    assert rig.said(7200) == []


def test_a_disk_that_becomes_low_is_mentioned_with_what_to_do_once_an_hour(rig: Rig) -> None:
    rig.usable = 4 * GB
    (said,) = rig.said()
    assert said.startswith(NEARLY_FULL.format("4 GB"))
    assert "retention.bytes" in said
    assert rig.said(3580) == []
    assert len(rig.said(3600)) == 1


def test_whenever_half_of_it_is_gone_that_is_mentioned_at_once(rig: Rig) -> None:
    said = []
    for usable in range(4 * GB, -1, -GB // 100):
        rig.usable = max(0, usable)
        said += rig.said()
    assert 8 <= len(said) <= 15
    assert said[-1].startswith(NEARLY_FULL.format("0 bytes"))


def test_room_again_is_mentioned_and_the_next_shortage_too(rig: Rig) -> None:
    rig.usable = 4 * GB
    rig.said()
    rig.usable = 40 * GB
    assert rig.said() == ["the disk of /data has room again: 40 GB are left"]
    assert rig.said() == []
    rig.usable = 300 * 10**6
    (said,) = rig.said()
    assert said.startswith(NEARLY_FULL.format("300 MB"))
