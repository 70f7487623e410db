"""Quotas as functions: precedence, measuring, and the time to wait."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.security.quotas import (
    MAX_THROTTLE_MS,
    Limit,
    Limits,
    Quota,
    QuotaEntity,
    Share,
    TokenBucket,
    canonical_address,
)

KEY = Quota.PRODUCE.value

USER, DEFAULT_USER = ("user", "alice"), ("user", None)
CLIENT, DEFAULT_CLIENT = ("client-id", "app"), ("client-id", None)

PRECEDENCE: list[tuple[QuotaEntity, Share]] = [
    ((CLIENT, USER), Share("alice", "app")),
    ((DEFAULT_CLIENT, USER), Share("alice", "app")),
    ((USER,), Share("alice", None)),
    ((CLIENT, DEFAULT_USER), Share("alice", "app")),
    ((DEFAULT_CLIENT, DEFAULT_USER), Share("alice", "app")),
    ((DEFAULT_USER,), Share("alice", None)),
    ((CLIENT,), Share(None, "app")),
    ((DEFAULT_CLIENT,), Share(None, "app")),
]


class TestPrecedence:
    @given(st.sets(st.integers(0, len(PRECEDENCE) - 1)))
    def test_the_most_specific_quota_counts(self, there: set[int]) -> None:
        limits = Limits({PRECEDENCE[index][0]: {KEY: index + 1.0} for index in there}, Quota.PRODUCE)
        expected = Limit(min(there) + 1.0, PRECEDENCE[min(there)][1]) if there else None
        assert limits.find("alice", "app") == expected

    def test_nothing_limits_those_whom_no_quota_names(self) -> None:
        limits = Limits({(USER,): {KEY: 1.0}, (CLIENT,): {KEY: 2.0}}, Quota.PRODUCE)
        assert limits.find("bob", "other") is None

    def test_a_quota_of_another_kind_does_not_count(self) -> None:
        limits = Limits({(USER,): {"consumer_byte_rate": 1.0}}, Quota.PRODUCE)
        assert not limits
        assert limits.find("alice", "app") is None

    def test_an_address_has_its_own_quota_or_the_default(self) -> None:
        quotas: dict[QuotaEntity, dict[str, float]] = {
            (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
            (("ip", "0:0:0:0:0:0:0:1"),): {"connection_creation_rate": 3.0},
            (("ip", None),): {"connection_creation_rate": 1.0},
        }
        limits = Limits(quotas, Quota.CONNECTION)
        assert limits.find_address("10.0.0.1") == 5.0
        assert limits.find_address("::ffff:10.0.0.1") == 5.0
        assert limits.find_address("::1") == 3.0
        assert limits.find_address("10.0.0.2") == 1.0
        assert Limits({}, Quota.CONNECTION).find_address("10.0.0.1") is None

    @pytest.mark.parametrize("text", ["", "localhost", "10.0.0", "10.0.0.1:9092"])
    def test_a_name_is_no_address(self, text: str) -> None:
        assert canonical_address(text) is None


class NaiveBucket:
    """The same by its definition: millisecond by millisecond, in thousandths."""

    def __init__(self, capacity_seconds: int, bound: int) -> None:
        self.capacity = self.thousandths = capacity_seconds * bound * 1000
        self.bound = bound

    def wait(self, ms: int) -> None:
        for _ in range(ms):
            self.thousandths = min(self.capacity, self.thousandths + self.bound)

    def take(self, value: int) -> None:
        self.thousandths = min(self.capacity, self.thousandths - value * 1000)


class TestTokenBucket:
    @given(
        st.integers(1, 12),
        st.integers(1, 1000),
        st.lists(st.tuples(st.integers(0, 500), st.integers(-100, 1000)), max_size=20),
    )
    @settings(deadline=None, max_examples=50)
    def test_it_measures_what_the_definition_says(
        self, capacity_seconds: int, bound: int, events: list[tuple[int, int]]
    ) -> None:
        bucket, naive = TokenBucket(capacity_seconds), NaiveBucket(capacity_seconds, bound)
        now_ms = 1_000_000
        for pause_ms, value in events:
            now_ms += pause_ms
            naive.wait(pause_ms)
            naive.take(value)
            bucket.record(value, bound, now_ms)
        assert bucket.measure(bound, now_ms) == pytest.approx(naive.thousandths / 1000, abs=1e-6)
        assert naive.thousandths + bound * (bucket.throttle_ms(bound, now_ms) + 1) >= 0

    def test_it_begins_full(self) -> None:
        assert TokenBucket(11).measure(2.0, 0) == 22.0

    def test_it_fills_at_the_rate_of_the_quota_and_no_further(self) -> None:
        bucket = TokenBucket(11)
        bucket.record(20, 2.0, 0)
        assert bucket.measure(2.0, 3000) == 8.0
        assert not bucket.is_full(2.0, 3000)
        assert bucket.measure(2.0, 60_000) == 22.0
        assert bucket.is_full(2.0, 60_000)

    def test_what_is_overdrawn_is_waited_for(self) -> None:
        bucket = TokenBucket(11)
        bucket.record(22, 2.0, 0)
        assert bucket.throttle_ms(2.0, 0) == 0
        bucket.record(5, 2.0, 0)
        assert bucket.throttle_ms(2.0, 0) == 2500
        assert bucket.throttle_ms(2.0, 2500) == 0

    def test_the_first_wait_is_that_of_kafkas_rate(self) -> None:
        """(rate - bound) / bound x 10 s, where the rate is that of the last ten seconds."""
        bucket = TokenBucket(10)
        bucket.record(1500, 100.0, 0)
        assert bucket.throttle_ms(100.0, 0) == (1500 / 10 - 100) / 100 * 10_000

    def test_what_is_given_back_does_not_count(self) -> None:
        bucket = TokenBucket(10)
        bucket.record(1000, 100.0, 0)
        bucket.record(-1000, 100.0, 0)
        assert bucket.is_full(100.0, 0)

    def test_a_smaller_quota_holds_at_once(self) -> None:
        bucket = TokenBucket(10)
        assert bucket.measure(100.0, 0) == 1000.0
        assert bucket.measure(1.0, 0) == 10.0

    def test_no_wait_is_longer_than_a_response_can_say(self) -> None:
        bucket = TokenBucket(10)
        bucket.record(1e15, 1.0, 0)
        assert bucket.throttle_ms(1.0, 0) == MAX_THROTTLE_MS

    @given(st.integers(100, 2000), st.integers(1, 45), st.integers(11_000, 30_000))
    @settings(deadline=None, max_examples=20)
    def test_whoever_waits_as_told_stays_at_the_quota(self, size: int, bound_kb: int, start_ms: int) -> None:
        """A client that is twice as fast as its quota: after the first windows its rate holds over any ten seconds."""
        bound = bound_kb * 1000.0
        bucket = TokenBucket(10)
        now_ms = 0
        sent: list[int] = []
        while now_ms < 40_000:
            bucket.record(size, bound, now_ms)
            sent.append(now_ms)
            now_ms += max(1, bucket.throttle_ms(bound, now_ms))
        measured = size * sum(start_ms <= at < start_ms + 10_000 for at in sent) / 10
        assert measured == pytest.approx(bound, rel=0.05, abs=size)
