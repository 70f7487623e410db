"""The metrics of coordinators: groups, transactions and share groups."""

from __future__ import annotations

from penstock.broker.metric_specs import COUNTER, GAUGE, HISTOGRAM, Spec, specs


def _load_times(coordinator: str) -> tuple[tuple[str, str, str, str], ...]:
    name = f"kafka_server_{coordinator}_metrics_partition_load_time_"
    return (
        (name + "avg", GAUGE, "", "Mean time to load a shard since the start, in ms."),
        (name + "max", GAUGE, "", "Longest time to load a shard since the start, in ms."),
    )


def _shards(coordinator: str) -> tuple[tuple[str, str, str, str], ...]:
    name = f"kafka_server_{coordinator}_metrics_num_partitions"
    return (
        (name, GAUGE, "state", "Shards led by this broker: active, or loading and not in use yet."),
        *_load_times(coordinator),
    )


COORDINATOR_SECTIONS: dict[str, tuple[Spec, ...]] = {
    "Coordinators": specs(
        ("penstock_coordinator_writes_total", COUNTER, "topic", "Writes to the internal topics."),
        ("penstock_coordinator_write_failures_total", COUNTER, "topic", "Writes to the internal topics that failed."),
        (
            "penstock_coordinator_write_time_ms",
            HISTOGRAM,
            "topic",
            "How long those writes took that were waited for until they were durable.",
        ),
        (
            "penstock_coordinator_writes_failing_seconds",
            GAUGE,
            "topic",
            "For how long writes to an internal topic have failed; 0 while they succeed.",
        ),
    ),
    "Groups": specs(
        ("kafka_server_group_coordinator_metrics_group_count", GAUGE, "protocol", "Groups, by protocol."),
        (
            "kafka_server_group_coordinator_metrics_classic_group_count",
            GAUGE,
            "state",
            "Groups of the classic protocol, by state.",
        ),
        (
            "kafka_server_group_coordinator_metrics_consumer_group_count",
            GAUGE,
            "state",
            "Groups of the consumer protocol, by state.",
        ),
        (
            "kafka_server_group_coordinator_metrics_share_group_count",
            GAUGE,
            "state",
            "Share groups, by state.",
        ),
        (
            "kafka_server_group_coordinator_metrics_group_completed_rebalance_count",
            COUNTER,
            "",
            "Generations of classic groups since their shards were loaded.",
        ),
        (
            "kafka_server_group_coordinator_metrics_consumer_group_rebalance_count",
            COUNTER,
            "",
            "New epochs of consumer groups since their shards were loaded.",
        ),
        (
            "kafka_server_group_coordinator_metrics_share_group_rebalance_count",
            COUNTER,
            "",
            "New epochs of share groups since their shards were loaded.",
        ),
        *_shards("group_coordinator"),
        ("kafka_coordinator_group_groupmetadatamanager_numoffsets", GAUGE, "", "Committed offsets."),
        (
            "penstock_group_coordinator_skipped_records_total",
            COUNTER,
            "",
            "Records of the group coordinator that could not be read.",
        ),
    ),
    "Transactions": specs(
        ("penstock_transactions_ended_total", COUNTER, "outcome", "Transactions that ended, by commit or abort."),
        *_load_times("transaction_coordinator"),
        ("penstock_transactional_ids", GAUGE, "state", "Transactional ids, by the state of their transaction."),
        (
            "penstock_transaction_oldest_open_seconds",
            GAUGE,
            "",
            "For how long the oldest open transaction has been open; 0 without one.",
        ),
    ),
    "Share groups": specs(
        (
            "kafka_server_sharegroupmetrics_recordacknowledgements_total",
            COUNTER,
            "ackType",
            "Records that consumers acknowledged, by type.",
        ),
        ("kafka_server_sharegroupmetrics_partitionloadtimems_count", COUNTER, "", "Windows loaded."),
        ("kafka_server_sharegroupmetrics_partitionloadtimems_sum", COUNTER, "", "Time to load them, in ms."),
        ("kafka_server_sharegroupmetrics_deadletterqueuerecordcount", COUNTER, "group", "Dead letters written."),
        (
            "kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total",
            COUNTER,
            "group",
            "Writes of dead letters.",
        ),
        (
            "kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total",
            COUNTER,
            "group",
            "Writes of dead letters that failed.",
        ),
        (
            "penstock_share_unreadable_records_total",
            COUNTER,
            "group",
            "Records archived because their batch is unreadable.",
        ),
        (
            "penstock_share_group_in_flight_records",
            GAUGE,
            "group topic",
            "Offsets from the start to the last acquired, over all partitions of a topic.",
        ),
        (
            "penstock_share_group_held_records",
            GAUGE,
            "group topic",
            "Records held by consumers, over all partitions of a topic.",
        ),
        ("penstock_share_lock_timeouts_total", COUNTER, "group topic", "Records whose lock expired."),
        (
            "kafka_server_sharepartitionmetrics_inflightmessagecount",
            GAUGE,
            "group topic partition",
            "Offsets from the start to the last acquired.",
        ),
        (
            "kafka_server_sharepartitionmetrics_inflightbatchcount",
            GAUGE,
            "group topic partition",
            "Acquisitions that hold records.",
        ),
        (
            "kafka_server_sharepartitionmetrics_inflightbatchmessagecount",
            GAUGE,
            "group topic partition",
            "Records held by consumers.",
        ),
        (
            "kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total",
            COUNTER,
            "group topic partition",
            "Records whose lock expired.",
        ),
        ("kafka_server_sharesessioncache_sharesessionscount", GAUGE, "", "Open share sessions."),
        ("kafka_server_sharesessioncache_sharepartitionscount", GAUGE, "", "Partitions in open share sessions."),
        (
            "kafka_server_sharesessioncache_sharesessionevictions_total",
            COUNTER,
            "",
            "Share sessions that ended with their connection.",
        ),
        ("kafka_server_brokertopicmetrics_totalsharefetchrequests_total", COUNTER, "", "ShareFetch requests."),
        (
            "kafka_server_brokertopicmetrics_failedsharefetchrequests_total",
            COUNTER,
            "",
            "ShareFetch requests that failed.",
        ),
        (
            "kafka_server_brokertopicmetrics_totalshareacknowledgementrequests_total",
            COUNTER,
            "",
            "ShareAcknowledge requests.",
        ),
        (
            "kafka_server_brokertopicmetrics_failedshareacknowledgementrequests_total",
            COUNTER,
            "",
            "ShareAcknowledge requests that failed.",
        ),
        (
            "kafka_server_delayedoperationpurgatory_numdelayedoperations",
            GAUGE,
            "delayedOperation",
            "Requests that wait.",
        ),
        (
            "kafka_server_delayedsharefetchmetrics_expires_total",
            COUNTER,
            "",
            "Share fetches that timed out.",
        ),
        ("kafka_server_share_coordinator_metrics_write_total", COUNTER, "", "Writes to the share coordinator."),
        (
            "kafka_server_share_coordinator_metrics_write_latency_avg",
            GAUGE,
            "",
            "Their mean time, in ms.",
        ),
        (
            "kafka_server_share_coordinator_metrics_write_latency_max",
            GAUGE,
            "",
            "Their longest time, in ms.",
        ),
        *_shards("share_coordinator"),
        ("kafka_server_sharegroupmetrics_partitionloadtimems_max", GAUGE, "", "Longest time to load a window, in ms."),
        (
            "penstock_share_deliveries_total",
            COUNTER,
            "group topic",
            "Records delivered to consumers; one that is delivered again counts again.",
        ),
    ),
}
