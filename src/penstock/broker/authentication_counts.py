"""How often clients authenticated, and how often they failed to, by listener.

As in Kafka, a TLS handshake that is refused is a failed authentication, and one that succeeds is a successful one where
SASL does not follow. A client that goes away in its handshake has not failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.broker.metrics import Metric

_METRICS = "kafka_server_socket_server_metrics_"
_KINDS = {False: "authentication", True: "reauthentication"}


class AuthenticationCounts:
    def __init__(self) -> None:
        self._succeeded: dict[tuple[str, bool], int] = {}
        self._failed: dict[tuple[str, bool], int] = {}

    def open(self, listener: str) -> None:
        """Count for a listener from now on; what has not happened yet is shown as 0."""
        for counts in self._succeeded, self._failed:
            for again in _KINDS:
                counts.setdefault((listener, again), 0)

    def succeeded(self, listener: str, *, again: bool = False) -> None:
        """`again`: the client had authenticated before on its connection."""
        self._succeeded[listener, again] += 1

    def failed(self, listener: str, *, again: bool = False) -> None:
        self._failed[listener, again] += 1

    def metrics(self) -> Iterator[Metric]:
        for outcome, counts in (("successful", self._succeeded), ("failed", self._failed)):
            for again, kind in _KINDS.items():
                metric = Metric(f"{_METRICS}{outcome}_{kind}_total")
                for (listener, repeated), count in sorted(counts.items()):
                    if repeated == again:
                        metric.add(count, listener)
                yield metric
