"""What the parts of a broker show that nobody has used yet, and that are therefore not built: zeros.

Coordinators, compaction and telemetry take five megabytes and a tenth of a second of the event loop when they are
built. A broker without groups is scraped all the same, so a scrape builds none of them. A test compares what is shown
for them here with what they show themselves when they have just been built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.broker.metrics import Metric

_GROUPS = "kafka_server_group_coordinator_metrics_"
_SHARDS = ("active", "loading")

_SECTIONS = {
    "groups": "Groups",
    "transactions": "Transactions",
    "share_groups": "Share groups",
    "cleaning": "Log cleaner",
    "telemetry": "Clients",
}
"""By part, the section of the table with its metrics."""

_LABELS = {
    f"{_GROUPS}group_count": ("classic", "consumer", "share"),
    f"{_GROUPS}classic_group_count": ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    f"{_GROUPS}consumer_group_count": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    f"{_GROUPS}share_group_count": ("Empty", "Stable"),
    f"{_GROUPS}num_partitions": _SHARDS,
    "penstock_transactional_ids": (
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ),
    "penstock_transactions_ended_total": ("commit", "abort"),
    "kafka_server_sharegroupmetrics_recordacknowledgements_total": ("Accept", "Release", "Reject", "Renew"),
    "kafka_server_delayedoperationpurgatory_numdelayedoperations": ("ShareFetch",),
    "kafka_server_share_coordinator_metrics_num_partitions": _SHARDS,
}
"""Of metrics whose labels have few values, all of them. Others have no series before there is something to show."""

_OF_OTHERS = frozenset(f"kafka_server_share_coordinator_metrics_write_latency_{what}" for what in ("avg", "max"))
"""Metrics of these sections that parts show which are always there."""

_NEVER = "kafka_log_logcleanermanager_time_since_last_run_ms"


def unbuilt_metrics(is_built: Callable[[str], bool]) -> Iterator[Metric]:
    from penstock.broker.metric_table import SECTIONS

    for part, section in _SECTIONS.items():
        if is_built(part):
            continue
        for spec in SECTIONS[section]:
            if spec.name in _OF_OTHERS:
                continue
            metric = Metric(spec.name)
            for label in _LABELS.get(spec.name, ()):
                metric.add(0, label)
            if not spec.labels:
                metric.add(-1 if spec.name == _NEVER else 0)
            yield metric
