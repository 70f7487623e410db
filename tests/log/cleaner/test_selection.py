"""Which part of a log is dirty, and when it is worth cleaning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.cleaner.selection import is_worth_cleaning, measure
from penstock.log.config import LogConfig
from penstock.log.partition import PartitionLog
from tests.log.cleaner.clean_helpers import keyed
from tests.log.log_helpers import NOW, append, open_log

COMPACT = LogConfig(cleanup_policy="compact")


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Four segments of one batch each, a second apart; the last one is active."""
    log = open_log(tmp_path, COMPACT)
    for n in range(4):
        append(log, keyed(("a", f"{n}"), timestamp=NOW + 1000 * n))
        if n < 3:
            log.roll(NOW)
    log.sync()
    return log


def test_a_record_is_not_dropped_for_one_that_a_power_cut_may_take(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACT)
    synced: list[PartitionLog] = []
    log.on_roll = synced.append
    append(log, keyed(("a", "on disk")))
    log.roll(NOW)
    log.sync()
    append(log, keyed(("a", "not on disk")))
    log.roll(NOW)
    assert measure(log, None, NOW).upper_bound_offset == 1
    synced.clear()
    log.make_cleanable()
    assert synced == [log]
    log.sync()
    assert measure(log, None, NOW).upper_bound_offset == 2
    log.make_cleanable()
    assert synced == [log]


def test_everything_before_the_active_segment_is_dirty_at_first(log: PartitionLog) -> None:
    dirtiness = measure(log, None, NOW)
    assert (dirtiness.first_dirty_offset, dirtiness.upper_bound_offset) == (0, 3)
    assert dirtiness.clean_bytes == 0
    assert dirtiness.ratio == 1


def test_what_was_cleaned_counts_as_clean(log: PartitionLog) -> None:
    dirtiness = measure(log, 2, NOW)
    assert (dirtiness.first_dirty_offset, dirtiness.upper_bound_offset) == (2, 3)
    assert dirtiness.clean_bytes == 2 * dirtiness.dirty_bytes
    assert measure(log, 3, NOW).ratio == 0


@pytest.mark.parametrize("offset", [-5, 100])
def test_a_checkpoint_outside_the_log_is_not_believed(log: PartitionLog, offset: int) -> None:
    assert measure(log, offset, NOW).first_dirty_offset == 0


def test_young_segments_wait_for_the_minimum_lag(log: PartitionLog) -> None:
    log.update_config(replace(COMPACT, min_compaction_lag_ms=5000))
    assert measure(log, None, NOW + 6500).upper_bound_offset == 2
    assert measure(log, None, NOW + 4000).dirty_bytes == 0


def test_the_ratio_decides(log: PartitionLog) -> None:
    dirtiness = measure(log, 2, NOW)
    assert 0.3 < dirtiness.ratio < 0.4
    assert not is_worth_cleaning(log, dirtiness)
    log.update_config(replace(COMPACT, min_cleanable_dirty_ratio=0.3))
    assert is_worth_cleaning(log, dirtiness)
    assert not is_worth_cleaning(log, measure(log, 3, NOW))


def test_the_maximum_lag_overrides_the_ratio(log: PartitionLog) -> None:
    log.update_config(replace(COMPACT, max_compaction_lag_ms=5000))
    assert not is_worth_cleaning(log, measure(log, 2, NOW + 7000))
    assert is_worth_cleaning(log, measure(log, 2, NOW + 7001))


def test_an_open_transaction_is_a_bound(log: PartitionLog) -> None:
    log.roll(NOW)
    append(
        log,
        keyed(("t", "1"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
    )
    log.roll(NOW)
    assert measure(log, None, NOW).upper_bound_offset == 4
