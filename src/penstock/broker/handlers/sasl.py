"""SaslHandshake and SaslAuthenticate where they are out of place: on a listener without SASL."""

from __future__ import annotations

from penstock.broker.requests import Request
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode


class SaslHandlers:
    def sasl_handshake(self, request: Request[m.SaslHandshakeRequest]) -> m.SaslHandshakeResponse:
        return m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    def sasl_authenticate(self, request: Request[m.SaslAuthenticateRequest]) -> m.SaslAuthenticateResponse:
        return m.SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
