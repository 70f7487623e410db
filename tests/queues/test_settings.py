"""What a group is configured to do."""

from __future__ import annotations

import pytest

from penstock.queues.settings import RetryBackoff, ShareSettings


@pytest.mark.parametrize(("limit", "threshold"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (10, 5), (25, 13)])
def test_a_record_is_suspect_from_half_the_limit_on(limit: int, threshold: int) -> None:
    assert ShareSettings(delivery_count_limit=limit).throttle_from_count == threshold


def test_the_wait_grows_with_each_delivery_up_to_its_maximum() -> None:
    backoff = RetryBackoff(100, 3.0, 1_000)
    assert [backoff.after_delivery_ms(count) for count in (1, 2, 3, 4)] == [100, 300, 900, 1_000]
    assert RetryBackoff(100, 3.0, 1).after_delivery_ms(4) == 1
    assert RetryBackoff(100, 3.0, 0).after_delivery_ms(4) == 2_700
