"""Kafka's own tools on groups: `kafka-consumer-groups`, `kafka-dump-log --offsets-decoder`, the offsets formatter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.peers import run_java_tool
from penstock.testing import Broker
from tests.broker.handlers.group_members import Ledger, Member, wait_until

pytestmark = pytest.mark.java
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS_FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}) as running:
        running.create_topic("orders", 2)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        for index in range(20):
            producer.produce("orders", b"%d" % index, partition=index % 2)
        assert producer.flush(10) == 0
        yield running


@pytest.fixture(scope="module")
def members(broker: Broker) -> Iterator[None]:
    ledgers = [Ledger(), Ledger()]
    bootstrap = broker.bootstrap_servers
    with (
        Member(ledgers[0], bootstrap, "c", ["orders"], group_id="classic"),
        Member(ledgers[1], bootstrap, "m", ["orders"], group_id="modern", group_protocol="consumer"),
    ):
        wait_until(lambda: all(len(ledger.seen) == 20 for ledger in ledgers), "everything is read")
        yield


def groups(broker: Broker, *arguments: str) -> str:
    done = run_java_tool(CONSUMER_GROUPS, "--bootstrap-server", broker.bootstrap_servers, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def commit(broker: Broker, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    wanted = [TopicPartition("orders", index, offset) for index in range(2)]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


@pytest.mark.usefixtures("members")
def test_groups_are_listed_and_described(broker: Broker) -> None:
    listed = rows(groups(broker, "--list", "--state", "--type"))
    assert ["classic", "Classic", "Stable"] in listed
    assert ["modern", "Consumer", "Stable"] in listed
    for group in ("classic", "modern"):
        lags = [row[1:6] for row in rows(groups(broker, "--describe", "--group", group)) if row[0] == group]
        assert sorted(lags) == [["orders", "0", "10", "10", "0"], ["orders", "1", "10", "10", "0"]]
        (member,) = [r for r in rows(groups(broker, "--describe", "--group", group, "--members")) if r[0] == group]
        assert member[-1] == "2"
        (state,) = [r for r in rows(groups(broker, "--describe", "--group", group, "--state")) if r[0] == group]
        assert state[-2:] == ["Stable", "1"]
    verbose = groups(broker, "--describe", "--group", "modern", "--members", "--verbose")
    assert "orders:0,1" in verbose


def test_offsets_are_reset_deleted_and_groups_deleted(broker: Broker) -> None:
    commit(broker, "old", 3)
    reset = groups(broker, "--reset-offsets", "--group", "old", "--all-topics", "--to-latest", "--execute")
    assert [row for row in rows(reset) if row[0] == "old"] == [
        ["old", "orders", "0", "10"],
        ["old", "orders", "1", "10"],
    ]
    groups(broker, "--delete-offsets", "--group", "old", "--topic", "orders:0")
    left = [row[2:4] for row in rows(groups(broker, "--describe", "--group", "old")) if row[0] == "old"]
    assert left == [["1", "10"]]
    assert "successful" in groups(broker, "--delete", "--group", "old")
    assert "old" not in groups(broker, "--list").split()


@pytest.mark.usefixtures("members")
def test_dump_log_decodes_the_offsets_topic(broker: Broker) -> None:
    commit(broker, "dumped", 7)
    segment = broker.data / "__consumer_offsets-0" / "00000000000000000000.log"
    done = run_java_tool(DUMP_LOG, "--offsets-decoder", "--print-data-log", "--files", str(segment))
    assert done.returncode == 0, done.stderr
    types = {int(found) for found in re.findall(r'key: \{"type":"?(\d+)', done.stdout)}
    assert {1, 2, 3, 5, 6, 7, 8} <= types, done.stdout[:2000]
    assert '"group":"dumped"' in done.stdout
    for line in done.stdout.splitlines():
        if '"type":"5"' in line.replace(": ", ":") and '"groupId":"modern"' in line and "payload: {" in line:
            # A member of the consumer protocol carries no classic metadata.
            payload = json.loads(line.partition("payload: ")[2])
            assert payload["data"].get("classicMemberMetadata") is None


def test_the_console_consumer_formats_offsets(broker: Broker) -> None:
    commit(broker, "formatted", 5)
    done = run_java_tool(
        CONSOLE_CONSUMER,
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--topic",
        "__consumer_offsets",
        "--from-beginning",
        "--formatter",
        OFFSETS_FORMATTER,
        "--timeout-ms",
        "8000",
    )
    assert '"group":"formatted"' in done.stdout, done.stdout + done.stderr
