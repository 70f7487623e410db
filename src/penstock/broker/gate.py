"""What a request does to what, in the words of Kafka's access model.

Every API names the operations that it stands for, and on which kind of resource, in the table beside the handlers
(`handlers.table`). The names are Kafka's, and so are the numbers, which ACLs and authorized operations carry on the
wire. Nothing is refused yet: there is no authorizer behind the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.wire.acls import AclOperation, AclResource


class Access(NamedTuple):
    operation: AclOperation
    resource: AclResource


OPERATIONS: dict[AclResource, tuple[AclOperation, ...]] = {
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
}
"""The operations that can be allowed on a resource whose authorized operations a client may ask for."""

OPERATIONS_NOT_REQUESTED = -(2**31)


def as_bits(operations: Iterable[AclOperation]) -> int:
    """Authorized operations as responses carry them."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = as_bits(OPERATIONS[AclResource.TOPIC])
GROUP_OPERATIONS = as_bits(OPERATIONS[AclResource.GROUP])
CLUSTER_OPERATIONS = as_bits(OPERATIONS[AclResource.CLUSTER])
