"""Metrics that coordinators have in common, under the names of Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.coordination.runtime import LoadTimes


class Runtime(Protocol):
    """What `coordination.runtime` tells of its shards, whatever they are."""

    loads: LoadTimes

    @property
    def loaded_count(self) -> int: ...

    @property
    def loading_count(self) -> int: ...


def shard_metrics(coordinator: str, runtime: Runtime) -> Iterator[Metric]:
    """How many shards of a coordinator are in use and being loaded here, and how long that took."""
    shards = Metric(f"kafka_server_{coordinator}_metrics_num_partitions")
    yield shards.add(runtime.loaded_count, "active").add(runtime.loading_count, "loading")
    yield from load_metrics(coordinator, runtime.loads)


def load_metrics(coordinator: str, loads: LoadTimes) -> Iterator[Metric]:
    """How long the shards of a coordinator took to load."""
    name = f"kafka_server_{coordinator}_metrics_partition_load_time_"
    yield Metric(name + "avg").add(loads.average_ms)
    yield Metric(name + "max").add(loads.longest_ms)
