"""ACLs on a broker without an authorizer."""

from __future__ import annotations

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
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
