"""A broker with its catalog in PostgreSQL: killed, doubled, taken over, and with PostgreSQL away for a while."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from penstock.client.sync import Admin, Consumer
from penstock.records.builder import build_batch
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.process import WAIT_SECONDS, BrokerProcess
from tests.broker.raw import RawClient, end_offset, produce_error
from tests.postgres import PostgresServer

TOPIC = "orders"


def new_schema() -> str:
    return f"s{uuid.uuid4().hex}"


def creation_error(port: int, topic: str) -> int:
    wanted = m.CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    with RawClient(port) as client:
        request = m.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
        return client.ask(request, m.CreateTopicsResponse, 5).topics[0].error_code


def produced(port: int, value: bytes) -> bool:
    return produce_error(port, TOPIC, build_batch([(0, None, value, [])]), acks=-1) == ErrorCode.NONE


def consumed(address: str, count: int) -> list[bytes | None]:
    with Consumer(bootstrap_servers=address) as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek_to_beginning((TOPIC, 0))
        return [record.value for _, record in zip(range(count), consumer, strict=False)]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def refused(process: BrokerProcess) -> str:
    """What a broker says that does not start."""
    done = subprocess.run(process.command(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_killed_broker_finds_its_cluster_again(tmp_path: Path, postgres: PostgresServer) -> None:
    with BrokerProcess(tmp_path, cluster=postgres.url(new_schema())) as process:
        assert creation_error(process.port, TOPIC) == ErrorCode.NONE
        assert produced(process.port, b"kept")
        with Admin(bootstrap_servers=process.address) as admin:
            cluster_id = admin.describe_cluster().cluster_id
        process.kill()
        process.start()
        assert consumed(process.address, 1) == [b"kept"]
        assert creation_error(process.port, TOPIC) == ErrorCode.TOPIC_ALREADY_EXISTS
        with Admin(bootstrap_servers=process.address) as admin:
            assert admin.describe_cluster().cluster_id == cluster_id
        assert process.stop() == 0


def test_a_second_broker_on_a_schema_is_refused_and_others_are_not(tmp_path: Path, postgres: PostgresServer) -> None:
    cluster = postgres.url(new_schema())
    with BrokerProcess(tmp_path / "a", cluster=cluster) as first:
        complaint = refused(BrokerProcess(tmp_path / "b", cluster=cluster))
        assert "Another broker uses the cluster" in complaint
        assert f"process {first.pid}, data folder {tmp_path / 'a'}" in complaint.replace("\n", " ")
        assert "stop it, or give this broker a schema of its own" in complaint
        with BrokerProcess(tmp_path / "b", cluster=postgres.url(new_schema())) as other:
            assert creation_error(other.port, TOPIC) == ErrorCode.NONE
        assert creation_error(first.port, TOPIC) == ErrorCode.NONE


def test_a_broker_whose_cluster_was_taken_over_stops(tmp_path: Path, postgres: PostgresServer) -> None:
    schema = new_schema()
    process = BrokerProcess(tmp_path, cluster=postgres.url(schema))
    with ExitStack() as undo:
        running = undo.enter_context(
            subprocess.Popen(process.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        undo.callback(running.kill)
        assert running.stdout is not None
        assert process.address in running.stdout.readline()
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f"UPDATE {schema}.cluster SET owner_epoch = owner_epoch + 1, owner = 'somebody'")
        _, complaint = running.communicate(timeout=WAIT_SECONDS)
        assert running.returncode == 1
        assert "was taken over (somebody)" in complaint


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_produce_and_fetch_go_on_while_postgresql_is_away(tmp_path: Path, mode: str) -> None:
    with PostgresServer() as server, BrokerProcess(tmp_path, cluster=server.url(new_schema())) as process:
        assert creation_error(process.port, TOPIC) == ErrorCode.NONE
        assert produced(process.port, b"before")
        server.stop(mode)
        for number in range(3):
            assert creation_error(process.port, f"refused-{number}") == ErrorCode.KAFKA_STORAGE_ERROR
            assert produced(process.port, b"meanwhile")
        assert consumed(process.address, 4) == [b"before", b"meanwhile", b"meanwhile", b"meanwhile"]
        server.start()
        until(lambda: creation_error(process.port, "accepted") in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS))
        assert end_offset(process.port, "accepted") == 0
        with Admin(bootstrap_servers=process.address) as admin:
            assert sorted(topic.name for topic in admin.list_topics()) == ["accepted", TOPIC]
        # The lock is taken again.
        second = BrokerProcess(tmp_path / "b", cluster=process.cluster)
        until(lambda: "Another broker uses the cluster" in refused(second))
        assert process.stop() == 0
