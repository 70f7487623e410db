"""Topics and their logs, measured."""

from __future__ import annotations

import pytest

from penstock.broker.cluster_view import ClusterView
from penstock.broker.log_metrics import log_metrics
from penstock.catalog.shared import PartitionRow
from penstock.testing import Broker
from tests.broker.handlers.records import batch, produce
from tests.broker.test_cluster_view import NODE, other_broker, topic, view
from tests.broker.test_metrics import figures
from tests.transactions.wire_client import Wire


@pytest.mark.parametrize("partitions", [False, True])
def test_a_topic_shows_sums_and_its_partitions_where_they_are_requested(partitions: bool) -> None:
    records = batch(b"a", b"b")
    with Broker({"penstock.metrics.partitions": str(partitions).lower()}) as broker:
        broker.create_topic("orders", 2)
        wire = Wire(broker.port)
        for partition in (0, 1, 1):
            produce(wire, "orders", records, partition=partition)
        wire.close()
        found = figures(broker)
    assert found['penstock_topic_size_bytes{topic="orders"}'] == 3 * len(records)
    assert found['penstock_topic_start_offset_sum{topic="orders"}'] == 0
    assert found['penstock_topic_end_offset_sum{topic="orders"}'] == 6
    assert found["kafka_controller_kafkacontroller_globaltopiccount"] == 1
    assert found["kafka_controller_kafkacontroller_globalpartitioncount"] == 2
    assert found["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount"] == 0
    of_partition = '{topic="orders",partition="1"}'
    singles = {name: value for name, value in found.items() if name.endswith(of_partition)}
    expected = {
        f"kafka_log_log_size{of_partition}": 2 * len(records),
        f"kafka_log_log_logstartoffset{of_partition}": 0,
        f"kafka_log_log_logendoffset{of_partition}": 4,
        f"kafka_log_log_numlogsegments{of_partition}": 1,
        f"kafka_cluster_partition_replicascount{of_partition}": 1,
    }
    assert singles == (expected if partitions else {})


__all__ = ["view"]


@pytest.mark.parametrize(
    ("others", "under_replicated", "at_min", "under_min"),
    [((5, 9), 0, 0, 0), ((5,), 2, 1, 0), ((), 2, 1, 1)],
    ids=["all are there", "one is gone", "two are gone"],
)
def test_alerts_on_replicas_hold_where_leaders_move(
    view: ClusterView, others: tuple[int, ...], under_replicated: int, at_min: int, under_min: int
) -> None:
    """Three topics led here: one that any broker suffices for, one that needs two, and one without other replicas."""
    view.leaders_move = True
    view.set_brokers(other_broker(node_id, is_live=node_id in others) for node_id in (5, 9))
    replicas = {"any": (NODE, 5, 9), "two": (NODE, 5, 9), "single": (NODE,)}
    for name, replicated in replicas.items():
        made = topic(name, 1, 0)
        made.min_insync_replicas = 2 if name == "two" else 1
        view.add_topic(made)
        view.set_rows(made, [PartitionRow(made.topic_id, 0, NODE, 3, replicated)])
    found = {
        metric.name: [value for *_, value in metric.samples]
        for metric in log_metrics(view, partitions=True)
        if metric is not None
    }
    assert found["kafka_server_replicamanager_underreplicatedpartitions"] == [under_replicated]
    assert found["kafka_cluster_partition_atminisr"] == [at_min]
    assert found["kafka_cluster_partition_underminisr"] == [under_min]
    assert sorted(found["kafka_cluster_partition_replicascount"]) == [1, 3, 3]
