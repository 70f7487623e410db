"""A catalog that refuses changes: changes of security are answered with the error and do not count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.catalog.memory import MemoryCatalog
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.errors import ErrorCode
from tests.broker.guarded import ALICE, GuardedBroker, rule

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR
RULE = rule(ALICE, AclOperation.READ, AclResource.TOPIC, "orders")


@pytest.fixture
def broker() -> Iterator[GuardedBroker]:
    with GuardedBroker() as broker:
        broker.allow(RULE)
        catalog = broker.memory.parts.catalog
        assert isinstance(catalog, MemoryCatalog)
        catalog.refuse_changes("no space left")
        yield broker


def test_a_rule_that_cannot_be_created_does_not_count(broker: GuardedBroker) -> None:
    new = m.CreateAclsRequest.AclCreation(2, "bills", 3, ALICE, "*", AclOperation.READ, 3)
    answer = broker.root.ask(m.CreateAclsRequest(creations=[new]), m.CreateAclsResponse)
    assert [each.error_code for each in answer.results] == [REFUSED]
    assert broker.memory.parts.gate.authorizer is not None
    assert len(broker.memory.parts.gate.authorizer) == 1


def test_a_rule_that_cannot_be_deleted_still_counts(broker: GuardedBroker) -> None:
    every = m.DeleteAclsRequest.DeleteAclsFilter(1, None, 1, None, None, 1, 1)
    answer = broker.root.ask(m.DeleteAclsRequest(filters=[every]), m.DeleteAclsResponse)
    assert [each.error_code for each in answer.filter_results] == [REFUSED]
    assert broker.memory.parts.gate.authorizer is not None
    assert RULE in broker.memory.parts.gate.authorizer


def test_a_credential_that_cannot_be_kept_is_not_there(broker: GuardedBroker) -> None:
    upsertion = m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion("bob", 1, 4096, b"salt", b"salted")
    request = m.AlterUserScramCredentialsRequest(upsertions=[upsertion])
    answer = broker.root.ask(request, m.AlterUserScramCredentialsResponse)
    assert [(each.user, each.error_code) for each in answer.results] == [("bob", REFUSED)]
    described = broker.root.ask(m.DescribeUserScramCredentialsRequest(users=[]), m.DescribeUserScramCredentialsResponse)
    assert described.results == []


def test_a_quota_that_cannot_be_kept_does_not_hold(broker: GuardedBroker) -> None:
    data = m.AlterClientQuotasRequest
    entry = data.EntryData([data.EntityData("user", "alice")], [data.OpData("producer_byte_rate", 1000.0, False)])
    answer = broker.root.ask(m.AlterClientQuotasRequest(entries=[entry]), m.AlterClientQuotasResponse)
    assert [each.error_code for each in answer.entries] == [REFUSED]
    described = broker.root.ask(m.DescribeClientQuotasRequest(components=[]), m.DescribeClientQuotasResponse)
    assert described.entries == []
