"""A catalog that refuses a change, as on a full disk: clients are told the reason, and nothing is half done."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from penstock.broker.storage_errors import changing, error_for_clients
from penstock.catalog.contract import CatalogError, TopicExists
from penstock.catalog.memory import MemoryCatalog
from penstock.storage.contract import LeadershipLost, LogConfig, StorageError
from penstock.storage.memory import MemoryLog, MemoryStorage
from penstock.testing import MemoryBroker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaStorageError, NotLeaderOrFollower, TopicAlreadyExists
from tests.testing.memory_requests import commit_offset, committed_offset, find_coordinator, produce, soon

REASON = "no space left on device"


def test_clients_of_a_partition_that_moved_are_sent_to_its_leader() -> None:
    assert isinstance(error_for_clients(LeadershipLost("gone")), NotLeaderOrFollower)


@pytest.mark.parametrize("failure", [StorageError(REASON), CatalogError(REASON)])
def test_a_refused_change_is_logged_and_told_with_its_reason(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KafkaStorageError, match=REASON), changing("topic orders"):
        raise failure
    [record] = caplog.records
    assert record.getMessage() == f"cannot change topic orders: {REASON}"
    assert record.exc_info is None


def test_a_topic_that_another_broker_has_created_is_nothing_to_log(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TopicAlreadyExists), changing("topic orders"):
        raise TopicExists("topic 'orders' exists")
    assert not caplog.records


@pytest.fixture
async def broker() -> AsyncIterator[MemoryBroker]:
    async with MemoryBroker() as running:
        running.create_topic("orders", retention_ms=1000)
        yield running


@pytest.fixture(autouse=True)
def nothing_else_goes_wrong(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def log_names(storage: MemoryStorage) -> list[str]:
    return sorted(f"{log.topic}-{log.partition}" for log in storage.logs())


async def test_a_topic_that_is_not_created_leaves_nothing_behind(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.catalog.refuse_changes(REASON)
    topic = m.CreateTopicsRequest.CreatableTopic(name="new", num_partitions=3, replication_factor=1)
    client = broker.connect()
    request = m.CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    [refused] = (await soon(client.ask(request, m.CreateTopicsResponse))).topics
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert REASON in (refused.error_message or "")
    assert any(REASON in record.getMessage() for record in caplog.records if record.levelno == logging.ERROR)
    assert log_names(broker.storage) == ["orders-0"]
    broker.catalog.accept_changes()
    [created] = (await soon(client.ask(request, m.CreateTopicsResponse))).topics
    assert created.error_code == 0
    assert await produce(client, "new", b"one") == 0


async def test_a_topic_that_is_not_created_by_asking_for_it_is_answered_with_the_error(broker: MemoryBroker) -> None:
    broker.catalog.refuse_changes(REASON)
    requested = m.MetadataRequest.MetadataRequestTopic(name="new")
    request = m.MetadataRequest(topics=[requested], allow_auto_topic_creation=True)
    [topic] = (await soon(broker.connect().ask(request, m.MetadataResponse))).topics
    assert topic.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log_names(broker.storage) == ["orders-0"]


async def test_a_topic_that_does_not_grow_stays_as_it_is(broker: MemoryBroker) -> None:
    broker.catalog.refuse_changes(REASON)
    requested = m.CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=4, assignments=None)
    request = m.CreatePartitionsRequest(topics=[requested], timeout_ms=1000)
    [refused] = (await soon(broker.connect().ask(request, m.CreatePartitionsResponse))).results
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert REASON in (refused.error_message or "")
    assert log_names(broker.storage) == ["orders-0"]
    assert broker.parts.cluster.topic("orders").partition_count == 1


async def test_a_topic_that_is_not_deleted_keeps_its_records_and_its_groups_their_offsets(broker: MemoryBroker) -> None:
    client = broker.connect()
    await find_coordinator(client, "g")
    assert await commit_offset(client, "g", "orders", 7) == 0
    broker.catalog.refuse_changes(REASON)
    request = m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.DeleteTopicState(name="orders")], timeout_ms=1000)
    [refused] = (await soon(client.ask(request, m.DeleteTopicsResponse))).responses
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert REASON in (refused.error_message or "")
    assert await committed_offset(client, "g", "orders") == 7
    assert await produce(client, "orders", b"one") == 0


@pytest.mark.parametrize(
    ("kind", "name", "config", "value"),
    [
        (2, "orders", "retention.ms", "5000"),
        (4, "", "log.retention.ms", "5000"),
        (16, "s", "interval.ms", "5000"),
        (32, "g", "share.auto.offset.reset", "earliest"),
    ],
)
async def test_configs_that_cannot_be_kept_do_not_count(
    broker: MemoryBroker, kind: int, name: str, config: str, value: str
) -> None:
    client = broker.connect()
    broker.catalog.refuse_changes(REASON)
    request = m.IncrementalAlterConfigsRequest
    change = request.AlterableConfig(name=config, value=value)
    resource = request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    [refused] = (await soon(client.ask(request(resources=[resource]), m.IncrementalAlterConfigsResponse))).responses
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert REASON in (refused.error_message or "")
    old = m.AlterConfigsRequest
    same = old.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[old.AlterableConfig(name=config, value=value)]
    )
    [refused_too] = (await soon(client.ask(old(resources=[same]), m.AlterConfigsResponse))).responses
    assert refused_too.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    requested = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[config]
    )
    described = await soon(client.ask(m.DescribeConfigsRequest(resources=[requested]), m.DescribeConfigsResponse))
    assert value not in [entry.value for entry in described.results[0].configs]


async def test_levels_of_features_that_cannot_be_kept_do_not_count(broker: MemoryBroker) -> None:
    broker.catalog.refuse_changes(REASON)
    update = m.UpdateFeaturesRequest.FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
    request = m.UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update])
    response = await soon(broker.connect().ask(request, m.UpdateFeaturesResponse))
    assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert REASON in (response.error_message or "")
    assert broker.parts.features.level("share.version") == 1
    assert broker.parts.features.epoch == 1


async def test_producers_without_a_block_of_ids_are_asked_to_try_again(broker: MemoryBroker) -> None:
    client = broker.connect()
    await find_coordinator(client, "shop", key_type=1)
    broker.catalog.refuse_changes(REASON)
    for transactional_id in (None, "shop"):
        request = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
        refused = await soon(client.ask(request, m.InitProducerIdResponse))
        assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        broker.catalog.accept_changes()
        assert (await soon(client.ask(request, m.InitProducerIdResponse))).error_code == 0
        broker.parts.producer_ids._next = broker.parts.producer_ids._end
        broker.catalog.refuse_changes(REASON)


@pytest.mark.parametrize(("key_type", "version"), [(0, 3), (0, 6), (1, 3), (1, 6), (2, 6)])
async def test_a_coordinator_whose_topic_cannot_be_created_is_not_available(
    broker: MemoryBroker, key_type: int, version: int
) -> None:
    client = broker.connect()
    broker.catalog.refuse_changes(REASON)
    key = "g:AAAAAAAAAAAAAAAAAAAAAA:0" if key_type == 2 else "g"
    request = m.FindCoordinatorRequest(key_type=key_type)
    if version >= 4:
        request.coordinator_keys = [key]
    else:
        request.key = key
    answer = await soon(client.ask(request, m.FindCoordinatorResponse, version))
    found = answer.coordinators[0] if version >= 4 else answer
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert REASON in (found.error_message or "")
    assert found.node_id == -1
    assert log_names(broker.storage) == ["orders-0"]
    broker.catalog.accept_changes()
    assert (await find_coordinator(client, key, key_type)).error_code == 0


async def test_requests_for_coordinators_whose_topic_cannot_be_created_are_answered(broker: MemoryBroker) -> None:
    broker.catalog.refuse_changes(REASON)
    client = broker.connect()
    init = m.InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=1000)
    assert (await soon(client.ask(init, m.InitProducerIdResponse))).error_code != 0
    heartbeat = m.ShareGroupHeartbeatRequest(
        group_id="g", member_id="AAAAAAAAAAAAAAAAAAAAAA", member_epoch=0, subscribed_topic_names=["orders"]
    )
    assert (await soon(client.ask(heartbeat, m.ShareGroupHeartbeatResponse))).error_code != 0
    end = m.EndTxnRequest(transactional_id="shop", producer_id=1, producer_epoch=0)
    assert (await soon(client.ask(end, m.EndTxnResponse))).error_code != 0


class _FullDisk(MemoryStorage):
    """Has room for one log only."""

    def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> MemoryLog:
        if partition:
            raise StorageError(REASON)
        return super().open_log(topic, partition, topic_id, config)


async def test_logs_that_could_be_opened_go_again_when_one_cannot() -> None:
    broker = MemoryBroker()
    broker.storage = _FullDisk(lambda callback: callback())
    broker.catalog = MemoryCatalog()
    async with broker:
        with pytest.raises(KafkaStorageError, match=REASON):
            broker.create_topic("orders", partitions=2)
        assert log_names(broker.storage) == []
        assert broker.catalog.topics() == []
