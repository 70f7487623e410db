"""A feature that is switched off: its APIs answer UNSUPPORTED_VERSION, as Apache Kafka 4.3.1's do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from penstock.broker.features import UPGRADE
from penstock.client import Consumer, Producer, TopicPartition
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from penstock.wire.messages import Message
from tests.broker.handlers.feature_levels import ask, finalized, lower, update
from tests.broker.share.share_client import ShareMember, Wire, acquired, initialize, produce, topic_id

OFF = ErrorCode.UNSUPPORTED_VERSION


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"transaction.state.log.num.partitions": 1}) as it:
        it.create_topic("jobs")
        yield it


def _describe_offsets() -> Message:
    request = m.DescribeShareGroupOffsetsRequest
    return request(groups=[request.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)])


CONSUMER_APIS: list[tuple[ApiKey, int, Message, Callable[[Message], object]]] = [
    (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        m.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["jobs"]),
        lambda answer: answer,
    ),
    (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        m.ConsumerGroupDescribeRequest(group_ids=["g"]),
        lambda answer: answer.groups[0],  # type: ignore[attr-defined]
    ),
]
SHARE_APIS: list[tuple[ApiKey, int, Message, Callable[[Message], object]]] = [
    (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        m.ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["jobs"]),
        lambda answer: answer,
    ),
    (
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        m.ShareGroupDescribeRequest(group_ids=["g"]),
        lambda answer: answer.groups[0],  # type: ignore[attr-defined]
    ),
    (ApiKey.SHARE_FETCH, 2, m.ShareFetchRequest(group_id="g", member_id="m" * 22), lambda answer: answer),
    (ApiKey.SHARE_ACKNOWLEDGE, 2, m.ShareAcknowledgeRequest(group_id="g", member_id="m" * 22), lambda answer: answer),
    (
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        _describe_offsets(),
        lambda answer: answer.groups[0],  # type: ignore[attr-defined]
    ),
    (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, m.AlterShareGroupOffsetsRequest(group_id="g"), lambda answer: answer),
    (ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, m.DeleteShareGroupOffsetsRequest(group_id="g"), lambda answer: answer),
]


def codes(broker: Broker, apis: list[tuple[ApiKey, int, Message, Callable[[Message], object]]]) -> dict[str, ErrorCode]:
    return {
        key.name: ErrorCode(part(ask(broker, key, version, request)).error_code)  # type: ignore[attr-defined]
        for key, version, request, part in apis
    }


def test_without_share_version_every_share_api_is_unsupported(broker: Broker) -> None:
    assert OFF not in codes(broker, SHARE_APIS).values()
    lower(broker, "share.version")
    assert set(codes(broker, SHARE_APIS).values()) == {OFF}
    assert OFF not in codes(broker, CONSUMER_APIS).values()
    assert update(broker, "share.version", 1, UPGRADE).error_code == 0
    assert OFF not in codes(broker, SHARE_APIS).values()


def test_without_group_version_the_consumer_protocol_is_unsupported(broker: Broker) -> None:
    assert OFF not in codes(broker, CONSUMER_APIS).values()
    lower(broker, "group.version")
    assert set(codes(broker, CONSUMER_APIS).values()) == {OFF}
    assert OFF not in codes(broker, SHARE_APIS).values()


def test_a_protocol_that_is_left_out_is_unsupported_while_the_feature_stays_finalized() -> None:
    with Broker({"group.coordinator.rebalance.protocols": "classic"}) as broker:
        broker.create_topic("jobs")
        assert set(codes(broker, CONSUMER_APIS).values()) == {OFF}
        assert OFF not in codes(broker, SHARE_APIS).values()
        assert finalized(broker)[0]["group.version"] == 1


def test_levels_are_told_to_clients_and_outlive_a_restart(broker: Broker) -> None:
    before, epoch = finalized(broker)
    lower(broker, "share.version")
    lower(broker, "transaction.version", 1)
    expected = {**before, "transaction.version": 1}
    del expected["share.version"]
    assert finalized(broker) == (expected, epoch + 2)
    broker.restart()
    assert finalized(broker) == (expected, epoch + 2)
    assert set(codes(broker, SHARE_APIS).values()) == {OFF}


def test_what_members_held_comes_back_when_share_groups_are_switched_off(broker: Broker) -> None:
    with Wire(broker) as wire:
        produce(wire, "jobs", [b"a", b"b"])
        topic = topic_id(wire, "jobs")
        assert initialize(wire, "g", topic) == [0]
        member = ShareMember(wire, "g", "m" * 22, topic)
        assert acquired(member.fetch(max_wait_ms=5000)) != []
        lower(broker, "share.version")
        assert member.fetch().error_code == OFF
        update(broker, "share.version", 1, UPGRADE)
        assert member.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        member.epoch = 0
        assert acquired(member.fetch(max_wait_ms=5000)) != []


@pytest.mark.parametrize(("level", "stored_version"), [(2, 1), (1, 1), (0, 0)])
async def test_transactions_follow_the_finalized_transaction_version(
    broker: Broker, level: int, stored_version: int
) -> None:
    await _commit(broker, "early", b"before")
    if level < 2:
        lower(broker, "transaction.version", level)
    counts = broker._running().parts.dispatcher.requests
    before = counts(ApiKey.ADD_PARTITIONS_TO_TXN)
    await _commit(broker, "late", b"after")
    assert (counts(ApiKey.ADD_PARTITIONS_TO_TXN) > before) == (level < 2)
    assert await _values(broker, "jobs") == [b"before", b"after"]
    states = await _values(broker, "__transaction_state", b"late")
    assert {int.from_bytes(value[:2], "big") for value in states} == {stored_version}


async def _commit(broker: Broker, transactional_id: str, value: bytes) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id}
    async with Producer(settings) as producer, producer.transaction():
        await producer.send("jobs", value)


async def _values(broker: Broker, topic: str, key_ends: bytes = b"") -> list[bytes]:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_committed"}
    async with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
        tp = TopicPartition(topic, 0)
        consumer.assign([tp])
        end = (await consumer.end_offsets([tp]))[tp]
        found: list[bytes] = []
        async with asyncio.timeout(20):
            while await consumer.position(tp) < end:
                records = await consumer.poll(500)
                found += [each.value for each in records if each.value and (each.key or b"").endswith(key_ends)]
    return found
