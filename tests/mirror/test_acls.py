"""Access rules of the source, at the target."""

from __future__ import annotations

import pytest

from penstock.client import Admin
from penstock.mirror.acls import copy_acls, missing_acls
from penstock.mirror.failures import MirrorError
from penstock.testing.broker import Broker

SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


async def test_rules_that_the_target_lacks_are_created() -> None:
    with (
        Broker(SECURED, acls=["User:alice read topic orders"]) as source,
        Broker(SECURED, acls=["User:bob read topic orders"]) as target,
    ):
        async with (
            Admin(bootstrap_servers=source.bootstrap_servers) as from_,
            Admin(bootstrap_servers=target.bootstrap_servers) as to,
        ):
            assert [rule.principal for rule in await missing_acls(from_, to)] == ["User:alice"]
            assert await copy_acls(from_, to) == 1
            assert {rule.principal for rule in await to.describe_acls()} == {"User:alice", "User:bob"}
            assert await copy_acls(from_, to) == 0


async def test_a_side_without_an_authorizer_says_so(from_: Admin, to: Admin) -> None:
    with pytest.raises(MirrorError, match="The source keeps no ACLs"):
        await copy_acls(from_, to)
