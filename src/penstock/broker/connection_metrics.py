"""Metrics of connections and fetch sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.broker.dispatch import Dispatcher
    from penstock.broker.fetch_sessions import FetchSessions


def connection_metrics(dispatcher: Dispatcher, fetch_sessions: FetchSessions) -> Iterator[Metric]:
    connections = Metric("kafka_server_socket_server_metrics_connection_count")
    for listener, count in sorted(Counter(each.listener_name for each in dispatcher.connections).items()):
        connections.add(count, listener)
    yield connections
    sessions = "kafka_server_fetchsessioncache_"
    yield Metric(sessions + "numincrementalfetchsessions").add(len(fetch_sessions))
    yield Metric(sessions + "numincrementalfetchpartitionscached").add(fetch_sessions.partitions())
    yield Metric(sessions + "incrementalfetchsessionevictions_total").add(fetch_sessions.evictions)
