"""The broker's lag is what Kafka's own tools say, and unmodified Java clients report in."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from bench.peers import Peer, PenstockPeer, free_port, run_java_tool
from penstock.client import Consumer, OffsetAndMetadata, Producer, ShareConsumer, TopicPartition
from penstock.client.admin import Admin, NewTopic, ResourceType
from penstock.client.scrapes import Samples, parse
from penstock.client.share_acknowledgements import AcknowledgeType
from tests.java.test_kafka_tools import GROUPS, PRODUCER_PERFORMANCE, SHARE_GROUPS, run

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
PARTITIONS = 3
WAIT_SECONDS = 120.0


class Watched:
    """A broker, and what it shows."""

    def __init__(self, peer: Peer, port: int) -> None:
        self.peer = peer
        self.bootstrap = peer.bootstrap
        self._port = port

    def metrics(self) -> Samples:
        with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
            return parse(answer.read().decode())

    def lags(self, name: str, group: str) -> dict[tuple[str, int], int]:
        return {
            (labels["topic"], int(labels["partition"])): int(value)
            for labels, value in ((dict(key), value) for key, value in self.metrics()[name].items())
            if labels["group"] == group
        }


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    port = free_port()
    settings = {
        "penstock.metrics.listen": f"127.0.0.1:{port}",
        "penstock.metrics.partitions": "true",
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    with PenstockPeer(settings) as peer:
        yield Watched(peer, port)


def shown_by(tool: str, bootstrap: str, group: str, lag_column: str) -> dict[tuple[str, int], int]:
    """The lag by partition, as one of Kafka's tools prints it."""
    lines = run(tool, "--bootstrap-server", bootstrap, "--describe", "--group", group).splitlines()
    header = next(line.split() for line in lines if line.startswith("GROUP"))
    rows = [dict(zip(header, line.split(), strict=False)) for line in lines if line.startswith(group)]
    return {(row["TOPIC"], int(row["PARTITION"])): int(row[lag_column]) for row in rows if row[lag_column] != "-"}


async def random_commits(bootstrap: str, group: str) -> None:
    chance = random.Random(group)
    async with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        topics = [f"{group}-{number}" for number in range(2)]
        await admin.create_topics([NewTopic(topic, PARTITIONS) for topic in topics])
        async with Consumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False) as consumer:
            for topic in topics:
                for index in range(PARTITIONS):
                    count = chance.randint(1, 50)
                    for _ in range(count):
                        await producer.send(topic, b"x", partition=index)
                    await consumer.commit({TopicPartition(topic, index): OffsetAndMetadata(chance.randint(0, count))})
        await producer.flush()


async def random_acknowledgements(bootstrap: str, group: str) -> None:
    chance = random.Random(group)
    async with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        await admin.create_topics([NewTopic(group, PARTITIONS)])
        await admin.alter_configs(ResourceType.GROUP, group, {"share.auto.offset.reset": "earliest"})
        for index in range(PARTITIONS):
            for _ in range(chance.randint(20, 60)):
                await producer.send(group, b"x", partition=index)
        await producer.flush()
        async with ShareConsumer(
            bootstrap_servers=bootstrap, group_id=group, share_acknowledgement_mode="explicit", max_poll_records=10
        ) as worker:
            worker.subscribe(group)
            for _ in range(8):
                for record in await worker.poll(5_000):
                    kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE)
                    worker.acknowledge(record, chance.choice(kinds))
                await worker.commit()


def test_the_lag_of_a_consumer_group_is_what_kafka_consumer_groups_says(watched: Watched) -> None:
    asyncio.run(random_commits(watched.bootstrap, "random-readers"))
    said = shown_by(GROUPS, watched.bootstrap, "random-readers", "LAG")
    assert len(said) == 2 * PARTITIONS
    assert watched.lags("penstock_group_partition_lag_records", "random-readers") == said


def test_the_lag_of_a_share_group_is_what_kafka_share_groups_says(watched: Watched) -> None:
    asyncio.run(random_acknowledgements(watched.bootstrap, "random-workers"))
    said = shown_by(SHARE_GROUPS, watched.bootstrap, "random-workers", "LAG")
    assert len(said) == PARTITIONS
    assert sum(said.values()) > 0
    assert watched.lags("penstock_share_group_partition_lag_records", "random-workers") == said


def test_an_unmodified_java_client_appears_in_the_metrics_within_an_interval_or_two(watched: Watched) -> None:
    at = ("--bootstrap-server", watched.bootstrap)
    run(CLIENT_METRICS, *at, "--alter", "--name", "fast", "--metrics", "*", "--interval", "1000")
    assert "interval.ms=1000" in run(CLIENT_METRICS, *at, "--describe", "--name", "fast")
    work = ("--topic", "perf", "--num-records", "600", "--record-size", "100", "--throughput", "20", *at)
    producing = threading.Thread(target=run_java_tool, args=(PRODUCER_PERFORMANCE, *work))
    producing.start()
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        info: list[dict[str, str]] = []
        pushed: set[str] = set()
        while time.monotonic() < deadline and not any("producer.record.send" in name for name in pushed):
            samples = watched.metrics()
            info = [dict(key) for key in samples.get("penstock_client_info", {})]
            java = {each["clientInstanceId"] for each in info if each["software"] == "apache-kafka-java"}
            pushed = {
                labels["metric"]
                for labels in map(dict, samples.get("penstock_client_metric", {}))
                if labels["clientInstanceId"] in java
            }
            time.sleep(0.2)
        assert any("producer.record.send" in name for name in pushed), info
    finally:
        producing.join(120)
    assert any(each["software"] == "apache-kafka-java" and each["host"] == "127.0.0.1" for each in info)
