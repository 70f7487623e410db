"""Writes the Grafana dashboard and the alert rules (packaging/monitoring): `python -m tests.docs.monitoring`.

Both are lists of expressions; the tests beside this module check them against the table of metrics.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from penstock.broker.metric_specs import COUNTER, HISTOGRAM
from penstock.broker.metric_table import TABLE
from penstock.broker.vitals import LEASE, OWNERSHIP, STORE, UNTIMED
from penstock.console.problems import (
    FAILING_SECONDS,
    FREE_SHARE,
    HANGING_SECONDS,
    LEASE_SHARE,
    STOPPED_SECONDS,
    STUCK_SECONDS,
    UNCOMMITTED_SECONDS,
    UNREACHABLE_SECONDS,
)

FOLDER = Path(__file__).parents[2] / "packaging" / "monitoring"
DASHBOARD = FOLDER / "grafana-dashboard.json"
ALERTS = FOLDER / "alerts.yml"

_REQUESTS = "kafka_network_requestmetrics_"
_TOPICS = "kafka_server_brokertopicmetrics_"
_GROUPS = "kafka_server_group_coordinator_metrics_"

# Row, then panels: title, unit, legend, expression.
PANELS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "Who is behind": (
        ("Lag of consumer groups", "short", "{{group}} {{topic}}", "topk(10, penstock_group_lag_records_sum)"),
        ("Age of their oldest record", "s", "{{group}} {{topic}}", "topk(10, penstock_group_lag_age_seconds)"),
        ("Lag of share groups", "short", "{{group}} {{topic}}", "topk(10, penstock_share_group_lag_records_sum)"),
        ("Age of their oldest record", "s", "{{group}} {{topic}}", "topk(10, penstock_share_group_lag_age_seconds)"),
    ),
    "Traffic": (
        ("Bytes in", "Bps", "{{topic}}", f"topk(10, rate({_TOPICS}bytesin_total[1m]))"),
        ("Bytes out", "Bps", "{{topic}}", f"topk(10, rate({_TOPICS}bytesout_total[1m]))"),
        ("Records in", "cps", "{{topic}}", f"topk(10, rate({_TOPICS}messagesin_total[1m]))"),
        ("Requests", "reqps", "{{request}}", f"sum by (request) (rate({_REQUESTS}requests_total[1m]))"),
    ),
    "Latency": (
        (
            "Requests, p99",
            "ms",
            "{{request}}",
            f"histogram_quantile(0.99, sum by (le, request) (rate({_REQUESTS}totaltimems_bucket[5m])))",
        ),
        (
            "Waiting for the disk, p99",
            "ms",
            "{{request}}",
            "histogram_quantile(0.99, sum by (le, request) (rate(penstock_request_disk_time_ms_bucket[5m])))",
        ),
        (
            "Flushes, p99",
            "ms",
            "flush",
            "histogram_quantile(0.99, sum by (le) (rate(kafka_log_logflushstats_logflushrateandtimems_bucket[5m])))",
        ),
        (
            "Event loop late by, p99",
            "ms",
            "event loop",
            "histogram_quantile(0.99, sum by (le) (rate(penstock_event_loop_lag_ms_bucket[5m])))",
        ),
    ),
    "Trouble": (
        ("Errors", "cps", "{{request}} {{error}}", f"sum by (request, error) (rate({_REQUESTS}errors_total[1m]))"),
        ("Seconds since the last success", "s", "{{task}}", "penstock_success_age_seconds"),
        ("Oldest open transaction", "s", "age", "penstock_transaction_oldest_open_seconds"),
        ("Throttling", "s", "{{quota}}", "rate(penstock_quota_throttle_seconds_total[1m])"),
    ),
    "Groups and queues": (
        ("Rebalances of classic groups", "cps", "classic", f"rate({_GROUPS}group_completed_rebalance_count[5m])"),
        ("Rebalances of consumer groups", "cps", "consumer", f"rate({_GROUPS}consumer_group_rebalance_count[5m])"),
        ("Deliveries", "cps", "{{group}} {{topic}}", "rate(penstock_share_deliveries_total[1m])"),
        (
            "Acknowledgements",
            "cps",
            "{{ackType}}",
            "rate(kafka_server_sharegroupmetrics_recordacknowledgements_total[1m])",
        ),
    ),
    "Process": (
        ("CPU", "percentunit", "{{instance}}", "rate(process_cpu_seconds_total[1m])"),
        ("Memory", "bytes", "{{instance}}", "process_resident_memory_bytes"),
        ("Connections", "short", "{{listener}}", "kafka_server_socket_server_metrics_connection_count"),
        ("Size of topics", "bytes", "{{topic}}", "topk(10, penstock_topic_size_bytes)"),
    ),
}

# Name, expression, how long, severity, summary, what to do.
RULES: tuple[tuple[str, str, str, str, str, str], ...] = (
    (
        "PenstockGroupStuck",
        f"penstock_group_stalled_seconds > {STUCK_SECONDS}",
        "2m",
        "warning",
        "Consumer group {{ $labels.group }} has records of {{ $labels.topic }} to read, and no commit for 5 minutes",
        "penstock group describe {{ $labels.group }}",
    ),
    (
        "PenstockQueueStuck",
        f"penstock_share_group_stalled_seconds > {STUCK_SECONDS}",
        "2m",
        "warning",
        "Share group {{ $labels.group }} has records of {{ $labels.topic }} to do, and none completed for 5 minutes",
        "penstock share inspect {{ $labels.group }}",
    ),
    (
        "PenstockDeadLettersFail",
        "increase(kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total[10m]) > 0",
        "0m",
        "warning",
        "Dead letters of share group {{ $labels.group }} could not be written within the last 10 minutes",
        "penstock config get group {{ $labels.group }}",
    ),
    (
        "PenstockTaskStopped",
        f'penstock_success_age_seconds{{task!~"{"|".join((*UNTIMED, OWNERSHIP, LEASE, STORE))}"}} > {STOPPED_SECONDS}',
        "1m",
        "critical",
        "{{ $labels.task }} has not succeeded for 15 minutes",
        "read the broker's log; penstock doctor",
    ),
    (
        "PenstockLeaseLate",
        f'penstock_success_age_seconds{{task="{LEASE}"}} > ignoring(task) {LEASE_SHARE} * penstock_lease_seconds',
        "0m",
        "critical",
        "A broker has not renewed its lease for half its time; when it is over, others take its partitions",
        "see whether the broker reaches the database, and whether it is overloaded: penstock cluster status",
    ),
    (
        "PenstockPartitionsOffline",
        "kafka_controller_kafkacontroller_offlinepartitionscount > 0",
        "1m",
        "critical",
        "Partitions ({{ $value }}) have no live leader: they can be neither written nor read",
        "penstock cluster status",
    ),
    (
        "PenstockCatalogUnreachable",
        f'penstock_success_age_seconds{{task="{OWNERSHIP}"}} > {UNREACHABLE_SECONDS}',
        "0m",
        "critical",
        "A broker has not reached the database with its catalog for 30 seconds",
        "see whether the database runs and can be reached from the broker",
    ),
    (
        "PenstockStoreStalled",
        f'penstock_success_age_seconds{{task="{STORE}"}} > {UNCOMMITTED_SECONDS}',
        "0m",
        "critical",
        "Records have waited for 30 seconds to be committed to the store; producers with acks=all wait with them",
        "read the broker's log for failing uploads and commits; penstock cluster check",
    ),
    (
        "PenstockLogUncleanable",
        "kafka_log_logcleanermanager_uncleanable_partitions_count > 0",
        "0m",
        "warning",
        "Damaged logs ({{ $value }}) are not compacted any more, and grow",
        "penstock cleaner",
    ),
    (
        "PenstockDiskNearlyFull",
        f"penstock_disk_usable_bytes / penstock_disk_total_bytes < {FREE_SHARE}",
        "5m",
        "critical",
        "Less than a tenth of the disk with the data folder is free",
        "see penstock_topic_size_bytes; give large topics less retention, or the broker more disk",
    ),
    (
        "PenstockCoordinatorCannotWrite",
        f"penstock_coordinator_writes_failing_seconds > {FAILING_SECONDS}",
        "0m",
        "critical",
        "Writes to {{ $labels.topic }} have failed for more than 30 seconds",
        "look for a full or failing disk: penstock doctor",
    ),
    (
        "PenstockTransactionHangs",
        f"penstock_transaction_oldest_open_seconds > {HANGING_SECONDS}",
        "1m",
        "warning",
        "A transaction has been open for more than 15 minutes; read_committed consumers wait for it",
        "find and abort it: penstock txn list",
    ),
    (
        "PenstockEventLoopLate",
        "histogram_quantile(0.99, sum by (le, instance) (rate(penstock_event_loop_lag_ms_bucket[5m]))) > 100",
        "5m",
        "warning",
        "One call in a hundred of the event loop is more than 100 ms late",
        "see which requests take long: the log of slow requests",
    ),
    (
        "PenstockConnectionsRefused",
        "rate(penstock_connections_refused_total[5m]) > 0.1",
        "5m",
        "warning",
        "Listener {{ $labels.listener }} refuses connections, because there are too many or they come too fast",
        "penstock config get broker all max.connections max.connections.per.ip",
    ),
    (
        "PenstockFewFileDescriptors",
        "process_open_fds / process_max_fds > 0.9",
        "5m",
        "warning",
        "More than 90 % of the file descriptors are in use",
        "raise LimitNOFILE, or close connections",
    ),
    (
        "PenstockAuthenticationFails",
        "rate(kafka_server_socket_server_metrics_failed_authentication_total[5m]) > 1",
        "5m",
        "warning",
        "More than one authentication fails every second",
        "see the broker's log for the addresses",
    ),
)

_WORD = re.compile(r"\b(?:kafka|penstock|process)_[a-z0-9_]+\b")


def metrics_of(expression: str) -> set[str]:
    """The names of the samples in an expression."""
    return set(_WORD.findall(expression))


def sample_names() -> set[str]:
    names = set()
    for name, spec in TABLE.items():
        names |= {f"{name}{end}" for end in ("_bucket", "_sum", "_count")} if spec.kind == HISTOGRAM else {name}
    return names


def rated_names(expression: str) -> set[str]:
    """What an expression takes the rate of."""
    return set(re.findall(r"rate\(([a-z0-9_]+)", expression))


def counters() -> set[str]:
    histograms = {name for name, spec in TABLE.items() if spec.kind == HISTOGRAM}
    return {name for name, spec in TABLE.items() if spec.kind == COUNTER} | {f"{name}_bucket" for name in histograms}


def dashboard() -> str:
    panels: list[dict[str, object]] = []
    y = 0
    for row, contents in PANELS.items():
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": row, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}}
        )
        for at, (title, unit, legend, expression) in enumerate(contents):
            panels.append(
                {
                    "id": len(panels) + 1,
                    "type": "timeseries",
                    "title": title,
                    "datasource": {"type": "prometheus", "uid": "${datasource}"},
                    "gridPos": {"x": 6 * at, "y": y + 1, "w": 6, "h": 8},
                    "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
                    "targets": [{"refId": "A", "expr": expression, "legendFormat": legend}],
                }
            )
        y += 9
    document = {
        "title": "Penstock",
        "uid": "penstock",
        "tags": ["penstock", "kafka"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }
    return json.dumps(document, indent=2) + "\n"


def alerts() -> str:
    rules = [
        {
            "alert": name,
            "expr": expression,
            "for": how_long,
            "labels": {"severity": severity},
            "annotations": {"summary": summary, "action": action},
        }
        for name, expression, how_long, severity, summary, action in RULES
    ]
    document = {"groups": [{"name": "penstock", "rules": rules}]}
    head = "# Made by python -m tests.docs.monitoring from the table of metrics.\n"
    return head + str(yaml.safe_dump(document, sort_keys=False, width=120))


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    DASHBOARD.write_text(dashboard(), "utf-8")
    ALERTS.write_text(alerts(), "utf-8")
