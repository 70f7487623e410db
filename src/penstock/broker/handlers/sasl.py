"""SaslHandshake and SaslAuthenticate: handed to the authentication of the connection, where its listener has one.

On a listener without SASL they are out of place.
"""

from __future__ import annotations

from penstock.broker.requests import Answer, Request
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode


class SaslHandlers:
    def sasl_handshake(self, request: Request[m.SaslHandshakeRequest]) -> Answer:
        authentication = request.connection.authentication
        if authentication is None:
            return m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        return authentication.handshake(request)

    def sasl_authenticate(self, request: Request[m.SaslAuthenticateRequest]) -> Answer:
        authentication = request.connection.authentication
        if authentication is None:
            return m.SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
            )
        return authentication.authenticate(request)
