"""An administrator's change holds, whatever other brokers have changed since this one has heard of them.

The catalog is changed behind the broker's back, as another broker that shares it does; nobody tells the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.broker.features import SAFE_DOWNGRADE, UPGRADE
from penstock.catalog.contract import Catalog, CredentialRow, replaced_by
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.errors import ErrorCode
from tests.broker.guarded import ALICE, GuardedBroker, rule
from tests.broker.handlers.test_acls import any_filter, create, creation

WRITE = rule(ALICE, AclOperation.WRITE, AclResource.TOPIC, "orders")
READ = rule(ALICE, AclOperation.READ, AclResource.TOPIC, "orders")
ENTITY = (("user", "alice"),)
BOB = CredentialRow("bob", 1, 4096, b"salt", b"k" * 32, b"k" * 32)


@pytest.fixture
def broker() -> Iterator[GuardedBroker]:
    with GuardedBroker() as broker:
        yield broker


@pytest.fixture
def catalog(broker: GuardedBroker) -> Catalog:
    return broker.memory.parts.catalog


def alter_quota(broker: GuardedBroker, *ops: m.AlterClientQuotasRequest.OpData) -> int:
    request = m.AlterClientQuotasRequest
    entity = [request.EntityData(entity_type=kind, entity_name=name) for kind, name in ENTITY]
    answer = broker.root.ask(request(entries=[request.EntryData(entity, list(ops))]), m.AlterClientQuotasResponse)
    return int(answer.entries[0].error_code)


def delete_credential(broker: GuardedBroker, name: str) -> int:
    request = m.AlterUserScramCredentialsRequest
    deletion = request(deletions=[request.ScramCredentialDeletion(name, 1)], upsertions=[])
    return int(broker.root.ask(deletion, m.AlterUserScramCredentialsResponse).results[0].error_code)


def update_feature(broker: GuardedBroker, level: int, upgrade_type: int) -> int:
    request = m.UpdateFeaturesRequest
    update = request.FeatureUpdateKey("share.version", level, upgrade_type=upgrade_type)
    return int(broker.root.ask(request(feature_updates=[update]), m.UpdateFeaturesResponse).error_code)


class TestQuotas:
    def test_one_quota_is_changed_and_the_others_of_its_entity_stay(
        self, broker: GuardedBroker, catalog: Catalog
    ) -> None:
        catalog.change_quotas({ENTITY: replaced_by({"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0})})
        op = m.AlterClientQuotasRequest.OpData
        assert alter_quota(broker, op("request_percentage", 3.0), op("consumer_byte_rate", remove=True)) == 0
        both = {ENTITY: {"producer_byte_rate": 1.0, "request_percentage": 3.0}}
        assert catalog.quotas() == broker.memory.parts.quotas.entities == both


class TestRules:
    def test_a_rule_that_another_broker_has_deleted_is_created_again(
        self, broker: GuardedBroker, catalog: Catalog
    ) -> None:
        broker.allow(READ)
        catalog.change_acls([], [READ])
        assert create(broker.root, creation()) == [(ErrorCode.NONE, "")]
        assert catalog.acls() == [READ]

    def test_a_rule_that_another_broker_has_created_is_deleted(self, broker: GuardedBroker, catalog: Catalog) -> None:
        broker.allow(READ)
        catalog.change_acls([WRITE], [READ])
        request = m.DeleteAclsRequest(filters=[any_filter(principal_filter=ALICE)])
        [result] = broker.root.ask(request, m.DeleteAclsResponse).filter_results
        assert [each.operation for each in result.matching_acls] == [AclOperation.WRITE]
        assert catalog.acls() == []


class TestCredentials:
    def test_a_user_whom_another_broker_has_added_is_deleted(self, broker: GuardedBroker, catalog: Catalog) -> None:
        catalog.change_credentials([BOB], [])
        assert delete_credential(broker, "bob") == ErrorCode.NONE
        assert catalog.credentials() == []

    def test_a_user_whom_another_broker_has_deleted_is_not_found_and_gone_from_here(
        self, broker: GuardedBroker, catalog: Catalog
    ) -> None:
        broker.memory.parts.users.change([BOB])
        catalog.change_credentials([], [("bob", 1)])
        assert delete_credential(broker, "bob") == ErrorCode.RESOURCE_NOT_FOUND
        assert broker.memory.parts.users.names() == []


class TestFeatures:
    def test_a_level_that_another_broker_has_changed_is_changed_back(
        self, broker: GuardedBroker, catalog: Catalog
    ) -> None:
        catalog.change_features(replaced_by({"share.version": 0}))
        assert update_feature(broker, 1, UPGRADE) == ErrorCode.NONE
        assert catalog.features() == {"share.version": 1}
        assert broker.memory.parts.features.epoch == catalog.features_epoch() == 3

    def test_a_change_is_checked_against_the_level_that_holds_now(
        self, broker: GuardedBroker, catalog: Catalog
    ) -> None:
        catalog.change_features(replaced_by({"share.version": 0}))
        assert update_feature(broker, 1, SAFE_DOWNGRADE) == ErrorCode.INVALID_UPDATE_VERSION
        assert catalog.features() == {"share.version": 0}

    def test_a_level_that_another_broker_has_changed_in_the_same_way_is_known_from_then_on(
        self, broker: GuardedBroker, catalog: Catalog
    ) -> None:
        catalog.change_features(replaced_by({"share.version": 0}))
        assert update_feature(broker, 0, SAFE_DOWNGRADE) == ErrorCode.NONE
        assert broker.memory.parts.features.level("share.version") == 0
        assert broker.memory.parts.features.epoch == catalog.features_epoch() == 2
