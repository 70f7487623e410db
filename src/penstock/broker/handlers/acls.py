"""DescribeAcls, CreateAcls and DeleteAcls: without an authorizer there are no rules, as on Kafka."""

from __future__ import annotations

from penstock.broker.requests import Request
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

_NO_AUTHORIZER = "No Authorizer is configured."


class AclHandlers:
    def describe_acls(self, request: Request[m.DescribeAclsRequest]) -> m.DescribeAclsResponse:
        return m.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER)

    def create_acls(self, request: Request[m.CreateAclsRequest]) -> m.CreateAclsResponse:
        body = request.body
        refused = m.CreateAclsResponse.AclCreationResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
        )
        return m.CreateAclsResponse(results=[refused] * len(body.creations))

    def delete_acls(self, request: Request[m.DeleteAclsRequest]) -> m.DeleteAclsResponse:
        body = request.body
        refused = m.DeleteAclsResponse.DeleteAclsFilterResult(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
        )
        return m.DeleteAclsResponse(filter_results=[refused] * len(body.filters))
