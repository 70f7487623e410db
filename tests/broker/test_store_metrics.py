"""Every stage of the way into the object store and back is measured; the embedded engine shows none of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.metric_table import SECTIONS
from penstock.broker.store_metrics import MeasuredStore, store_metrics
from penstock.log.config import LogConfig
from penstock.storage.memory import MemoryStorage
from penstock.storage.objects.committer import CommitSettings
from penstock.storage.objects.storage import ObjectStorage
from tests.storage.objects.test_storage import World, read, segments, until
from tests.storage.test_contract import TOPIC_ID, append, plain


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "cache")
    yield world
    for storage in world.started:
        storage.close()


def measured(storage: ObjectStorage) -> dict[str, float]:
    assert isinstance(storage, MeasuredStore)
    metrics = list(store_metrics(storage.figures()))
    assert [each.name for each in metrics if not each.samples] == []
    return {each.name.removeprefix("penstock_store_"): each.samples[0][1] for each in metrics}


def test_commits_uploads_and_segments_are_counted(world: World) -> None:
    storage = world.start(CommitSettings(window_ms=1, inline_bytes=100))
    assert measured(storage)["commit_age_seconds"] == -1
    log = storage.open_log("t", 0, TOPIC_ID, LogConfig(segment_bytes=300))
    small, large = plain("a"), plain("b" * 200)
    for batch in (small, large):
        append(log, batch)
    until(lambda: len(segments(world)) == 1)
    found = measured(storage)
    assert (found["commits_total"], found["uploads_total"]) == (2, 1)
    assert (found["inline_bytes_total"], found["upload_bytes_total"]) == (len(small), len(large))
    assert (found["segments_total"], found["backlog_bytes"], found["failures_total"]) == (1, 0, 0)
    assert found["commit_age_seconds"] >= 0
    assert found["cache_misses_total"] == 0
    again = world.start()
    assert read(again.open_log("t", 0, TOPIC_ID, LogConfig(segment_bytes=300)), 0) == [b"a"]
    found = measured(again)
    assert found["cache_misses_total"] == 1
    assert found["cache_hits_total"] >= 1
    assert found["fetched_bytes_total"] >= len(small)


def test_the_table_has_every_metric_once_and_other_engines_have_none(world: World) -> None:
    named = [spec.name.removeprefix("penstock_store_") for spec in SECTIONS["Object store"]]
    assert sorted(measured(world.start())) == sorted(named)
    assert not isinstance(MemoryStorage(lambda function: function()), MeasuredStore)
