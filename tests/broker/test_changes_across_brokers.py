"""What is changed on one broker of a cluster is notified to the others, which do not have to look for it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from penstock.broker import membership
from penstock.broker.foundation import Settings
from penstock.broker.server import Broker
from penstock.client import Admin, ResourceType
from penstock.client.admin.credentials import ScramUpsertion
from penstock.security.acls import AclBinding
from penstock.security.principals import Principal
from penstock.security.scram import ScramMechanism
from penstock.testing.broker import FAST_CONFIGS
from penstock.wire.acls import AclOperation, AclResource
from tests.broker.test_shared_catalog import until
from tests.postgres import PostgresServer

CONFIGS = {
    **FAST_CONFIGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ALICE = Principal("User", "alice")


@asynccontextmanager
async def members(folder: Path, cluster: str) -> AsyncIterator[tuple[Broker, Broker]]:
    brokers = [
        Broker(
            Settings(
                data=folder / node_id,
                listen=["127.0.0.1:0"],
                configs={**CONFIGS, "node.id": node_id},
                cluster=cluster,
                store=f"file://{folder}/store",
            )
        )
        for node_id in ("1", "2")
    ]
    serving = []
    try:
        for broker in brokers:
            await broker.start()
            serving.append(asyncio.create_task(broker.serve()))
        yield brokers[0], brokers[1]
    finally:
        for broker, task in zip(brokers, serving, strict=False):
            broker.stop()
            await asyncio.wait_for(task, 30)


async def test_topics_configs_rules_and_users_are_notified_to_the_other_brokers(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(tmp_path, postgres.url(f"s{uuid.uuid4().hex}")) as (one, other):
        await until(lambda: one.parts.cluster.node_ids == other.parts.cluster.node_ids == [1, 2])
        users = other.parts.users  # from now on they are followed
        authorizer = other.parts.gate.authorizer
        assert authorizer is not None
        monkeypatch.setattr(membership, "LOOK_SECONDS", 3600.0)  # from the second change on, nobody looks by himself
        async with Admin(bootstrap_servers=one.bootstrap) as admin:
            for name in ("first", "orders"):
                await admin.create_topic(name, 1)
                topic_id = one.parts.cluster.topic(name).topic_id
                await until(partial(other.parts.cluster.known_topic, topic_id))

            await admin.alter_configs(ResourceType.TOPIC, "orders", {"retention.ms": "77"})
            topic = other.parts.cluster.topic("orders")
            await until(lambda: topic.configs == {"retention.ms": "77"})

            await admin.alter_configs(ResourceType.BROKER, "", {"log.retention.ms": "78"})
            await until(lambda: other.config.log_retention_ms == 78)

            await admin.create_acls([AclBinding(AclResource.TOPIC, "orders", str(ALICE), AclOperation.READ)])
            await until(lambda: authorizer.allows(ALICE, "host", AclOperation.READ, AclResource.TOPIC, "orders"))

            await admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret")])
            await until(lambda: users.find("alice", ScramMechanism.SCRAM_SHA_512))

            await admin.delete_topic("orders")
            await until(lambda: other.parts.cluster.known_topic(topic_id) is None)
