"""What a request does to what, in the words of Kafka's access model.

Every API names the operations that it stands for, and on which kind of resource, in the table beside the handlers
(`handlers.table`). The names are Kafka's, and so are the numbers, which ACLs and authorized operations carry on the
wire. Nothing is refused yet: there is no authorizer behind the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple


class Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class ResourceType(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Access(NamedTuple):
    operation: Operation
    resource: ResourceType


OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that can be allowed on a resource whose authorized operations a client may ask for."""

OPERATIONS_NOT_REQUESTED = -(2**31)


def as_bits(operations: Iterable[Operation]) -> int:
    """Authorized operations as responses carry them."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = as_bits(OPERATIONS[ResourceType.TOPIC])
GROUP_OPERATIONS = as_bits(OPERATIONS[ResourceType.GROUP])
CLUSTER_OPERATIONS = as_bits(OPERATIONS[ResourceType.CLUSTER])
