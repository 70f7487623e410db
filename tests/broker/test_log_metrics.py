"""Topics and their logs, measured."""

from __future__ import annotations

import pytest

from penstock.testing import Broker
from tests.broker.handlers.records import batch, produce
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
