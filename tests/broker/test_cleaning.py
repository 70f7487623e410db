"""Compaction in a running broker, seen by a real client and by the metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.broker.server import Broker as Server
from penstock.log.cleaner.manager import CleanerManager
from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.raw import RawClient

T = TypeVar("T")
WAIT_SECONDS = 90
"""The cleaner gives way to everything else, so on a busy machine it takes its time."""
COMPACT: dict[str, Any] = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 10_000,
    "min.cleanable.dirty.ratio": 0.1,
}


def produce(broker: Broker, topic: str, pairs: list[tuple[str, str | None]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "batch.num.messages": 10})
    errors: list[object] = []
    for key, value in pairs:
        producer.produce(topic, value, key, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_SECONDS) == 0
    assert not any(errors)


def read_all(broker: Broker, topic: str) -> list[tuple[int, str, str | None]]:
    """Everything up to the end, as a consumer gets it."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found: list[tuple[int, str, str | None]] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                break
            value = message.value()
            key, offset = message.key() or b"", message.offset() or 0
            found.append((offset, key.decode(), value.decode() if value is not None else None))
    finally:
        consumer.close()
    return found


def inside(broker: Broker, function: Callable[[Server], T]) -> T:
    """Look into the broker, in its own thread."""
    return broker._call(lambda: function(broker._running()))


def metric(broker: Broker, name: str) -> float:
    for line in inside(broker, lambda server: server.parts.metrics.text()).splitlines():
        if line.split("{")[0].split(" ")[0] == name:
            return float(line.rsplit(" ", 1)[1])
    return 0


def has_process(server: Server) -> bool:
    """Whether a log is being cleaned."""
    compactor = server.parts.cleaning._compactor
    assert isinstance(compactor, CleanerManager)
    return compactor.has_process


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_compacted_topic_keeps_the_last_value_of_each_key() -> None:
    with Broker({"log.cleaner.backoff.ms": 100}) as broker:
        broker.create_topic("t", **COMPACT)
        pairs: list[tuple[str, str | None]] = [(f"key {n % 10}", f"{n}" * 20) for n in range(2000)]
        produce(broker, "t", pairs)
        wait_for(lambda: metric(broker, "penstock_log_cleaner_rounds_total") > 0)
        found = read_all(broker, "t")
        assert {key: value for _, key, value in found} == dict(pairs)
        assert len(found) < 500
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] == 1999
        assert metric(broker, "penstock_log_cleaner_failures_total") == 0
        assert metric(broker, "penstock_log_cleaner_last_success_ms") > 0
        broker.restart()
        assert {key: value for _, key, value in read_all(broker, "t")} == dict(pairs)


def test_a_topic_without_compaction_starts_no_cleaner() -> None:
    with Broker({"log.cleaner.backoff.ms": 100}) as broker:
        broker.create_topic("t", **{"internal.segment.bytes": 5000})
        produce(broker, "t", [("key", "x" * 200)] * 100)
        inside(broker, lambda server: server.parts._clean())
        assert not inside(broker, has_process)
        assert len(read_all(broker, "t")) == 100


def test_a_topic_deleted_during_its_cleaning_is_no_trouble() -> None:
    with Broker({"log.cleaner.backoff.ms": 100, "log.cleaner.io.max.bytes.per.second": 1000}) as broker:
        broker.create_topic("t", **COMPACT)
        produce(broker, "t", [(f"key {n % 10}", "x" * 100) for n in range(2000)])
        wait_for(lambda: inside(broker, lambda server: has_process(server)))
        inside(broker, lambda server: server.parts.topics.delete(server.parts.cluster.topic("t")))
        assert not inside(broker, lambda server: has_process(server))
        broker.create_topic("t", **COMPACT)
        produce(broker, "t", [("a", "1")])
        assert read_all(broker, "t") == [(0, "a", "1")]


def test_committed_offsets_outlive_the_cleaning_of_their_topic_while_groups_commit() -> None:
    request = m.OffsetCommitRequest
    with Broker({"log.cleaner.backoff.ms": 100, "offsets.topic.num.partitions": 1}) as broker:
        broker.create_topic("t")
        broker.create_topic("__consumer_offsets", **COMPACT)
        groups = [f"group-{number}" for number in range(20)]
        most = 0
        offset = 0

        def segments() -> int:
            return len(list(broker.data.glob("__consumer_offsets-0/*.log")))

        def commit(client: RawClient) -> None:
            nonlocal offset, most
            offset += 1
            for group in groups:
                one = request.OffsetCommitRequestPartition(committed_offset=offset)
                topic = request.OffsetCommitRequestTopic(name="t", partitions=[one])
                response = client.ask(request(group_id=group, topics=[topic]), m.OffsetCommitResponse, 9)
                assert response.topics[0].partitions[0].error_code == 0
            most = max(most, segments())

        def committed() -> list[int]:
            with RawClient(broker.port) as client:
                fetch = m.OffsetFetchRequest
                wanted = fetch.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
                requested = [fetch.OffsetFetchRequestGroup(group_id=group, topics=[wanted]) for group in groups]
                response = client.ask(fetch(groups=requested), m.OffsetFetchResponse, 9)
            # A group that is being loaded has no topics in its answer yet.
            return [topic.partitions[0].committed_offset for each in response.groups for topic in each.topics]

        deadline = time.monotonic() + WAIT_SECONDS
        with RawClient(broker.port) as client:
            while metric(broker, "penstock_log_cleaner_rounds_total") < 3 or most < 5:
                assert time.monotonic() < deadline
                commit(client)
        wait_for(lambda: segments() < most)
        assert metric(broker, "penstock_log_cleaner_failures_total") == 0
        broker.restart()
        wait_for(lambda: committed() == [offset] * len(groups))


def test_a_damaged_log_shows_in_the_age_of_compaction_and_in_the_metrics_of_its_topic(tmp_path: Path) -> None:
    with Broker({"log.cleaner.backoff.ms": 100, "penstock.metrics.partitions": "true"}, data=tmp_path) as broker:
        broker.create_topic("t", **COMPACT)
        produce(broker, "t", [(f"key {n % 10}", "x" * 100) for n in range(500)])
        broker.stop()
        path = min((tmp_path / "t-0").glob("*.log"))
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        broker.start()
        uncleanable = "kafka_log_logcleanermanager_uncleanable_partitions_count"
        wait_for(lambda: metric(broker, uncleanable) == 1)
        wait_for(lambda: inside(broker, lambda server: server.parts.vitals.success_ages()["compaction"]) > 1.5)
        found = inside(broker, lambda server: server.parts.metrics.text())
    assert 'penstock_log_cleaner_dirty_ratio{topic="t"}' in found
    assert 'penstock_log_cleaner_partition_dirty_ratio{topic="t",partition="0"}' in found
