"""Delegation tokens, which are switched off: Kafka's answers where they are."""

from __future__ import annotations

from penstock.broker.requests import Request
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode


class DelegationTokenHandlers:
    def create_delegation_token(
        self, request: Request[m.CreateDelegationTokenRequest]
    ) -> m.CreateDelegationTokenResponse:
        body = request.body
        owner = body.owner_principal_name
        return m.CreateDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            principal_type=(body.owner_principal_type or "") if owner else request.principal.kind,
            principal_name=owner or request.principal.name,
            token_requester_principal_type=request.principal.kind,
            token_requester_principal_name=request.principal.name,
            issue_timestamp_ms=-1,
            expiry_timestamp_ms=-1,
            max_timestamp_ms=-1,
        )

    def renew_delegation_token(self, request: Request[m.RenewDelegationTokenRequest]) -> m.RenewDelegationTokenResponse:
        return m.RenewDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
        )

    def expire_delegation_token(
        self, request: Request[m.ExpireDelegationTokenRequest]
    ) -> m.ExpireDelegationTokenResponse:
        return m.ExpireDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
        )

    def describe_delegation_token(
        self, request: Request[m.DescribeDelegationTokenRequest]
    ) -> m.DescribeDelegationTokenResponse:
        return m.DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
