"""Every test that takes `bootstrap` runs against Penstock, and, in `make java`, against a real Apache Kafka too."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.client import Admin, Producer
from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig

_KAFKA_CONFIGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
}
_PENSTOCK_CONFIGS = {
    name: value for name, value in _KAFKA_CONFIGS.items() if "heartbeat" in name or "interval" in name or "lock" in name
}
_numbers = itertools.count()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def penstock_address() -> Iterator[str]:
    from penstock.testing.broker import Broker

    with Broker(_PENSTOCK_CONFIGS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def kafka_address(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_kafka(kafka_jars, tmp_path_factory.mktemp("kafka")) as address:
        yield address


@contextmanager
def running_kafka(jars: Path, folder: Path, **more: str) -> Iterator[str]:
    """A real Apache Kafka, one node; `more` are its configs, with underscores for dots."""
    port, controller = free_port(), free_port()
    settings = {
        **_KAFKA_CONFIGS,
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"localhost:{controller}",
        "listeners": f"EXTERNAL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"EXTERNAL://127.0.0.1:{port}",
        "inter.broker.listener.name": "EXTERNAL",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "log.dirs": str(folder / "data"),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "--standalone", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(file)],
        check=True,
        capture_output=True,
    )
    process = subprocess.Popen([*java, "kafka.Kafka", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for_port(port, process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("Apache Kafka did not start")


@pytest.fixture(params=["penstock", pytest.param("kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of a broker: Penstock, and a real Apache Kafka."""
    address = request.getfixturevalue(f"{request.param}_address")
    assert isinstance(address, str)
    return address


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Names that no other test uses: `fresh("orders")`."""
    return lambda word: f"{word}-{os.getpid()}-{time.time_ns() % 10**9}-{next(_numbers)}"


@pytest.fixture
async def admin(bootstrap: str) -> AsyncIterator[Admin]:
    async with Admin(bootstrap_servers=bootstrap) as client:
        yield client


@pytest.fixture
async def producer(bootstrap: str) -> AsyncIterator[Producer]:
    async with Producer(bootstrap_servers=bootstrap, linger_ms=0) as client:
        yield client


@pytest.fixture
async def cluster(bootstrap: str) -> AsyncIterator[Cluster]:
    """For the parts that clients are made of."""
    async with Cluster(ClientConfig(bootstrap_servers=bootstrap, retry_backoff_ms=10)) as it:
        yield it


@pytest.fixture
async def topic(admin: Admin, fresh: Callable[[str], str]) -> str:
    """A topic with one partition."""
    name = fresh("topic")
    await admin.create_topic(name, 1)
    return name


@pytest.fixture
async def wide_topic(admin: Admin, fresh: Callable[[str], str]) -> str:
    """A topic with four partitions."""
    name = fresh("wide")
    await admin.create_topic(name, 4)
    return name


@pytest.fixture
def python() -> str:
    return sys.executable
