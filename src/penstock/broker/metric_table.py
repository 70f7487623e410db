"""The table of the broker's metrics: name, type, labels, meaning.

`/metrics` and docs/reference/metrics.md are made from it.

A metric that Kafka has as a bean carries the name that the JMX exporter of the Prometheus project gives it with its
example configuration `kafka-2_0_0.yml` and lower-case names; what only Penstock has begins with `penstock_`.
"""

from __future__ import annotations

from penstock.broker.coordinator_metric_table import COORDINATOR_SECTIONS
from penstock.broker.metric_specs import COUNTER, GAUGE, HISTOGRAM, Spec, specs

SECTIONS: dict[str, tuple[Spec, ...]] = {
    "Process": specs(
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
    "Requests": specs(
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
    "Connections": specs(
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
    "Quotas": specs(
        (
            "penstock_quota_throttled_total",
            COUNTER,
            "quota",
            "Requests and connections that were made to wait, by quota.",
        ),
        ("penstock_quota_throttle_seconds_total", COUNTER, "quota", "How long they were made to wait, by quota."),
    ),
    "Topics and logs": specs(
        ("kafka_controller_kafkacontroller_globaltopiccount", GAUGE, "", "Topics."),
        ("kafka_controller_kafkacontroller_globalpartitioncount", GAUGE, "", "Partitions."),
        ("kafka_server_brokertopicmetrics_bytesin_total", COUNTER, "topic", "Bytes of the batches produced."),
        ("kafka_server_brokertopicmetrics_messagesin_total", COUNTER, "topic", "Records produced."),
        ("kafka_server_brokertopicmetrics_bytesout_total", COUNTER, "topic", "Bytes of the batches fetched."),
        ("penstock_topic_size_bytes", GAUGE, "topic", "Bytes in the logs of a topic."),
        ("penstock_topic_start_offset_sum", GAUGE, "topic", "Sum of the first offsets of a topic's partitions."),
        ("penstock_topic_end_offset_sum", GAUGE, "topic", "Sum of the next offsets of a topic's partitions."),
        ("penstock_topic_segments", GAUGE, "topic", "Segments of the logs of a topic."),
        ("kafka_server_replicamanager_partitioncount", GAUGE, "", "Partitions that this broker hosts."),
        ("kafka_server_replicamanager_leadercount", GAUGE, "", "Partitions that this broker leads."),
        ("kafka_server_replicamanager_underreplicatedpartitions", GAUGE, "", "Always 0: a partition has one replica."),
        ("kafka_log_logflushstats_logflushrateandtimems", HISTOGRAM, "", "Rounds of syncing logs to the disk."),
        ("penstock_retention_deleted_segments_total", COUNTER, "", "Segments that retention deleted."),
        ("kafka_log_log_numlogsegments", GAUGE, "topic partition", "Segments of a partition."),
        ("kafka_log_log_size", GAUGE, "topic partition", "Bytes in the log of a partition."),
        ("kafka_log_log_logstartoffset", GAUGE, "topic partition", "First offset of a partition."),
        ("kafka_log_log_logendoffset", GAUGE, "topic partition", "Next offset of a partition."),
    ),
    "Object store": specs(
        ("penstock_store_commits_total", COUNTER, "", "Commits of records in PostgreSQL."),
        ("penstock_store_commit_seconds_total", COUNTER, "", "Time that these commits took."),
        ("penstock_store_commit_age_seconds", GAUGE, "", "Since the last commit that succeeded; -1 before the first."),
        ("penstock_store_inline_bytes_total", COUNTER, "", "Bytes of records that went into PostgreSQL."),
        ("penstock_store_uploads_total", COUNTER, "", "Objects with records that were put into the store."),
        ("penstock_store_upload_bytes_total", COUNTER, "", "Bytes of these objects."),
        ("penstock_store_upload_seconds_total", COUNTER, "", "Time that these uploads took, repetitions included."),
        ("penstock_store_failures_total", COUNTER, "", "Attempts to upload or commit that failed and are repeated."),
        ("penstock_store_backlog_bytes", GAUGE, "", "Bytes that were appended and wait to be committed."),
        ("penstock_store_uploads_under_way", GAUGE, "", "Uploads under way."),
        ("penstock_store_cache_hits_total", COUNTER, "", "Reads of stored segments that the local cache answered."),
        ("penstock_store_cache_misses_total", COUNTER, "", "Reads of stored segments that waited for the store."),
        ("penstock_store_fetched_bytes_total", COUNTER, "", "Bytes that were fetched from the store into the cache."),
        ("penstock_store_cache_bytes", GAUGE, "", "Local bytes of segments that are in the store too."),
        ("penstock_store_segments_total", COUNTER, "", "Rolled segments that were stored as objects."),
        ("penstock_store_segment_bytes_total", COUNTER, "", "Bytes of these objects."),
        ("penstock_store_chores_waiting", GAUGE, "", "Segments and log starts that wait to be stored."),
        ("penstock_store_removed_objects_total", COUNTER, "", "Objects that nothing named any more and were removed."),
        ("penstock_store_removed_orphans_total", COUNTER, "", "Uploads whose commit never came and were removed."),
    ),
    "Log cleaner": specs(
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
    "Fetch sessions": specs(
        ("kafka_server_fetchsessioncache_numincrementalfetchsessions", GAUGE, "", "Open fetch sessions."),
        ("kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", GAUGE, "", "Partitions in them."),
        ("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", COUNTER, "", "Evicted for others."),
    ),
    "Lag": specs(
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
    "Clients": specs(
        (
            "penstock_client_info",
            GAUGE,
            "clientInstanceId clientId host software version principal",
            "Clients that push metrics (KIP-714); always 1.",
        ),
        (
            "penstock_client_push_age_seconds",
            GAUGE,
            "clientInstanceId clientId",
            "Time since a client last pushed its metrics.",
        ),
        (
            "penstock_client_last_poll_age_seconds",
            GAUGE,
            "clientInstanceId clientId",
            "Time since a consumer last polled, as it reported, and the time since then.",
        ),
        (
            "penstock_client_metric",
            GAUGE,
            "clientInstanceId clientId metric attributes",
            "What a client reported last, by the name of KIP-714; increments are added up.",
        ),
        ("penstock_client_metrics_pushes_total", COUNTER, "", "Pushes of clients' metrics that were taken."),
        (
            "penstock_client_metrics_refused_total",
            COUNTER,
            "error",
            "Requests of clients that push metrics which were refused, by error.",
        ),
        (
            "penstock_client_metrics_dropped_total",
            COUNTER,
            "",
            "Values left out of pushes because a client or all of them together have too many.",
        ),
    ),
    "Work by the clock": specs(
        (
            "penstock_success_age_seconds",
            GAUGE,
            "task",
            "Time since a task last ended well, or since the start: more than its interval is a sign of trouble.",
        ),
    ),
    **COORDINATOR_SECTIONS,
}

TABLE: dict[str, Spec] = {spec.name: spec for section in SECTIONS.values() for spec in section}
