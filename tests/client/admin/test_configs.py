from __future__ import annotations

import pytest

from penstock.client import Admin, ResourceType
from penstock.client.admin import ConfigSource
from penstock.client.errors import UsageError
from penstock.wire.errors import (
    InvalidConfig,
)


async def test_configs_are_set_and_taken_back(admin: Admin, topic: str) -> None:
    before = (await admin.describe_configs(ResourceType.TOPIC, topic))["retention.ms"]
    await admin.alter_configs(ResourceType.TOPIC, topic, {"retention.ms": "12345"})
    changed = await admin.describe_configs(ResourceType.TOPIC, topic, ["retention.ms"])
    assert list(changed) == ["retention.ms"]
    assert changed["retention.ms"].value == "12345"
    assert not changed["retention.ms"].is_default
    await admin.alter_configs(ResourceType.TOPIC, topic, {"retention.ms": None})
    assert (await admin.describe_configs(ResourceType.TOPIC, topic))["retention.ms"] == before
    with pytest.raises(InvalidConfig):
        await admin.alter_configs(ResourceType.TOPIC, topic, {"retention.ms": "soon"})
    with pytest.raises(UsageError):
        await admin.alter_configs(ResourceType.TOPIC, topic, {})


async def test_the_cluster_its_brokers_and_their_configs_are_described(admin: Admin) -> None:
    cluster = await admin.describe_cluster()
    assert cluster.cluster_id
    assert cluster.controller in {node.node_id for node in cluster.nodes}
    broker = str(cluster.nodes[0].node_id)
    configs = await admin.describe_configs(ResourceType.BROKER, broker)
    assert "num.partitions" in configs
    with pytest.raises(UsageError, match="node id"):
        await admin.describe_configs(ResourceType.BROKER, "first")
    assert (ResourceType.BROKER, broker) in await admin.list_config_resources()


async def test_a_config_lists_every_place_that_has_a_value_for_it(admin: Admin, topic: str) -> None:
    await admin.alter_configs(ResourceType.TOPIC, topic, {"cleanup.policy": "compact"})
    entry = (await admin.describe_configs(ResourceType.TOPIC, topic))["cleanup.policy"]
    assert entry.synonyms == (
        ("cleanup.policy", "compact", ConfigSource.TOPIC),
        ("log.cleanup.policy", "delete", ConfigSource.DEFAULT),
    )
