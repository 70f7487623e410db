"""`penstock serve --brokers 2` as users have it: two processes and a supervisor, one folder, one line, one Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers import free_ports
from penstock.client.admin import ResourceType
from penstock.client.sync import Admin, Consumer, Producer, ShareConsumer
from penstock.client.types import TopicPartition as OurTopicPartition
from tests.broker.process import WAIT_SECONDS, BrokerProcess

TOPIC = "orders"


def brokers_of(process: BrokerProcess) -> list[psutil.Process]:
    """The processes of the brokers, by the ports that they listen on."""
    return sorted(psutil.Process(process.pid).children(), key=lambda each: each.pid)


def child_at(process: BrokerProcess, port: int) -> psutil.Process:
    """The broker that has a port. The supervisor has all ports, and listens to none."""
    (found,) = (
        each
        for each in brokers_of(process)
        if any(at.status == psutil.CONN_LISTEN and at.laddr.port == port for at in each.net_connections())
    )
    return found


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", brokers=2, group_initial_rebalance_delay_ms=0) as process:
        yield process


@contextmanager
def serving(process: BrokerProcess, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The supervisor, and the line that says that all are ready."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*process.command(), *arguments], stdout=pipe, stderr=pipe, text=True) as started:
        try:
            assert started.stdout is not None
            yield started, started.stdout.readline()
        finally:
            started.kill()


def refused(process: BrokerProcess, *arguments: str) -> str:
    done = subprocess.run([*process.command(), *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2), done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def leaders(process: BrokerProcess, topic: str = TOPIC) -> list[int]:
    with Admin(bootstrap_servers=process.address) as admin:
        return [partition.leader for partition in admin.describe_topic(topic).partitions.values()]


# -- starting and ending -----------------------------------------------------------------------------------------------


def test_it_says_one_line_and_one_ctrl_c_ends_all_cleanly(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, brokers=2)
    with serving(process) as (supervisor, line):
        addresses = f"127.0.0.1:{process.port},127.0.0.1:{process.port + 1}"
        assert f"serves {addresses} from {tmp_path} with 2 brokers (ready in" in line
        children = psutil.Process(supervisor.pid).children()
        assert len(children) == 2
        supervisor.send_signal(signal.SIGINT)
        rest, errors = supervisor.communicate(timeout=WAIT_SECONDS)
        assert (supervisor.returncode, rest, errors) == (0, "", "")
        assert not any(each.is_running() for each in children)
    for node_id in (1, 2):
        assert (tmp_path / "brokers" / str(node_id) / ".kafka_cleanshutdown").exists()


def test_a_second_ctrl_c_ends_a_broker_that_hangs(tmp_path: Path) -> None:
    with serving(BrokerProcess(tmp_path, brokers=2)) as (supervisor, _):
        hung, _ = psutil.Process(supervisor.pid).children()
        hung.suspend()
        until(lambda: hung.status() == psutil.STATUS_STOPPED)

        def is_over() -> bool:
            supervisor.send_signal(signal.SIGINT)
            return supervisor.poll() is not None

        until(is_over)
        assert supervisor.returncode == 0
        assert not hung.is_running()


def test_whoever_ends_the_supervisor_ends_the_brokers(pair: BrokerProcess) -> None:
    children = brokers_of(pair)
    pair.kill()
    gone, alive = psutil.wait_procs(children, WAIT_SECONDS)
    assert not alive
    assert len(gone) == 2
    pair.start()
    assert len(brokers_of(pair)) == 2


def test_systemd_hears_of_it_from_the_supervisor(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", brokers=2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(WAIT_SECONDS)
        listener.bind(str(tmp_path / "notify"))
        environment = {"NOTIFY_SOCKET": listener.getsockname(), "WATCHDOG_USEC": "200000"}
        with subprocess.Popen(process.command(), env=environment, stdout=subprocess.DEVNULL) as supervisor:
            try:
                assert b"READY=1" in listener.recv(4096)
                assert listener.recv(4096) == b"WATCHDOG=1"
                supervisor.send_signal(signal.SIGTERM)
                while (notified := listener.recv(4096)) == b"WATCHDOG=1":
                    pass
                assert notified == b"STOPPING=1"
                assert supervisor.wait(WAIT_SECONDS) == 0
            finally:
                supervisor.kill()


# -- what it refuses ---------------------------------------------------------------------------------------------------


def test_a_port_of_the_range_that_is_taken_is_named(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, brokers=2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", process.port + 1))
        other.listen()
        assert f"127.0.0.1:{process.port + 1} is in use" in refused(process)


def test_a_mistake_in_the_configs_is_reported_as_by_one_broker(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, brokers=2)
    assert "num.partitions" in refused(process, "-c", "num.partitions=many")
    assert "needs a login over TLS" in refused(process, "-c", "penstock.metrics.listen=0.0.0.0:9644")


@pytest.mark.parametrize("number", ["0", "-1", "65", "many"])
def test_a_number_that_is_none_is_refused(tmp_path: Path, number: str) -> None:
    assert "is not a number of brokers" in refused(BrokerProcess(tmp_path), "--brokers", number)


def test_brokers_of_one_machine_are_not_mixed_with_a_cluster(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, brokers=2, cluster="postgresql://nobody@127.0.0.1:1/none")
    assert "--brokers shares a data folder among processes of this machine" in refused(process)


# -- folders -----------------------------------------------------------------------------------------------------------


def test_the_folder_of_one_broker_is_taken_over_and_can_grow_and_not_shrink(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as single:
        with Producer(bootstrap_servers=single.address) as producer:
            producer.send(TOPIC, b"kept", partition=0).result()
        single.stop()
    with BrokerProcess(tmp_path, brokers=1) as single:
        assert not (tmp_path / "brokers").exists(), "one broker needs no supervisor"
        single.stop()
    several = BrokerProcess(tmp_path, brokers=2)
    with serving(several) as (supervisor, note):
        assert f"moved the 1 partitions of {tmp_path} to {tmp_path / 'brokers' / '1'}: broker 1 keeps them" in note
        assert supervisor.stdout is not None
        supervisor.stdout.readline()
        assert consumed(several.address, TOPIC, 1) == [b"kept"]
        with Admin(bootstrap_servers=several.address) as admin:
            admin.create_topic("new", 4)
        assert sorted(leaders(several, "new")) == [1, 1, 2, 2]
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(WAIT_SECONDS) == 0
    assert "start it with --brokers auto" in refused(BrokerProcess(tmp_path))
    assert "start it with --brokers 2 or more" in refused(BrokerProcess(tmp_path, brokers=1))
    with BrokerProcess(tmp_path, brokers=3) as more:
        assert sorted(leaders(more, "new")) == [1, 1, 2, 2]
        with Admin(bootstrap_servers=more.address) as admin:
            admin.create_topic("newer", 3)
        assert sorted(leaders(more, "newer")) == [1, 2, 3]
        assert consumed(more.address, TOPIC, 1) == [b"kept"]


def consumed(address: str, topic: str, count: int) -> list[bytes | None]:
    with Consumer(bootstrap_servers=address) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning((topic, 0))
        return [record.value for _, record in zip(range(count), consumer, strict=False)]


# -- what clients see --------------------------------------------------------------------------------------------------


def test_each_broker_has_metrics_of_its_own(tmp_path: Path) -> None:
    first = free_ports(2)
    with BrokerProcess(tmp_path, brokers=2, penstock_metrics_listen=f"127.0.0.1:{first}"):
        for port in (first, first + 1):
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=WAIT_SECONDS) as answer:
                assert answer.status == 200
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_SECONDS) as answer:
                assert b"penstock_success_age_seconds" in answer.read()


def test_records_reach_consumers_of_both_protocols_through_any_broker(pair: BrokerProcess) -> None:
    with Admin(bootstrap_servers=f"127.0.0.1:{pair.port + 1}") as admin:
        admin.create_topic(TOPIC, 4)
    assert sorted(leaders(pair)) == [1, 1, 2, 2]
    producer = ConfluentProducer({"bootstrap.servers": pair.address, "enable.idempotence": True})
    sent = {f"{number}".encode() for number in range(200)}
    for value in sent:
        producer.produce(TOPIC, value)
    assert producer.flush(WAIT_SECONDS) == 0
    for protocol in ("classic", "consumer"):
        for group in ("a", "b", "c", "d"):  # some are coordinated by one broker, some by the other
            settings = {
                "bootstrap.servers": pair.address,
                "group.id": f"{protocol}-{group}",
                "auto.offset.reset": "earliest",
                "group.protocol": protocol,
            }
            consumer = ConfluentConsumer(settings)
            consumer.subscribe([TOPIC])
            found: list[bytes] = []
            deadline = time.monotonic() + WAIT_SECONDS
            while len(found) < len(sent) and time.monotonic() < deadline:
                found += [message.value() or b"" for message in consumer.consume(500, 0.2)]
            consumer.commit(asynchronous=False)
            committed = consumer.committed([TopicPartition(TOPIC, index) for index in range(4)], WAIT_SECONDS)
            consumer.close()
            assert len(found) == len(sent)
            assert set(found) == sent
            assert sum(max(0, each.offset) for each in committed) == len(sent)


async def test_transactions_span_the_brokers(pair: BrokerProcess) -> None:
    with Admin(bootstrap_servers=pair.address) as admin:
        admin.create_topic(TOPIC, 4)
    for name in ("t0", "t1", "t2", "t3"):  # coordinators on either broker
        producer = AIOKafkaProducer(bootstrap_servers=pair.address, transactional_id=name)
        await producer.start()
        for outcome in ("committed", "aborted"):
            await producer.begin_transaction()
            for partition in range(4):
                await producer.send_and_wait(TOPIC, f"{name} {outcome}".encode(), partition=partition)
            offsets = {AiokafkaPartition(TOPIC, 0): 7 if outcome == "committed" else 8}
            await producer.send_offsets_to_transaction(offsets, f"group of {name}")
            await (producer.commit_transaction() if outcome == "committed" else producer.abort_transaction())
        await producer.stop()
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=pair.address, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    found: list[bytes] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(found) < 16:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += [record.value or b"" for record in records]
    await consumer.stop()
    assert sorted(found) == sorted(f"t{number} committed".encode() for number in range(4) for _ in range(4))
    with Admin(bootstrap_servers=pair.address) as admin:
        for number in range(4):
            group = f"group of t{number}"
            assert admin.list_group_offsets(group)[OurTopicPartition(TOPIC, 0)].offset == 7


def test_a_queue_spans_the_brokers(pair: BrokerProcess) -> None:
    with Admin(bootstrap_servers=pair.address) as admin:
        admin.create_topic(TOPIC, 4)
        admin.alter_configs(ResourceType.GROUP, "workers", {"share.auto.offset.reset": "earliest"})
    sent = sorted(f"{number}".encode() for number in range(100))
    with Producer(bootstrap_servers=pair.address) as producer:
        for number, value in enumerate(sent):
            producer.send(TOPIC, value, partition=number % 4)
    found: list[bytes | None] = []
    with ShareConsumer(bootstrap_servers=pair.address, group_id="workers") as consumer:
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found) < len(sent) and time.monotonic() < deadline:
            found += [record.value for record in consumer.poll(500)]
    assert sorted(value for value in found if value is not None) == sent


def test_secured_brokers_log_in_with_each_other(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, brokers=2)
    with serving(process, "--secure") as (supervisor, line):
        assert supervisor.stdout is not None
        while " serves " not in line:
            line = supervisor.stdout.readline()
        settings: dict[str, Any] = {
            "bootstrap.servers": process.address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": (tmp_path / "admin.password").read_text().strip(),
            "ssl.ca.location": str(tmp_path / "tls" / "ca.pem"),
        }
        admin = AdminClient(settings)
        admin.create_topics([NewTopic(TOPIC, 4)])[TOPIC].result(WAIT_SECONDS)
        for name in ("t0", "t1", "t2", "t3"):  # coordinators on either broker
            producer = ConfluentProducer({**settings, "transactional.id": name})
            producer.init_transactions(WAIT_SECONDS)
            producer.begin_transaction()
            for partition in range(4):
                producer.produce(TOPIC, name.encode(), partition=partition)
            producer.commit_transaction(WAIT_SECONDS)
        consumer = ConfluentConsumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe([TOPIC])
        found: list[bytes] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found) < 16 and time.monotonic() < deadline:
            found += [message.value() or b"" for message in consumer.consume(500, 0.2)]
        consumer.close()
        assert sorted(found) == sorted(f"t{number}".encode() for number in range(4) for _ in range(4))
        nodes = admin.list_topics(timeout=WAIT_SECONDS).brokers
        assert sorted(node.port for node in nodes.values()) == [process.port, process.port + 1]
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(WAIT_SECONDS) == 0


# -- a broker that dies ------------------------------------------------------------------------------------------------


def test_nothing_is_lost_or_doubled_when_brokers_are_killed_under_load(pair: BrokerProcess) -> None:
    with Admin(bootstrap_servers=pair.address) as admin:
        admin.create_topic(TOPIC, 4)
    producer = ConfluentProducer(
        {"bootstrap.servers": pair.address, "enable.idempotence": True, "acks": "all", "linger.ms": 1}
    )
    acknowledged: list[bytes] = []
    failed: list[str] = []
    is_over = threading.Event()

    def delivered(error: object, message: object) -> None:
        if error is None:
            acknowledged.append(message.value())  # type: ignore[attr-defined]
        else:
            failed.append(str(error))

    def produce() -> None:
        number = 0
        while not is_over.is_set():
            producer.produce(TOPIC, json.dumps(number).encode(), partition=number % 4, on_delivery=delivered)
            number += 1
            producer.poll(0.01 if len(producer) > 500 else 0)
        producer.flush(WAIT_SECONDS)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        for port in (pair.port, pair.port + 1, pair.port):
            before = len(acknowledged)
            until(lambda before=before: len(acknowledged) > before + 200)  # type: ignore[misc]
            killed = child_at(pair, port)
            killed.kill()
            until(lambda killed=killed: killed.pid not in [each.pid for each in brokers_of(pair)])  # type: ignore[misc]
            until(lambda: len(brokers_of(pair)) == 2)
    finally:
        is_over.set()
        thread.join(2 * WAIT_SECONDS)
    assert not failed
    with Consumer(bootstrap_servers=pair.address) as consumer:
        consumer.assign([(TOPIC, index) for index in range(4)])
        for index in range(4):
            consumer.seek_to_beginning((TOPIC, index))
        found = [record.value for _, record in zip(range(len(acknowledged)), consumer, strict=False)]
    assert sorted(map(str, found)) == sorted(map(str, acknowledged))
