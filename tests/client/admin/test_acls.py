"""Penstock has no authorizer, and neither has the Apache Kafka of the other tests: this one does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import Admin
from penstock.client.admin import AclBinding, AclFilter
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.errors import InvalidRequest, SecurityDisabled, UnsupportedVersion
from tests.client.conftest import running_kafka

READ = AclBinding(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)
DENY = AclBinding(AclResource.TOPIC, "orders", "User:bob", AclOperation.ALL, AclPermission.DENY, "10.0.0.1")
JOIN = AclBinding(
    AclResource.GROUP, "team-", "User:alice", AclOperation.READ, AclPermission.ALLOW, "*", PatternType.PREFIXED
)


async def test_acls_need_an_authorizer(admin: Admin) -> None:
    with pytest.raises((SecurityDisabled, UnsupportedVersion)):
        await admin.describe_acls()


@pytest.fixture
def guarded(kafka_jars: Path, tmp_path: Path) -> Iterator[str]:
    """An Apache Kafka that keeps rules, and lets us do everything."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with running_kafka(kafka_jars, tmp_path, authorizer_class_name=authorizer, super_users="User:ANONYMOUS") as address:
        yield address


async def until_known(admin: Admin, rules: list[AclBinding]) -> None:
    """What the controller has agreed to reaches its broker a little later."""
    async with asyncio.timeout(20):
        while await admin.describe_acls() != sorted(rules):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.java
async def test_rules_are_created_found_by_any_of_their_parts_and_deleted(guarded: str) -> None:
    async with Admin(bootstrap_servers=guarded) as admin:
        assert await admin.describe_acls() == []
        await admin.create_acls([READ, DENY, JOIN])
        await until_known(admin, [READ, DENY, JOIN])
        for chosen, found in [
            (AclFilter(AclResource.TOPIC), [READ, DENY]),
            (AclFilter(resource_name="orders", operation=AclOperation.ALL), [DENY]),
            (AclFilter(principal="User:alice"), [READ, JOIN]),
            (AclFilter(permission=AclPermission.DENY), [DENY]),
            (AclFilter(host="10.0.0.1"), [DENY]),
            (AclFilter(pattern_type=PatternType.PREFIXED), [JOIN]),
            (AclFilter(AclResource.GROUP, "team-blue", pattern_type=PatternType.MATCH), [JOIN]),
        ]:
            assert await admin.describe_acls(chosen) == sorted(found)
        assert set(await admin.delete_acls([AclFilter(principal="User:alice")])) == {READ, JOIN}
        await until_known(admin, [DENY])
        with pytest.raises(InvalidRequest, match="ACL on ''"):
            await admin.create_acls([READ._replace(resource_name="")])
