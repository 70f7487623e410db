"""Kafka's topic configs as the log sees them."""

from __future__ import annotations

from penstock.log.config import LogConfig


def test_defaults_are_kafkas() -> None:
    config = LogConfig()
    assert (config.segment_bytes, config.segment_ms) == (1073741824, 604800000)
    assert (config.retention_ms, config.retention_bytes) == (604800000, -1)
    assert config.deletes
    assert not config.compacts


def test_configs_are_taken_by_name_and_others_left_alone() -> None:
    config = LogConfig.from_configs(
        {"segment.bytes": "2097152", "min.cleanable.dirty.ratio": "0.1", "cleanup.policy": "compact, delete", "x": "y"}
    )
    assert (config.segment_bytes, config.min_cleanable_dirty_ratio) == (2097152, 0.1)
    assert config.deletes
    assert config.compacts


def test_a_base_is_kept_where_nothing_is_said() -> None:
    base = LogConfig(retention_ms=5)
    assert LogConfig.from_configs({"segment.ms": 7}, base) == LogConfig(retention_ms=5, segment_ms=7)


def test_the_internal_segment_size_wins() -> None:
    assert LogConfig.from_configs({"segment.bytes": 5, "internal.segment.bytes": 3}).segment_bytes == 3


def test_a_compacted_log_rolls_in_time_for_its_maximum_lag() -> None:
    assert LogConfig(max_compaction_lag_ms=100).roll_ms == 604800000
    assert LogConfig(max_compaction_lag_ms=100, cleanup_policy="compact").roll_ms == 100
    assert LogConfig(segment_ms=100, segment_jitter_ms=30).roll_ms == 70


def test_an_empty_policy_keeps_everything() -> None:
    config = LogConfig(cleanup_policy="")
    assert not config.deletes
    assert not config.compacts
