"""Client quotas at work: what a request uses, how long its client has to wait, and the mute that makes it wait.

A response says how long (`ThrottleTimeMs`) and is sent at once; then the connection is muted, that is not read, for
that time (KIP-219). What is measured, as in Kafka:

- **Produce**: the bytes of the request. The records are appended whatever the quota says.
- **Fetch** and **ShareFetch**: the bytes of the response. One that exceeds the quota is answered empty and counts for
  nothing; a throttled ShareFetch acquires nothing. A fetch is cut to what is left of the quota, or to one window of it,
  so that it can pass. A batch that is larger than all that can be saved up passes when nothing was fetched for a while,
  where Kafka would never send it.
- **Requests**: the time that the event loop spends in the handler. 100 % is the whole of the event loop: a second of
  work per second. A fetch that waits counts each time that it looks again; what other requests do later is not counted.
  Kafka counts the time of its network and request threads, where 100 % is one thread.
- **Controller mutations** (KIP-599): the partitions that are created and deleted. Newer versions of CreateTopics,
  DeleteTopics and CreatePartitions are refused (THROTTLING_QUOTA_EXCEEDED) once the allowance is overdrawn, older
  ones, which know no such error, are carried out and throttled.

A broker without quotas pays for one look at `active` per request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric
from penstock.broker.quota_usage import Usage
from penstock.broker.requests import NO_RESPONSE, AnyRequest, Pending
from penstock.broker.storage_errors import changing
from penstock.security.quotas import CLIENT_QUOTAS, NO_LIMIT, Limit, Limits, Quota, QuotaEntity, Share, TokenBucket
from penstock.wire.api import ApiKey
from penstock.wire.errors import ThrottlingQuotaExceeded
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.connection import Connection
    from penstock.broker.world import World
    from penstock.catalog.contract import Catalog, QuotaChange

# What brokers send to each other is exempt from the request quota, and so is who a client is.
_EXEMPT = frozenset({ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class Quotas:
    def __init__(self, config: BrokerConfig, catalog: Catalog, world: World) -> None:
        self._catalog = catalog
        self._world = world
        self._window_seconds = config.quota_window_size_seconds
        # Of the windows that Kafka measures one has just begun.
        self._capacity_seconds = max(config.quota_window_num - 1, 1) * self._window_seconds
        capacities: dict[Quota, float] = dict.fromkeys(Quota, self._capacity_seconds)
        capacities[Quota.MUTATION] = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self._usage = Usage(capacities)
        self.throttled = dict.fromkeys(Quota, 0)
        """How many requests and connections were made to wait, by quota."""
        self.throttled_ms = dict.fromkeys(Quota, 0)
        """How long they were made to wait."""
        self.apply(catalog.quotas())

    # -- which quotas there are ------------------------------------------------------------------------------------

    def apply(self, quotas: dict[QuotaEntity, dict[str, float]]) -> None:
        """From now on these quotas hold."""
        self.entities = quotas
        self._limits = {quota: Limits(quotas, quota) for quota in Quota}
        self.active = any(self._limits[quota] for quota in CLIENT_QUOTAS)
        """Whether anything limits what clients do on their connections."""
        self.limits_fetches = bool(self._limits[Quota.FETCH] or self._limits[Quota.REQUEST])
        self.limits_requests = bool(self._limits[Quota.REQUEST])
        self.limits_mutations = bool(self._limits[Quota.MUTATION])
        self.limits_addresses = bool(self._limits[Quota.CONNECTION])

    def change(self, changes: Mapping[QuotaEntity, QuotaChange]) -> None:
        """Change the quotas of each of these entities, for good and at once. Raises KafkaError if that fails."""
        with changing("quotas"):
            self._catalog.change_quotas(changes)
        self.apply(self._catalog.quotas())

    # -- what requests use -----------------------------------------------------------------------------------------

    def handled(self, request: AnyRequest, answer: object, size: int, seconds: float) -> None:
        """A request of so many bytes was handled in so many seconds; its answer may be still to come."""
        quota, throttle_ms = Quota.PRODUCE, 0
        if request.api_key == ApiKey.PRODUCE:
            throttle_ms = self._charge(Quota.PRODUCE, request, size)
        if self.limits_requests and request.api_key not in _EXEMPT and answer is not NO_RESPONSE:
            self.spend(request, seconds)
            waits_ms = self._throttle_ms(Quota.REQUEST, request) if isinstance(answer, Message) else 0
            if waits_ms > throttle_ms:
                quota, throttle_ms = Quota.REQUEST, waits_ms
        if not throttle_ms:
            return
        if isinstance(answer, Message):
            _set_throttle_time(answer, throttle_ms)
        elif isinstance(answer, Pending):
            answer.throttle_time_ms = throttle_ms
        self.throttle(request.connection, quota, throttle_ms)

    def answered(self, request: AnyRequest, response: Message) -> None:
        """The response to a request that had to wait is ready."""
        if request.api_key not in _EXEMPT and (throttle_ms := self._throttle_ms(Quota.REQUEST, request)):
            _set_throttle_time(response, throttle_ms)
            self.throttle(request.connection, Quota.REQUEST, throttle_ms)

    def spend(self, request: AnyRequest, seconds: float) -> None:
        """The event loop spent so much time on a request."""
        limit = self._limit(Quota.REQUEST, request)
        if limit is not None:
            self._bucket(Quota.REQUEST, limit).record(seconds * 100, limit.bound, self.now_ms())

    def fetch_budget(self, request: AnyRequest) -> int:
        """How many bytes a fetch should get: what is left, or one window of the quota to be waited for."""
        limit = self._limit(Quota.FETCH, request)
        if limit is None:
            return NO_LIMIT
        left = self._bucket(Quota.FETCH, limit).measure(limit.bound, self.now_ms())
        return min(int(max(left, limit.bound * self._window_seconds)), NO_LIMIT)

    def fetched(self, request: AnyRequest, size: int) -> int:
        """A response of so many bytes is ready. Returns how long to wait instead: then it is to be sent empty."""
        quota, throttle_ms = Quota.FETCH, 0
        waits_ms = self._throttle_ms(Quota.REQUEST, request) if self.limits_requests else 0
        limit = self._limit(Quota.FETCH, request)
        if limit is not None:
            now_ms, bucket = self.now_ms(), self._bucket(Quota.FETCH, limit)
            was_full = bucket.is_full(limit.bound, now_ms)
            bucket.record(size, limit.bound, now_ms)
            throttle_ms = 0 if was_full else bucket.throttle_ms(limit.bound, now_ms)
            if throttle_ms or waits_ms:
                bucket.record(-size, limit.bound, now_ms)
        if waits_ms > throttle_ms:
            quota, throttle_ms = Quota.REQUEST, waits_ms
        if throttle_ms:
            self.throttle(request.connection, quota, throttle_ms)
        return throttle_ms

    def mutations(self, request: AnyRequest, *, strict_since: int = 0) -> Mutations:
        """Where the partitions that a request creates and deletes are counted."""
        limit = self._limit(Quota.MUTATION, request)
        bucket = None if limit is None else self._bucket(Quota.MUTATION, limit)
        return Mutations(self, request, limit, bucket, is_strict=request.api_version >= strict_since)

    def connected(self, host: str) -> int:
        """An address has opened a connection. Returns how long it has to wait; then the connection does not count."""
        bound = self._limits[Quota.CONNECTION].find_address(host) if self.limits_addresses else None
        if bound is None:
            return 0
        now_ms, bucket = self.now_ms(), self._usage.bucket(Quota.CONNECTION, Share(host, None), bound)
        bucket.record(1, bound, now_ms)
        throttle_ms = min(bucket.throttle_ms(bound, now_ms), self.window_ms)
        if throttle_ms:
            bucket.record(-1, bound, now_ms)
            self.connection_throttled(throttle_ms)
        return throttle_ms

    def new_bucket(self) -> TokenBucket:
        """Where something is measured that is limited by a config."""
        return TokenBucket(self._capacity_seconds)

    @property
    def window_ms(self) -> int:
        return self._window_seconds * 1000

    def _charge(self, quota: Quota, request: AnyRequest, value: float) -> int:
        """Record what was used, and return how long its client has to wait."""
        limit = self._limit(quota, request)
        if limit is None:
            return 0
        now_ms, bucket = self.now_ms(), self._bucket(quota, limit)
        bucket.record(value, limit.bound, now_ms)
        return bucket.throttle_ms(limit.bound, now_ms)

    def _throttle_ms(self, quota: Quota, request: AnyRequest) -> int:
        """How long a client has to wait for what was recorded; for the event loop's time one window at most."""
        limit = self._limit(quota, request)
        if limit is None:
            return 0
        throttle_ms = self._bucket(quota, limit).throttle_ms(limit.bound, self.now_ms())
        return min(throttle_ms, self.window_ms)

    def _limit(self, quota: Quota, request: AnyRequest) -> Limit | None:
        limits = self._limits[quota]
        return limits.find(request.connection.principal.name, request.client_id) if limits else None

    def _bucket(self, quota: Quota, limit: Limit) -> TokenBucket:
        return self._usage.bucket(quota, limit.share, limit.bound)

    def now_ms(self) -> int:
        return int(self._world.monotonic() * 1000)

    # -- those who have to wait ------------------------------------------------------------------------------------

    def throttle(self, connection: Connection, quota: Quota, throttle_ms: int) -> None:
        """Do not read a connection for a while."""
        self._count(quota, throttle_ms)
        connection.mute(throttle_ms / 1000)

    def connection_throttled(self, throttle_ms: int) -> None:
        self._count(Quota.CONNECTION, throttle_ms)

    def _count(self, quota: Quota, throttle_ms: int) -> None:
        self.throttled[quota] += 1
        self.throttled_ms[quota] += throttle_ms

    def sweep(self) -> None:
        self._usage.sweep(self.now_ms())

    def metrics(self) -> Iterator[Metric]:
        total = Metric("penstock_quota_throttled_total")
        seconds = Metric("penstock_quota_throttle_seconds_total")
        for quota in Quota:
            total.add(self.throttled[quota], quota.value)
            seconds.add(self.throttled_ms[quota] / 1000, quota.value)
        yield from (total, seconds)


class Mutations:
    """The partitions that one request creates and deletes."""

    def __init__(
        self, quotas: Quotas, request: AnyRequest, limit: Limit | None, bucket: TokenBucket | None, *, is_strict: bool
    ) -> None:
        self._quotas = quotas
        self._request = request
        self._limit = limit
        self._bucket = bucket
        self._is_strict = is_strict
        self._throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Raises ThrottlingQuotaExceeded where the request is of a version that knows of it."""
        if self._limit is None or self._bucket is None:
            return
        bound, now_ms = self._limit.bound, self._quotas.now_ms()
        if self._is_strict:
            self._throttle_ms = self._bucket.throttle_ms(bound, now_ms)
            if self._throttle_ms:
                raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
        self._bucket.record(partitions, bound, now_ms)
        if not self._is_strict:
            self._throttle_ms = self._bucket.throttle_ms(bound, now_ms)

    def finish(self, response: Message) -> None:
        """Have the client wait, if it has to."""
        if self._throttle_ms:
            _set_throttle_time(response, self._throttle_ms)
            self._quotas.throttle(self._request.connection, Quota.MUTATION, self._throttle_ms)


def _set_throttle_time(response: Message, throttle_ms: int) -> None:
    already = getattr(response, "throttle_time_ms", None)
    if already is not None:
        response.throttle_time_ms = max(already, throttle_ms)  # type: ignore[attr-defined]
