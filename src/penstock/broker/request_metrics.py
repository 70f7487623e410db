"""Metrics of requests, connections and fetch sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric
from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from penstock.broker.dispatch import Dispatcher
    from penstock.broker.fetch_sessions import FetchSessions


def request_metrics(dispatcher: Dispatcher, fetch_sessions: FetchSessions) -> Iterator[Metric]:
    requests = Metric("kafka_network_requestmetrics_requests_total")
    for key, count in dispatcher.requests_total.items():
        if count:
            requests.add(count, ApiKey(key).name.title().replace("_", ""))
    yield requests
    connections = Metric("kafka_server_socketservermetrics_connection_count")
    for listener, count in sorted(Counter(each.listener_name for each in dispatcher.connections).items()):
        connections.add(count, listener)
    yield connections
    yield Metric("kafka_server_fetchsessioncache_numincrementalfetchsessions").add(len(fetch_sessions))
