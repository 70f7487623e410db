"""Metrics of an engine that keeps its records in an object store: uploads, commits, cache, and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from penstock.broker.metrics import Metric
from penstock.storage.contract import StoreFigures

_NAMES = {
    "commits": "penstock_store_commits_total",
    "commit_seconds": "penstock_store_commit_seconds_total",
    "commit_age_seconds": "penstock_store_commit_age_seconds",
    "inline_bytes": "penstock_store_inline_bytes_total",
    "uploads": "penstock_store_uploads_total",
    "upload_bytes": "penstock_store_upload_bytes_total",
    "upload_seconds": "penstock_store_upload_seconds_total",
    "failures": "penstock_store_failures_total",
    "backlog_bytes": "penstock_store_backlog_bytes",
    "uploads_under_way": "penstock_store_uploads_under_way",
    "cache_hits": "penstock_store_cache_hits_total",
    "cache_misses": "penstock_store_cache_misses_total",
    "fetched_bytes": "penstock_store_fetched_bytes_total",
    "cache_bytes": "penstock_store_cache_bytes",
    "segments": "penstock_store_segments_total",
    "segment_bytes": "penstock_store_segment_bytes_total",
    "chores_waiting": "penstock_store_chores_waiting",
    "removed_objects": "penstock_store_removed_objects_total",
    "removed_orphans": "penstock_store_removed_orphans_total",
    "take_overs": "penstock_take_overs_total",
    "take_over_seconds": "penstock_take_over_seconds_total",
    "take_over_longest_seconds": "penstock_take_over_longest_seconds",
}


@runtime_checkable
class MeasuredStore(Protocol):
    """A storage that has such figures; the embedded one does not."""

    def figures(self) -> StoreFigures: ...


def store_metrics(figures: StoreFigures) -> Iterator[Metric]:
    for field, name in _NAMES.items():
        yield Metric(name).add(getattr(figures, field))
