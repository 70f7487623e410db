"""What is remembered of each quota's use, and what is forgotten."""

from __future__ import annotations

import pytest

from penstock.broker import quota_usage
from penstock.broker.quota_usage import Usage
from penstock.security.quotas import Quota, Share


def new_usage() -> Usage:
    return Usage(dict.fromkeys(Quota, 10.0))


def share(number: int) -> Share:
    return Share(None, f"client-{number}")


def use(usage: Usage, whom: Share, value: float = 1.0, now_ms: int = 0) -> None:
    usage.bucket(Quota.PRODUCE, whom, 1.0).record(value, 1.0, now_ms)


def left(usage: Usage, whom: Share, quota: Quota = Quota.PRODUCE) -> float:
    return usage.bucket(quota, whom, 1.0).measure(1.0, 0)


def test_those_who_share_a_quota_use_it_together() -> None:
    usage = new_usage()
    use(usage, share(1), 4.0)
    assert left(usage, share(1)) == 6.0
    assert left(usage, share(2)) == 10.0
    assert left(usage, share(1), Quota.FETCH) == 10.0


def test_a_client_that_makes_up_client_ids_does_not_grow_it_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_usage, "MAX_REMEMBERED", 10)
    usage = new_usage()
    for number in range(100):
        use(usage, share(number))
    assert len(usage) == 10


def test_the_one_that_was_not_used_for_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_usage, "MAX_REMEMBERED", 2)
    usage = new_usage()
    for number in (1, 2, 1, 3):
        use(usage, share(number))
    assert left(usage, share(1)) == 8.0
    assert left(usage, share(2)) == 10.0


def test_a_long_name_is_not_kept_whole() -> None:
    usage = new_usage()
    long, other = Share("a", "x" * 30_000), Share("a", "x" * 29_999)
    use(usage, long)
    assert left(usage, long) == 9.0
    assert left(usage, other) == 10.0
    assert all(len(key.client_id or "") < 100 for _, key in usage._buckets)


def test_the_sweep_forgets_those_whose_allowance_is_whole_again() -> None:
    usage = new_usage()
    use(usage, share(1), 1.0, now_ms=0)
    use(usage, share(2), 9.0, now_ms=500)
    usage.sweep(1000)
    assert len(usage) == 1
