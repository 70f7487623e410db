"""What all coordinators tell of themselves."""

from __future__ import annotations

from penstock.broker.coordinator_metrics import load_metrics, shard_metrics
from penstock.coordination.runtime import LoadTimes


def test_load_times_have_a_mean_and_a_maximum() -> None:
    loads = LoadTimes()
    assert [metric.samples for metric in load_metrics("group_coordinator", loads)] == [[((), 0.0)], [((), 0)]]
    loads.add(10)
    loads.add(30)
    assert [metric.samples for metric in load_metrics("group_coordinator", loads)] == [[((), 20.0)], [((), 30)]]


class SomeShards:
    loaded_count, loading_count = 3, 2
    loads = LoadTimes()


def test_shards_are_counted_by_state() -> None:
    shards, *loads = shard_metrics("group_coordinator", SomeShards())
    assert shards.samples == [(("active",), 3), (("loading",), 2)]
    assert [metric.name.rpartition("_")[2] for metric in loads] == ["avg", "max"]
