"""ACLs on a broker with an authorizer, and on one without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.errors import ErrorCode
from tests.broker.guarded import Client, GuardedBroker
from tests.transactions.wire_client import Wire


class TestAcls:
    """Without an authorizer each one that is created, deleted or requested is refused."""

    def test_describing(self, wire: Wire) -> None:
        request = m.DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
        assert wire.ask(request, m.DescribeAclsResponse, 3).error_code == ErrorCode.SECURITY_DISABLED

    def test_creating(self, wire: Wire) -> None:
        acl = m.CreateAclsRequest.AclCreation(
            resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
        )
        answer = wire.ask(m.CreateAclsRequest(creations=[acl, acl]), m.CreateAclsResponse, 3)
        assert [each.error_code for each in answer.results] == [ErrorCode.SECURITY_DISABLED] * 2

    def test_deleting(self, wire: Wire) -> None:
        matching = m.DeleteAclsRequest.DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
        answer = wire.ask(m.DeleteAclsRequest(filters=[matching]), m.DeleteAclsResponse, 3)
        assert [each.error_code for each in answer.filter_results] == [ErrorCode.SECURITY_DISABLED]


@pytest.fixture(scope="module")
def broker() -> Iterator[GuardedBroker]:
    with GuardedBroker() as broker:
        yield broker


@pytest.fixture
def root(broker: GuardedBroker) -> Iterator[Client]:
    yield broker.root
    delete_everything(broker.root)


def creation(**different: object) -> m.CreateAclsRequest.AclCreation:
    acl = m.CreateAclsRequest.AclCreation(
        resource_type=AclResource.TOPIC,
        resource_name="orders",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=AclOperation.READ,
        permission_type=AclPermission.ALLOW,
    )
    for name, value in different.items():
        setattr(acl, name, value)
    return acl


def create(client: Client, *acls: m.CreateAclsRequest.AclCreation) -> list[tuple[int, str | None]]:
    answer = client.ask(m.CreateAclsRequest(creations=list(acls)), m.CreateAclsResponse, 3)
    return [(each.error_code, each.error_message) for each in answer.results]


def described(client: Client, **different: object) -> list[tuple[str, int, list[tuple[str, int]]]]:
    request = m.DescribeAclsRequest(
        resource_type_filter=AclResource.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    for name, value in different.items():
        setattr(request, name, value)
    answer = client.ask(request, m.DescribeAclsResponse, 3)
    assert answer.error_code == ErrorCode.NONE
    return [
        (each.resource_name, each.pattern_type, [(acl.principal, acl.operation) for acl in each.acls])
        for each in answer.resources
    ]


def any_filter(**different: object) -> m.DeleteAclsRequest.DeleteAclsFilter:
    wanted = m.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=AclResource.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    for name, value in different.items():
        setattr(wanted, name, value)
    return wanted


def delete_everything(client: Client) -> None:
    client.ask(m.DeleteAclsRequest(filters=[any_filter()]), m.DeleteAclsResponse, 3)


class TestCreating:
    def test_a_rule_is_written_to_the_catalog_and_counts_at_once(self, broker: GuardedBroker, root: Client) -> None:
        assert create(root, creation()) == [(ErrorCode.NONE, "")]
        assert described(root) == [("orders", PatternType.LITERAL, [("User:alice", AclOperation.READ)])]
        assert [each.resource_name for each in broker.memory.catalog.acls()] == ["orders"]

    def test_a_rule_that_is_there_already_is_created_once(self, root: Client) -> None:
        assert create(root, creation(), creation()) == [(ErrorCode.NONE, "")] * 2
        assert create(root, creation()) == [(ErrorCode.NONE, "")]
        assert len(described(root)) == 1

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ({"resource_type": AclResource.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
            ({"resource_name": ""}, "Invalid empty resource name"),
            ({"resource_type": AclResource.ANY}, "Invalid resourceType ANY"),
            ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
            ({"resource_pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
            ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
            ({"permission_type": AclPermission.ANY}, "Invalid permissionType ANY"),
            (
                {"principal": "alice"},
                "Could not parse principal from `alice` (no colon is present separating the principal type from the "
                "principal name)",
            ),
        ],
    )
    def test_what_is_no_rule_is_refused_in_kafkas_words_beside_one_that_is(
        self, root: Client, fault: dict[str, object], message: str
    ) -> None:
        assert create(root, creation(**fault), creation()) == [
            (ErrorCode.INVALID_REQUEST, message),
            (ErrorCode.NONE, ""),
        ]
        assert len(described(root)) == 1

    def test_a_type_that_kafka_cannot_read_closes_the_connection(self, root: Client) -> None:
        with pytest.raises(ConnectionError):
            create(root, creation(operation=0))

    def test_more_rules_than_a_request_may_have_are_refused_together(self, root: Client) -> None:
        many = [creation(resource_name=f"topic-{number}") for number in range(10_001)]
        assert {code for code, _ in create(root, *many)} == {ErrorCode.POLICY_VIOLATION}
        assert described(root) == []


class TestDescribing:
    def test_a_match_finds_the_rules_about_a_name(self, root: Client) -> None:
        create(
            root,
            creation(),
            creation(resource_name="or", resource_pattern_type=PatternType.PREFIXED),
            creation(resource_name="*"),
            creation(resource_name="others"),
        )
        found = described(
            root,
            resource_type_filter=AclResource.TOPIC,
            resource_name_filter="orders",
            pattern_type_filter=PatternType.MATCH,
        )
        assert {name for name, _, _ in found} == {"orders", "or", "*"}

    def test_a_type_that_no_rule_has_finds_nothing(self, root: Client) -> None:
        create(root, creation())
        assert described(root, resource_type_filter=99) == []


class TestDeleting:
    def test_each_filter_answers_with_the_rules_that_it_matched(self, broker: GuardedBroker, root: Client) -> None:
        create(root, creation(), creation(operation=AclOperation.WRITE))
        filters = [any_filter(operation=AclOperation.READ), any_filter(), any_filter(operation=99)]
        answer = root.ask(m.DeleteAclsRequest(filters=filters), m.DeleteAclsResponse, 3)
        assert [(each.error_code, each.error_message) for each in answer.filter_results] == [
            (ErrorCode.NONE, None),
            (ErrorCode.NONE, None),
            (ErrorCode.INVALID_REQUEST, "Unknown entryFilter."),
        ]
        assert [
            [(each.error_code, each.resource_name, each.operation) for each in found.matching_acls]
            for found in answer.filter_results
        ] == [
            [(0, "orders", AclOperation.READ)],
            [(0, "orders", AclOperation.READ), (0, "orders", AclOperation.WRITE)],
            [],
        ]
        assert described(root) == []
        assert broker.memory.catalog.acls() == []


class TestRights:
    def test_nobody_without_rights_sees_or_changes_rules(self, broker: GuardedBroker, root: Client) -> None:
        create(root, creation())
        alice = broker.connect("User:alice")
        answer = alice.ask(
            m.DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
            m.DescribeAclsResponse,
            3,
        )
        assert (answer.error_code, answer.resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
        assert [code for code, _ in create(alice, creation())] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        deleted = alice.ask(m.DeleteAclsRequest(filters=[any_filter()]), m.DeleteAclsResponse, 3)
        assert [(each.error_code, each.matching_acls) for each in deleted.filter_results] == [
            (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
        ]
        assert len(described(root)) == 1

    def test_a_new_rule_binds_connections_that_are_there(self, broker: GuardedBroker, root: Client) -> None:
        alice = broker.connect("User:alice")
        describe_cluster = creation(
            resource_type=AclResource.CLUSTER, resource_name="kafka-cluster", operation=AclOperation.DESCRIBE
        )
        create(root, describe_cluster)
        assert len(described(alice)) == 1
        delete_everything(root)
        with pytest.raises(AssertionError):
            described(alice)
