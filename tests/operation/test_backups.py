"""A cluster is backed up while it serves, and restored beside it: whole, and never mistaken for the original."""

from __future__ import annotations

import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from penstock.client.sync import Admin, Consumer, Producer
from tests.broker.process import BrokerProcess
from tests.cluster.members import INTERNAL
from tests.operation.conftest import done, refused
from tests.postgres import PostgresServer

TOPIC = "orders"
SMALL = {**INTERNAL, "broker_session_timeout_ms": 3000, "penstock_store_window_ms": 20}


def broker(data: Path, cluster: str, store: str, node_id: int = 1) -> BrokerProcess:
    return BrokerProcess(data, cluster=cluster, store=store, node_id=node_id, **SMALL)


def database(postgres: PostgresServer) -> str:
    """A new one, by name."""
    name = f"d{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
    return name


def dump(postgres: PostgresServer, cluster: str, file: Path) -> None:
    address, _, schema = cluster.partition("?schema=")
    command = [postgres.program("pg_dump"), "--format=custom", f"--schema={schema}", f"--file={file}", address]
    subprocess.run(command, check=True, timeout=60)


def restore(postgres: PostgresServer, cluster: str, file: Path) -> str:
    """Into another database. Returns the address of what was restored."""
    name = database(postgres)
    target = postgres.url(database=name)
    subprocess.run([postgres.program("pg_restore"), f"--dbname={target}", str(file)], check=True, timeout=60)
    return f"{target}?schema={cluster.partition('?schema=')[2]}"


@contextmanager
def load(address: str) -> Iterator[list[int]]:
    """A producer of numbers, some of them large; those that were acknowledged, in order."""
    acknowledged: list[int] = []
    stopping = threading.Event()

    def run() -> None:
        with Producer(bootstrap_servers=address, acks="all") as producer:
            number = 0
            while not stopping.is_set():
                filling = bytes(300_000) if number % 20 == 0 else b""
                producer.send(TOPIC, b"%d," % number + filling).result()
                acknowledged.append(number)
                number += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield acknowledged
    finally:
        stopping.set()
        thread.join(60)


def numbers(address: str) -> list[int]:
    with Consumer(bootstrap_servers=address) as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek_to_beginning((TOPIC, 0))
        (end,) = consumer.end_offsets([(TOPIC, 0)]).values()
        return [int((record.value or b"").partition(b",")[0]) for _, record in zip(range(end), consumer, strict=False)]


def wait_for(acknowledged: list[int], count: int) -> None:
    deadline = threading.Event()
    for _ in range(600):
        if len(acknowledged) >= count:
            return
        deadline.wait(0.1)
    raise AssertionError("nothing is acknowledged")


def test_a_backup_of_a_serving_cluster_is_restored_beside_it(
    tmp_path: Path, postgres: PostgresServer, cluster: str
) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    original = broker(tmp_path / "data", cluster, f"file://{store}")
    with original:
        with Admin(bootstrap_servers=original.address) as admin:
            admin.create_topic(TOPIC, 1, configs={"segment.bytes": "1048576"})
        with load(original.address) as acknowledged:
            wait_for(acknowledged, 100)
            before = len(acknowledged)
            dump(postgres, cluster, tmp_path / "dump")  # the catalog first,
            shutil.copytree(store, copy, ignore=shutil.ignore_patterns("*#*"))  # then the objects that it names
            wait_for(acknowledged, before + 50)
        restored = restore(postgres, cluster, tmp_path / "dump")
        second = broker(tmp_path / "second", restored, f"file://{copy}")
        unadopted = subprocess.run(second.command(), capture_output=True, text=True, timeout=60)
        assert unadopted.returncode == 1
        assert "penstock cluster adopt-backup" in " ".join(unadopted.stderr.split())
        adopted = done("cluster", "adopt-backup", "--cluster", restored, "--store", f"file://{copy}")
        assert adopted["owns_objects"] is True
        assert done("cluster", "check", "--cluster", restored)["findings"] == []
        with second:
            found = numbers(second.address)
            assert found == list(range(len(found)))
            assert before <= len(found) <= len(acknowledged)
            with Producer(bootstrap_servers=second.address) as producer:
                producer.send(TOPIC, b"1000000," + bytes(700_000)).result()  # under a key of its own
            assert numbers(second.address)[-1] == 1_000_000
            assert second.stop() == 0
        assert numbers(original.address) == acknowledged
        assert original.stop() == 0
    assert done("cluster", "check", "--cluster", cluster)["findings"] == []
    assert done("cluster", "check", "--cluster", restored)["findings"] == []


def test_brokers_of_the_original_do_not_join_what_was_restored(
    tmp_path: Path, postgres: PostgresServer, cluster: str
) -> None:
    store = f"file://{tmp_path}/store"
    original = broker(tmp_path / "data", cluster, store)
    with original:
        with Producer(bootstrap_servers=original.address) as producer:
            producer.send(TOPIC, bytes(700_000)).result()
        assert original.stop() == 0
    dump(postgres, cluster, tmp_path / "dump")
    restored = restore(postgres, cluster, tmp_path / "dump")
    adopted = done("cluster", "adopt-backup", "--cluster", restored)
    assert (adopted["store"], adopted["owns_objects"]) == (store, False)
    original.cluster = restored
    joining = subprocess.run(original.command(), capture_output=True, text=True, timeout=60)
    assert joining.returncode == 1
    assert "belongs to another incarnation" in " ".join(joining.stderr.split())
    original.cluster = cluster
    with original, broker(tmp_path / "second", restored, store, node_id=2) as second:
        with Producer(bootstrap_servers=second.address) as producer:
            producer.send(TOPIC, bytes(700_000)).result()
        with Producer(bootstrap_servers=original.address) as producer:
            producer.send(TOPIC, bytes(700_000)).result()
        assert list((tmp_path / "store").glob(f"*/{adopted['incarnation']}/wal/*/*"))
        assert (original.stop(), second.stop()) == (0, 0)
    for each in (cluster, restored):
        assert done("cluster", "check", "--cluster", each)["findings"] == []


def test_a_cluster_that_is_no_copy_is_adopted_only_on_request(
    tmp_path: Path, postgres: PostgresServer, cluster: str
) -> None:
    store = f"file://{tmp_path}/store"
    with broker(tmp_path / "data", cluster, store) as process:
        assert "are running" in refused("cluster", "adopt-backup", "--cluster", cluster)
        assert process.stop() == 0
    assert "there is nothing to adopt" in refused("cluster", "adopt-backup", "--cluster", cluster)
    adopted = done("cluster", "adopt-backup", "--cluster", cluster, "--in-place", "--owns-objects")
    assert adopted["owns_objects"] is True
    again = done("cluster", "adopt-backup", "--cluster", cluster, "--in-place")
    assert again["incarnation"] != adopted["incarnation"]
    with psycopg.connect(cluster.partition("?")[0]) as connection:
        schema = cluster.rpartition("=")[2]
        owned = connection.execute(f"SELECT owned_incarnations FROM {schema}.cluster").fetchone()
    assert owned == ([],)


@pytest.mark.parametrize("user", ["penstock", "nobody_special"])
def test_the_place_of_a_cluster_is_known_to_any_user(postgres: PostgresServer, user: str) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        if user != "penstock":
            connection.execute(f"CREATE ROLE {user} LOGIN")
        try:
            with psycopg.connect(postgres.url(user=user)) as other:
                found = other.execute("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')").fetchone()
                assert found == (True,)
        finally:
            if user != "penstock":
                connection.execute(f"DROP ROLE {user}")
