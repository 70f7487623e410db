"""DescribeLogDirs over the wire."""

from __future__ import annotations

from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.handlers.records import batch, produce
from tests.transactions.wire_client import Wire

Topic = m.DescribeLogDirsRequest.DescribableLogDirTopic


def describe(wire: Wire, *requested: Topic, everything: bool = False) -> dict[tuple[str, int], int]:
    """The sizes of the partitions that are described."""
    request = m.DescribeLogDirsRequest(topics=None if everything else list(requested))
    (folder,) = wire.ask(request, m.DescribeLogDirsResponse, 4).results
    return {(topic.name, p.partition_index): p.partition_size for topic in folder.topics for p in topic.partitions}


def test_a_partition_is_as_large_as_what_was_written_to_it(wire: Wire, topic: str) -> None:
    records = batch(b"x" * 100)
    produce(wire, topic, records)
    produce(wire, topic, records)
    assert describe(wire, Topic(topic=topic, partitions=[0, 1])) == {(topic, 0): 2 * len(records), (topic, 1): 0}


def test_only_what_exists_and_was_requested_is_described(wire: Wire, topic: str) -> None:
    nowhere = Topic(topic="nowhere", partitions=[0])
    assert set(describe(wire, Topic(topic=topic, partitions=[1, 9]), nowhere)) == {(topic, 1)}
    assert describe(wire, nowhere) == describe(wire) == {}


def test_a_topic_that_is_named_twice_is_described_once_with_the_partitions_of_both(wire: Wire, topic: str) -> None:
    described = describe(wire, Topic(topic=topic, partitions=[0]), Topic(topic=topic, partitions=[1]))
    assert set(described) == {(topic, 0), (topic, 1)}


def test_null_stands_for_every_topic(wire: Wire, topic: str) -> None:
    assert set(describe(wire, everything=True)) >= {(topic, 0), (topic, 1)}


def test_the_folder_and_its_disk_are_told() -> None:
    with Broker() as broker:
        wire = Wire(broker.port)
        (folder,) = wire.ask(m.DescribeLogDirsRequest(topics=None), m.DescribeLogDirsResponse, 4).results
        wire.close()
        assert folder.log_dir == str(broker.data.resolve())
        assert 0 <= folder.usable_bytes <= folder.total_bytes
        assert folder.total_bytes > 0
