"""How many connections a second are taken in: by the broker, by each listener, and from each address (KIP-612).

`max.connection.creation.rate` holds for the broker and, with a listener's prefix, for that listener. Whoever comes too
soon is let in later, and the listener accepts nobody else until then. An address that has a quota of its own
(`connection_creation_rate`) and exceeds it is not let in: its connection is held for a while, so that it does not try
again at once, and then closed. Nobody waits longer than one window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.security.quotas import NO_LIMIT, TokenBucket

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.quotas import Quotas

_CONFIG = "max.connection.creation.rate"
_SMALLEST_RATE = 1e-6
_WHOLE_BROKER = None


class ConnectionRates:
    def __init__(self, config: BrokerConfig, quotas: Quotas) -> None:
        self._config = config
        self._quotas = quotas
        self._buckets: dict[str | None, TokenBucket] = {}

    def opened(self, listener_name: str) -> int:
        """A client has connected. Returns in how many milliseconds it may be let in."""
        waits = [self._record(bucket, bound, 1) for bucket, bound in self._limits(listener_name)]
        throttle_ms = max(waits, default=0)
        if throttle_ms:
            self._quotas.connection_throttled(throttle_ms)
        return throttle_ms

    def admitted(self, listener_name: str, host: str) -> int:
        """A client of this address is about to be let in. Returns after how many milliseconds to close it instead."""
        throttle_ms = self._quotas.connected(host)
        if throttle_ms:
            for bucket, bound in self._limits(listener_name):
                self._record(bucket, bound, -1)  # one that is not let in is not counted
        return throttle_ms

    def _limits(self, listener_name: str) -> list[tuple[TokenBucket, float]]:
        rates = (
            (_WHOLE_BROKER, self._config.max_connection_creation_rate),
            (listener_name, int(self._config.for_listener(listener_name).text(_CONFIG))),
        )
        return [(self._bucket(name), max(rate, _SMALLEST_RATE)) for name, rate in rates if rate != NO_LIMIT]

    def _bucket(self, name: str | None) -> TokenBucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = self._quotas.new_bucket()
        return bucket

    def _record(self, bucket: TokenBucket, bound: float, value: int) -> int:
        now_ms = self._quotas.now_ms()
        bucket.record(value, bound, now_ms)
        return min(bucket.throttle_ms(bound, now_ms), self._quotas.window_ms)
