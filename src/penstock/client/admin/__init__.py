"""The admin client: topics, configs, groups of every type and their offsets, transactions, ACLs, users,
quotas.

    async with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        await admin.create_topic("orders", 6)

Calls on one thing raise its error; calls on several (`create_topics`, `delete_groups`…) return an error or None for
each. Retriable errors are retried until `default_api_timeout_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from penstock.client.admin.acls import Acls
from penstock.client.admin.configs import ConfigEntry, Configs, ConfigSource, ConfigSynonym
from penstock.client.admin.credentials import Credentials, ScramCredentialInfo, ScramDeletion, ScramUpsertion
from penstock.client.admin.groups import (
    GroupDescription,
    GroupListing,
    Groups,
    MemberDescription,
    ShareOffset,
)
from penstock.client.admin.quotas import ANY, DEFAULT, ClientQuotaEntity, ClientQuotas, QuotaName
from penstock.client.admin.topics import ClusterDescription, LogDir, NewTopic, Topics
from penstock.client.admin.transactions import (
    ProducerState,
    TransactionDescription,
    TransactionListing,
    Transactions,
)
from penstock.client.cluster import Cluster
from penstock.client.config import AdminConfig, AdminSettings, load
from penstock.security.acls import AclBinding, AclFilter
from penstock.security.scram import ScramMechanism
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.config_resources import ResourceType

__all__ = [
    "ANY",
    "DEFAULT",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "AclResource",
    "Admin",
    "ClientQuotaEntity",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "GroupDescription",
    "GroupListing",
    "LogDir",
    "MemberDescription",
    "NewTopic",
    "PatternType",
    "ProducerState",
    "QuotaName",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "ShareOffset",
    "TransactionDescription",
    "TransactionListing",
]


class Admin(Topics, Configs, Groups, Transactions, Acls, Credentials, ClientQuotas):
    """Creates, describes and changes topics, groups, configs, ACLs, users and quotas. `cluster.call` sends any other
    API.
    """

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: Unpack[AdminSettings]) -> None:
        self.config = load(AdminConfig, config, settings)
        self.cluster = Cluster(self.config)

    async def start(self) -> Admin:
        """Connect."""
        await self.cluster.start()
        return self

    async def close(self) -> None:
        """Close all connections."""
        await self.cluster.close()

    async def __aenter__(self) -> Admin:
        try:
            return await self.start()
        except BaseException:
            await self.cluster.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.close()
