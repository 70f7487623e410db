"""Metrics of topics and their logs: sums for each topic, and single partitions where they are requested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.topics import Topic

_PARTITION = (
    "kafka_log_log_size",
    "kafka_log_log_logstartoffset",
    "kafka_log_log_logendoffset",
    "kafka_log_log_numlogsegments",
)
_IN_SYNC = (
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
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
    yield Metric("kafka_controller_controllerstats_uncleanleaderelections_total").add(0)
    yield Metric("kafka_controller_kafkacontroller_activecontrollercount").add(int(cluster.is_first_broker))
    yield None
    offline = 0
    alive = cluster.in_sync_ids()
    in_sync = [0] * len(_IN_SYNC)
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
            if cluster.leaders_move:
                for at, is_so in enumerate(_in_sync(cluster, alive, topic, partition.index)):
                    in_sync[at] += is_so
            if partitions:
                replicas.add(len(cluster.replicas(topic, partition.index)), topic.name, str(partition.index))
            if partition.index % 100 == 99:
                yield None
        for metric, total in zip(sums, totals, strict=True):
            metric.add(total, topic.name)
        yield None
    yield Metric("kafka_controller_kafkacontroller_offlinepartitionscount").add(offline)
    for name, count in zip(_IN_SYNC, in_sync, strict=True):
        yield Metric(name).add(count)
    yield from sums
    if partitions:
        yield from (*singles, replicas)


def _in_sync(cluster: ClusterView, alive: set[int], topic: Topic, index: int) -> tuple[bool, bool, bool]:
    """Whether a partition is under-replicated, at `min.insync.replicas`, and below it.

    Producers are refused by the number of brokers that are there, so that is what the latter two go by.
    """
    replicas = cluster.replicas(topic, index)
    least = topic.min_insync_replicas
    return (
        any(node_id not in alive for node_id in replicas),
        len(replicas) > 1 and len(alive) == least,
        least > 1 and len(alive) < least,
    )
