"""Kafka's own tools for share groups work against a Penstock broker, and read its state topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer

from bench.peers import run_java_tool
from penstock.testing import Broker
from tests.broker.share.share_client import Wire, set_group_configs

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

GROUP = "workers"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data") as it:
        it.create_topic("jobs", 2)
        with Wire(it) as wire:
            set_group_configs(wire, GROUP, share_auto_offset_reset="earliest")
        yield it


def produce(broker: Broker, number: int, size: int = 10) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for i in range(number):
        producer.produce("jobs", b"%d" % i + b"." * size, partition=i % 2)
        producer.poll(0)
    assert producer.flush(30) == 0


def share_groups(broker: Broker, *arguments: str) -> str:
    done = run_java_tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        "--bootstrap-server",
        broker.bootstrap_servers,
        *arguments,
    )
    return "\n".join(line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("SLF4J"))


def console(broker: Broker, *arguments: str) -> list[str]:
    done = run_java_tool(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--topic",
        "jobs",
        "--group",
        GROUP,
        "--timeout-ms",
        "15000",
        *arguments,
    )
    return done.stdout.split()


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_kafka_share_groups_lists_describes_resets_and_deletes(broker: Broker) -> None:
    produce(broker, 20)
    assert len(console(broker, "--max-messages", "20")) == 20
    assert share_groups(broker, "--list").split() == [GROUP]
    described = words(share_groups(broker, "--describe", "--group", GROUP))
    assert described[-3:] == [
        ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"],
        [GROUP, "jobs", "0", "10", "0"],
        [GROUP, "jobs", "1", "10", "0"],
    ]
    assert "no active members" in share_groups(broker, "--describe", "--group", GROUP, "--members")
    reset = words(
        share_groups(broker, "--reset-offsets", "--group", GROUP, "--topic", "jobs", "--to-earliest", "--execute")
    )
    assert reset[-2:] == [[GROUP, "jobs", "0", "0"], [GROUP, "jobs", "1", "0"]]
    assert len(console(broker, "--max-messages", "20")) == 20
    assert "Successful" in share_groups(broker, "--delete-offsets", "--group", GROUP, "--topic", "jobs")
    assert "was successful" in share_groups(broker, "--delete", "--group", GROUP)
    assert share_groups(broker, "--list").split() == []


def test_the_console_share_consumer_accepts_releases_and_rejects(broker: Broker) -> None:
    produce(broker, 6, size=0)
    assert len(console(broker, "--max-messages", "6", "--release")) == 6
    assert sorted(console(broker, "--max-messages", "6", "--reject")) == list("012345")
    assert "0" in share_groups(broker, "--describe", "--group", GROUP)


def test_the_share_consumer_perf_test_runs(broker: Broker) -> None:
    produce(broker, 20_000, size=100)
    done = run_java_tool(
        "org.apache.kafka.tools.ShareConsumerPerformance",
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--topic",
        "jobs",
        "--group",
        GROUP,
        "--num-records",
        "20000",
        "--timeout",
        "60000",
    )
    assert done.returncode == 0, done.stderr
    assert "nMsg.sec" in done.stdout


def test_the_verifiable_share_consumer_acknowledges_all(broker: Broker) -> None:
    produce(broker, 50)
    done = run_java_tool(
        "org.apache.kafka.tools.VerifiableShareConsumer",
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--topic",
        "jobs",
        "--group-id",
        GROUP,
        "--max-messages",
        "50",
    )
    assert '"name":"records_consumed"' in done.stdout
    assert '"name":"offsets_acknowledged"' in done.stdout
    assert '"success":false' not in done.stdout


def test_kafka_dump_log_decodes_the_state_topic(broker: Broker) -> None:
    produce(broker, 20)
    console(broker, "--max-messages", "20")
    broker.stop()
    segments = [str(path) for path in (broker.data).glob("__share_group_state-*/*.log") if path.stat().st_size]
    assert segments
    done = run_java_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--share-group-state-decoder",
        "--print-data-log",
        "--files",
        ",".join(segments),
    )
    assert done.returncode == 0, done.stderr
    assert '"createTimestamp"' in done.stdout, "a snapshot"
    assert '"startOffset":10,"deliveryCompleteCount":0,"stateBatches":[]' in done.stdout, "an update"
    assert done.stdout.count('"groupId":"workers"') == done.stdout.count("| offset:")
    broker.start()
