from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.identity import ProducerIdentity
from penstock.client.types import TopicPartition
from penstock.testing.broker import Broker
from penstock.wire.errors import ClusterAuthorizationFailed, CoordinatorLoadInProgress, ErrorCode

_LAST_EPOCH = 32766  # 32767 is what brokers fence with (KIP-360)


async def test_it_asks_for_an_id_once_and_every_producer_gets_its_own(cluster: Cluster) -> None:
    one, other = ProducerIdentity(cluster, 20_000), ProducerIdentity(cluster, 20_000)
    assert not one.is_ready
    await one.prepare()
    assert one.is_ready
    assert (one.producer_id >= 0, one.epoch) == (True, 0)
    before = one.producer_id
    await one.prepare()
    assert one.producer_id == before
    await other.prepare()
    assert other.producer_id != before


async def test_a_new_epoch_keeps_the_id_until_epochs_are_used_up(cluster: Cluster) -> None:
    identity = ProducerIdentity(cluster, 20_000)
    await identity.prepare()
    before = identity.producer_id
    identity.raise_epoch()
    assert (identity.producer_id, identity.epoch, identity.is_ready) == (before, 1, True)
    identity.epoch = _LAST_EPOCH - 1
    identity.raise_epoch()
    assert (identity.producer_id, identity.epoch) == (before, _LAST_EPOCH)
    identity.raise_epoch()
    assert not identity.is_ready
    await identity.prepare()
    assert identity.producer_id > before
    assert identity.epoch == 0


async def test_without_transactions_it_may_write_anywhere_and_tells_nobody(cluster: Cluster) -> None:
    identity = ProducerIdentity(cluster, 20_000)
    sent = sum(connection.conversation.correlation_id for connection in cluster._connections.values())
    assert identity.may_write(TopicPartition("anywhere", 7))
    await identity.add_partitions([TopicPartition("anywhere", 7)])
    assert not identity.is_transactional
    assert sum(connection.conversation.correlation_id for connection in cluster._connections.values()) == sent


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        yield it


@pytest.fixture
async def identity(broker: Broker) -> AsyncIterator[ProducerIdentity]:
    async with Cluster(ClientConfig(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10)) as cluster:
        yield ProducerIdentity(cluster, 1000)


async def test_a_broker_that_is_not_ready_is_asked_again(broker: Broker, identity: ProducerIdentity) -> None:
    broker.fail("InitProducerId", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=3)
    await identity.prepare()
    assert identity.is_ready


async def test_a_broker_that_is_never_ready_is_given_up(broker: Broker, identity: ProducerIdentity) -> None:
    broker.fail("InitProducerId", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=None)
    with pytest.raises(CoordinatorLoadInProgress, match="a producer id"):
        await identity.prepare()
    assert not identity.is_ready


async def test_a_refusal_is_not_repeated(broker: Broker, identity: ProducerIdentity) -> None:
    refusal = broker.fail("InitProducerId", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, times=5)
    with pytest.raises(ClusterAuthorizationFailed):
        await identity.prepare()
    assert refusal.hits == 1
