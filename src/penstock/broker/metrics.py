"""What the broker knows of itself, as Prometheus text.

Each part registers a collector; nothing is computed until somebody asks. Names follow Kafka's metrics as the usual JMX
exporters render them: lower case, the bean's type and name joined by underscores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.dispatch import Dispatcher
    from penstock.broker.fetch_sessions import FetchSessions


@dataclass(slots=True)
class Metric:
    name: str
    kind: str  # "counter" or "gauge"
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> Metric:
        self.samples.append((labels, value))
        return self


Collector = Callable[[], Iterable[Metric]]


class Metrics:
    def __init__(self) -> None:
        self._collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        self._collectors.append(collector)

    def text(self) -> str:
        lines: list[str] = []
        for collector in self._collectors:
            for metric in collector():
                lines.append(f"# HELP {metric.name} {metric.help}")
                lines.append(f"# TYPE {metric.name} {metric.kind}")
                lines += [f"{metric.name}{_labels(labels)} {value:g}" for labels, value in metric.samples]
        return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def broker_metrics(dispatcher: Dispatcher, fetch_sessions: FetchSessions, cluster: ClusterView) -> Iterator[Metric]:
    """Requests, connections, sessions, and how far each log reaches."""
    requests = Metric("kafka_network_requestmetrics_requests_total", "counter", "Requests handled, by API.")
    for key, count in dispatcher.requests_total.items():
        if count:
            requests.add(count, request=ApiKey(key).name.title().replace("_", ""))
    yield requests
    yield Metric("kafka_server_socketservermetrics_connection_count", "gauge", "Open client connections.").add(
        len(dispatcher.connections)
    )
    yield Metric("kafka_server_fetchsessioncache_numincrementalfetchsessions", "gauge", "Open fetch sessions.").add(
        len(fetch_sessions)
    )
    topics = cluster.topics()
    yield Metric("kafka_controller_kafkacontroller_globaltopiccount", "gauge", "Topics.").add(len(topics))
    yield Metric("kafka_controller_kafkacontroller_globalpartitioncount", "gauge", "Partitions.").add(
        sum(topic.partition_count for topic in topics)
    )
    size = Metric("kafka_log_log_size", "gauge", "Bytes in the log of a partition.")
    start = Metric("kafka_log_log_logstartoffset", "gauge", "First offset of a partition.")
    end = Metric("kafka_log_log_logendoffset", "gauge", "Next offset of a partition.")
    for partition in cluster.hosted_partitions():
        labels = {"topic": partition.topic.name, "partition": str(partition.index)}
        size.add(partition.log.size, **labels)
        start.add(partition.log.log_start_offset, **labels)
        end.add(partition.log.log_end_offset, **labels)
    yield from (size, start, end)
