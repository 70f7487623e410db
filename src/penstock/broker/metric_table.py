"""The table of the broker's metrics: name, type, labels, meaning. `/metrics` and docs/metrics.md are made from it.

A metric that Kafka has as a bean carries the name that the JMX exporter of the Prometheus project gives it with its
example configuration `kafka-2_0_0.yml` and lower-case names; what only Penstock has begins with `penstock_`.
"""

from __future__ import annotations

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Spec(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def _specs(*rows: tuple[str, str, str, str]) -> tuple[Spec, ...]:
    return tuple(Spec(name, kind, tuple(labels.split()), text) for name, kind, labels, text in rows)


SECTIONS: dict[str, tuple[Spec, ...]] = {
    "Process": _specs(
        ("process_cpu_seconds_total", COUNTER, "", "CPU time of the process, its helper processes left out."),
        ("process_resident_memory_bytes", GAUGE, "", "Resident memory."),
        ("process_open_fds", GAUGE, "", "Open file descriptors."),
        ("process_max_fds", GAUGE, "", "File descriptors that the process may open."),
        (
            "penstock_event_loop_lag_ms",
            HISTOGRAM,
            "",
            "How late the event loop calls back, probed twice a second: how long a request may wait for its turn.",
        ),
    ),
    "Requests": _specs(
        (
            "kafka_network_requestmetrics_requests_total",
            COUNTER,
            "request version",
            "Requests handled, by API and version.",
        ),
        (
            "kafka_network_requestmetrics_errors_total",
            COUNTER,
            "request error",
            "Errors in responses, by API and code; one response may carry several.",
        ),
        (
            "kafka_network_requestmetrics_totaltimems",
            HISTOGRAM,
            "request",
            "From the arrival of a request until its response was handed to the socket.",
        ),
        ("kafka_network_requestmetrics_localtimems", HISTOGRAM, "request", "Time in the handler of a request."),
        (
            "kafka_network_requestmetrics_remotetimems",
            HISTOGRAM,
            "request",
            "Time that Fetch, ShareFetch, JoinGroup and SyncGroup waited for records or for other clients.",
        ),
        (
            "penstock_request_disk_time_ms",
            HISTOGRAM,
            "request",
            "Time that other requests waited after their handler, which is for the disk.",
        ),
        (
            "kafka_network_requestmetrics_responsesendtimems",
            HISTOGRAM,
            "request",
            "From when a response was ready until the socket had taken it and all that was queued before it.",
        ),
        ("kafka_server_brokertopicmetrics_totalproducerequests_total", COUNTER, "", "Produce requests."),
        (
            "kafka_server_brokertopicmetrics_failedproducerequests_total",
            COUNTER,
            "",
            "Produce requests answered with an error for at least one partition.",
        ),
        ("kafka_server_brokertopicmetrics_totalfetchrequests_total", COUNTER, "", "Fetch requests."),
        (
            "kafka_server_brokertopicmetrics_failedfetchrequests_total",
            COUNTER,
            "",
            "Fetch requests answered with an error for the request or for at least one partition.",
        ),
    ),
    "Connections": _specs(
        ("kafka_server_socketservermetrics_connection_count", GAUGE, "listener", "Open client connections."),
        (
            "kafka_server_socketservermetrics_successful_authentication_total",
            COUNTER,
            "",
            "Successful authentications with SASL.",
        ),
        (
            "kafka_server_socketservermetrics_successful_reauthentication_total",
            COUNTER,
            "",
            "Successful repeated authentications with SASL.",
        ),
        (
            "kafka_server_socketservermetrics_failed_authentication_total",
            COUNTER,
            "",
            "Failed authentications with SASL.",
        ),
        (
            "kafka_server_socketservermetrics_failed_reauthentication_total",
            COUNTER,
            "",
            "Failed repeated authentications with SASL.",
        ),
        (
            "kafka_server_socketservermetrics_expired_connections_killed_count",
            COUNTER,
            "",
            "Connections closed because their session was over and they did not authenticate anew.",
        ),
        (
            "penstock_unauthenticated_connections",
            GAUGE,
            "",
            "Connections whose clients are not authenticated yet.",
        ),
        (
            "penstock_unauthenticated_connections_evicted_total",
            COUNTER,
            "",
            "Unauthenticated connections closed to make room, or after their time.",
        ),
    ),
    "Quotas": _specs(
        (
            "penstock_quota_throttled_total",
            COUNTER,
            "quota",
            "Requests and connections that were made to wait, by quota.",
        ),
        ("penstock_quota_throttle_seconds_total", COUNTER, "quota", "How long they were made to wait, by quota."),
    ),
    "Topics and logs": _specs(
        ("kafka_controller_kafkacontroller_globaltopiccount", GAUGE, "", "Topics."),
        ("kafka_controller_kafkacontroller_globalpartitioncount", GAUGE, "", "Partitions."),
        ("kafka_server_brokertopicmetrics_bytesin_total", COUNTER, "topic", "Bytes of the batches produced."),
        ("kafka_server_brokertopicmetrics_messagesin_total", COUNTER, "topic", "Records produced."),
        ("kafka_server_brokertopicmetrics_bytesout_total", COUNTER, "topic", "Bytes of the batches fetched."),
        ("penstock_topic_size_bytes", GAUGE, "topic", "Bytes in the logs of a topic."),
        ("penstock_topic_start_offset_sum", GAUGE, "topic", "Sum of the first offsets of a topic's partitions."),
        ("penstock_topic_end_offset_sum", GAUGE, "topic", "Sum of the next offsets of a topic's partitions."),
        ("kafka_log_log_size", GAUGE, "topic partition", "Bytes in the log of a partition."),
        ("kafka_log_log_logstartoffset", GAUGE, "topic partition", "First offset of a partition."),
        ("kafka_log_log_logendoffset", GAUGE, "topic partition", "Next offset of a partition."),
    ),
    "Log cleaner": _specs(
        (
            "kafka_log_logcleanermanager_time_since_last_run_ms",
            GAUGE,
            "",
            "Milliseconds since the cleaner last looked for work; -1 before the first time.",
        ),
        (
            "kafka_log_logcleanermanager_max_dirty_percent",
            GAUGE,
            "",
            "Uncompacted share of the dirtiest log.",
        ),
        (
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            GAUGE,
            "",
            "Logs that cannot be compacted.",
        ),
        ("penstock_log_cleaner_rounds_total", COUNTER, "", "Rounds of compaction that ended well."),
        ("penstock_log_cleaner_failures_total", COUNTER, "", "Rounds of compaction that failed."),
        ("penstock_log_cleaner_read_bytes_total", COUNTER, "", "Bytes read by compaction."),
        ("penstock_log_cleaner_written_bytes_total", COUNTER, "", "Bytes written by compaction."),
        (
            "penstock_log_cleaner_last_success_ms",
            GAUGE,
            "topic partition",
            "When a log was last compacted, in milliseconds since 1970.",
        ),
        ("penstock_log_cleaner_dirty_bytes", GAUGE, "topic partition", "Bytes of a log that wait for compaction."),
        (
            "penstock_log_cleaner_dirty_ratio",
            GAUGE,
            "topic partition",
            "Share of a log that waits for compaction.",
        ),
    ),
    "Fetch sessions": _specs(
        ("kafka_server_fetchsessioncache_numincrementalfetchsessions", GAUGE, "", "Open fetch sessions."),
    ),
    "Lag": _specs(
        (
            "penstock_group_lag_records_sum",
            GAUGE,
            "group topic",
            "Records that a consumer group has not done, over all partitions of a topic.",
        ),
        (
            "penstock_group_lag_records_max",
            GAUGE,
            "group topic",
            "The same of the partition that is furthest behind.",
        ),
        (
            "penstock_group_lag_age_seconds",
            GAUGE,
            "group topic",
            "How long ago the oldest record that is not done arrived; 0 without lag.",
        ),
        (
            "penstock_group_commit_age_seconds",
            GAUGE,
            "group topic",
            "Time since the last commit; 0 if its time is in the future.",
        ),
        (
            "penstock_group_partition_lag_records",
            GAUGE,
            "group topic partition",
            "Records of a partition that a consumer group has not done.",
        ),
        (
            "penstock_group_partition_lag_age_seconds",
            GAUGE,
            "group topic partition",
            "How long ago the oldest of them arrived; 0 without lag.",
        ),
        (
            "penstock_group_partition_commit_age_seconds",
            GAUGE,
            "group topic partition",
            "Time since the last commit for a partition.",
        ),
        (
            "penstock_share_group_lag_records_sum",
            GAUGE,
            "group topic",
            "Records that a share group has not done, over all partitions of a topic.",
        ),
        (
            "penstock_share_group_lag_records_max",
            GAUGE,
            "group topic",
            "The same of the partition that is furthest behind.",
        ),
        (
            "penstock_share_group_lag_age_seconds",
            GAUGE,
            "group topic",
            "How long ago the oldest record that is not done arrived; 0 without lag.",
        ),
        (
            "penstock_share_group_acknowledgement_age_seconds",
            GAUGE,
            "group topic",
            "Time since the last acknowledgement; 0 if its time is in the future.",
        ),
        (
            "penstock_share_group_partition_lag_records",
            GAUGE,
            "group topic partition",
            "Records of a partition that a share group has not done.",
        ),
        (
            "penstock_share_group_partition_lag_age_seconds",
            GAUGE,
            "group topic partition",
            "How long ago the oldest of them arrived; 0 without lag.",
        ),
        (
            "penstock_share_group_partition_acknowledgement_age_seconds",
            GAUGE,
            "group topic partition",
            "Time since the last acknowledgement for a partition.",
        ),
    ),
    "Work by the clock": _specs(
        (
            "penstock_success_age_seconds",
            GAUGE,
            "task",
            "Time since a task last ended well, or since the start: more than its interval is a sign of trouble.",
        ),
    ),
    "Coordinators": _specs(
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
    "Groups": _specs(
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
        ("kafka_coordinator_group_groupmetadatamanager_numoffsets", GAUGE, "", "Committed offsets."),
        (
            "penstock_group_coordinator_skipped_records_total",
            COUNTER,
            "",
            "Records of the group coordinator that could not be read.",
        ),
    ),
    "Transactions": _specs(
        ("penstock_transactional_ids", GAUGE, "state", "Transactional ids, by the state of their transaction."),
        (
            "penstock_transaction_oldest_open_seconds",
            GAUGE,
            "",
            "For how long the oldest open transaction has been open; 0 without one.",
        ),
    ),
    "Share groups": _specs(
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
            "Records whose lock ran out.",
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
            "Share fetches whose time was up.",
        ),
        ("kafka_server_share_coordinator_metrics_write_total", COUNTER, "", "Writes to the share coordinator."),
    ),
}

TABLE: dict[str, Spec] = {spec.name: spec for specs in SECTIONS.values() for spec in specs}
