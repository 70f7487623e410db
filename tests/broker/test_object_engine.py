"""A broker whose records are in an object store: killed, its disk wiped, and everything is there."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Literal

import pytest

from penstock.client import NewTopic
from penstock.client.sync import Admin, Consumer, Producer, ShareConsumer
from penstock.records.builder import build_batch
from penstock.wire.config_resources import ResourceType
from penstock.wire.errors import ErrorCode
from tests.broker.process import BrokerProcess
from tests.broker.raw import produce_error
from tests.postgres import PostgresServer

TOPIC = "orders"


@pytest.fixture
def process(tmp_path: Path, postgres: PostgresServer) -> BrokerProcess:
    cluster = postgres.url(f"s{uuid.uuid4().hex}")
    return BrokerProcess(tmp_path / "data", cluster=cluster, store=f"file://{tmp_path}/store")


def wipe(process: BrokerProcess) -> None:
    """The broker dies, and its disk with it."""
    process.kill()
    shutil.rmtree(process.data)
    process.start()


def consumed(
    address: str, count: int, isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
) -> list[bytes | None]:
    with Consumer(bootstrap_servers=address, isolation_level=isolation) as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek_to_beginning((TOPIC, 0))
        return [record.value for _, record in zip(range(count), consumer, strict=False)]


def test_a_broker_that_loses_its_disk_has_every_acknowledged_record(process: BrokerProcess) -> None:
    large = bytes(700_000)
    with process:
        with Producer(bootstrap_servers=process.address) as producer:
            for number in range(20):
                producer.send(TOPIC, b"%d" % number).result()
            producer.send(TOPIC, large).result()  # more than a commit takes along: through the store
        wipe(process)
        with Producer(bootstrap_servers=process.address) as producer:
            producer.send(TOPIC, b"after").result()
        assert consumed(process.address, 22) == [*(b"%d" % number for number in range(20)), large, b"after"]
        assert process.stop() == 0


def test_groups_transactions_and_queues_survive_the_loss_of_the_disk(process: BrokerProcess) -> None:
    with process:
        settings = {"bootstrap.servers": process.address}
        committed = {**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        with Admin(settings) as admin:
            admin.create_topic(TOPIC, 1)
            admin.alter_configs(ResourceType.GROUP, "queue", {"share.auto.offset.reset": "earliest"})
        with Producer(settings, transactional_id="t") as producer:
            with producer.transaction():
                producer.send(TOPIC, b"committed")
            producer.begin_transaction()
            producer.send(TOPIC, b"aborted").result()
            producer.abort_transaction()
        with Consumer(committed, group_id="g") as consumer:
            consumer.subscribe([TOPIC])
            assert next(iter(consumer)).value == b"committed"
            consumer.commit()
        with ShareConsumer(settings, group_id="queue", share_acknowledgement_mode="explicit") as worker:
            worker.subscribe([TOPIC])
            (record,) = worker.take(1, 30_000)
            worker.accept(record)
            assert set(worker.commit().values()) == {None}
        wipe(process)
        with Producer(settings, transactional_id="t") as producer, producer.transaction():
            producer.send(TOPIC, b"later")
        assert consumed(process.address, 2, "read_committed") == [b"committed", b"later"]
        with Consumer(committed, group_id="g") as again:
            again.subscribe([TOPIC])
            assert next(iter(again)).value == b"later"
        with ShareConsumer(settings, group_id="queue", share_acknowledgement_mode="explicit") as worker:
            worker.subscribe([TOPIC])
            assert worker.take(1, 30_000)[0].offset > record.offset


def refused(process: BrokerProcess) -> str:
    done = subprocess.run(process.command(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_a_cluster_is_refused_with_another_store(process: BrokerProcess, tmp_path: Path) -> None:
    with process:
        assert process.stop() == 0
    process.store = f"file://{tmp_path}/other"
    assert "correct --store" in refused(process)


def test_a_second_cluster_below_the_address_of_another_is_refused(
    process: BrokerProcess, tmp_path: Path, postgres: PostgresServer
) -> None:
    with process:
        other = BrokerProcess(tmp_path / "other", cluster=postgres.url(f"s{uuid.uuid4().hex}"), store=process.store)
        assert "holds the objects of another cluster" in refused(other)
        other.store = f"{process.store}/other"
        with other:
            assert other.stop() == 0
        assert process.stop() == 0


def test_a_store_that_does_not_work_is_corrected_at_the_next_start(
    process: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY":
        monkeypatch.setenv(name, "unknown")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    works, process.store = process.store, "s3://nowhere/prefix"
    assert "s3://nowhere/prefix cannot be used" in refused(process)
    process.store = works
    with process:
        assert process.stop() == 0


@pytest.mark.parametrize("store", ["nonsense", "s3://user:password@bucket/x", "ftp://bucket/x", "memory://"])
def test_an_address_that_is_none_is_refused(process: BrokerProcess, store: str) -> None:
    process.store = store
    assert "--store" in refused(process)


def test_a_store_needs_a_cluster(tmp_path: Path) -> None:
    assert "--store needs --cluster" in refused(BrokerProcess(tmp_path, store=f"file://{tmp_path}/store"))


def test_a_topic_can_be_used_as_soon_as_it_has_been_created(process: BrokerProcess) -> None:
    batch = build_batch([(0, None, b"value", [])])
    with process, Admin(bootstrap_servers=process.address) as admin:
        for number in range(20):
            admin.create_topics([NewTopic(f"t{number}", 2, 1)])
            assert produce_error(process.port, f"t{number}", batch, acks=-1) == ErrorCode.NONE
            admin.create_partitions({f"t{number}": 4})
            leaders = [each.leader for each in admin.describe_topic(f"t{number}").partitions.values()]
            assert len(leaders) == 4
            assert -1 not in leaders
