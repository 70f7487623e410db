"""The public dashboard that has to work: Strimzi's "Strimzi Kafka" (`strimzi-kafka.json` of its examples).

It is made for brokers behind the JMX exporter. These are the metrics that its panels and variables query, by name.
"""

from __future__ import annotations

from penstock.broker.metric_table import TABLE

METRICS = """
kafka_cluster_partition_atminisr
kafka_cluster_partition_replicascount topic partition
kafka_cluster_partition_underminisr
kafka_controller_controllerstats_uncleanleaderelections_total
kafka_controller_kafkacontroller_activecontrollercount
kafka_controller_kafkacontroller_offlinepartitionscount
kafka_log_log_size topic partition
kafka_network_socketserver_networkprocessoravgidle_percent
kafka_server_brokertopicmetrics_bytesin_total topic
kafka_server_brokertopicmetrics_bytesout_total topic
kafka_server_brokertopicmetrics_failedfetchrequests_total
kafka_server_brokertopicmetrics_failedproducerequests_total
kafka_server_brokertopicmetrics_messagesin_total topic
kafka_server_brokertopicmetrics_totalfetchrequests_total
kafka_server_brokertopicmetrics_totalproducerequests_total
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
kafka_server_kafkaserver_linux_disk_read_bytes
kafka_server_kafkaserver_linux_disk_write_bytes
kafka_server_replicamanager_leadercount
kafka_server_replicamanager_partitioncount
kafka_server_replicamanager_underreplicatedpartitions
kafka_server_socket_server_metrics_connection_count listener
process_open_fds
"""
# Its other metrics are of the Java virtual machine (jvm_*) and of Kubernetes (container_*, kubelet_*).


def test_every_metric_of_the_broker_that_it_queries_exists_with_the_labels_it_uses() -> None:
    for line in METRICS.split("\n"):
        if line:
            name, *labels = line.split()
            assert name in TABLE, f"{name} is gone"
            assert set(labels) <= set(TABLE[name].labels), name
