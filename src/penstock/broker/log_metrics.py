"""Metrics of topics and their logs: sums for each topic, and single partitions where they are requested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView

_PARTITION = (
    "kafka_log_log_size",
    "kafka_log_log_logstartoffset",
    "kafka_log_log_logendoffset",
    "kafka_log_log_numlogsegments",
)
_NEVER = (  # a partition has one replica
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
)
_TOPIC = (
    "penstock_topic_size_bytes",
    "penstock_topic_start_offset_sum",
    "penstock_topic_end_offset_sum",
    "penstock_topic_segments",
)


def log_metrics(cluster: ClusterView, *, partitions: bool) -> Iterator[Metric | None]:
    topics = cluster.topics()
    yield Metric("kafka_controller_kafkacontroller_globaltopiccount").add(len(topics))
    yield Metric("kafka_controller_kafkacontroller_globalpartitioncount").add(
        sum(topic.partition_count for topic in topics)
    )
    hosted = [partition for topic in topics for partition in topic.hosted_partitions()]
    yield Metric("kafka_server_replicamanager_partitioncount").add(len(hosted))
    yield Metric("kafka_server_replicamanager_leadercount").add(len(hosted))
    for name in _NEVER:
        yield Metric(name).add(0)
    yield Metric("kafka_controller_kafkacontroller_activecontrollercount").add(int(cluster.is_first_broker))
    yield None
    offline = 0
    replicas = Metric("kafka_cluster_partition_replicascount")
    sums = [Metric(name) for name in _TOPIC]
    singles = [Metric(name) for name in _PARTITION]
    for topic in topics:
        totals = [0] * len(sums)
        if cluster.is_shared:
            offline += sum(cluster.leader(topic, index) is None for index in range(topic.partition_count))
        for partition in topic.hosted_partitions():
            log = partition.log
            segments = len(getattr(log, "segments", ()))  # an engine need not have any
            figures = (log.size, log.log_start_offset, log.log_end_offset, segments)
            for at, figure in enumerate(figures):
                totals[at] += figure
                if partitions:
                    singles[at].add(figure, topic.name, str(partition.index))
            if partitions:
                replicas.add(1, topic.name, str(partition.index))
            if partition.index % 100 == 99:
                yield None
        for metric, total in zip(sums, totals, strict=True):
            metric.add(total, topic.name)
        yield None
    yield Metric("kafka_controller_kafkacontroller_offlinepartitionscount").add(offline)
    yield from sums
    if partitions:
        yield from (*singles, replicas)
