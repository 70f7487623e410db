"""Operations and resources, in Kafka's numbers, as responses and ACLs carry them."""

from __future__ import annotations

import pytest

from penstock.broker.gate import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
    Access,
)
from penstock.broker.handlers.table import SERVED
from penstock.security.operations import SUPPORTED_OPERATIONS as OPERATIONS
from penstock.security.operations import as_bits
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.api import ApiKey

READ, WRITE, ALTER, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER, AclOperation.DESCRIBE
TOPIC, GROUP, CLUSTER = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER


@pytest.mark.parametrize(
    ("bits", "kafkas"),
    [(TOPIC_OPERATIONS, 3576), (GROUP_OPERATIONS, 3400), (CLUSTER_OPERATIONS, 8096)],
    ids=["topic", "group", "cluster"],
)
def test_all_operations_on_a_resource_are_the_number_that_kafka_sends(bits: int, kafkas: int) -> None:
    assert bits == kafkas


def test_operations_are_bits_at_their_numbers() -> None:
    assert as_bits([]) == 0
    assert as_bits([READ, WRITE]) == 0b11000


@pytest.mark.parametrize(
    ("key", "access"),
    [
        (ApiKey.PRODUCE, Access(WRITE, TOPIC)),
        (ApiKey.FETCH, Access(READ, TOPIC)),
        (ApiKey.OFFSET_COMMIT, Access(READ, GROUP)),
        (ApiKey.CREATE_ACLS, Access(ALTER, CLUSTER)),
        (ApiKey.SHARE_FETCH, Access(READ, GROUP)),
        (ApiKey.DESCRIBE_CLUSTER, Access(DESCRIBE, CLUSTER)),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
def test_an_api_names_what_kafkas_authorizer_is_asked(key: ApiKey, access: Access) -> None:
    assert access in SERVED[key].accesses


def test_no_api_names_an_operation_that_its_resource_does_not_have() -> None:
    odd = {
        (key.name, access.operation.name)
        for key, served in SERVED.items()
        for access in served.accesses
        if access.resource in OPERATIONS and access.operation not in OPERATIONS[access.resource]
    }
    assert odd == set()
