"""Topics before and after a test of the pipeline: what goes in, what has come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from deltalake import DeltaTable

from penstock.client.sync import Consumer, Producer
from penstock.client.types import TopicPartition
from penstock.testing.broker import Broker


def send_to_each(broker: Broker, topic: str, numbers: Sequence[Iterable[int]]) -> None:
    """Numbers as values, the first of the sequences to partition 0, and so on."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition, each in enumerate(numbers):
            producer.send_batch(topic, [b"%d" % number for number in each], partition=partition)


def read_committed(broker: Broker, topic: str) -> list[bytes]:
    """The values that a `read_committed` consumer finds in a topic."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found: list[bytes] = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found.extend(record.value or b"" for record in consumer.poll(1000))
        return found


def places_in(table: Path) -> Counter[tuple[int, int]]:
    """How often each (partition, offset) is in a Delta table."""
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=["partition", "offset"])
    return Counter(zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True))
