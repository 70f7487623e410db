"""Which operations mean something on a resource of each type, and how responses carry a set of them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.wire.acls import AclOperation, AclResource

SUPPORTED_OPERATIONS: dict[AclResource, tuple[AclOperation, ...]] = {
    AclResource.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResource.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResource.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    AclResource.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
    AclResource.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResource.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that mean something on a resource of each type."""


def as_bits(operations: Iterable[AclOperation]) -> int:
    """One bit for each operation, as the authorized operations of a response have them."""
    return sum(1 << operation for operation in operations)
