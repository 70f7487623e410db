"""Both sides under load and killed at random, the mirror too; then a cut-over that loses and doubles nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mirror.storm import storm


@pytest.mark.timeout(120)
async def test_a_cut_over_after_kills_loses_and_doubles_nothing(tmp_path: Path) -> None:
    report = await storm(tmp_path, source="penstock", target="penstock", seconds=2, seed=2, every_s=0.4)
    assert report.counts["acknowledged"] > 100
    assert sum(report.kills.values()) > 2
    assert report.read_after > 0


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
async def test_long_storms(tmp_path: Path, seed: int) -> None:
    report = await storm(tmp_path, source="penstock", target="penstock", seconds=45, seed=seed)
    assert min(report.kills.values()) > 0


@pytest.mark.java
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("source", "target"), [("kafka", "penstock"), ("penstock", "kafka")])
async def test_storms_with_apache_kafka(tmp_path: Path, source: str, target: str) -> None:
    report = await storm(tmp_path, source=source, target=target, seconds=40, seed=7, every_s=4)
    assert report.counts["acknowledged"] > 100
    assert report.read_after > 0
