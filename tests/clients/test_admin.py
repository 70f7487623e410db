"""The admin clients of three libraries: topics, partitions, configs, records, offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import aiokafka.admin
import kafka
import kafka.admin
import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from penstock.testing import Broker
from tests.clients.adapters import WAIT_SECONDS, Confluent, Record


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class TestConfluent:
    @pytest.fixture
    def admin(self, broker: Broker) -> AdminClient:
        return AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def test_topics_are_created_described_grown_and_deleted(self, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("c-life", 2, 1)])["c-life"].result(WAIT_SECONDS)
        described = admin.describe_topics(TopicCollection(["c-life"]))["c-life"].result(WAIT_SECONDS)
        assert [partition.id for partition in described.partitions] == [0, 1]
        assert not described.is_internal
        admin.create_partitions([NewPartitions("c-life", 5)])["c-life"].result(WAIT_SECONDS)
        assert len(admin.list_topics("c-life", WAIT_SECONDS).topics["c-life"].partitions) == 5
        admin.delete_topics(["c-life"])["c-life"].result(WAIT_SECONDS)
        assert "c-life" not in admin.list_topics(timeout=WAIT_SECONDS).topics

    def test_errors_have_kafkas_codes(self, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("c-there", 1, 1)])["c-there"].result(WAIT_SECONDS)
        for name, partitions, replicas, code in (
            ("c-there", 1, 1, KafkaError.TOPIC_ALREADY_EXISTS),
            ("c-replicated", 1, 3, KafkaError.INVALID_REPLICATION_FACTOR),
            ("c bad name", 1, 1, KafkaError.TOPIC_EXCEPTION),
        ):
            with pytest.raises(KafkaException) as raised:
                admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(WAIT_SECONDS)
            assert raised.value.args[0].code() == code
        with pytest.raises(KafkaException) as raised:
            admin.delete_topics(["c-unknown"])["c-unknown"].result(WAIT_SECONDS)
        assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_validate_only_creates_nothing(self, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("c-dry", 1, 1)], validate_only=True)["c-dry"].result(WAIT_SECONDS)
        assert "c-dry" not in admin.list_topics(timeout=WAIT_SECONDS).topics

    def test_configs_are_altered_one_by_one(self, admin: AdminClient) -> None:
        admin.create_topics([NewTopic("c-configs", 1, 1, config={"retention.ms": "1000"})])["c-configs"].result(
            WAIT_SECONDS
        )
        entry = ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "c-configs", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(WAIT_SECONDS)
        plain = ConfigResource(ResourceType.TOPIC, "c-configs")
        configs = admin.describe_configs([plain])[plain].result(WAIT_SECONDS)
        assert configs["retention.ms"].value == "1000"
        assert configs["max.message.bytes"].value == "2000"
        assert configs["cleanup.policy"].is_default

    def test_records_are_deleted_and_offsets_listed(self, admin: AdminClient, broker: Broker) -> None:
        admin.create_topics([NewTopic("c-offsets", 1, 1)])["c-offsets"].result(WAIT_SECONDS)
        records = [Record(b"%d" % n, timestamp_ms=1_700_000_000_000 + n) for n in range(10)]
        Confluent(broker.bootstrap_servers).produce("c-offsets", records)
        partition = TopicPartition("c-offsets", 0, 4)
        deleted = admin.delete_records([partition])[partition].result(WAIT_SECONDS)
        assert deleted.low_watermark == 4
        requested = TopicPartition("c-offsets", 0)
        specs: Any = OffsetSpec  # its functions have no types
        for spec, offset in ((specs.earliest(), 4), (specs.latest(), 10), (specs.max_timestamp(), 9)):
            assert admin.list_offsets({requested: spec})[requested].result(WAIT_SECONDS).offset == offset

    def test_the_cluster_is_described(self, admin: AdminClient) -> None:
        cluster = admin.describe_cluster().result(WAIT_SECONDS)
        assert cluster.cluster_id
        assert [node.id for node in cluster.nodes] == [cluster.controller.id]


class TestKafkaPython:
    @pytest.fixture
    def admin(self, broker: Broker) -> Iterator[kafka.KafkaAdminClient]:
        client = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        yield client
        client.close()

    def test_topics_are_created_listed_grown_and_deleted(self, admin: kafka.KafkaAdminClient) -> None:
        admin.create_topics([kafka.admin.NewTopic("p-life", num_partitions=2, replication_factor=1)])
        assert "p-life" in admin.list_topics()
        admin.create_partitions({"p-life": kafka.admin.NewPartitions(4)})
        [described] = admin.describe_topics(["p-life"])
        assert len(described["partitions"]) == 4
        admin.delete_topics(["p-life"])
        assert "p-life" not in admin.list_topics()

    def test_errors_are_raised_as_their_classes(self, admin: kafka.KafkaAdminClient) -> None:
        new = kafka.admin.NewTopic("p-there", num_partitions=1, replication_factor=1)
        admin.create_topics([new])
        with pytest.raises(kafka.errors.TopicAlreadyExistsError):
            admin.create_topics([new])
        with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
            admin.delete_topics(["p-unknown"])

    def test_the_cluster_is_described(self, admin: kafka.KafkaAdminClient) -> None:
        assert len(admin.describe_cluster()["brokers"]) == 1


class TestAiokafka:
    async def test_topics_are_created_listed_grown_and_deleted(self, broker: Broker) -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        async with asyncio.timeout(WAIT_SECONDS):
            await admin.start()
            try:
                await admin.create_topics([aiokafka.admin.NewTopic("a-life", num_partitions=2, replication_factor=1)])
                assert "a-life" in await admin.list_topics()
                await admin.create_partitions({"a-life": aiokafka.admin.NewPartitions(3)})
                [described] = await admin.describe_topics(["a-life"])
                assert len(described["partitions"]) == 3
                await admin.delete_topics(["a-life"])
                assert "a-life" not in await admin.list_topics()
            finally:
                await admin.close()


def test_a_record_that_is_too_large_is_refused_by_the_broker(broker: Broker) -> None:
    broker.create_topic("small", max_message_bytes=1000)
    errors: list[int | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("small", bytes(5000), on_delivery=lambda error, _: errors.append(error.code() if error else None))
    assert producer.flush(WAIT_SECONDS) == 0
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]
