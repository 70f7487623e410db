"""A topic's configs at the target: the source's, some held while it is mirrored."""

from __future__ import annotations

import pytest

from penstock.client import Admin
from penstock.client.admin import ResourceType
from penstock.mirror.configs import HELD, TopicConfigs
from penstock.testing.broker import Broker
from penstock.wire.errors import KafkaError


async def own(admin: Admin) -> dict[str, str | None]:
    found = await admin.describe_configs(ResourceType.TOPIC, "t")
    return {name: entry.value for name, entry in found.items() if entry.source == 1}


async def test_configs_are_held_and_then_those_of_the_source(
    source: Broker, target: Broker, from_: Admin, to: Admin
) -> None:
    wanted = {"retention.ms": "1000000", "message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
    await from_.create_topic("t", 1, configs=wanted)
    await to.create_topic("t", 1, configs={"segment.bytes": "2000000"})
    configs = TopicConfigs(from_, to, "t")
    await configs.copy(is_held=True)
    assert await own(to) == {"segment.bytes": "2000000"} | wanted | HELD
    assert configs.is_compacted
    await configs.copy(is_held=False)
    assert await own(to) == {"segment.bytes": "2000000"} | wanted
    assert await configs.differences() == []
    await from_.alter_configs(ResourceType.TOPIC, "t", {"retention.ms": "2000000", "cleanup.policy": None})
    assert len(await configs.differences()) == 2
    await configs.copy(is_held=False)
    assert (await own(to))["retention.ms"] == "2000000"
    assert (await to.describe_configs(ResourceType.TOPIC, "t"))["cleanup.policy"].value == "delete"


async def test_retention_stays_the_same_where_the_brokers_defaults_differ(target: Broker, to: Admin) -> None:
    with Broker({"log.retention.ms": 123456789}) as source:
        async with Admin(bootstrap_servers=source.bootstrap_servers) as from_:
            await from_.create_topic("t", 1)
            await to.create_topic("t", 1)
            await TopicConfigs(from_, to, "t").copy(is_held=False)
            assert await own(to) == {"retention.ms": "123456789"}


async def test_a_config_that_the_target_refuses_is_left_out_and_reported(
    from_: Admin, to: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    await from_.create_topic("t", 1, configs={"retention.ms": "1000000", "segment.ms": "5000"})
    await to.create_topic("t", 1)
    alter = to.alter_configs

    async def refusing(resource: ResourceType, name: str, changes: dict[str, str | None]) -> None:
        if "segment.ms" in changes:
            raise KafkaError("not here")
        await alter(resource, name, changes)

    monkeypatch.setattr(to, "alter_configs", refusing)
    configs = TopicConfigs(from_, to, "t")
    await configs.copy(is_held=False)
    assert configs.refused == {"segment.ms": "not here"}
    assert await own(to) == {"retention.ms": "1000000"}
    assert await configs.differences() == []


async def test_what_the_source_no_longer_sets_is_taken_away(from_: Admin, to: Admin) -> None:
    await from_.create_topic("t", 1, configs={"segment.ms": "5000000"})
    await to.create_topic("t", 1)
    configs = TopicConfigs(from_, to, "t")
    await configs.copy(is_held=False)
    assert await own(to) == {"segment.ms": "5000000"}
    await from_.alter_configs(ResourceType.TOPIC, "t", {"segment.ms": None})
    await configs.copy(is_held=False)
    assert await own(to) == {}
