"""Metrics that all coordinators have, under the names of Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.coordination.runtime import LoadTimes


def load_metrics(coordinator: str, loads: LoadTimes) -> Iterator[Metric]:
    """How long the shards of a coordinator took to load."""
    name = f"kafka_server_{coordinator}_metrics_partition_load_time_"
    yield Metric(name + "avg").add(loads.average_ms)
    yield Metric(name + "max").add(loads.longest_ms)
