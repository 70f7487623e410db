"""How long after a change was confirmed every broker of a cluster shows it.

A topic is created, one of its configs is set, a rule is added and a user is given a password. After each change every
broker is requested to describe it, again and again, until it does. What counts is the slowest of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from penstock.client import Admin, ResourceType
from penstock.client.admin.credentials import ScramUpsertion
from penstock.security.acls import AclBinding
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource

WITH_RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Configs that the brokers need."""
_PAUSE_SECONDS = 0.001
_WAIT_SECONDS = 30.0
_ANY = 1
_LITERAL = 3


class _Change(NamedTuple):
    kind: str
    make: Callable[[], Awaitable[object]]
    description: m.Message
    """The request for it."""
    response: type[m.Message]
    shows: Callable[[Any], bool]


async def seen_by_all(bootstrap: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each round, by the kind of change."""
    found: dict[str, list[float]] = {}
    async with Admin(bootstrap_servers=bootstrap) as admin:
        nodes = [node.node_id for node in (await admin.describe_cluster()).nodes]
        for number in range(rounds):
            for change in _changes(admin, f"changed-{number}"):
                await change.make()
                confirmed_at = time.monotonic()
                await asyncio.gather(*(_until_shown(admin, node, change) for node in nodes))
                found.setdefault(change.kind, []).append((time.monotonic() - confirmed_at) * 1000)
    return found


async def _until_shown(admin: Admin, node: int, change: _Change) -> None:
    async with asyncio.timeout(_WAIT_SECONDS):
        while not change.shows(await admin.cluster.call(change.description, change.response, node=node)):  # noqa: ASYNC110 - another broker notices by itself
            await asyncio.sleep(_PAUSE_SECONDS)


def _changes(admin: Admin, name: str) -> list[_Change]:
    rule = AclBinding(AclResource.TOPIC, name, "User:alice", AclOperation.READ)
    topic = m.MetadataRequest.MetadataRequestTopic(name=name)
    config = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=int(ResourceType.TOPIC), resource_name=name, configuration_keys=["retention.ms"]
    )
    user = m.DescribeUserScramCredentialsRequest.UserName(name=name)
    return [
        _Change(
            "a topic",
            lambda: admin.create_topic(name, 1),
            m.MetadataRequest(topics=[topic], allow_auto_topic_creation=False),
            m.MetadataResponse,
            lambda answer: answer.topics[0].error_code == 0,
        ),
        _Change(
            "a config",
            lambda: admin.alter_configs(ResourceType.TOPIC, name, {"retention.ms": "77"}),
            m.DescribeConfigsRequest(resources=[config]),
            m.DescribeConfigsResponse,
            lambda answer: [each.value for each in answer.results[0].configs] == ["77"],
        ),
        _Change(
            "a rule",
            lambda: admin.create_acls([rule]),
            m.DescribeAclsRequest(
                resource_type_filter=int(AclResource.TOPIC),
                resource_name_filter=name,
                pattern_type_filter=_LITERAL,
                principal_filter=None,
                host_filter=None,
                operation=_ANY,
                permission_type=_ANY,
            ),
            m.DescribeAclsResponse,
            lambda answer: bool(answer.resources),
        ),
        _Change(
            "a user",
            lambda: admin.alter_user_scram_credentials([ScramUpsertion(name, "secret")]),
            m.DescribeUserScramCredentialsRequest(users=[user]),
            m.DescribeUserScramCredentialsResponse,
            lambda answer: answer.results[0].error_code == 0,
        ),
    ]
