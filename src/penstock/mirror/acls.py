"""Copies access rules: what the source allows and denies, the target does too. Rules of the target alone stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.mirror.failures import MirrorError
from penstock.wire.errors import KafkaError, SecurityDisabled

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.security.acls import AclBinding


async def missing_acls(source: Admin, target: Admin) -> list[AclBinding]:
    """The rules that only the source has."""
    theirs = await _rules(source, "source")
    there = set(await _rules(target, "target"))
    return [rule for rule in theirs if rule not in there]


async def copy_acls(source: Admin, target: Admin) -> int:
    """Give the target the rules that it lacks; how many they were."""
    missing = await missing_acls(source, target)
    if missing:
        await target.create_acls(missing)
    return len(missing)


async def _rules(admin: Admin, side: str) -> list[AclBinding]:
    try:
        return await admin.describe_acls()
    except SecurityDisabled as error:
        raise MirrorError(f"The {side} keeps no ACLs: it runs without an authorizer. Leave out --acls.") from error
    except KafkaError as error:
        if error.retriable:
            raise
        raise MirrorError(f"The ACLs of the {side} cannot be read: {error}.") from error
