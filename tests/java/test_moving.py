"""From a live Apache Kafka to Penstock and back: what one has left the other serves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer
from penstock.testing.broker import Broker
from tests.adoption import kafka_load
from tests.adoption.record import as_json

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

CONFIGS = {
    "node.id": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def observed(bootstrap: str) -> dict[str, Any]:
    return dict(json.loads(as_json(kafka_load.observe(bootstrap))))


def penstock(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "penstock.cli.main", *arguments], check=True, timeout=60)


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_there_and_back(tmp_path: Path, is_killed: bool) -> None:
    kafka = KafkaPeer(kafka_load.SETTINGS, tmp_path, SMALL_JVM_OPTIONS)
    kafka.start()
    held = kafka_load.fill(kafka.bootstrap, 300)
    on_kafka = observed(kafka.bootstrap)
    kafka.stop(kill=is_killed)
    del held
    data = str(kafka.data)

    penstock("adopt", data)
    with Broker(CONFIGS, data=kafka.data) as broker:
        adopted = observed(broker.bootstrap_servers)
        if is_killed:
            # A power cut cannot be ruled out, so the open transaction is aborted at once: one marker more.
            for each in (on_kafka, adopted):
                del each["read_committed"], each["read_uncommitted"]
        assert adopted == on_kafka
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("made-here", 2, 1, config={"retention.ms": "5000000"})])["made-here"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        for number in range(100):
            producer.produce("orders", b"from penstock %d" % number, partition=number % 3)
            producer.produce("made-here", b"%d" % number, partition=number % 2)
        producer.flush(30)
        before = observed(broker.bootstrap_servers)
        made = kafka_load.read({"bootstrap.servers": broker.bootstrap_servers}, "made-here", "read_uncommitted")

    penstock("release", data)
    with kafka:
        after = observed(kafka.bootstrap)
        for name, value in before.items():
            assert after[name] == value, name
        assert kafka_load.read({"bootstrap.servers": kafka.bootstrap}, "made-here", "read_uncommitted") == made
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
        offsets: list[int] = []
        producer.produce("orders", b"kafka again", partition=0, on_delivery=lambda _, it: offsets.append(it.offset()))
        producer.flush(30)
        orders = [record for record in before["read_uncommitted"]["orders"] if record[0] == 0]
        assert offsets == [orders[-1][1] + 1]
