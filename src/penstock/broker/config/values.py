"""The broker's configs as typed attributes: `config.num_partitions` for `num.partitions`.

Only declarations: `resolver.BrokerConfig` fills them in, anew whenever a config changes at run time. A list that is not
set is empty.
"""

from __future__ import annotations


class BrokerValues:
    add_partitions_to_txn_retry_backoff_max_ms: int
    advertised_listeners: list[str]
    allow_everyone_if_no_acl_found: str
    authorizer_class_name: str
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    broker_heartbeat_interval_ms: int
    broker_id: int
    broker_rack: str | None
    broker_session_timeout_ms: int
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    config_providers: list[str]
    connection_failed_authentication_delay_ms: int
    connections_max_idle_ms: int
    connections_max_reauth_ms: int
    controlled_shutdown_enable: bool
    controller_listener_names: list[str]
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    default_replication_factor: int
    delete_topic_enable: bool
    errors_deadletterqueue_auto_create_topics_enable: bool
    errors_deadletterqueue_topic_name_prefix: str
    fetch_max_bytes: int
    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: list[str]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_assignment_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_coordinator_rebalance_protocols: list[str]
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    group_share_delivery_count_limit: int
    group_share_heartbeat_interval_ms: int
    group_share_max_delivery_count_limit: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_partition_max_record_locks: int
    group_share_max_record_lock_duration_ms: int
    group_share_max_session_timeout_ms: int
    group_share_max_share_sessions: int
    group_share_max_size: int
    group_share_min_delivery_count_limit: int
    group_share_min_heartbeat_interval_ms: int
    group_share_min_partition_max_record_locks: int
    group_share_min_record_lock_duration_ms: int
    group_share_min_session_timeout_ms: int
    group_share_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_session_timeout_ms: int
    inter_broker_listener_name: str | None
    listener_security_protocol_map: str
    listeners: list[str]
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_delete_retention_ms: int
    log_cleaner_enable: bool
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleanup_policy: list[str]
    log_dir: list[str]
    log_dirs: list[str]
    log_flush_interval_messages: int
    log_flush_interval_ms: int | None
    log_flush_scheduler_interval_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_message_timestamp_after_max_ms: int
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_type: str
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_retention_hours: int
    log_retention_minutes: int | None
    log_retention_ms: int | None
    log_roll_hours: int
    log_roll_jitter_hours: int
    log_roll_jitter_ms: int | None
    log_roll_ms: int | None
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    message_max_bytes: int
    min_insync_replicas: int
    node_id: int
    num_partitions: int
    offset_metadata_max_bytes: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    penstock_acks_all_flush: bool
    penstock_authentication_timeout_ms: int
    penstock_metrics_listen: str
    penstock_metrics_partitions: bool
    penstock_metrics_series_max: int
    penstock_otlp_endpoint: str
    penstock_otlp_interval_ms: int
    penstock_request_slow_ms: int
    penstock_share_flush_interval_ms: int
    penstock_store_cache_bytes: int
    penstock_store_delete_delay_ms: int
    penstock_store_orphan_age_ms: int
    penstock_store_quiet_ms: int
    penstock_store_tail_age_ms: int
    penstock_store_tail_bytes: int
    penstock_store_tail_extents: int
    penstock_store_tails_bytes: int
    penstock_store_window_ms: int
    penstock_unauthenticated_bytes_max: int
    penstock_unauthenticated_connections_max: int
    penstock_unauthenticated_connections_max_per_ip: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    quota_window_num: int
    quota_window_size_seconds: int
    sasl_enabled_mechanisms: list[str]
    sasl_jaas_config: str | None
    sasl_mechanism_inter_broker_protocol: str
    sasl_oauthbearer_clock_skew_seconds: int
    sasl_oauthbearer_expected_audience: list[str]
    sasl_oauthbearer_expected_issuer: str | None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str
    sasl_server_max_receive_size: int
    security_inter_broker_protocol: str
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_segment_bytes: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    super_users: str
    ssl_cipher_suites: list[str]
    ssl_client_auth: str
    ssl_enabled_protocols: list[str]
    ssl_endpoint_identification_algorithm: str
    ssl_key_password: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_keystore_location: str | None
    ssl_keystore_password: str | None
    ssl_keystore_type: str
    ssl_principal_mapping_rules: str
    ssl_truststore_certificates: str | None
    ssl_truststore_location: str | None
    ssl_truststore_password: str | None
    ssl_truststore_type: str
    telemetry_max_bytes: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int
