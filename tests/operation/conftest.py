"""A data folder that holds some of everything, and a cluster for it."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from penstock.broker.foundation import open_catalog
from penstock.broker.users import set_password
from penstock.catalog.contract import replaced_by
from penstock.client.sync import Admin, Consumer, Producer, ShareConsumer
from penstock.client.types import TopicPartition
from penstock.security.acls import AclBinding
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.config_resources import ResourceType
from tests.broker.process import BrokerProcess
from tests.cli.conftest import command, environment
from tests.cluster.members import INTERNAL
from tests.postgres import PostgresServer
from tests.seaweedfs import SeaweedServer

TOPICS = ("orders", "tables", "short")
RULE = AclBinding(
    AclResource.TOPIC, "orders", "User:ann", AclOperation.READ, AclPermission.ALLOW, "*", PatternType.LITERAL
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(arguments), capture_output=True, text=True, timeout=120, env=environment())


def done(*arguments: str) -> dict[str, Any]:
    """What a command says as JSON."""
    ran = run(*arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def refused(*arguments: str) -> str:
    ran = run(*arguments)
    assert ran.returncode == 1, ran.stdout
    assert "Traceback" not in ran.stderr
    return " ".join(ran.stderr.split())


def fill(data: Path, brokers: int | None = None) -> None:
    """Segments, a compacted topic, deleted records, a group, a queue, transactions: ended, aborted and open."""
    with open_catalog(data) as catalog:
        set_password(catalog, "ann", "secret")
        catalog.change_acls([RULE], [])
        catalog.change_quotas({(("user", "ann"),): replaced_by({"producer_byte_rate": 1e9})})
        catalog.change_configs(ResourceType.GROUP, "queue", replaced_by({"share.auto.offset.reset": "earliest"}))
        catalog.allocate_producer_id_block()
    with BrokerProcess(data, brokers=brokers, **INTERNAL) as process:
        settings = {"bootstrap.servers": process.address}
        with Admin(settings) as admin:
            admin.create_topic("orders", 3, configs={"segment.bytes": "1048576"})
            admin.create_topic(
                "tables",
                1,
                configs={"cleanup.policy": "compact", "segment.bytes": "1048576", "min.compaction.lag.ms": "86400000"},
            )
            admin.create_topic("short", 1)
        with Producer(settings, enable_idempotence=True) as producer:
            for number in range(90):
                producer.send("orders", b"%d" % number * 20_000, key=b"k%d" % number, headers=[("n", b"%d" % number)])
                producer.send("tables", b"%d" % number * 10_000, key=b"k%d" % (number % 7))
                producer.send("short", b"%d" % number)
                producer.flush()
        with Producer(settings, transactional_id="ended") as producer:
            with producer.transaction():
                producer.send("orders", b"committed", partition=0)
            producer.begin_transaction()
            producer.send("orders", b"aborted", partition=0).result()
            producer.abort_transaction()
        with Consumer({**settings, "auto.offset.reset": "earliest"}, group_id="readers") as consumer:
            consumer.subscribe(["short"])
            assert len([record for _, record in zip(range(30), consumer, strict=False)]) == 30
            consumer.commit({("short", 0): 30})
        with ShareConsumer(settings, group_id="queue", share_acknowledgement_mode="explicit") as worker:
            worker.subscribe(["short"])
            taken = worker.take(6, 30_000)
            for record in taken[::2]:
                worker.accept(record)
            for record in taken[1::2]:
                worker.release(record)
            assert set(worker.commit().values()) == {None}
        with Admin(settings) as admin:
            admin.delete_records({TopicPartition("short", 0): 3})
        left_open = confluent_kafka.Producer(
            {**settings, "transactional.id": "open", "transaction.timeout.ms": 600_000, "log_level": 0}
        )
        left_open.init_transactions(30)
        left_open.begin_transaction()
        left_open.produce("orders", b"in doubt", partition=1)
        left_open.flush(30)
        assert process.stop() == 0  # the producer dies with its transaction open


def seen(address: str) -> dict[str, Any]:
    """Everything that clients see."""
    settings = {"bootstrap.servers": address}
    found: dict[str, Any] = {}
    with Admin(settings) as admin:
        partitions = [TopicPartition("orders", index) for index in range(3)]
        partitions += [TopicPartition("tables", 0), TopicPartition("short", 0)]
        found["topics"] = [(each, admin.describe_topic(each).topic_id) for each in TOPICS]
        earliest = {tp: at.offset for tp, at in admin.list_offsets(dict.fromkeys(partitions, -2)).items()}
        latest = {tp: at.offset for tp, at in admin.list_offsets(dict.fromkeys(partitions, -1)).items()}
        found["offsets"] = earliest, latest
        found["committed"] = admin.list_group_offsets("readers")
        found["queue"] = admin.list_share_group_offsets("queue", [TopicPartition("short", 0)])
        found["transactions"] = admin.list_transactions()
        left_open = admin.describe_transaction("open")
        found["open"] = (left_open.state, left_open.producer_id, left_open.producer_epoch, left_open.partitions)
        found["users"] = admin.describe_user_scram_credentials()
        found["quotas"] = admin.describe_client_quotas(user="ann")
    for isolation in ("read_uncommitted", "read_committed"):
        with Consumer({**settings, "isolation.level": isolation}) as consumer:
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            records: dict[TopicPartition, list[Any]] = {tp: [] for tp in partitions}
            for tp in partitions:
                consumer.seek(tp, earliest[tp])
            while any(consumer.position(tp) < ends[tp] for tp in partitions):
                for record in consumer.poll(1000):
                    records[record.topic_partition].append(
                        (record.offset, record.timestamp, record.key, record.value, record.headers)
                    )
            found[isolation] = records, ends
    return found


@pytest.fixture(scope="session")
def s3() -> Iterator[SeaweedServer]:
    with SeaweedServer() as server:
        yield server


@pytest.fixture
def cluster(postgres: PostgresServer) -> str:
    return postgres.url(f"s{uuid.uuid4().hex}")


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything, stopped. Not to be changed."""
    data = tmp_path_factory.mktemp("full")
    fill(data)
    return data


@pytest.fixture(scope="session")
def full_of_several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of two brokers that share a folder."""
    data = tmp_path_factory.mktemp("several")
    fill(data, 2)
    return data
