"""Groups of real clients: joining, leaving, crashing, restarts, growth, patterns."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from penstock.records.batch import iter_headers
from penstock.records.builder import build_batch
from penstock.testing import Broker
from tests.broker.handlers.group_members import WAIT_SECONDS, Ledger, Member, create_topic, produce, wait_until

CLASSIC = ["range", "roundrobin", "cooperative-sticky"]
PROTOCOLS = [{"partition_assignment_strategy": name} for name in CLASSIC] + [{"group_protocol": "consumer"}]
IDS = [*CLASSIC, "consumer protocol"]
CONFIGS = {
    "group.consumer.session.timeout.ms": 2_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 100,
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(CONFIGS) as running:
        yield running


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=IDS)
def test_members_come_and_go_and_nothing_is_read_by_two_or_lost(broker: Broker, protocol: dict[str, object]) -> None:
    ledger, bootstrap = Ledger(), broker.bootstrap_servers
    create_topic(bootstrap, "topic", 6)
    values = [b"%d" % index for index in range(600)]
    with Member(ledger, bootstrap, "one", ["topic"], **protocol):
        wait_until(lambda: ledger.is_shared_by(1, 6), "the first member has everything")
        produce(bootstrap, "topic", 6, values[:200])
        with Member(ledger, bootstrap, "two", ["topic"], **protocol):
            with Member(ledger, bootstrap, "three", ["topic"], **protocol):
                wait_until(lambda: ledger.is_shared_by(3, 6), "three members share")
                produce(bootstrap, "topic", 6, values[200:400])
            wait_until(lambda: ledger.is_shared_by(2, 6), "two members share")
            produce(bootstrap, "topic", 6, values[400:])
            wait_until(lambda: len(ledger.seen) == 600, "every record was read")
    ledger.check()


@pytest.mark.parametrize("protocol", PROTOCOLS[2:], ids=IDS[2:])
def test_new_partitions_are_found(broker: Broker, protocol: dict[str, object]) -> None:
    ledger, bootstrap = Ledger(), broker.bootstrap_servers
    create_topic(bootstrap, "topic", 2)
    with (
        Member(ledger, bootstrap, "one", ["topic"], **protocol),
        Member(ledger, bootstrap, "two", ["topic"], **protocol),
    ):
        wait_until(lambda: ledger.is_shared_by(2, 2), "both members have a partition")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_partitions([NewPartitions("topic", 5)])["topic"].result(WAIT_SECONDS)
        wait_until(lambda: ledger.is_shared_by(2, 5), "the new partitions are shared out")
    ledger.check()


@pytest.mark.parametrize("protocol", PROTOCOLS[2:], ids=IDS[2:])
def test_a_pattern_finds_topics_that_come_later(broker: Broker, protocol: dict[str, object]) -> None:
    ledger, bootstrap = Ledger(), broker.bootstrap_servers
    create_topic(bootstrap, "orders-1", 1)
    create_topic(bootstrap, "other", 1)
    with Member(ledger, bootstrap, "one", ["^orders-.*"], **protocol):
        wait_until(lambda: ledger.shares() == {"one": 1}, "the first topic is found")
        create_topic(bootstrap, "orders-2", 2)
        wait_until(lambda: ledger.shares() == {"one": 3}, "the second topic is found")
    ledger.check()


@pytest.mark.parametrize("protocol", [PROTOCOLS[0], PROTOCOLS[3]], ids=[IDS[0], IDS[3]])
def test_a_crashed_member_is_replaced(broker: Broker, protocol: dict[str, object]) -> None:
    ledger, bootstrap = Ledger(), broker.bootstrap_servers
    create_topic(bootstrap, "topic", 4)
    program = (
        "import sys; from confluent_kafka import Consumer\n"
        "settings = dict(pair.split('=') for pair in sys.argv[1:])\n"
        "consumer = Consumer(settings)\n"
        "consumer.subscribe(['topic'], on_assign=lambda c, p: print('got', len(p), flush=True))\n"
        "while True: consumer.poll(0.1)"
    )
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "group",
        **{k.replace("_", "."): v for k, v in protocol.items()},
    }
    if "group_protocol" not in protocol:
        settings["session.timeout.ms"] = 1_000
        settings["heartbeat.interval.ms"] = 200
    arguments = [f"{name}={value}" for name, value in settings.items()]
    doomed = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == "got 4\n"
        with Member(ledger, bootstrap, "heir", ["topic"], **protocol):
            wait_until(lambda: ledger.shares() == {"heir": 2}, "the second member has its half")
            doomed.kill()
            wait_until(lambda: ledger.shares() == {"heir": 4}, "the second member has everything")
    finally:
        doomed.kill()
        doomed.wait(WAIT_SECONDS)


@pytest.mark.parametrize("protocol", [PROTOCOLS[2], PROTOCOLS[3]], ids=[IDS[2], IDS[3]])
def test_a_broker_restart_loses_no_member_and_no_offset(broker: Broker, protocol: dict[str, object]) -> None:
    ledger, bootstrap = Ledger(), broker.bootstrap_servers
    create_topic(bootstrap, "topic", 4)
    with (
        Member(ledger, bootstrap, "one", ["topic"], **protocol),
        Member(ledger, bootstrap, "two", ["topic"], **protocol),
    ):
        wait_until(lambda: ledger.is_shared_by(2, 4), "both share")
        produce(bootstrap, "topic", 4, [b"a%d" % index for index in range(100)])
        wait_until(lambda: len(ledger.seen) == 100, "the first hundred are read")
        broker.restart()
        produce(bootstrap, "topic", 4, [b"b%d" % index for index in range(100)])
        wait_until(lambda: len(ledger.seen) == 200, "the second hundred are read")
    ledger.check()


def test_a_static_member_restarts_without_disturbing_the_others(broker: Broker) -> None:
    ledger, bootstrap = Ledger(), broker.bootstrap_servers
    create_topic(bootstrap, "topic", 4)
    moves: list[str] = []
    original = ledger.revoked

    def watched(member: str, partitions: object) -> None:
        moves.append(member)
        original(member, partitions)  # type: ignore[arg-type]

    with Member(ledger, bootstrap, "one", ["topic"], group_instance_id="i1", session_timeout_ms=6_000):
        second = Member(ledger, bootstrap, "two", ["topic"], group_instance_id="i2", session_timeout_ms=6_000)
        wait_until(lambda: ledger.is_shared_by(2, 4), "both share")
        ledger.revoked = watched  # type: ignore[method-assign]
        second.close()
        with Member(ledger, bootstrap, "two again", ["topic"], group_instance_id="i2", session_timeout_ms=6_000):
            wait_until(lambda: ledger.shares() == {"one": 2, "two again": 2}, "the restarted member has its share")
            assert "one" not in moves
    ledger.check()


@pytest.mark.long
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=IDS)
def test_fifty_members(broker: Broker, protocol: dict[str, object]) -> None:
    ledger, bootstrap = Ledger(), broker.bootstrap_servers
    create_topic(bootstrap, "topic", 100)
    protocol = {**protocol, **({} if "group_protocol" in protocol else {"session_timeout_ms": 30_000})}
    members = [Member(ledger, bootstrap, f"m{index}", ["topic"], **protocol) for index in range(50)]
    wait_until(lambda: ledger.is_shared_by(50, 100), "fifty members share", 120)
    for member in members[:10]:
        member.close()
    wait_until(lambda: ledger.is_shared_by(40, 100), "forty members share", 120)
    values = [b"%d" % index for index in range(2_000)]
    produce(bootstrap, "topic", 100, values)
    wait_until(lambda: len(ledger.seen) == 2_000, "every record is read", 120)
    for member in members[10:]:
        member.close()
    ledger.check()


def test_kafka_python_shares_a_group(broker: Broker) -> None:
    bootstrap = broker.bootstrap_servers
    create_topic(bootstrap, "topic", 4)
    produce(bootstrap, "topic", 4, [b"%d" % index for index in range(100)])
    ledger, stop = Ledger(), threading.Event()

    def run(name: str) -> None:
        consumer = kafka.KafkaConsumer(
            "topic",
            bootstrap_servers=bootstrap,
            group_id="group",
            client_id=name,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            session_timeout_ms=6_000,
        )
        while not stop.is_set():
            for records in consumer.poll(100).values():
                for record in records:
                    ledger.record(record.value)
            held[name] = len(consumer.assignment())
        consumer.close()

    held: dict[str, int] = {}
    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    wait_until(lambda: held == {"one": 2, "two": 2}, "both share")
    wait_until(lambda: len(ledger.seen) == 100, "everything is read")
    stop.set()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    with_offsets = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id="group")
    committed = [with_offsets.committed(kafka.TopicPartition("topic", index)) for index in range(4)]
    with_offsets.close()
    assert committed == [25] * 4


async def test_aiokafka_shares_a_group() -> None:
    with Broker(CONFIGS) as broker:
        bootstrap = broker.bootstrap_servers
        create_topic(bootstrap, "topic", 4)
        produce(bootstrap, "topic", 4, [b"%d" % index for index in range(100)])
        consumers = [
            AIOKafkaConsumer(
                "topic",
                bootstrap_servers=bootstrap,
                group_id="group",
                auto_offset_reset="earliest",
                heartbeat_interval_ms=200,
                session_timeout_ms=6_000,
            )
            for _ in range(2)
        ]
        seen: set[bytes] = set()

        async def read(consumer: AIOKafkaConsumer) -> None:
            async for record in consumer:
                seen.add(record.value)

        for consumer in consumers:
            await consumer.start()
        readers = [asyncio.create_task(read(consumer)) for consumer in consumers]
        async with asyncio.timeout(WAIT_SECONDS):
            while len(seen) < 100 or [len(consumer.assignment()) for consumer in consumers] != [2, 2]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        for reader in readers:
            reader.cancel()
        for consumer in consumers:
            await consumer.stop()


def test_a_consumer_that_only_commits_has_a_group(broker: Broker) -> None:
    bootstrap = broker.bootstrap_servers
    create_topic(bootstrap, "topic", 1)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "simple", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("topic", 0, 7, "note")], asynchronous=False)
    committed = consumer.committed([TopicPartition("topic", 0)], timeout=WAIT_SECONDS)[0]
    consumer.close()
    assert (committed.offset, committed.metadata) == (7, "note")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups(request_timeout=WAIT_SECONDS).result().valid
    assert [group.group_id for group in listed] == ["simple"]


def test_the_admin_client_lists_describes_alters_and_deletes(broker: Broker) -> None:
    one, two, bootstrap = Ledger(), Ledger(), broker.bootstrap_servers
    create_topic(bootstrap, "topic", 2)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with (
        Member(one, bootstrap, "classic", ["topic"], group_id="classic"),
        Member(two, bootstrap, "consumer", ["topic"], group_id="consumer", group_protocol="consumer"),
    ):
        wait_until(lambda: one.is_shared_by(1, 2) and two.is_shared_by(1, 2), "both have everything")
        described = admin.describe_consumer_groups(["classic", "consumer"], request_timeout=WAIT_SECONDS)
        for name in ("classic", "consumer"):
            (member,) = described[name].result().members
            assert member.client_id == name
            assert member.host == "/127.0.0.1"
            assert len(member.assignment.topic_partitions) == 2
    altered = ConsumerGroupTopicPartitions("classic", [TopicPartition("topic", 1, 42)])
    admin.alter_consumer_group_offsets([altered])["classic"].result(WAIT_SECONDS)
    fetched = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("classic")])["classic"].result(
        WAIT_SECONDS
    )
    assert [(p.partition, p.offset) for p in fetched.topic_partitions if p.partition == 1] == [(1, 42)]
    for name, result in admin.delete_consumer_groups(["classic", "consumer"]).items():
        assert result.result(WAIT_SECONDS) is None, name
    assert admin.list_consumer_groups(request_timeout=WAIT_SECONDS).result().valid == []


def test_a_broken_record_in_the_offsets_topic_is_reported_and_the_rest_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def commit(bootstrap: str, group: str) -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition("topic", 0, 7)], asynchronous=False)
        consumer.close()

    configs = {**CONFIGS, "offsets.topic.num.partitions": 1}
    with Broker(configs, data=tmp_path) as broker:
        broker.create_topic("topic", 1)
        commit(broker.bootstrap_servers, "before")
    segment = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    (end,) = [header.next_offset for _, header in iter_headers(segment.read_bytes())][-1:]
    broken = [(0, b"\0\1half a key", b"\0\4", ()), (0, b"\0\2\0\5group", b"\0\x7f", ())]
    with segment.open("ab") as file:
        file.write(build_batch(broken, base_offset=end, leader_epoch=0))
    (tmp_path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    with Broker(configs, data=tmp_path) as broker:
        commit(broker.bootstrap_servers, "after")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for group in ("before", "after"):
            requested = [ConsumerGroupTopicPartitions(group)]
            (found,) = admin.list_consumer_group_offsets(requested)[group].result(WAIT_SECONDS).topic_partitions
            assert found.offset == 7
    assert sum("skipped offset" in message for message in caplog.messages) == 2


def test_groups_and_offsets_are_counted_under_kafkas_names() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with Broker({**CONFIGS, "penstock.metrics.listen": f"127.0.0.1:{port}"}) as broker:
        ledger, bootstrap = Ledger(), broker.bootstrap_servers
        create_topic(bootstrap, "topic", 2)
        with Member(ledger, bootstrap, "one", ["topic"], group_protocol="consumer"):
            wait_until(lambda: ledger.is_shared_by(1, 2), "the member has everything")
            produce(bootstrap, "topic", 2, [b"a", b"b"])
            wait_until(lambda: len(ledger.seen) == 2, "both records are read")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_SECONDS) as response:
            lines = response.read().decode().splitlines()
        assert 'kafka_server_group_coordinator_metrics_group_count{protocol="consumer"} 1' in lines
        assert 'kafka_server_group_coordinator_metrics_consumer_group_count{state="Empty"} 1' in lines
        assert "kafka_coordinator_group_groupmetadatamanager_numoffsets 2" in lines
