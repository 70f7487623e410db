from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka import KafkaProducer

from penstock import client
from penstock.client.errors import AuthenticationFailed
from penstock.testing import AsyncBroker, Broker, ErrorCode
from penstock.wire import messages as m
from penstock.wire.codec import decode
from penstock.wire.errors import TopicAuthorizationFailed
from tests.broker.raw import RawClient

WAIT_SECONDS = 20


def produce(broker: Broker, topic: str, *values: bytes, **config: object) -> list[str | None]:
    """Produce with a real client; returns the error of each record, or None."""
    results: list[str | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 10, **config})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda e, _: results.append(e.name() if e else None))
    assert producer.flush(WAIT_SECONDS) == 0
    return results


def read(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, WAIT_SECONDS)]
    finally:
        consumer.close()


def ask(broker: Broker, request: m.Message, version: int) -> bytes:
    """One request over a plain socket; the body of the response, or nothing when the broker closed the connection."""
    with RawClient(broker.port) as client:
        client.post(request, version)
        return (client.read_frame() or b"")[4:]


class TestLife:
    def test_a_real_client_produces_and_reads_back(self) -> None:
        with Broker() as broker:
            broker.create_topic("t")
            assert produce(broker, "t", b"one", b"two") == [None, None]
            assert read(broker, "t", 2) == [b"one", b"two"]

    def test_two_brokers_have_their_own_ports_and_topics(self) -> None:
        with Broker() as first, Broker() as second:
            first.create_topic("only-here")
            assert first.port != second.port
            assert produce(second, "elsewhere", b"x") == [None]
            admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
            assert set(admin.list_topics(timeout=WAIT_SECONDS).topics) == {"only-here"}

    def test_a_restart_keeps_port_and_records(self) -> None:
        with Broker() as broker:
            port = broker.port
            broker.create_topic("t")
            produce(broker, "t", b"before")
            broker.restart()
            assert broker.port == port
            produce(broker, "t", b"after")
            assert read(broker, "t", 2) == [b"before", b"after"]

    def test_a_temporary_folder_is_removed(self) -> None:
        with Broker() as broker:
            assert broker.data.is_dir()
        assert not broker.data.exists()

    def test_a_named_folder_is_kept(self, tmp_path: Path) -> None:
        with Broker(data=tmp_path / "kept") as broker:
            broker.create_topic("t")
            produce(broker, "t", b"kept")
        with Broker(data=tmp_path / "kept") as again:
            assert read(again, "t", 1) == [b"kept"]

    def test_no_thread_is_left_behind(self) -> None:
        before = set(threading.enumerate())
        with Broker():
            assert set(threading.enumerate()) - before
        assert set(threading.enumerate()) - before == set()

    def test_a_broker_that_is_not_running_says_so(self) -> None:
        with pytest.raises(RuntimeError, match="not running"):
            _ = Broker().bootstrap_servers

    def test_a_wrong_config_is_raised_to_the_caller(self) -> None:
        with pytest.raises(Exception, match=r"num\.partitions"):
            Broker({"num.partitions": "many"}).start()

    def test_topic_configs_are_given_with_underscores(self) -> None:
        with Broker() as broker:
            broker.create_topic("t", partitions=2, cleanup_policy="compact")
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            resource = ConfigResource(ResourceType.TOPIC, "t")
            configs = admin.describe_configs([resource])[resource].result(WAIT_SECONDS)
            assert configs["cleanup.policy"].value == "compact"


class TestFaults:
    def test_an_error_is_given_as_often_as_asked(self) -> None:
        with Broker() as broker:
            broker.create_topic("t")
            fault = broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
            assert produce(broker, "t", b"v") == [None]
            assert fault.hits == 2
            assert read(broker, "t", 1) == [b"v"]

    def test_an_error_that_cannot_be_retried_reaches_the_application(self) -> None:
        with Broker() as broker:
            broker.create_topic("t")
            broker.fail("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            assert produce(broker, "t", b"v") == ["TOPIC_AUTHORIZATION_FAILED"]

    def test_what_fails_was_not_done(self) -> None:
        with Broker() as broker:
            broker.create_topic("t")
            broker.fail("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            produce(broker, "t", b"refused")
            produce(broker, "t", b"taken")
            assert read(broker, "t", 1) == [b"taken"]

    def test_a_fault_without_an_end_is_healed(self) -> None:
        with Broker() as broker:
            fault = broker.fail("CreateTopics", ErrorCode.POLICY_VIOLATION, times=None)
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            for _ in range(3):
                with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
                    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(WAIT_SECONDS)
            assert fault.hits == 3
            broker.heal("CreateTopics")
            admin.create_topics([NewTopic("t", 1, 1)])["t"].result(WAIT_SECONDS)

    def test_a_dropped_connection_is_survived_by_the_client(self) -> None:
        with Broker() as broker:
            broker.create_topic("t")
            fault = broker.drop("Produce")
            assert produce(broker, "t", b"v", **{"enable.idempotence": True}) == [None]
            assert fault.hits == 1
            assert read(broker, "t", 1) == [b"v"]

    def test_a_dropped_connection_answers_nothing(self) -> None:
        with Broker() as broker:
            broker.drop("Metadata")
            assert ask(broker, m.MetadataRequest(), 9) == b""
            assert ask(broker, m.MetadataRequest(), 9) != b""

    def test_a_delayed_request_is_handled_later_with_all_its_records(self) -> None:
        with Broker() as broker:
            broker.create_topic("t")
            fault = broker.delay("Produce", 0.05, times=3)
            assert produce(broker, "t", *(b"%d" % i for i in range(100)), **{"batch.num.messages": 40}) == [None] * 100
            assert fault.hits == 3
            assert read(broker, "t", 100) == [b"%d" % i for i in range(100)]

    def test_a_delay_does_not_hold_up_others(self) -> None:
        with Broker() as broker:
            broker.delay("Metadata", 60)
            with RawClient(broker.port) as slow:
                slow.post(m.MetadataRequest(), 9)
                answered = decode(m.ApiVersionsResponse, ask(broker, m.ApiVersionsRequest(), 0), 0)
                assert answered.error_code == 0

    def test_faults_of_other_apis_stay_when_one_is_healed(self) -> None:
        with Broker() as broker:
            broker.fail("Metadata", ErrorCode.UNKNOWN_SERVER_ERROR, times=None)
            broker.drop("DescribeCluster", times=None)
            broker.heal("Metadata")
            assert ask(broker, m.DescribeClusterRequest(), 0) == b""
            broker.heal()
            assert ask(broker, m.DescribeClusterRequest(), 0) != b""

    def test_an_unknown_api_is_refused_by_name(self) -> None:
        with Broker() as broker, pytest.raises(ValueError, match="'Produc'"):
            broker.fail("Produc", ErrorCode.UNKNOWN_SERVER_ERROR)


class TestAsyncBroker:
    async def test_an_async_client_in_the_same_loop(self) -> None:
        async with AsyncBroker() as broker:
            broker.create_topic("t")
            fault = broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)
            async with asyncio.timeout(WAIT_SECONDS):
                async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                    sent = await producer.send_and_wait("t", b"v")
            assert sent.offset == 0
            assert fault.hits == 1

    async def test_it_restarts(self) -> None:
        async with AsyncBroker() as broker:
            before = broker.bootstrap_servers
            await broker.restart()
            assert broker.bootstrap_servers == before
        assert not broker.data.exists()


@pytest.fixture(scope="module", params=["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def secured(request: pytest.FixtureRequest) -> Iterator[Broker]:
    rules = ["alice write topic orders", "alice read topic orders", "alice read group *"]
    users = {"alice": "secret", "bob": "hush"}
    with Broker(sasl=request.param, tls=True, users=users, acls=rules, super_users=["root"]) as broker:
        broker.create_topic("orders")
        yield broker


class TestSecurity:
    """Real clients with the settings that the broker hands out."""

    def test_confluent_kafka(self, secured: Broker) -> None:
        producer = Producer(secured.librdkafka("alice"))
        producer.produce("orders", b"one")
        assert producer.flush(WAIT_SECONDS) == 0
        consumer = Consumer(secured.librdkafka("alice") | {"group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        message = consumer.poll(WAIT_SECONDS)
        consumer.close()
        assert message is not None
        assert message.value() == b"one"

    def test_kafka_python(self, secured: Broker) -> None:
        producer = KafkaProducer(**secured.kafka_python("alice"))
        assert producer.send("orders", b"two").get(WAIT_SECONDS).topic == "orders"
        producer.close()

    async def test_aiokafka(self, secured: Broker) -> None:
        async with AIOKafkaProducer(**secured.aiokafka("alice")) as producer:
            assert (await producer.send_and_wait("orders", b"three")).topic == "orders"

    async def test_our_own_client_and_a_user_without_rights(self, secured: Broker) -> None:
        async with client.Producer(secured.client_settings("alice")) as producer:
            assert (await producer.send_and_wait("orders", b"four")).topic == "orders"
        async with client.Producer(secured.client_settings("bob"), enable_idempotence=False) as producer:
            with pytest.raises(TopicAuthorizationFailed):
                await producer.send_and_wait("orders", b"five")

    async def test_it_is_the_same_after_a_restart(self, secured: Broker) -> None:
        secured.restart()
        async with client.Producer(secured.client_settings("alice")) as producer:
            assert (await producer.send_and_wait("orders", b"six")).topic == "orders"


async def test_a_broker_in_the_event_loop_has_users_too() -> None:
    async with AsyncBroker(users={"alice": "secret"}) as broker:
        async with client.Admin(broker.client_settings()) as admin:
            assert await admin.list_topics() == []
        with pytest.raises(AuthenticationFailed):
            async with client.Admin(broker.client_settings() | {"sasl_password": "wrong"}):
                pass
