"""Delegation tokens, which are switched off: Kafka's answers where they are.

Nobody may ask for one over a connection on which nobody is known (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED); the others
learn that there are none (DELEGATION_TOKEN_AUTH_DISABLED). A token for somebody else needs CREATE_TOKENS on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.handlers.table import CREATE_TOKENS
from penstock.broker.requests import AnyRequest, Request
from penstock.security.principals import ANONYMOUS, USER, Principal
from penstock.security.protocols import SecurityProtocol
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.gate import Gate


class DelegationTokenHandlers:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def create_delegation_token(
        self, request: Request[m.CreateDelegationTokenRequest]
    ) -> m.CreateDelegationTokenResponse:
        body = request.body
        requester = request.principal
        owner = requester
        if body.owner_principal_name:
            owner = Principal(body.owner_principal_type or "", body.owner_principal_name)
        code = _refusal(request)
        if code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED:
            if owner != requester and not self._gate.allows(request, *CREATE_TOKENS, str(owner)):
                code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
            elif any(renewer.principal_type != USER for renewer in body.renewers):
                code = ErrorCode.INVALID_PRINCIPAL_TYPE
        time_ms = _time_ms(code)
        return m.CreateDelegationTokenResponse(
            error_code=code,
            principal_type=owner.kind,
            principal_name=owner.name,
            token_requester_principal_type=requester.kind,
            token_requester_principal_name=requester.name,
            issue_timestamp_ms=time_ms,
            expiry_timestamp_ms=time_ms,
            max_timestamp_ms=time_ms,
        )

    def renew_delegation_token(self, request: Request[m.RenewDelegationTokenRequest]) -> m.RenewDelegationTokenResponse:
        code = _refusal(request)
        return m.RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=_time_ms(code))

    def expire_delegation_token(
        self, request: Request[m.ExpireDelegationTokenRequest]
    ) -> m.ExpireDelegationTokenResponse:
        code = _refusal(request)
        return m.ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=_time_ms(code))

    def describe_delegation_token(
        self, request: Request[m.DescribeDelegationTokenRequest]
    ) -> m.DescribeDelegationTokenResponse:
        return m.DescribeDelegationTokenResponse(error_code=_refusal(request))


def _time_ms(code: ErrorCode) -> int:
    """The times of a token that is not there: zero from Kafka's controller, which has none, and -1 from its broker."""
    return 0 if code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED else -1


def _refusal(request: AnyRequest) -> ErrorCode:
    protocol = request.connection.protocol
    is_nobody = protocol is SecurityProtocol.SSL and request.principal == ANONYMOUS
    if protocol is SecurityProtocol.PLAINTEXT or is_nobody:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
