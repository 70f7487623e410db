"""Whether a broker can serve clients, and for how long its tasks have not ended well."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker.metrics import Metric
from penstock.broker.vitals import LEASE, OWNERSHIP, STORE, Vitals
from penstock.storage.contract import Volume

GIB = 1 << 30


class Rig:
    def __init__(self, volume: Volume | None = None, *, has_store: bool = False, has_lease: bool = False) -> None:
        self.now = 1000.0
        self.volume = volume or Volume("memory", 100 * GIB, 50 * GIB)
        self.loading: list[str] = []
        self.confirmed = 1000.0
        self.figures = SimpleNamespace(backlog_bytes=0, commit_age_seconds=-1.0)
        self.holds_lease = True
        self.lease = SimpleNamespace(
            check=lambda: self.holds_lease, age_seconds=2.0, lease=SimpleNamespace(seconds=9.0)
        )
        storage: Any = SimpleNamespace(volume=lambda: self.volume)
        if has_store:
            storage.figures = lambda: self.figures
        membership: Any = self.lease if has_lease else None
        self.vitals = Vitals(storage, membership, lambda: self.confirmed, lambda: self.now, lambda: self.loading)

    def seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.vitals.sweep()

    def shown(self) -> dict[str, Metric]:
        return {metric.name: metric for metric in self.vitals.metrics()}


def test_a_broker_is_not_ready_while_a_coordinator_is_loaded() -> None:
    rig = Rig()
    assert rig.vitals.not_ready() == []
    rig.loading = ["__consumer_offsets"]
    assert rig.vitals.not_ready() == ["__consumer_offsets is being loaded"]


def test_a_broker_whose_folder_cannot_be_written_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(Volume(str(tmp_path), 100 * GIB, 50 * GIB))
    assert rig.vitals.not_ready() == []
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert rig.vitals.not_ready() == ["the data folder cannot be written"]


def test_a_broker_whose_disk_is_full_is_not_ready(tmp_path: Path) -> None:
    rig = Rig(Volume(str(tmp_path), 100 * GIB, 4096))
    assert rig.vitals.not_ready() == ["the disk of the data folder is full: 4,096 bytes are left"]


def test_a_broker_whose_lease_is_over_is_not_ready() -> None:
    rig = Rig(has_lease=True)
    assert rig.vitals.not_ready() == []
    rig.holds_lease = False
    (reason,) = rig.vitals.not_ready()
    assert "the lease of this broker is over" in reason


def test_the_greatest_age_of_a_task_counts() -> None:
    rig = Rig()
    rig.vitals.ages += [lambda: {"compaction": 0.5, "retention": 7.0}, lambda: {"compaction": 300.0}]
    assert rig.vitals.success_ages() == {"compaction": 300.0, "retention": 7.0, OWNERSHIP: 0.0}


def test_the_ages_of_ownership_and_lease_are_shown_with_how_long_a_lease_lasts() -> None:
    rig = Rig(has_lease=True)
    rig.seconds(12)
    shown = rig.shown()
    ages = {labels[0]: value for labels, value in shown["penstock_success_age_seconds"].samples}
    assert ages == {OWNERSHIP: 12, LEASE: 2}
    assert shown["penstock_lease_seconds"].samples == [((), 9.0)]


def test_commits_to_a_store_are_late_only_while_something_waits_for_them() -> None:
    rig = Rig(has_store=True)
    rig.seconds(3600)
    assert rig.vitals.success_ages()[STORE] == 0
    rig.figures.commit_age_seconds = 3600.0
    rig.figures.backlog_bytes = 10
    rig.seconds(5)
    assert rig.vitals.success_ages()[STORE] == 5
    rig.figures.commit_age_seconds = 2.0
    assert rig.vitals.success_ages()[STORE] == 2, "something was committed, and something else waits"
    rig.figures.backlog_bytes = 0
    assert rig.vitals.success_ages()[STORE] == 0


def test_the_size_of_the_disk_is_shown() -> None:
    shown = Rig().shown()
    assert shown["penstock_disk_total_bytes"].samples == [((), 100 * GIB)]
    assert shown["penstock_disk_usable_bytes"].samples == [((), 50 * GIB)]
